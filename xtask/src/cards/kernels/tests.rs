//! Goal: modules are loaded after what they need, and kernels are told apart by their numbers.
use super::*;

#[test]
fn what_a_module_needs() {
    assert_eq!(depends(b"ELF\0license=GPL\0depends=dca,i2c-algo-bit\0name=igb\0"), ["dca", "i2c-algo-bit"]);
    assert!(depends(b"\0depends=\0").is_empty() && depends(b"").is_empty());
}

/// A kernel that was unpacked for an older list of modules boots, and lacks what newer rows load.
#[test]
fn kernels_are_those_of_the_present_list() {
    let script = include_str!("../../../../.ci/kernels");
    assert!(script.contains(&format!("complete={COMPLETE}\n")));
}

#[test]
fn numbers_of_versions() {
    assert!(numbers("6.1.0-56-amd64") < numbers("6.12.95+deb12-amd64"));
    assert!(numbers("6.12.95+deb12-amd64") < numbers("7.3.4+deb13-amd64"));
}
