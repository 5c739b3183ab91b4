//! Goal: what a connection counts for its owner is what happened to it (RFC 4898, Linux's `struct tcp_info`).

use base::Duration;
use tcp::{Config, Info};
use wire::tcp::Flags;

use crate::host::ms;
use crate::rig::{Rig, Setup};

fn info(rig: &Rig) -> Info {
    rig.host.conn().info(rig.now)
}

fn spans(rig: &Rig) -> [Duration; 3] {
    let info = info(rig);
    [info.busy, info.window_starved, info.buffer_starved]
}

#[test]
fn busy_is_while_something_is_to_be_acknowledged() {
    let mut rig = Setup::default().connected();
    rig.pass(ms(50));
    assert_eq!(spans(&rig), [ms(0); 3]);
    rig.write(&[0; 100]).unwrap();
    let end = rig.one().end();
    rig.pass(ms(20));
    rig.write(&[0; 100]).unwrap();
    assert_eq!(spans(&rig)[0], ms(20), "it still runs");
    rig.ack(end, &[]);
    let end = rig.one().end();
    rig.pass(ms(5));
    rig.ack(end, &[]);
    rig.pass(ms(100));
    assert_eq!(spans(&rig), [ms(25), ms(0), ms(0)]);
    rig.write(&[0; 100]).unwrap();
    rig.sent();
    rig.pass(ms(10));
    rig.inject(rig.segment(Flags::RST, &[]));
    rig.pass(ms(10));
    assert_eq!(spans(&rig)[0], ms(35), "the end stops it");
}

#[test]
fn a_window_that_is_shut_or_too_small_starves() {
    let mut rig = Setup { window: 0, ..Setup::default() }.connected();
    rig.pass(ms(30));
    assert_eq!(spans(&rig), [ms(0); 3], "nothing waits");
    rig.write(&[0; 2_000]).unwrap();
    rig.sent();
    rig.pass(ms(100));
    assert_eq!(spans(&rig), [ms(100), ms(100), ms(0)]);
    rig.window = 65_535;
    let una = rig.ack;
    rig.ack(una, &[]);
    let sent = rig.sent();
    rig.pass(ms(10));
    assert_eq!(spans(&rig), [ms(110), ms(100), ms(0)]);
    rig.window = 10;
    rig.ack(sent.last().unwrap().end(), &[]);
    rig.sent();
    rig.pass(ms(40));
    let before = spans(&rig);
    rig.write(&[0; 1_000]).unwrap();
    rig.sent();
    rig.pass(ms(7));
    assert_eq!(spans(&rig)[1], before[1] + ms(7), "ten bytes are no window");
}

#[test]
fn a_buffer_smaller_than_the_window_starves() {
    let mut setup = Setup::default();
    setup.options.sndbuf = 2 * 1460;
    let mut rig = setup.connected();
    assert_eq!(rig.write(&[0; 20_000]), Ok(2 * 1460));
    let sent = rig.sent();
    assert_eq!(sent.len(), 2);
    rig.pass(ms(10));
    assert_eq!(spans(&rig), [ms(10), ms(0), ms(10)], "eight segments more could leave");
    rig.ack(sent[0].end(), &[]);
    rig.pass(ms(5));
    assert_eq!(spans(&rig), [ms(15), ms(0), ms(10)], "there is room again");
}

#[test]
fn segments_are_counted_once_however_often_they_left() {
    let mut rig = Setup::sack().connected();
    assert_eq!(info(&rig).delivered, 1, "the SYN");
    rig.write(&[0; 100]).unwrap();
    let end = rig.one().end();
    rig.pass(ms(20));
    rig.ack(end, &[]);
    assert_eq!((info(&rig).delivered, info(&rig).data_segs_out), (2, 1));
    rig.write(&[1; 14_600]).unwrap();
    let sent = rig.sent();
    assert_eq!((info(&rig).delivered, info(&rig).data_segs_out), (2, 11));
    rig.pass(ms(20));
    rig.ack(end, &[(sent[1].seq, sent[5].seq)]);
    assert_eq!(info(&rig).delivered, 6, "what is SACKed is delivered");
    let again = rig.sent();
    assert_eq!(again[0].seq, end);
    let now = info(&rig);
    assert_eq!((now.data_segs_out, now.delivered, now.bytes_retransmitted), (12, 6, 1460));
    rig.pass(ms(20));
    rig.ack(sent[9].end(), &[]);
    rig.sent();
    rig.close();
    let fin = rig.one().end();
    assert_eq!(info(&rig).delivered, 12);
    rig.pass(ms(20));
    rig.ack(fin, &[]);
    assert_eq!((info(&rig).delivered, info(&rig).data_segs_out), (13, 12), "a FIN alone, too");
}

#[test]
fn what_comes_is_counted_too() {
    let mut rig = Setup::sack().accepted();
    rig.send(&[1; 100]);
    rig.send_at(1_000, &[1; 100]);
    rig.send_at(2_000, &[1; 100]);
    let info = info(&rig);
    assert_eq!((info.data_segs_in, info.out_of_order_in), (3, 2));
}

/// RFC 2883, 4-2.
#[test]
fn duplicates_timeouts_and_the_time_these_take_are_told() {
    let setup = Setup {
        config: Config { frto: false, tail_loss_probe: false, ..Config::default() },
        ..Setup::sack()
    };
    let mut rig = setup.connected();
    rig.write(&[0; 100]).unwrap();
    let end = rig.one().end();
    rig.pass(ms(20));
    rig.ack(end, &[]);
    rig.write(&[1; 1460]).unwrap();
    let sent = rig.one();
    rig.until_sent(ms(2_000));
    rig.one();
    assert_eq!((info(&rig).total_timeouts, info(&rig).timeout_recoveries), (1, 1));
    rig.pass(ms(20));
    rig.ack(sent.end(), &[]);
    let now = info(&rig);
    assert_eq!((now.total_timeouts, now.timeout_recoveries, now.timeout_time), (1, 1, ms(20)));
    rig.ack(sent.end(), &[(sent.seq, sent.end())]);
    assert_eq!(info(&rig).duplicates_reported, 1);
}

/// A byte that probes a shut window is no segment that was delivered, unless it was.
#[test]
fn window_probes_count_when_they_are_taken() {
    let mut rig = Setup { window: 0, ..Setup::default() }.connected();
    rig.write(&[0; 1_000]).unwrap();
    rig.until_sent(ms(5_000));
    let probe = rig.one();
    assert_eq!((info(&rig).delivered, info(&rig).data_segs_out, info(&rig).probes), (1, 1, 1));
    rig.window = 65_535;
    rig.ack(probe.seq + 1, &[]);
    assert_eq!(info(&rig).delivered, 2);
    let rest = rig.one();
    rig.ack(rest.end(), &[]);
    assert_eq!((info(&rig).delivered, info(&rig).data_segs_out), (3, 2));
}
