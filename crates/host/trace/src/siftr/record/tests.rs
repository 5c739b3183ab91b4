//! Goal: what goes in comes out, whatever it is.
use super::*;
use base::Rng;

#[test]
fn round_trip() {
    let mut rng = Rng::new(1);
    for nth in 0..2_000 {
        let mut word = || rng.next_u64() as u32;
        let mut pair = || (word(), word());
        let (a, b, c, d, e) = (pair(), pair(), pair(), pair(), pair());
        let mut bytes = [0; 16];
        rng.fill(&mut bytes);
        let mut bit = || rng.below(2) == 1;
        let record = Record {
            at: Instant::from_nanos(u64::from(a.0) << 20),
            outbound: bit(),
            flow: a.1 >> 1,
            vitals: Vitals {
                state: STATES[nth % STATES.len()],
                cwnd: b.0,
                ssthresh: b.1,
                snd_wnd: c.0,
                rcv_wnd: c.1,
                scale: (d.0 as u8, d.1 as u8),
                snd_mss: e.0 as u16,
                srtt_us: a.1,
                rto_us: !b.0,
                features: Features::new(bit(), bit(), bit(), bit()),
                sndbuf: d,
                rcvbuf: e,
                flight: !c.0,
                reassembly: e.1 as u16,
            },
            rtt_us: !d.0,
            hash: !e.1,
        };
        let key = FlowKey::new(
            Endpoint::new(Addr::v6(bytes), a.0 as u16),
            Endpoint::new(Addr::v4([1, 2, 3, nth as u8]), b.0 as u16),
        );
        let mut bytes = [0; LEN];
        record.put(&mut bytes);
        assert_eq!(Record::get(&bytes), record);
        assert_eq!(heading(&bytes), (record.flow, record.outbound));
        let long = announcing(&bytes, &key);
        let (same, ends) = long.split_first_chunk::<LEN>().unwrap();
        assert_eq!((*same, announced(ends.try_into().unwrap())), (bytes, key));
    }
}
