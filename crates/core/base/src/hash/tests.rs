//! Goal: the published SipHash-2-4 vectors, for inputs of whole words.
use super::SipKey;

#[test]
fn reference_vectors() {
    let key = SipKey::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
    assert_eq!(key.strong(&[]), 0x726f_db47_dd0e_0e31);
    assert_eq!(key.strong(&[0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    assert_eq!(key.strong(&[0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]), 0x3f2a_cc7f_57c2_9bdb);
}
