//! Goal: the log tells of every byte in flight when it left, whatever happened before.
use super::*;
use crate::fuzz;
use crate::fuzz::seeded::seeded;

/// RFC 8985, 5.1-1.
#[test]
fn agrees_with_a_list_of_bytes() {
    seeded("sent", 300, 1_200, fuzz::sent);
}

#[test]
fn without_memory_the_last_departure_stands_for_the_next() {
    let mut log = TxTimes::new(2);
    let una = Seq::new(0);
    let mut sent = Sent::new(una);
    for i in 1..=5 {
        sent.push(&mut log, una, Seq::new(10 * i), i);
    }
    let mut cursor = sent.cursor();
    assert_eq!(cursor.seek(&sent, &log, Seq::new(5)), Some((Seq::new(10), 1)));
    assert_eq!(cursor.seek(&sent, &log, Seq::new(15)), Some((Seq::new(20), 2)));
    assert_eq!(cursor.seek(&sent, &log, Seq::new(25)), Some((Seq::new(50), 5)));
    assert_eq!(cursor.seek(&sent, &log, Seq::new(50)), None);
    assert_eq!((log.used(), sent.retire(&mut log, Seq::new(40))), (2, Some(5)));
    assert_eq!(log.used(), 0);
    sent.push(&mut log, Seq::new(40), Seq::new(60), 6);
    sent.push(&mut log, Seq::new(40), Seq::new(70), 7);
    sent.release(&mut log);
    assert_eq!(log.used(), 0);
}
