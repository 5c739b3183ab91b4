//! The scripts: what both ends do, and what the path does to which segment.

use crate::path::Act::{self, Delay, Double, Lose};
use crate::path::End::{Far, Near};
use crate::path::Kind::{self, Ack, Data, Fin, Syn, SynAck};
use crate::path::Rule;
use crate::play::ALL;
use crate::play::Do::{self, *};
use crate::play::Set as Option;

/// One situation.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// Actions of the near end, whose segments are compared.
    pub(crate) near: &'static [Do],
    /// Actions of the far end, always a kernel.
    pub(crate) far: &'static [Do],
    pub(crate) rules: &'static [Rule],
    /// Settings of the near end.
    pub(crate) sysctls: &'static [(&'static str, &'static str)],
    pub(crate) far_mtu: std::option::Option<usize>,
}

/// A script with nothing unusual in it.
const fn script(
    name: &'static str,
    near: &'static [Do],
    far: &'static [Do],
    rules: &'static [Rule],
) -> Script {
    Script { name, near, far, rules, sysctls: &[], far_mtu: None }
}

/// Returns the script with sysctls.
const fn with(script: Script, sysctls: &'static [(&'static str, &'static str)]) -> Script {
    Script { sysctls, ..script }
}

const fn near(kind: Kind, number: u32, act: Act) -> Rule {
    Rule(Near, kind, number, act)
}

const fn far(kind: Kind, number: u32, act: Act) -> Rule {
    Rule(Far, kind, number, act)
}

/// So that nothing travels with the acknowledgment before it.
const PAUSE: Do = Sleep(15);
/// Five full segments with timestamps.
const FIVE: usize = 5 * 1448;
const SEND_FIVE: &[Do] = &[Connect, PAUSE, Write(FIVE), Await(500), Close];
const SINK: &[Do] = &[Listen, Read(ALL), Close];
const TALK_LATER: &[Do] = &[Connect, Sleep(150), Write(100), PAUSE, Close];
const KEEPALIVE: Option = Option::KeepAlive { idle: 1, interval: 1, count: 3 };
/// Later than the other four of a flight, by more than either end takes to see it.
const OVERTAKEN: Act = Delay(40);

