//! Goal: what goes out is shown after it changed the connection, what comes in before, both with their data; and
//! a sample of the round-trip time as it was taken.
use super::*;
use crate::TxLimits;
use crate::tests::ends::{Pair, cx};
use alloc::vec::Vec;

#[derive(Default)]
struct Notes {
    /// Outbound, bytes in flight, data.
    packets: Vec<(bool, u32, Vec<u8>)>,
    samples: Vec<u128>,
}

impl Probe for Notes {
    fn packet(&mut self, seen: &Seen<'_>) {
        let mut data = Vec::new();
        seen.payload.for_each(|piece| data.extend_from_slice(piece));
        assert_eq!(data.len() as u32, seen.payload.len());
        self.packets.push((seen.outbound, seen.conn.vitals().flight, data));
    }

    fn state(&mut self, _: Instant, _: &FlowKey, _: State, _: State) {}

    fn round_trip(&mut self, _: Instant, _: &FlowKey, sample: Duration) {
        self.samples.push(sample.as_millis());
    }
}

#[test]
fn shown_at_the_right_moment() {
    let Pair { mut now, a: mut client, b: mut server } = Pair::new();
    let mut notes = Notes::default();
    client.write(now, b"question");
    let limits = TxLimits { max_payload: 1448 };
    let tx = {
        let cx = cx!(client, now);
        cx.probe = Some(&mut notes);
        client.conn.poll_transmit(cx, &limits).expect("data to send")
    };
    let question = client.packet(&tx);
    now += Duration::from_millis(30);
    server.take(now, &question);
    server.write(now, b"answer");
    let answer = server.poll(now).expect("an answer");
    {
        let cx = cx!(client, now);
        cx.probe = Some(&mut notes);
        client.conn.on_segment(cx, &answer.segment());
    }
    assert_eq!(notes.packets, [(true, 8, b"question".to_vec()), (false, 8, b"answer".to_vec())]);
    assert_eq!((notes.samples, client.conn.vitals().flight), ([30].to_vec(), 0));
}
