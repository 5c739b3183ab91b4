//! TIME-WAIT under arbitrary segments.

use base::{Addr, Duration, Endpoint, FlowKey, Instant, Seq};
use wire::Ecn;
use wire::tcp::{Flags, Header, Options, Segment, Timestamps};

use super::Input;
use crate::scale::ts_before;
use crate::{Config, TimeWait, TimeWaitAnswer};

pub(crate) fn flow(input: &mut Input<'_>) -> FlowKey {
    let mut addr = |v4| match v4 {
        true => Addr::v4(input.u32().to_be_bytes()),
        false => Addr::v6(core::array::from_fn(|i| if i < 8 { 0x20 } else { input.u8() })),
    };
    let v4 = addr(true).words()[3] & 1 == 0;
    let (local, remote) = (addr(v4), addr(v4));
    FlowKey::new(Endpoint::new(local, input.u16()), Endpoint::new(remote, input.u16()))
}

/// Model of [`TimeWait`]: whatever comes, only a SYN proven newer, or an exact RST where allowed, ends it;
/// only a retransmitted FIN extends it; every ACK tells the truth.
pub fn time_wait(data: &[u8]) {
    let mut input = Input::new(data);
    let key = flow(&mut input);
    let config = Config { time_wait_reset: input.u8() & 1 == 0, ..Config::default() };
    let (snd_nxt, rcv_nxt) = (Seq::new(input.u32()), Seq::new(input.u32()));
    let mut recent = (input.u8() & 1 == 0).then(|| input.u32());
    let offset = input.u32();
    let mut now = Instant::from_millis(input.u32().into());
    let mut until = now + config.time_wait;
    let window = input.u16();
    let mut entry = TimeWait::new(key, until, snd_nxt, rcv_nxt, window, recent.map(|r| (r, offset)));
    let mut unsolicited = 0;
    let began = now;
    while !input.is_empty() {
        now += Duration::from_millis(u64::from(input.u8()));
        let payload = [0; 3];
        let seg = Segment {
            seq: rcv_nxt + u32::from(input.u8() % 8) - 4,
            ack: snd_nxt + u32::from(input.u8() % 4) - 2,
            flags: Flags(input.u8().into()),
            window: input.u16(),
            urgent: 0,
            options: Options {
                timestamps: (input.u8() & 1 == 0).then(|| Timestamps {
                    val: recent.unwrap_or(0).wrapping_add(u32::from(input.u8() % 3)).wrapping_sub(1),
                    ecr: input.u32(),
                }),
                ..Options::default()
            },
            merged: 1,
            ecn: Ecn::NotCapable,
            payload: &payload[..usize::from(input.u8() % 4)],
            rest: None,
        };
        let ts = seg.options.timestamps.map(|ts| ts.val);
        let fresh = recent.zip(ts).is_none_or(|(recent, val)| !ts_before(val, recent));
        let plain = seg.flags.has(Flags::ACK) && !seg.flags.any(Flags::RST | Flags::SYN);
        let in_place = plain && seg.seq + seg.seq_len() == rcv_nxt && !seg.ack.after(snd_nxt);
        let last = in_place && seg.flags.has(Flags::FIN) && fresh;
        let noted = ts.filter(|_| fresh && in_place);
        let before = entry.clone();
        match entry.on_segment(now, &config, &seg) {
            TimeWaitAnswer::Ignore => assert!(!last, "a retransmitted FIN is answered"),
            TimeWaitAnswer::Ack(header) => {
                assert!(!seg.flags.has(Flags::RST));
                recent = recent.map(|recent| noted.unwrap_or(recent));
                assert_ack(&header, &key, (snd_nxt, rcv_nxt, window), recent);
                // No answer to an ACK carries data or a FIN, so each that does is answered.
                let spaced = seg.seq_len() == 0 || seg.flags.has(Flags::SYN);
                unsolicited += u64::from(!last && spaced);
            }
            TimeWaitAnswer::Remove => {
                assert!(config.time_wait_reset && seg.flags.has(Flags::RST) && seg.seq == rcv_nxt);
                entry = before;
            }
            TimeWaitAnswer::Reuse { isn_above } => {
                assert_eq!(
                    (isn_above, seg.flags.any(Flags::RST | Flags::ACK | Flags::FIN)),
                    (snd_nxt, false)
                );
                assert!(seg.flags.has(Flags::SYN));
                let by_time = match (recent, ts) {
                    (Some(recent), Some(val)) if recent != val => Some(ts_before(recent, val)),
                    (None, Some(_)) => Some(true),
                    _ => None,
                };
                assert!(by_time.unwrap_or(seg.seq.after(rcv_nxt)), "RFC 6191");
                entry = before;
            }
        }
        recent = recent.map(|recent| noted.unwrap_or(recent));
        until = if last { until.max(now + config.time_wait) } else { until };
        assert_eq!(entry.until, until, "only the peer's FIN extends the wait");
    }
    assert!(unsolicited <= 1 + now.since(began).as_millis() as u64 / 375, "answers are spaced");
}

fn assert_ack(header: &Header, key: &FlowKey, sent: (Seq, Seq, u16), recent: Option<u32>) {
    assert_eq!((header.src_port, header.dst_port), (key.local().port, key.remote().port));
    assert_eq!((header.seq, header.ack, header.window), sent);
    assert_eq!(header.flags, Flags::ACK);
    assert_eq!(header.options.timestamps.map(|ts| ts.ecr), recent);
}
