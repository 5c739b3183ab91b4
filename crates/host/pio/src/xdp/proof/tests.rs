//! Goal: whatever kernel and driver answer, a checksum is left to them only after a clear yes.
use super::*;

fn failed(code: i32) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(code))
}

#[test]
fn only_a_refusal_of_the_request_is_a_yes() {
    assert!(is_proof(&failed(libc::EINVAL)), "the kernel has read the request");
    // virtio_net, Linux 6.12: the packet is sent, the request was not looked at.
    assert!(!is_proof(&Ok(())));
    for code in [libc::EAGAIN, libc::EBUSY, libc::ENETDOWN, libc::ENOBUFS, libc::EPERM, libc::EOPNOTSUPP] {
        assert!(!is_proof(&failed(code)), "{code} says nothing about requests");
    }
    assert!(!is_proof(&Err(io::ErrorKind::Unsupported.into())));
}

#[test]
fn a_driver_must_be_named_by_the_kernel() {
    let says = |xdp, xsk| is_promised(Some(&XdpFeatures { xdp, xsk, ..XdpFeatures::default() }));
    assert!(!is_promised(None), "a kernel that tells nothing");
    // NETDEV_XDP_ACT_XSK_ZEROCOPY is 8, NETDEV_XSK_FLAGS_TX_CHECKSUM is 2.
    assert!(says(0x0b, 3));
    assert!(!says(0x0b, 1), "a time stamp is no checksum");
    assert!(!says(0x03, 2), "no zero-copy mode");
    assert!(!says(0x0b, 0));
}

/// igb has a zero-copy mode since Linux 6.14 and obeys no requests: packets without room for one were dropped.
#[test]
fn room_for_a_request_is_left_wherever_the_kernel_demands_it() {
    let copy = Requests { copy: true, zero_copy: false };
    let grant = lane::Grant::new(true, (true, false), copy);
    assert_eq!((grant.tx_metadata, grant.headroom), (false, TX_METADATA));
    let grant = lane::Grant::new(true, (false, false), copy);
    assert_eq!((grant.tx_metadata, grant.headroom), (true, TX_METADATA));
    let grant = lane::Grant::new(false, (true, false), Requests { copy: true, zero_copy: true });
    assert_eq!((grant.tx_metadata, grant.headroom), (false, 0));
}

#[test]
fn modes_do_not_speak_for_each_other() {
    let copy = Requests { copy: true, zero_copy: false };
    assert!(copy.obeyed(false) && !copy.obeyed(true));
    let driver = Requests { copy: false, zero_copy: true };
    assert!(!driver.obeyed(false) && driver.obeyed(true));
}
