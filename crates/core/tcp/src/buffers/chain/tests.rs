//! Goal: chains agree with vectors on every byte and chunk, and long ones are reached without a walk.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

#[test]
fn agrees_with_vectors() {
    seeded("chain", 300, 2_000, fuzz::chain);
}

#[test]
fn the_cursor_saves_the_walk() {
    let mut pool = Pool::new(8_001);
    let mut chain = Chain::new();
    let data = [7; CHUNK];
    for _ in 0..6_000 {
        assert_eq!(chain.append(&mut pool, &data), CHUNK);
    }
    for index in (0..6_000u32).step_by(1) {
        let offset = index * CHUNK as u32 + 5;
        chain.seek(&pool, offset);
        assert!(chain.cursor_index.abs_diff(index) <= NEAR, "sequential reads stay beside the cursor");
        chain.seek(&pool, 0);
        assert!(chain.cursor_index.abs_diff(index) <= NEAR, "the oldest byte does not move it");
    }
    chain.consume(&mut pool, 5_999 * CHUNK as u32 + 1);
    assert_eq!((chain.len() as usize, chain.chunks(), pool.used()), (CHUNK - 1, 1, 1));
    chain.release(&mut pool);
    assert_eq!(pool.used(), 0);
}
