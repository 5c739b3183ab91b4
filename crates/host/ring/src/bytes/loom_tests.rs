//! Goal: under every interleaving no byte is written while it is read, and all arrive in order.
use super::*;

#[test]
fn loom_bytes_have_one_side_at_a_time() {
    let mut explorer = loom::model::Builder::new();
    explorer.preemption_bound = Some(3);
    explorer.check(|| {
        let (mut tx, mut rx) = bytes_at(4, usize::MAX - 1);
        let sender = loom::thread::spawn(move || {
            let data = [1, 2, 3, 4, 5, 6];
            let mut sent = 0;
            while sent < data.len() {
                let count = tx.write(&data[sent..(sent + 3).min(data.len())]);
                sent += count;
                if count == 0 {
                    loom::thread::yield_now();
                }
            }
        });
        let mut seen = Vec::new();
        while !rx.is_finished() {
            let (first, second) = rx.peek(3);
            let count = first.len() + second.len();
            seen.extend_from_slice(first);
            seen.extend_from_slice(second);
            rx.consume(count);
            if count == 0 {
                loom::thread::yield_now();
            }
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
        sender.join().unwrap();
    });
}
