//! A send buffer with copied and lent bytes, against a vector.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::Input;
use crate::buffers::pool::Pool;
use crate::sender::send_buffer::SendBuffer;

/// Model of `send_buffer`.
pub fn send_buffer(data: &[u8]) {
    let mut input = Input::new(data);
    let mut pool = Pool::new(1_000);
    let mut buffer = SendBuffer::new(u32::MAX);
    let mut oracle: Vec<u8> = Vec::new();
    let blocks: [Arc<[u8]>; 3] =
        [1, 3_000, 70_000].map(|len: usize| (0..len).map(|i| (i * 31 + i / 251) as u8).collect());
    let mut serial = 0u8;
    while !input.is_empty() {
        let op = input.u8();
        let (a, b) = (input.u16() as usize, input.u16() as usize);
        let held = oracle.len();
        match op % 8 {
            0 | 1 => {
                serial = serial.wrapping_add(1);
                let fresh: Vec<u8> = (0..a % 6_000).map(|i| (i as u8).wrapping_mul(7) ^ serial).collect();
                let taken = buffer.append(&mut pool, &fresh);
                assert!(taken == fresh.len() || pool.available() == 0, "append takes what fits");
                oracle.extend_from_slice(&fresh[..taken]);
            }
            2 | 3 => {
                let block = &blocks[usize::from(op >> 3) % 3];
                let (start, end) = (a % (block.len() + 1), b % (block.len() + 1));
                let range = start.min(end)..start.max(end);
                assert_eq!(buffer.lend(block, range.clone()), range.len());
                oracle.extend_from_slice(&block[range]);
            }
            4 => {
                let n = if op & 8 == 0 { a } else { a % (held + 1) };
                buffer.consume(&mut pool, n as u32);
                oracle.drain(..n.min(held));
            }
            5 => buffer.seek(&pool, (a % (held + 1)) as u32),
            6 if op > 250 => {
                buffer.release(&mut pool);
                oracle.clear();
            }
            _ => compare(&buffer, &pool, &oracle, (a * 3) % (held + 10), b),
        }
        assert_eq!((buffer.len() as usize, buffer.is_empty()), (oracle.len(), oracle.is_empty()));
    }
    compare(&buffer, &pool, &oracle, 0, oracle.len() + 1);
    let all = oracle.len() as u32;
    buffer.consume(&mut pool, all);
    assert_eq!((pool.used(), buffer.len()), (0, 0), "no chunk is lost or kept");
    assert!(blocks.iter().all(|block| Arc::strong_count(block) == 1), "no reference is kept");
    buffer.release(&mut pool);
}

fn compare(buffer: &SendBuffer, pool: &Pool, oracle: &[u8], offset: usize, len: usize) {
    let from = offset.min(oracle.len());
    let want = &oracle[from..(from + len).min(oracle.len())];
    let mut got = vec![0; len];
    assert_eq!(buffer.copy_out(pool, offset as u32, &mut got), want.len());
    assert!(got[..want.len()] == *want, "copy_out at {offset}");
    let mut at = 0;
    for piece in buffer.pieces(pool, offset as u32, len as u32) {
        assert!(!piece.is_empty() && want[at..].starts_with(piece), "piece at {offset} + {at}");
        at += piece.len();
    }
    assert_eq!(at, want.len(), "pieces cover the range");
}
