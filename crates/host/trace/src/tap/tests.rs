//! Goal: what passes is recorded once, in both directions, and only while the switch is on.
use super::*;
use crate::capture;
use pio::{PairConfig, TxMeta, TxPacket, pair};

fn send(port: &mut dyn PacketIo, bytes: usize) {
    let mut frame = port.take().unwrap();
    frame.set_range(64, bytes);
    let mut batch = TxBatch::from([TxPacket { frame, meta: TxMeta::default() }]);
    port.tx(&mut batch).unwrap();
}

#[test]
fn both_directions_while_on() {
    let (a, mut b) = pair(&PairConfig::default()).unwrap();
    let (mut a, switch) = tapped(Box::new(a));
    send(&mut *a, 60);
    let mut taken = capture(&switch, || Instant::from_secs(5), 64, 65_536);
    send(&mut *a, 1_000);
    send(&mut b, 70);
    let mut batch = RxBatch::new();
    assert_eq!(a.rx(&mut batch).unwrap(), 1);
    let mut out = Vec::new();
    assert_eq!(taken.drain(0, &mut out), 2);
    switch.stop();
    send(&mut *a, 60);
    assert_eq!(taken.drain(0, &mut out), 0);
    assert_eq!((taken.stats().written(), taken.stats().dropped()), (2, 0));
    batch.drain(..).for_each(|packet| a.retire(packet.frame));
}

#[test]
fn what_comes_back_is_recorded_once_by_each_capture() {
    let (a, mut b) = pair(&PairConfig { depth: 4, ..PairConfig::default() }).unwrap();
    let (mut a, switch) = tapped(Box::new(a));
    let mut request = TxBatch::new();
    for bytes in 60..70 {
        let mut frame = a.take().unwrap();
        frame.set_range(64, bytes);
        request.push_back(TxPacket { frame, meta: TxMeta::default() });
    }
    let (mut batch, mut out) = (RxBatch::new(), Vec::new());
    let mut empty = |b: &mut dyn PacketIo| {
        b.rx(&mut batch).unwrap();
        batch.drain(..).for_each(|packet| b.retire(packet.frame));
    };
    let mut first = capture(&switch, || Instant::ZERO, 64, 65_536);
    assert_eq!(a.tx(&mut request).unwrap(), 4);
    assert_eq!(a.tx(&mut request).unwrap(), 0);
    assert_eq!(first.drain(0, &mut out), 10, "offered, if not yet gone");
    switch.stop();
    empty(&mut b);
    assert_eq!(a.tx(&mut request).unwrap(), 4);
    let mut second = capture(&switch, || Instant::ZERO, 64, 65_536);
    empty(&mut b);
    assert_eq!(a.tx(&mut request).unwrap(), 2);
    assert_eq!(second.drain(0, &mut out), 2, "the first capture had them, this one has not");
    assert_eq!(first.stats().written() + second.stats().written(), 12);
    empty(&mut b);
}

/// A port whose packets come in two frames each.
struct InTwo<P>(P);

impl<P: PacketIo> Layer for InTwo<P> {
    type Below = P;

    fn below(&self) -> &P {
        &self.0
    }

    fn below_mut(&mut self) -> &mut P {
        &mut self.0
    }

    fn rx(&mut self, batch: &mut RxBatch) -> Result<usize, IoError> {
        let got = self.0.rx(batch)?;
        batch.iter_mut().step_by(2).for_each(|part| part.meta.more = true);
        Ok(got)
    }
}

/// Bytes kept of each packet, and bytes it had, as enhanced packet blocks say.
fn lengths(mut blocks: &[u8]) -> Vec<(u32, u32)> {
    let mut all = Vec::new();
    while !blocks.is_empty() {
        let word = |at: usize| u32::from_le_bytes(*blocks[at..].first_chunk().unwrap());
        all.push((word(20), word(24)));
        blocks = &blocks[word(4) as usize..];
    }
    all
}

#[test]
fn what_is_gathered_together_is_recorded_each() {
    let (a, _b) = pair(&PairConfig::default()).unwrap();
    let lanes = pio::Lanes::over(Box::new(a), 2, "lane", || Instant::ZERO, |_| {}).unwrap();
    let (mut a, switch) = tapped(lanes);
    let gather = a.gather().expect("lanes gather");
    assert!(gather.gathers_at_once() > Some(1), "the tap is not in the way");
    let mut taken = capture(&switch, || Instant::ZERO, 100, 65_536);
    let payload = [IoSlice::new(&[1; 30]), IoSlice::new(&[2; 90])];
    // No port would send these; they are recorded as all that is handed over.
    let one = |pieces| Gather { headers: &[0; 54], meta: TxMeta::default(), payload: pieces };
    gather.tx_gather_all(&[one(&payload), one(&payload[..1])]);
    let mut out = Vec::new();
    assert_eq!(taken.drain(0, &mut out), 2);
    assert_eq!(lengths(&out), [(100, 174), (84, 84)]);
}

#[test]
fn a_packet_in_two_frames_is_one_packet() {
    let (a, mut b) = pair(&PairConfig::default()).unwrap();
    let (mut a, switch) = tapped(Box::new(InTwo(a)));
    let mut taken = capture(&switch, || Instant::ZERO, 100, 65_536);
    for bytes in [80, 70, 10, 20, 5] {
        send(&mut b, bytes);
    }
    let (mut batch, mut out) = (RxBatch::new(), Vec::new());
    a.rx(&mut batch).unwrap();
    // The last one's end has not come.
    assert_eq!(taken.drain(0, &mut out), 3);
    assert_eq!(lengths(&out), [(100, 150), (30, 30), (5, 5)]);
    batch.drain(..).for_each(|packet| a.retire(packet.frame));
}

#[test]
fn a_reader_that_leaves_turns_it_off() {
    let (a, _b) = pair(&PairConfig::default()).unwrap();
    let (mut a, switch) = tapped(Box::new(a));
    drop(capture(&switch, || Instant::ZERO, 64, 65_536));
    send(&mut *a, 60);
    assert!(switch.running().is_none());
}