pub(crate) const SCRIPTS: &[Script] = &[
    // Opening.
    script("handshake, client", &[Connect, Read(ALL), Close], &[Listen, Sleep(100), Close], &[]),
    script("handshake, server", &[Listen, Read(ALL), Close], &[Connect, Sleep(100), Close], &[]),
    script("refused", &[Connect], &[Absent, Sleep(200)], &[]),
    script("refuses", &[Absent, Sleep(200)], &[Connect], &[]),
    script(
        "crossing SYNs",
        &[Cross, Sleep(100), Write(100), Sleep(100), Close],
        &[Cross, Read(ALL), Close],
        &[],
    ),
    script("SYN lost", &[Connect, PAUSE, Close], SINK, &[near(Syn, 1, Lose)]),
    script(
        "SYN-ACK lost",
        SINK,
        &[Connect, Sleep(200), Close],
        &[far(Syn, 1, Delay(100)), near(SynAck, 1, Lose)],
    ),
    script("last ACK lost, then data", TALK_LATER, SINK, &[near(Ack, 1, Lose)]),
    script("last ACK lost, listening", SINK, TALK_LATER, &[far(Ack, 1, Lose)]),
    script("SYN doubled", SEND_FIVE, SINK, &[near(Syn, 1, Double)]),
    script("SYN-ACK doubled", SEND_FIVE, SINK, &[far(SynAck, 1, Double)]),
    script("data at once", &[Connect, Write(100), Sleep(100), Close], SINK, &[]),
    // A short transfer, and each of its segments lost.
    script("short transfer", SEND_FIVE, SINK, &[]),
    script("first of five lost", SEND_FIVE, SINK, &[near(Data, 1, Lose)]),
    script("second of five lost", SEND_FIVE, SINK, &[near(Data, 2, Lose)]),
    script("third of five lost", SEND_FIVE, SINK, &[near(Data, 3, Lose)]),
    script("fourth of five lost", SEND_FIVE, SINK, &[near(Data, 4, Lose)]),
    script("last of five lost", SEND_FIVE, SINK, &[near(Data, 5, Lose)]),
    script("last two of five lost", SEND_FIVE, SINK, &[near(Data, 4, Lose), near(Data, 5, Lose)]),
    script("second and fourth lost", SEND_FIVE, SINK, &[near(Data, 2, Lose), near(Data, 4, Lose)]),
    script(
        "all and the probe lost",
        &[Connect, PAUSE, Write(1000), Await(1200), Close],
        SINK,
        &[near(Data, 1, Lose), near(Data, 2, Lose)],
    ),
    script("one overtaken", SEND_FIVE, SINK, &[near(Data, 2, OVERTAKEN)]),
    script("one doubled", SEND_FIVE, SINK, &[near(Data, 3, Double)]),
    script(
        "acknowledgment lost",
        &[Connect, PAUSE, Write(1000), Await(500), Close],
        SINK,
        &[far(Ack, 1, Lose)],
    ),
    script(
        "large with one loss",
        &[Connect, PAUSE, Write(60_000), Await(500), Close],
        SINK,
        &[near(Data, 12, Lose)],
    ),
    // Receiving.
    script("receives five", &[Connect, Read(ALL), Close], &[Listen, Write(FIVE), Sleep(300), Close], &[]),
    script(
        "receives with a hole",
        &[Connect, Read(ALL), Close],
        &[Listen, Write(FIVE), Sleep(300), Close],
        &[far(Data, 2, Lose)],
    ),
    script(
        "receives one doubled",
        &[Connect, Read(ALL), Close],
        &[Listen, Write(FIVE), Sleep(300), Close],
        &[far(Data, 3, Double)],
    ),
    script(
        "delayed acknowledgment",
        &[Listen, Read(100), Write(100), Read(100), Sleep(200), Write(100), Read(ALL), Close],
        &[Connect, PAUSE, Write(100), Read(100), Sleep(200), Write(100), Read(100), Sleep(200), Close],
        &[],
    ),
    script(
        "own zero window",
        &[Set(Option::ReceiveBuffer(8_000)), Connect, Sleep(700), Read(ALL), Close],
        &[Listen, Write(40_000), Sleep(500), Close],
        &[],
    ),
    // What the application wants.
    script(
        "peer's zero window",
        &[Connect, PAUSE, Write(20_000), Sleep(1500), Close],
        &[Set(Option::ReceiveBuffer(4_000)), Listen, Sleep(800), Read(ALL), Close],
        &[],
    ),
    script(
        "Nagle",
        &[Connect, PAUSE, Write(10), PAUSE, Write(10), PAUSE, Write(10), Sleep(200), Close],
        SINK,
        &[],
    ),
    script(
        "three writes at once",
        &[Connect, PAUSE, Set(Option::NoDelay), Write(10), Write(10), Write(10), Sleep(200), Close],
        SINK,
        &[],
    ),
    script("write and close", &[Connect, PAUSE, Write(1000), Close], SINK, &[]),
    script(
        "no delay",
        &[
            Connect,
            PAUSE,
            Set(Option::NoDelay),
            Write(10),
            PAUSE,
            Write(10),
            PAUSE,
            Write(10),
            Sleep(200),
            Close,
        ],
        SINK,
        &[],
    ),
    script(
        "cork",
        &[
            Connect,
            PAUSE,
            Set(Option::Cork(true)),
            Write(10),
            Write(3000),
            Sleep(80),
            Set(Option::Cork(false)),
            Sleep(200),
            Close,
        ],
        SINK,
        &[],
    ),
    script(
        "cork times out",
        &[Connect, PAUSE, Set(Option::Cork(true)), Write(10), Await(1100), Close],
        SINK,
        &[far(SynAck, 1, Delay(150))],
    ),
    script("keepalive", &[Connect, Set(KEEPALIVE), Sleep(2500), Close], SINK, &[]),
    // Ending.
    script("FIN lost", &[Connect, PAUSE, Write(1000), Sleep(150), Close], SINK, &[near(Fin, 1, Lose)]),
    script(
        "data and FIN lost",
        &[Connect, PAUSE, Write(1000), PAUSE, Close],
        SINK,
        &[near(Data, 1, Lose), near(Fin, 1, Lose)],
    ),
    script("peer's FIN lost", &[Connect, Read(ALL), Close], &[Listen, Close], &[far(Fin, 1, Lose)]),
    script(
        "half close",
        &[Connect, PAUSE, ShutWrite, Read(ALL), Close],
        &[Listen, Read(ALL), Write(3000), Close],
        &[],
    ),
    script("crossing FINs", &[Connect, Sleep(125), Close], &[Listen, Sleep(100), Close], &[]),
    script(
        "linger 0",
        &[Connect, PAUSE, Write(100), Sleep(150), Set(Option::LingerZero), Close],
        &[Listen, Read(ALL)],
        &[],
    ),
    script(
        "close with data unread",
        &[Connect, Sleep(200), Close],
        &[Listen, Write(1000), Sleep(300), Close],
        &[],
    ),
    script(
        "reset while established",
        &[Connect, Sleep(300), Write(100), Write(100), Close],
        &[Listen, Sleep(100), Set(Option::LingerZero), Close],
        &[],
    ),
    script(
        "reset while reading",
        &[Connect, Read(ALL), Close],
        &[Listen, Sleep(100), Set(Option::LingerZero), Close],
        &[],
    ),
    script(
        "data to who has closed",
        &[Connect, Read(ALL), Write(10), Sleep(150), Write(10), Close],
        &[Listen, Close],
        &[],
    ),
    // Without this or that.
    with(
        script("without timestamps", SEND_FIVE, SINK, &[near(Data, 2, Lose)]),
        &[("net.ipv4.tcp_timestamps", "0")],
    ),
    // What the echo of a time stamp decides, shown by its absence.
    with(
        script("last two lost, no timestamps", SEND_FIVE, SINK, &[near(Data, 4, Lose), near(Data, 5, Lose)]),
        &[("net.ipv4.tcp_timestamps", "0")],
    ),
    with(script("without SACK", SEND_FIVE, SINK, &[near(Data, 2, Lose)]), &[("net.ipv4.tcp_sack", "0")]),
    with(
        script("without window scale", SEND_FIVE, SINK, &[near(Data, 2, Lose)]),
        &[("net.ipv4.tcp_window_scaling", "0")],
    ),
    Script {
        far_mtu: Some(576),
        ..script("small MSS", &[Connect, PAUSE, Write(4000), Sleep(300), Close], SINK, &[])
    },
];
