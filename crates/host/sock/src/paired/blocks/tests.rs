//! Goal: a block is filled again only when nothing refers to it, and there are never more than the limit.
use super::*;

#[test]
fn a_block_is_free_when_its_last_reference_is_gone() {
    let mut blocks = Blocks::new(3 * BLOCK);
    assert_eq!(blocks.room(usize::MAX), 3 * BLOCK);
    let mut held: Vec<_> = (0..3).map(|n| blocks.fill(&[n; 10]).unwrap().0).collect();
    assert_eq!((blocks.room(1), blocks.fill(&[9]).is_none()), (0, true));
    held.remove(1);
    assert_eq!(blocks.room(usize::MAX), BLOCK);
    let (block, len) = blocks.fill(&vec![7; BLOCK + 1]).unwrap();
    assert!(len == BLOCK && block.iter().all(|&byte| byte == 7));
    assert!(held.iter().zip([0, 2]).all(|(block, n)| block[..10] == [n; 10]));
}

#[test]
fn without_memory_there_is_no_block() {
    assert_eq!(Blocks::new(BLOCK - 1).room(1), 0);
}
