//! Goal: sending follows delivery in the proportion asked for, and never stalls.
use super::*;

const MSS: u32 = 1000;

/// Each acknowledgment delivers a segment; what may leave leaves. How many left after each.
fn run(flight: u32, target: u32, lost: u32) -> Vec<u32> {
    let mut prr = Prr::new(flight * MSS, target * MSS, MSS);
    let mut pipe = (flight - lost) * MSS;
    let mut sent = vec![1];
    prr.on_sent(MSS);
    pipe += MSS;
    for _ in 0..flight - lost {
        pipe -= MSS;
        prr.on_ack(MSS, pipe, false, MSS);
        let n = prr.space() / MSS;
        prr.on_sent(n * MSS);
        pipe += n * MSS;
        sent.push(n);
    }
    sent
}

extern crate std;
use std::{vec, vec::Vec};

/// RFC 9937, 6-1 and 6-2.
#[test]
fn seven_tenths_of_the_deliveries_go_out() {
    let sent = run(100, 70, 1);
    let total: u32 = sent.iter().sum();
    assert!((69..=71).contains(&total), "{total}");
    assert!(sent.iter().all(|&n| n <= 1), "no burst: {sent:?}");
    let longest = sent.split(|&n| n > 0).map(<[u32]>::len).max();
    assert!(longest <= Some(2), "no silence, but for what the first retransmission took ahead");
}

/// RFC 9937, 6-3.
#[test]
fn after_heavy_loss_it_sends_what_arrives() {
    let sent = run(20, 14, 15);
    assert_eq!(sent, [1, 1, 1, 1, 1, 1], "packet conservation: the target is far above the pipe");
}

/// RFC 5681, 4.3-1.
#[test]
fn a_second_reduction_forgets_no_delivery() {
    let mut prr = Prr::new(70 * MSS, 49 * MSS, MSS);
    prr.on_occasion();
    prr.on_ack(22 * MSS, 20 * MSS, true, MSS);
    prr.on_sent(20 * MSS);
    prr.on_occasion();
    prr.reduce_again(5 * MSS, 34 * MSS, MSS);
    assert_eq!(prr.space(), 3 * MSS, "what was left of the last acknowledgment's");
    prr.on_ack(MSS, 4 * MSS, false, MSS);
    assert_eq!(prr.space(), 3 * MSS, "23 delivered, 20 sent");
    prr.on_occasion();
    prr.on_ack(MSS, 34 * MSS, true, MSS);
    assert_eq!(prr.space(), 0, "never beyond the new target");
    prr.reduce_again(34 * MSS, 20 * MSS, MSS);
    assert_eq!(prr.space(), MSS, "a reduction of what is under way begins with one segment");
    prr.on_sent(MSS);
    (0..10).for_each(|_| prr.on_ack(MSS, 30 * MSS, true, MSS));
    assert_eq!(prr.space() / MSS, 4, "20 for 34, less the first");
}

/// RFC 9937, 6-3.
#[test]
fn progress_lets_it_catch_up() {
    let mut prr = Prr::new(20 * MSS, 14 * MSS, MSS);
    prr.on_sent(MSS);
    prr.on_ack(2 * MSS, 3 * MSS, true, MSS);
    assert_eq!(prr.space(), 3 * MSS, "slow start: one segment more than was delivered");
    prr.on_sent(2 * MSS);
    prr.on_occasion();
    prr.on_ack(MSS, 14 * MSS, true, MSS);
    assert_eq!(prr.space(), 0, "never beyond the target");
    prr.on_ack(0, 0, true, MSS);
    assert_eq!(prr.space(), 0, "nothing delivered, nothing sent");
    prr.aim(13 * MSS);
    prr.on_ack(MSS, 14 * MSS, true, MSS);
    assert_eq!(prr.space(), 0, "a window that shrinks is the next repair's affair");
    prr.aim(16 * MSS);
    prr.on_ack(MSS, 14 * MSS, true, MSS);
    assert_eq!(prr.space(), 2 * MSS, "and one that grows takes the target along");
}

/// Sends all that may leave; how many bytes that was.
fn send(prr: &mut Prr) -> u32 {
    let space = prr.space();
    prr.on_sent(space);
    prr.on_occasion();
    space
}

/// RFC 9937, 6-3 and 6-4.
#[test]
fn a_batch_of_acknowledgments_allows_what_they_would_one_by_one() {
    for (flight, target, pipe, progress) in [(40, 28, 8, true), (40, 28, 8, false), (40, 28, 38, true)] {
        let begin = || Prr::new(flight * MSS, target * MSS, MSS);
        let (mut single, mut batch) = (begin(), begin());
        let first = send(&mut batch);
        let mut under_way = pipe * MSS + send(&mut single);
        for nth in 1..=8 {
            under_way -= MSS;
            single.on_ack(MSS, under_way, progress, MSS);
            under_way += send(&mut single);
            batch.on_ack(MSS, (pipe - nth) * MSS, progress, MSS);
        }
        let all = under_way + 8 * MSS - pipe * MSS;
        assert_eq!(first + send(&mut batch), all, "{flight} in flight, {pipe} left, progress {progress}");
        [&mut single, &mut batch].into_iter().for_each(|prr| prr.on_ack(MSS, 20 * MSS, progress, MSS));
        assert_eq!(batch.space(), single.space(), "what had its occasion does not come again");
    }
}
