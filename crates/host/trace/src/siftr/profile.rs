//! Which of SIFTR's formats is written: its versions differ in columns and units, and their readers insist.

use super::columns::{self, Columns};
use super::digits::{address, decimal, hex, six};
use super::record::{ENDS, LEN, Record, announced};
use crate::queue::Format;
use base::{Addr, FlowKey};
use std::io::Write;
use tcp::{State, Vitals};

/// Timer ticks a second that the formats of old give times in, and the fixed point of their round-trip times.
const HZ: u64 = 1_000;
const RTT_SCALE: u64 = 32;
/// The threshold before the first congestion: the greatest window with the greatest scale.
const NO_THRESHOLD: u64 = 65_535 << 14;
/// The number that FreeBSD gives flows that are told apart by some number, without saying how it was made.
const OPAQUE: u64 = 63;

macro_rules! profiles {
    ($($variant:ident: $name:literal, $version:literal, $columns:literal, $doc:literal;)+) => {
        /// A format of SIFTR.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Profile {
            $(#[doc = $doc] $variant,)+
        }

        impl Profile {
            /// All of them.
            pub const ALL: &[Profile] = &[$(Profile::$variant),+];

            /// Returns its name in settings.
            pub const fn name(self) -> &'static str {
                match self { $(Profile::$variant => $name),+ }
            }

            /// Columns of a line.
            pub const fn columns(self) -> usize {
                match self { $(Profile::$variant => $columns),+ }
            }

            const fn version(self) -> &'static str {
                match self { $(Profile::$variant => $version),+ }
            }
        }
    };
}

profiles! {
    V1_2: "siftr-1.2", "1.2.2", 25, "SIFTR 1.2.2 and 1.2.3.";
    FreeBsd9: "freebsd-9.3", "1.2.3", 26, "With the length of the reassembly queue.";
    V1_2_4: "siftr-1.2.4", "1.2.4", 28, "With the flow's number and its kind, too.";
    V1_3: "siftr-1.3", "1.3.0", 27, "SIFTR 1.3: no hash, times in microseconds, and nothing below ESTABLISHED.";
    Teacup: "teacup", "1.2.3", 27, "TEACUP's: behind the reassembly queue the last sample of the round-trip time.";
}

impl Profile {
    /// The profile of a name.
    pub fn find(name: &str) -> Option<Profile> {
        Profile::ALL.iter().copied().find(|profile| profile.name() == name)
    }

    /// Are packets of connections that are not established yet left out?
    pub(super) const fn skips_handshakes(self) -> bool {
        matches!(self, Profile::V1_3)
    }

    /// Are packets that the port filter leaves out counted nevertheless?
    pub(super) const fn counts_filtered(self) -> bool {
        !matches!(self, Profile::V1_3)
    }

    /// Appends the line that says that logging begins, `micros` after 1970.
    pub(super) fn enable_line(self, out: &mut Vec<u8>, micros: u64) {
        out.extend_from_slice(b"enable_time_secs=");
        decimal(out, micros / 1_000_000);
        out.extend_from_slice(b"\tenable_time_usecs=");
        six(out, micros % 1_000_000);
        let old = if self == Profile::V1_3 {
            String::new()
        } else {
            format!("\thz={HZ}\ttcp_rtt_scale={RTT_SCALE}")
        };
        let line = format!(
            "\tsiftrver={}{old}\tsysname=Millstream\tsysver={}\tipmode=6\n",
            self.version(),
            env!("CARGO_PKG_VERSION")
        );
        out.extend_from_slice(line.as_bytes());
    }

