//! One model of the arbiter: plain lists of packets, and what is promised of every step.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use base::Input;

use crate::{Arbiter, CONTROL_RUN, Next};

/// The largest packet of data.
const LARGEST: u64 = 65_549;

/// Queues of random packets that come and go: what waits goes; control before data but for the bound; two queues that
/// have had data from the beginning have had the same bytes, to one largest packet, and two that have had data since
/// some later time, to two (each may begin one ahead or behind); and no thread waits for longer than that allows.
pub fn arbiter(data: &[u8]) {
    let mut input = Input::new(data);
    let queues = 1 + input.below(13) as usize;
    let mut arbiter = Arbiter::new(queues);
    let mut control = vec![0_u32; queues];
    let mut data: Vec<VecDeque<u64>> = vec![VecDeque::new(); queues];
    let mut always = vec![true; queues];
    for queue in &mut data {
        queue.extend((0..input.below(16)).map(|_| size(input.u8())));
    }
    // Of each pair: what the first had more than the second since both have had data all the time.
    let mut ahead = vec![vec![0_i64; queues]; queues];
    let mut waited = vec![0_u64; queues];
    let mut controls = 0;
    while !input.is_empty() {
        let queue = input.below(queues as u32) as usize;
        match input.below(8) {
            0 => control[queue] += 1,
            1 => data[queue].extend((0..input.below(9)).map(|_| size(input.u8()))),
            2 => data[queue].push_back(size(255)),
            _ => {
                let busy: Vec<bool> = data.iter().map(|queue| !queue.is_empty()).collect();
                for first in 0..queues {
                    always[first] &= busy[first];
                    for second in 0..queues {
                        if !(busy[first] && busy[second]) {
                            ahead[first][second] = 0;
                        }
                    }
                }
                let bits = |of: &dyn Fn(usize) -> bool| {
                    (0..queues).fold(0_u32, |bits, queue| bits | u32::from(of(queue)) << queue)
                };
                let next = arbiter.poll(bits(&|queue| control[queue] > 0), bits(&|queue| busy[queue]));
                let (any_control, any_data) = (control.iter().any(|count| *count > 0), busy.contains(&true));
                match next {
                    None => assert!(!any_control && !any_data, "something waits"),
                    Some(Next::Control(queue)) => {
                        assert!(control[queue] > 0, "queue {queue} has no control packet");
                        control[queue] -= 1;
                        controls = if any_data { controls + 1 } else { 0 };
                        assert!(controls <= CONTROL_RUN, "data waits for ever");
                    }
                    Some(Next::Data(queue)) => {
                        assert!(!any_control || controls == CONTROL_RUN, "control waits behind data");
                        controls = 0;
                        let bytes = data[queue].pop_front().expect("the queue has data");
                        arbiter.on_moved(queue, bytes as usize);
                        moved(queue, bytes, (&busy, &always), &mut ahead, &mut waited);
                    }
                }
            }
        }
    }
}

fn size(byte: u8) -> u64 {
    if byte == 255 { LARGEST } else { 60 + u64::from(byte) * 17 }
}

/// Data of a queue went: is it fair to those that had data too?
fn moved(
    queue: usize,
    bytes: u64,
    (busy, always): (&[bool], &[bool]),
    ahead: &mut [Vec<i64>],
    waited: &mut [u64],
) {
    waited[queue] = 0;
    for other in (0..busy.len()).filter(|other| *other != queue) {
        if !busy[other] {
            waited[other] = 0;
            continue;
        }
        ahead[queue][other] += bytes as i64;
        ahead[other][queue] -= bytes as i64;
        let apart = ahead[queue][other].unsigned_abs();
        let most = if always[queue] && always[other] { LARGEST } else { 2 * LARGEST };
        assert!(apart <= most, "{queue} is ahead of {other} by {apart}");
        waited[other] += bytes;
        let most = 2 * LARGEST * (busy.len() as u64 - 1);
        assert!(waited[other] <= most, "{other} waited for {} bytes", waited[other]);
    }
}
