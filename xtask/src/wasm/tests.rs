//! Goal: an import is found, and a module that was cut short is an error, never "no imports".
use super::imports;

#[test]
fn a_damaged_module_is_an_error() {
    let whole = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01f\0\0";
    assert_eq!(imports(whole).expect("a module"), ["env.f"]);
    // Sections may end after the header and after the types; anywhere else one is cut.
    for end in (0..whole.len()).filter(|end| ![8, 14].contains(end)) {
        assert!(imports(&whole[..end]).is_err(), "cut after {end} bytes");
    }
    assert!(imports(&[&whole[..8], b"\x02\x02\0\0"].concat()).is_err(), "more than its imports");
}
