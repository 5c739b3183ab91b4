//! Goal: arrows, letters and the ways to stop are told apart.
use super::*;

#[test]
fn keys() {
    let all: [&[u8]; 7] = [b"q", b"\x1b[A", b"\x1bOB", b"\x03", b"", b"\x1b[5~", b"+"];
    let letter = |c| Some(Key::Letter(c));
    assert_eq!(
        all.map(key_of),
        [letter('q'), Some(Key::Up), Some(Key::Down), Some(Key::Quit), Some(Key::Quit), None, letter('+')]
    );
}