    /// Appends the line of a record.
    fn line(self, out: &mut Vec<u8>, record: &Record, epoch_us: u64, flow: &Known, last: &mut Last) {
        out.push(if record.outbound { b'o' } else { b'i' });
        if self != Profile::V1_3 {
            hash_column(out, record.hash);
        }
        last.date(out, epoch_us + record.at.as_micros());
        out.extend_from_slice(&flow.tuple);
        let v = &record.vitals;
        let micros = self == Profile::V1_3;
        let scaled = |us: u32| if micros { us.into() } else { u64::from(us) * RTT_SCALE * HZ / 1_000_000 };
        let ticks = |us: u32| if micros { us.into() } else { u64::from(us) * HZ / 1_000_000 };
        let ssthresh = if v.ssthresh == u32::MAX { NO_THRESHOLD } else { v.ssthresh.into() };
        let always = [
            ssthresh,
            v.cwnd.into(),
            // What was the bandwidth-limited window, and is a word of flags in 1.3: nothing of ours.
            0,
            v.snd_wnd.into(),
            v.rcv_wnd.into(),
            v.scale.0.into(),
            v.scale.1.into(),
            state_number(v.state),
            v.snd_mss.into(),
            scaled(v.srtt_us),
            (v.features.sack() && agreed(v)).into(),
            flag_word(v),
            ticks(v.rto_us),
            v.sndbuf.0.into(),
            v.sndbuf.1.into(),
            v.rcvbuf.0.into(),
            v.rcvbuf.1.into(),
            v.flight.into(),
        ];
        let reassembly = v.reassembly.into();
        let mut values = [0; columns::MOST];
        let (head, tail) = values.split_at_mut(always.len());
        head.copy_from_slice(&always);
        let more: &[u64] = match self {
            Profile::V1_2 => &[],
            Profile::FreeBsd9 => &[reassembly],
            Profile::V1_2_4 | Profile::V1_3 => &[reassembly, flow.number, OPAQUE],
            Profile::Teacup => &[reassembly, scaled(record.rtt_us)],
        };
        tail[..more.len()].copy_from_slice(more);
        last.columns.write(out, &values[..always.len() + more.len()]);
        out.push(b'\n');
    }
}

/// FreeBSD's numbers of the states.
fn state_number(state: State) -> u64 {
    match state {
        State::Closed => 0,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::Established => 4,
        State::CloseWait => 5,
        State::FinWait1 => 6,
        State::Closing => 7,
        State::LastAck => 8,
        State::FinWait2 => 9,
    }
}

/// Returns true if features are agreed, not only offered: the connection is past SYN-SENT.
fn agreed(v: &Vitals) -> bool {
    v.state != State::SynSent
}

/// FreeBSD's flags of a connection, as far as they say something here.
fn flag_word(v: &Vitals) -> u64 {
    let (on, agreed) = (v.features, agreed(v));
    let flags = [
        (on.nodelay(), 0x04),
        (on.scaling(), 0x20),
        (on.scaling() && agreed, 0x40),
        (on.timestamps(), 0x80),
        (on.timestamps() && agreed, 0x100),
        (on.sack() && agreed, 0x200),
    ];
    flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
}

/// A number of 32 bits that is the same for all packets of a flow, and on every machine (FNV-1a).
fn flow_number(key: &FlowKey) -> u64 {
    let bytes = key.words().into_iter().flat_map(u64::to_be_bytes);
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)).into()
}

/// Makes lines of records.
pub(super) struct Lines {
    profile: Profile,
    /// Microseconds from 1970 to the beginning of the core's time.
    epoch_us: u64,
    /// The flows of each ring, by their numbers.
    known: Vec<Vec<Option<FlowKey>>>,
    flow: Option<Known>,
    last: Last,
}

/// Fields of the last line, most of which the next one repeats.
struct Last {
    columns: Columns,
    /// Whole seconds, and how they are written.
    secs: u64,
    date: Vec<u8>,
}

impl Last {
    /// Appends the column of a date, microseconds after 1970.
    fn date(&mut self, out: &mut Vec<u8>, micros: u64) {
        let secs = micros / 1_000_000;
        if self.secs != secs || self.date.is_empty() {
            self.secs = secs;
            self.date.clear();
            self.date.push(b',');
            decimal(&mut self.date, secs);
            self.date.push(b'.');
        }
        out.extend_from_slice(&self.date);
        six(out, micros % 1_000_000);
    }
}

/// Appends the column of a hash.
fn hash_column(out: &mut Vec<u8>, hash: u32) {
    if hash == 0 {
        return out.extend_from_slice(b",0x00000000");
    }
    out.extend_from_slice(b",0x");
    hex(out, hash, 8);
}

/// The flow that was written last.
struct Known {
    ring: usize,
    flow: u32,
    /// Its two ends, as they are written.
    tuple: Vec<u8>,
    /// Packet number, equal on other machines.
    number: u64,
}

impl Lines {
    pub(super) fn new(profile: Profile, epoch_us: u64) -> Lines {
        let last = Last { columns: Columns::new(), secs: 0, date: Vec::new() };
        Lines { profile, epoch_us, known: Vec::new(), flow: None, last }
    }

