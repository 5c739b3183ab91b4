//! Goal: the library's formatter says the same.
use super::*;
use base::Rng;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn as_the_library_writes_them() {
    let mut rng = Rng::new(4);
    let edges = [0, 1, 9, 10, 99, 100, 101, 999, 1_000, u64::from(u32::MAX), u64::MAX];
    let random = (0..5_000).map(|_| rng.next_u64() >> rng.below(64));
    for n in edges.into_iter().chain(random) {
        assert_eq!(text(|out| decimal(out, n)), n.to_string());
        assert_eq!(text(|out| six(out, n % 1_000_000)), format!("{:06}", n % 1_000_000));
        assert_eq!(text(|out| hex(out, n as u32, 8)), format!("{:08x}", n as u32));
        assert_eq!(text(|out| hex(out, n as u32, 1)), format!("{:x}", n as u32));
    }
}

#[test]
fn addresses() {
    assert_eq!(text(|out| address(out, Addr::v4([192, 0, 2, 255]))), "192.0.2.255");
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[15]) = (0x20, 0x01, 0xa);
    assert_eq!(text(|out| address(out, Addr::v6(bytes))), "2001:0:0:0:0:0:0:a");
}
