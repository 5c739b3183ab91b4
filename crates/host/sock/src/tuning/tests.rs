//! Goal: only NAME=VALUE is taken. What the values do is tested with the tree of names.
use super::*;

#[test]
fn an_assignment_is_a_name_and_a_whole_number() {
    assert_eq!(assignment(b"beta=80"), Ok(("beta", 80)));
    assert_eq!(assignment(b" beta = -80\0rest"), Ok(("beta", -80)));
    for bad in
        [&b""[..], b"beta", b"beta=", b"beta=much", b"beta\0=80", b"b\xff=1", b"beta=99999999999999999999"]
    {
        assert_eq!(assignment(bad), Err(Errno::EINVAL), "{bad:?}");
    }
}
