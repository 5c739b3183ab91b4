//! Goal: what the kernel says is read as it is meant, and nothing is made up where it says nothing.
use super::*;

/// An answer as the kernel writes it.
fn answer(index: u32, attributes: &[(u16, u64)]) -> Vec<u8> {
    let mut request = Request::new(0, 0, &[DEV_GET, 1, 0, 0]).attribute(DEV_IFINDEX, &index.to_ne_bytes());
    for &(kind, value) in attributes {
        request = request.attribute(kind, &value.to_ne_bytes());
    }
    request.finish(1)[16..].to_vec()
}

#[test]
fn a_yes_is_read_and_silence_is_a_no() {
    // mlx5 on Linux 6.12: everything, and TX_TIMESTAMP | TX_CHECKSUM.
    let yes = XdpFeatures::read(&answer(7, &[(DEV_XDP, 0x7b), (DEV_XSK, 3)]), 7).expect("an answer");
    assert!(yes.native() && yes.zero_copy() && yes.several_buffers() && yes.tx_checksum());
    // virtio_net on Linux 6.12: native XDP, and no word on AF_XDP.
    let silent = XdpFeatures::read(&answer(7, &[(DEV_XDP, 3)]), 7).expect("an answer");
    assert!(silent.native() && !silent.zero_copy() && !silent.tx_checksum());
    // igc: a time stamp alone is no checksum.
    let stamp = XdpFeatures::read(&answer(7, &[(DEV_XDP, 0x1b), (DEV_XSK, 1)]), 7).expect("an answer");
    assert!(!stamp.tx_checksum());
    assert_eq!(XdpFeatures::read(&answer(8, &[(DEV_XSK, 3)]), 7), None, "about another interface");
    assert_eq!(XdpFeatures::read(&[1, 1], 7), None);
    for cut in 0..answer(7, &[(DEV_XSK, 3)]).len() {
        let _ = XdpFeatures::read(&answer(7, &[(DEV_XSK, 3)])[..cut], 7);
    }
}

#[test]
fn the_kernel_here_answers_for_the_loopback_interface() {
    let Ok(Some(lo)) = crate::netlink::interface("lo") else { return };
    // The family is as old as Linux 6.3; the loopback interface has no XDP of its own.
    if let Some(features) = xdp_features(lo.index).expect("ask") {
        assert!(!features.native() && !features.zero_copy() && !features.tx_checksum(), "{features:?}");
    }
    xdp_features(u32::MAX >> 1).expect_err("there is no such interface");
}
