//! Goal: copied and lent bytes come out in the order in which they went in, and nothing is kept.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

#[test]
fn agrees_with_vectors() {
    seeded("send buffer", 400, 2_000, fuzz::send_buffer);
}

#[test]
fn the_reference_goes_with_its_last_byte() {
    let (mut pool, mut buffer) = (Pool::new(4), SendBuffer::new(1 << 20));
    let bytes: Arc<[u8]> = [7; 10_000].into();
    assert_eq!(buffer.append(&mut pool, b"head"), 4);
    assert_eq!(buffer.lend(&bytes, 0..10_000), 10_000);
    assert_eq!((buffer.len(), Arc::strong_count(&bytes), pool.used()), (10_004, 2, 1));
    buffer.consume(&mut pool, 10_003);
    assert_eq!((buffer.len(), Arc::strong_count(&bytes), pool.used()), (1, 2, 0));
    buffer.consume(&mut pool, 1);
    assert_eq!(Arc::strong_count(&bytes), 1);
    buffer.lend(&bytes, 5..6);
    buffer.release(&mut pool);
    assert_eq!((buffer.len(), Arc::strong_count(&bytes)), (0, 1));
}
