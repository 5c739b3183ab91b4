//! Goal: options are laid out as Linux lays them out, read whatever comes, and never overrun the header.
use super::*;
use crate::ParseError;
use alloc::vec;
use alloc::vec::Vec;
use base::Seq;

/// A header with `options` as raw bytes (padded to four) and the SYN flag if asked.
fn raw(flags: Flags, options: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 20];
    out.extend(options);
    out.resize(out.len().next_multiple_of(4), 0);
    let len = out.len() as u16 / 4;
    out[12..14].copy_from_slice(&(len << 12 | flags.0).to_be_bytes());
    out
}

fn read(flags: Flags, options: &[u8]) -> Options {
    parse(&raw(flags, options)).unwrap().2.options
}

fn emitted(flags: Flags, options: Options) -> Vec<u8> {
    let header =
        Header { src_port: 1, dst_port: 2, seq: Seq::new(3), ack: Seq::new(4), flags, window: 5, options };
    let mut out = vec![0xee; 60];
    let len = header.emit(&mut out);
    assert_eq!(len, 20 + header.options.len(flags));
    let mut whole = [0xee; 60];
    header.options.emit(flags, &mut whole);
    assert_eq!(whole[..len - 20], out[20..len], "whatever room there is");
    assert!(whole[len - 20..].iter().all(|byte| *byte == 0xee), "wrote past the options");
    assert!(out[len..].iter().all(|byte| *byte == 0xee), "wrote past the header");
    assert_eq!(usize::from(out[12] >> 4) * 4, len);
    out[20..len].to_vec()
}

const STAMPS: Option<Timestamps> = Some(Timestamps { val: 0x01020304, ecr: 0x05060708 });

fn blocks(n: u32) -> SackBlocks {
    let mut sack = SackBlocks::none();
    for i in 0..n {
        assert!(sack.push(Seq::new(i * 10), Seq::new(i * 10 + 5)));
    }
    sack
}

/// RFC 9293, MUST-4, MUST-14, MUST-65 and MUST-68; RFC 2018, 2-1.
#[test]
fn the_layouts_of_a_syn() {
    let all = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: STAMPS,
        ..Options::default()
    };
    let mss = [2, 4, 0x05, 0xb4];
    let scale = [1, 3, 3, 7];
    let stamps = [8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(emitted(Flags::SYN, all), [&mss[..], &[4, 2], &stamps, &scale].concat());
    let no_sack = Options { sack_permitted: false, ..all };
    assert_eq!(emitted(Flags::SYN, no_sack), [&mss[..], &[1, 1], &stamps, &scale].concat());
    let no_stamps = Options { timestamps: None, ..all };
    assert_eq!(emitted(Flags::SYN, no_stamps), [&mss[..], &[1, 1, 4, 2], &scale].concat());
    // Off a SYN only the timestamps remain.
    assert_eq!(emitted(Flags::ACK, all), [&[1, 1], &stamps[..]].concat());
}

