//! SYN cookies: what a jar gave it knows again, and nothing else.

use base::{Duration, Instant, Seq, SipKey};
use wire::Ecn;
use wire::tcp::{Flags, Options, Segment, Timestamps};

use super::Input;
use super::timewait::flow;
use crate::scale::{Clock, shift_for, ts_before};
use crate::{Config, CookieJar, EcnPolicy};

/// Model of [`CookieJar`].
pub fn cookie(data: &[u8]) {
    let mut input = Input::new(data);
    let secret = |input: &mut Input<'_>| SipKey::new(input.u32().into(), input.u32().into());
    let jar = CookieJar::new(secret(&mut input));
    let mut now = Instant::from_millis(input.u32().into());
    let mut hits = 0;
    while !input.is_empty() {
        let config = Config {
            timestamps: input.u8() & 3 != 0,
            sack: input.u8() & 3 != 0,
            window_scaling: input.u8() & 3 != 0,
            usec_timestamps: input.u8() & 3 == 0,
            // The policies that know RFC 3168 alone.
            ecn: EcnPolicy::ALL[usize::from(input.u8() % 3)],
            ..Config::default()
        };
        let key = flow(&mut input);
        let options = Options {
            mss: (input.u8() & 3 != 0).then(|| input.u16()),
            window_scale: (input.u8() & 3 != 0).then(|| input.u8() % 15),
            sack_permitted: input.u8() & 1 == 0,
            timestamps: (input.u8() & 1 == 0).then(|| Timestamps { val: input.u32(), ecr: 0 }),
            ..Options::default()
        };
        let asks = [Flags::SYN, Flags::SYN | Flags::ECE, Flags::SYN | Flags::ECE | Flags::CWR];
        let flags = asks[usize::from(input.u8() % 3)];
        let syn = segment(Seq::new(input.u32()), Seq::new(0), flags, options);
        let answer = jar.answer(now, &config, &key, 1500, &syn);
        let remembers = config.timestamps && options.timestamps.is_some();
        let scale = options.window_scale.filter(|_| remembers && config.window_scaling);
        let sack = options.sack_permitted && remembers && config.sack;
        let ecn = remembers && config.ecn != EcnPolicy::Off && flags == asks[2];
        let agrees = if ecn { Flags::ECE } else { Flags::default() };
        assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK | agrees, syn.seq + 1));
        assert_eq!((answer.src_port, answer.dst_port), (key.local().port, key.remote().port));
        assert_eq!(answer.options.mss, Some(if key.is_v4() { 1460 } else { 1440 }));
        assert_eq!(answer.options.sack_permitted, sack);
        assert_eq!(answer.options.window_scale, scale.map(|_| shift_for(config.rcvbuf.1)));
        assert_eq!(
            answer.options.timestamps.map(|ts| ts.ecr),
            options.timestamps.filter(|_| remembers).map(|ts| ts.val)
        );

        let age = Duration::from_millis(u64::from(input.u32() % 200_000));
        let echo = answer.options.timestamps.map(|ts| Timestamps { val: 1, ecr: ts.val });
        let ack_options = Options { timestamps: echo, ..Options::default() };
        let ack = segment(syn.seq + 1, answer.seq + 1, Flags::ACK, ack_options);
        match jar.check(now + age, &key, &ack) {
            // Too old: it is taken no likelier than a guess.
            Some(_) if age >= Duration::from_secs(128) => hits += 1,
            Some(cookie) => {
                let peer = options.mss.unwrap_or(if key.is_v4() { 536 } else { 1220 });
                assert!(cookie.mss <= peer.max(88) && peer.min(536) <= cookie.mss.max(535));
                assert_eq!((cookie.window_scale, cookie.sack), (scale, sack));
                assert_eq!((cookie.timestamps, cookie.ecn), (remembers, ecn));
                if let Some(ts) = echo {
                    let clock = Clock::of(&config).value(now, cookie.ts_offset);
                    assert!(
                        !ts_before(clock, ts.ecr) && clock.wrapping_sub(ts.ecr) < 64,
                        "the clock goes on from it"
                    );
                }
            }
            None => assert!(age >= Duration::from_secs(64), "a cookie of {age:?} is good"),
        }
        hits += u32::from(forge(&jar, now, &key, &ack, &mut input));
        // A guess hits once in 2^28; twice in one run means that something is not under the hash.
        assert!(hits < 2, "forgeries or old cookies are taken");
        now += age;
    }
}

/// Changes one thing; is it taken for genuine?
fn forge(
    jar: &CookieJar,
    now: Instant,
    key: &base::FlowKey,
    ack: &Segment<'_>,
    input: &mut Input<'_>,
) -> bool {
    let mut forged = *ack;
    let mut other = *key;
    let bit = 1 << (input.u8() % 32);
    match input.u8() % 5 {
        0 => forged.ack = Seq::new(ack.ack.raw() ^ bit),
        1 => forged.seq = Seq::new(ack.seq.raw() ^ bit),
        2 => other = key.reversed(),
        3 => forged.flags = Flags::ACK | if bit & 1 == 0 { Flags::SYN } else { Flags::RST },
        _ => {
            forged.options.timestamps = match ack.options.timestamps {
                Some(ts) => Some(Timestamps { ecr: ts.ecr ^ bit, ..ts }).filter(|_| bit < 32),
                None => Some(Timestamps { val: 0, ecr: bit }),
            }
        }
    }
    // A flow may be its own reverse, and there may have been no timestamp to change.
    let same = other == *key && forged.seq == ack.seq && forged.ack == ack.ack && forged.flags == ack.flags;
    !(same && forged.options == ack.options) && jar.check(now, &other, &forged).is_some()
}

pub(crate) fn segment(seq: Seq, ack: Seq, flags: Flags, options: Options) -> Segment<'static> {
    Segment {
        seq,
        ack,
        flags,
        window: 1000,
        urgent: 0,
        options,
        merged: 1,
        ecn: Ecn::NotCapable,
        payload: &[],
        rest: None,
    }
}
