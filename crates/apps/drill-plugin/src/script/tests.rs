//! Goal: a script's own options say the same as flags do.
use super::*;

#[test]
fn options_become_flags() {
    let script = "// words\n--local_ip=192.168.0.2\n--mtu=9000 --strict_segments\n--tolerance_usecs=4000\n\
                      \n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n";
    assert_eq!(of(script), "local_ip=192.168.0.2,mtu=9000,segments=whole");
    assert_eq!(of("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n"), "");
    assert_eq!(flags(), "", "this process runs no script");
}
