//! Goal: only XDP links to the very interface count.
use super::*;

#[test]
fn reads_link_descriptions() {
    let text =
        "pos:\t0\nflags:\t02\nlink_type:\txdp\nlink_id:\t3\nprog_tag:\tabc\nprog_id:\t9\nifindex:\t12\n";
    assert!(is_link_to(text, 12));
    assert!(!is_link_to(text, 1));
    assert!(!is_link_to(&text.replace("xdp", "tcx"), 12));
    assert!(!is_link_to("", 0));
}