/// RFC 9293, MUST-69.
#[test]
fn padding_is_zero() {
    let layout = SynLayout::Bsd;
    let syn = Options {
        mss: Some(1460),
        window_scale: Some(6),
        sack_permitted: true,
        layout,
        ..Options::default()
    };
    let mss = [2, 4, 0x05, 0xb4];
    assert_eq!(emitted(Flags::SYN, syn), [&mss[..], &[1, 3, 3, 6], &[4, 2, 0, 0]].concat());
    let stamps = [8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let all = Options { timestamps: STAMPS, ..syn };
    assert_eq!(
        emitted(Flags::SYN, all),
        [&mss[..], &[1, 3, 3, 6], &[4, 2], &stamps].concat(),
        "nothing to fill"
    );
}

/// RFC 2018, 4-4.
#[test]
fn fast_open_stands_behind_the_others() {
    let syn = Options { mss: Some(1460), window_scale: Some(8), sack_permitted: true, ..Options::default() };
    let cookie = |bytes: &[u8], experimental| FastOpen::cookie(bytes, experimental);
    let with = |option| syn.with_fast_open(option);
    let head = emitted(Flags::SYN, syn);
    let rows: [(Option<FastOpen>, &[u8]); 5] = [
        (Some(FastOpen::request(false)), &[34, 2, 1, 1]),
        (Some(FastOpen::request(true)), &[254, 4, 0xf9, 0x89]),
        (cookie(&[0xab, 0xcd, 0x12, 0x34], false), &[34, 6, 0xab, 0xcd, 0x12, 0x34, 1, 1]),
        (cookie(&[1, 2, 3, 4, 5, 6], false), &[34, 8, 1, 2, 3, 4, 5, 6]),
        (cookie(&[1, 2, 3, 4], true), &[254, 8, 0xf9, 0x89, 1, 2, 3, 4]),
    ];
    for (option, bytes) in rows {
        assert!(option.is_some());
        assert_eq!(emitted(Flags::SYN, with(option)), [&head, bytes].concat());
        for layout in [SynLayout::Linux, SynLayout::Bsd] {
            let full = Options { timestamps: STAMPS, layout, ..with(option) };
            let read = read(Flags::SYN, &emitted(Flags::SYN, full));
            assert_eq!(read, Options { layout: SynLayout::Linux, ..full });
        }
        assert_eq!(emitted(Flags::ACK, with(option)), [], "only on a SYN");
    }
    // The longest one fills the header, whatever else a SYN says.
    for experimental in [false, true] {
        let longest = Options { timestamps: STAMPS, ..with(cookie(&[7; 16], experimental)) };
        assert_eq!(emitted(Flags::SYN, longest).len(), MAX_OPTIONS_LEN);
    }
}

#[test]
fn a_cookie_has_an_even_number_of_bytes_from_4_to_16() {
    for len in 1..=20 {
        let bytes = [9; 20];
        let legal = len % 2 == 0 && (4..=16).contains(&len);
        let plain = [&[34, len as u8 + 2], &bytes[..len]].concat();
        assert_eq!(read(Flags::SYN, &plain).fast_open().is_some(), legal, "{len}");
        assert_eq!(read(Flags::ACK, &plain).fast_open(), None);
        let experimental = [&[254, len as u8 + 4, 0xf9, 0x89], &bytes[..len]].concat();
        assert_eq!(read(Flags::SYN, &experimental).fast_open().is_some(), legal, "{len}");
    }
    assert_eq!(read(Flags::SYN, &[254, 6, 0xf9, 0x88, 1, 1]), Options::default(), "another experiment");
    assert_eq!(read(Flags::SYN, &[254, 3, 0xf9]), Options::default());
}

#[test]
fn sack_blocks_are_clipped_to_what_fits() {
    for (timestamps, offered, fit) in [(STAMPS, 4, 3), (STAMPS, 2, 2), (None, 4, 4), (None, 0, 0)] {
        let options = Options { timestamps, sack: blocks(offered), ..Options::default() };
        let out = emitted(Flags::ACK, options);
        assert_eq!(read(Flags::ACK, &out).sack, blocks(fit));
        assert_eq!(read(Flags::ACK, &out).timestamps, timestamps);
    }
    let on_syn = Options { sack: blocks(1), ..Options::default() };
    assert_eq!(emitted(Flags::SYN, on_syn), []);
    assert!(!blocks(4).clone().push(Seq::new(0), Seq::new(0)));
}

/// RFC 7323, 2.2-4 and 2.3-1.
#[test]
fn only_a_syn_carries_the_offers() {
    let offers = [2, 4, 1, 0, 4, 2, 1, 3, 3, 200];
    let all = read(Flags::SYN, &offers);
    assert_eq!((all.mss, all.window_scale, all.sack_permitted), (Some(256), Some(14), true));
    assert_eq!(read(Flags::ACK, &offers), Options::default());
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(read(Flags::SYN, &sack), Options::default());
    assert_eq!(read(Flags::ACK, &sack).sack.as_slice(), [(Seq::new(1), Seq::new(9))]);
}

/// RFC 9293, MUST-4, MUST-5, MUST-6, MUST-7 and MUST-64.
#[test]
fn what_is_unknown_is_skipped_and_what_is_illegal_ends_the_walk() {
    let stamps = [8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let after = |before: &[u8]| read(Flags::ACK, &[before, &stamps].concat()).timestamps;
    assert_eq!(after(&[]), STAMPS);
    assert_eq!(after(&[1, 1, 1]), STAMPS);
    assert_eq!(after(&[254, 5, 9, 9, 9]), STAMPS, "unknown kind");
    assert_eq!(after(&[8, 2]), STAMPS, "known kind of a length of its own");
    assert_eq!(after(&[254, 2, 253, 2]), STAMPS);
    assert_eq!(after(&[0]), None, "end of options");
    assert_eq!(after(&[254, 0]), None, "length zero");
    assert_eq!(after(&[254, 1]), None, "length one");
    assert_eq!(after(&[254, 40]), None, "past the header");
    let mut kept = stamps.to_vec();
    kept.extend([254, 0]);
    assert_eq!(read(Flags::ACK, &kept).timestamps, STAMPS, "what came before an illegal length counts");
    assert_eq!(read(Flags::ACK, &[1, 1, 1, 8]).timestamps, None, "kind without a length");
}

#[test]
fn the_fast_path_says_what_the_walk_says() {
    let layout = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(read(Flags::ACK, &layout), read(Flags::ACK, &[&layout[..], &[1; 4]].concat()));
    for at in 0..4 {
        let mut other = layout;
        other[at] ^= 2;
        let longer = [&other[..], &[0; 4]].concat();
        assert_eq!(read(Flags::ACK, &other), read(Flags::ACK, &longer), "byte {at}");
    }
}

#[test]
fn the_data_offset_is_checked() {
    let good = raw(Flags::ACK, &[]);
    assert!(parse(&good).is_ok());
    assert!(matches!(parse(&good[..19]), Err(ParseError::TcpTruncated)));
    for words in [0, 4, 6, 15] {
        let mut bad = good.clone();
        bad[12] = words << 4;
        assert!(matches!(parse(&bad), Err(ParseError::TcpDataOffset)), "{words} words");
    }
}

#[test]
fn flags_and_lengths() {
    let both = Flags::SYN | Flags::FIN;
    assert_eq!(alloc::format!("{:?}", Flags::SYN | Flags::ACK), "[S.]");
    assert!(both.has(Flags::SYN) && both.any(Flags::SYN | Flags::RST) && !both.has(Flags::SYN | Flags::RST));
    let mut bytes = raw(both, &[]);
    bytes.extend([1, 2, 3]);
    assert_eq!(parse(&bytes).unwrap().2.seq_len(), 5);
}

fn counters(order: CounterOrder, fields: u8) -> Option<AccEcn> {
    let bytes = EcnBytes { ect0: 0x1001_0203, ce: 0x0004_0506, ect1: 0x0007_0809 };
    Some(AccEcn::new(order, fields, &bytes))
}

/// RFC 9768, 3.2.3-1.
#[test]
fn the_layouts_of_accurate_ecn() {
    use CounterOrder::{Ect0First, Ect1First};
    let alone = |order, fields| {
        emitted(Flags::ACK, Options { accecn: counters(order, fields), ..Options::default() })
    };
    assert_eq!(alone(Ect0First, 3), [172, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1]);
    assert_eq!(alone(Ect1First, 3), [174, 11, 7, 8, 9, 4, 5, 6, 1, 2, 3, 1]);
    assert_eq!(alone(Ect1First, 2), [174, 8, 7, 8, 9, 4, 5, 6]);
    assert_eq!(alone(Ect0First, 1), [172, 5, 1, 2, 3, 1, 1, 1]);
    assert_eq!(alone(Ect0First, 0), [172, 2, 1, 1]);
    // A counter may end like padding.
    let one = Some(AccEcn::new(Ect0First, 1, &EcnBytes { ect0: 1, ..EcnBytes::default() }));
    assert_eq!(
        emitted(Flags::ACK, Options { accecn: one, ..Options::default() }),
        [172, 5, 0, 0, 1, 1, 1, 1]
    );
    // The padding in front of SACK holds what is left over.
    let beside =
        |fields, n| Options { accecn: counters(Ect0First, fields), sack: blocks(n), ..Options::default() };
    assert_eq!(emitted(Flags::ACK, beside(1, 1))[..8], [172, 5, 1, 2, 3, 1, 5, 10]);
    assert_eq!(emitted(Flags::ACK, beside(0, 1))[..4], [172, 2, 5, 10]);
    assert_eq!(emitted(Flags::ACK, beside(3, 1))[8..16], [7, 8, 9, 1, 1, 1, 5, 10]);
    for (fields, stamps, fit) in
        [(3, None, 3), (2, None, 3), (1, None, 4), (3, STAMPS, 1), (2, STAMPS, 2), (1, STAMPS, 2)]
    {
        let options = Options { timestamps: stamps, ..beside(fields, 4) };
        let out = emitted(Flags::ACK, options);
        assert!(out.len() <= MAX_OPTIONS_LEN);
        assert_eq!(read(Flags::ACK, &out), Options { sack: blocks(fit), ..options }, "{fields} {stamps:?}");
    }
}

/// RFC 9768, 3.2.3.2.1-1.
#[test]
fn accurate_ecn_on_a_syn() {
    let order = CounterOrder::Ect1First;
    let all = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        accecn: counters(order, 3),
        ..Options::default()
    };
    let ecn = [174, 11, 7, 8, 9, 4, 5, 6, 1, 2, 3, 1];
    assert_eq!(
        emitted(Flags::SYN | Flags::ACK, all),
        [&[2, 4, 0x05, 0xb4], &ecn[..], &[1, 1, 4, 2], &[1, 3, 3, 7]].concat()
    );
    let with = Options { timestamps: STAMPS, ..all };
    for layout in [SynLayout::Linux, SynLayout::Bsd] {
        let full = Options { layout, ..with };
        let out = emitted(Flags::SYN | Flags::ACK, full);
        assert_eq!(read(Flags::SYN | Flags::ACK, &out), with);
        assert_eq!(read(Flags::SYN, &out).accecn, None, "ignored on a SYN");
        assert_eq!(emitted(Flags::SYN, full).len(), out.len() - 12, "nor sent");
        // A cookie leaves room for two counters, or for none at all.
        let cookie = |len| full.with_fast_open(FastOpen::cookie(&[9; 16][..len], false));
        for (len, fields) in [(8, Some(2)), (16, None)] {
            let expected = fields.and_then(|n| counters(order, n));
            let out = emitted(Flags::SYN | Flags::ACK, cookie(len));
            assert!(out.len() <= MAX_OPTIONS_LEN);
            assert_eq!(read(Flags::SYN | Flags::ACK, &out).accecn, expected, "{len}");
        }
    }
}

/// RFC 9768, 3.2.3-2.
#[test]
fn any_length_of_accurate_ecn_is_read() {
    for len in 0..=20u8 {
        let bytes: Vec<u8> = [172, len + 2].into_iter().chain(1..=len).collect();
        let option = read(Flags::ACK, &bytes).accecn.unwrap();
        assert_eq!(option.fields(), (len / 3).min(3), "{len}");
        assert_eq!(option.ect0(), (len >= 3).then_some(0x01_0203));
        assert_eq!(option.ce(), (len >= 6).then_some(0x04_0506));
        assert_eq!(option.ect1(), (len >= 9).then_some(0x07_0809));
    }
}

/// RFC 9768, 3.1.1-1.
#[test]
fn nine_control_bits() {
    let header = emitted(Flags::ACK, Options::default());
    assert_eq!(header, []);
    for ace in 0..8 {
        let flags = Flags::ACK.with_ace(ace);
        assert_eq!(flags.ace(), ace as u8);
        assert_eq!(parse(&raw(flags, &[])).unwrap().2.flags, flags);
    }
    assert_eq!(Flags::ACE.ace(), 7);
    let mut reserved = raw(Flags::ACE | Flags::SYN, &[]);
    reserved[12] |= 0x0e;
    assert_eq!(parse(&reserved).unwrap().2.flags, Flags::ACE | Flags::SYN, "three bits stay reserved");
}
