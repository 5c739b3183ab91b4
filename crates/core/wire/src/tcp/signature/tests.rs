//! Goal: a signature lies where `find` says, beside whatever other options, and two are told apart from one.
use crate::tcp::{Flags, Header, Options, Signature, Timestamps, parse};
use base::Seq;

fn header(flags: Flags, signature: Signature) -> Header {
    Header {
        src_port: 1,
        dst_port: 2,
        seq: Seq::new(3),
        ack: Seq::new(4),
        flags,
        window: 5,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val: 6, ecr: 7 }),
            signature: Some(signature),
            ..Options::NONE
        },
    }
}

#[test]
fn every_signature_is_found() {
    for mac_len in 0..=16 {
        let ao = Signature::Ao { key_id: 8, next: 9, mac_len };
        for signature in [Signature::Md5, ao] {
            for (flags, others) in [(Flags::SYN, 20), (Flags::ACK, 12)] {
                let header = header(flags, signature);
                let mut out = [0xff; 60];
                let len = header.emit(&mut out);
                assert_eq!(len, 20 + others + signature.len());
                let (.., read) = parse(&out[..len]).unwrap();
                assert_eq!(read.options.signature, Some(signature));
                let signed = Signature::find(&out[..len]).unwrap();
                assert_eq!(signed.option.end, signed.mac.end);
                assert!(signed.mac.end <= len && out[signed.mac.clone()].iter().all(|&byte| byte == 0));
                let wanted = if signature == Signature::Md5 { 16 } else { usize::from(mac_len) };
                assert_eq!(signed.mac.len(), wanted);
            }
        }
    }
}

/// RFC 5925, 2.2-1.
#[test]
fn two_are_too_many() {
    let mut out = [0; 60];
    header(Flags::ACK, Signature::Ao { key_id: 1, next: 1, mac_len: 8 }).emit(&mut out);
    out[12] = 15 << 4;
    out[44..48].copy_from_slice(&[29, 4, 1, 1]);
    let (.., read) = parse(&out).unwrap();
    assert_eq!(read.options.signature, Some(Signature::Several));
    assert_eq!(Signature::find(&[0; 19]), None);
    assert_eq!(Signature::find(&[0xff; 30]), None);
}