    /// From now on `flow` of `ring` is this one.
    fn learn(&mut self, ring: usize, flow: u32, key: FlowKey) {
        self.known.resize_with(self.known.len().max(ring + 1), Vec::new);
        let of_ring = &mut self.known[ring];
        of_ring.resize(of_ring.len().max(flow as usize + 1), None);
        of_ring[flow as usize] = Some(key);
        self.flow = None;
    }

    /// Turns to the flow of a record; `None` if nothing said whose number that is.
    fn turn_to(&mut self, ring: usize, flow: u32) -> Option<()> {
        if self.flow.as_ref().is_none_or(|last| (last.ring, last.flow) != (ring, flow)) {
            let key = self.known.get(ring)?.get(flow as usize).copied().flatten()?;
            let mut tuple = self.flow.take().map_or_else(Vec::new, |last| last.tuple);
            tuple.clear();
            for end in [key.local(), key.remote()] {
                tuple.push(b',');
                address(&mut tuple, end.addr);
                tuple.push(b',');
                decimal(&mut tuple, end.port.into());
            }
            self.flow = Some(Known { ring, flow, tuple, number: flow_number(&key) });
        }
        Some(())
    }
}

impl Format for Lines {
    /// A flow that nothing announced has no line, rather than another's.
    fn record(&mut self, ring: usize, bytes: &[u8], out: &mut Vec<u8>) {
        let Some((short, ends)) = bytes.split_first_chunk::<LEN>() else { return };
        let record = Record::get(short);
        if let Some(ends) = ends.first_chunk::<ENDS>() {
            self.learn(ring, record.flow, announced(ends));
        }
        if self.turn_to(ring, record.flow).is_some()
            && let Some(flow) = &self.flow
        {
            self.profile.line(out, &record, self.epoch_us, flow, &mut self.last);
        }
    }
}

/// Appends an item of a list of flows.
pub(super) fn flow_item(out: &mut Vec<u8>, key: &FlowKey) {
    let mut end = |addr: Addr, port: u16, behind: u8| {
        address(out, addr);
        out.push(b';');
        decimal(out, port.into());
        out.push(behind);
    };
    end(key.local().addr, key.local().port, b'-');
    end(key.remote().addr, key.remote().port, b',');
}

/// Packets that a log left out, by reason, for each direction (inbound, outbound).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Skipped {
    /// There was no room in the queue or in the table of flows, or the file took nothing.
    pub malloc: [u64; 2],
    /// A lock was busy; never here.
    pub mtx: [u64; 2],
    /// There was no connection, or not yet an established one where only those are told of.
    pub tcpcb: [u64; 2],
    /// Nothing knew what the packet belonged to.
    pub inpcb: [u64; 2],
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        [self.malloc, self.mtx, self.tcpcb, self.inpcb].iter().flatten().sum()
    }
}

/// Contents of the last line of a log.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// Packets seen, inbound and outbound.
    pub packets: [u64; 2],
    /// Those that were not logged.
    pub skipped: Skipped,
    /// Every flow of which something could be logged.
    pub flows: Vec<FlowKey>,
}

impl Profile {
    /// Appends the line that says that logging is over, `micros` after 1970.
    pub(super) fn disable_line(
        self,
        out: &mut Vec<u8>,
        micros: u64,
        summary: &Summary,
    ) -> std::io::Result<()> {
        let Summary { packets: [inbound, outbound], skipped, flows } = summary;
        write!(
            out,
            "disable_time_secs={}\tdisable_time_usecs={:06}",
            micros / 1_000_000,
            micros % 1_000_000
        )?;
        write!(out, "\tnum_inbound_tcp_pkts={inbound}\tnum_outbound_tcp_pkts={outbound}")?;
        write!(out, "\ttotal_tcp_pkts={}", inbound + outbound)?;
        let reasons = [
            ("malloc", skipped.malloc),
            ("mtx", skipped.mtx),
            ("tcpcb", skipped.tcpcb),
            ("inpcb", skipped.inpcb),
        ];
        for (why, [inbound, outbound]) in reasons {
            if why != "mtx" || self != Profile::V1_3 {
                write!(out, "\tnum_inbound_skipped_pkts_{why}={inbound}")?;
                write!(out, "\tnum_outbound_skipped_pkts_{why}={outbound}")?;
            }
        }
        write!(out, "\ttotal_skipped_tcp_pkts={}\tflow_list=", skipped.total())?;
        flows.iter().for_each(|key| flow_item(out, key));
        out.push(b'\n');
        Ok(())
    }
}
