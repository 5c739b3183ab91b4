//! Goal: what a name says is read again, and other names say nothing.
use super::*;

#[test]
fn names_say_what_they_were_given() {
    let v4 = |port: u8| [&[2, 0, 0, port, 10, 77, 0, 1][..], &[0; 8]].concat();
    let v6 = |port: u8| [&[10, 0, 1, port, 0, 0, 0, 0, 0xfd][..], &[0; 14], &[7], &[0; 4]].concat();
    for mark in [
        Mark { v6: false, handle: 0x7f12_3456_7890, names: (v4(80), v4(81)) },
        Mark { v6: true, handle: usize::MAX, names: (v6(80), v6(81)) },
    ] {
        let text = mark.write(u32::MAX);
        assert!(text.len() < 108, "{text}");
        for at in 0..text.len() {
            assert_eq!(Mark::read(&text[..at]), None, "{text}");
        }
        assert_eq!(Mark::read(&text), Some(mark));
    }
    assert_eq!(Mark::read("millstream5"), None);
}
