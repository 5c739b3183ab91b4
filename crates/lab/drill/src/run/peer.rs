//! The far end of one connection, for tools that make segments themselves: packets in a script's words to bytes, and
//! bytes of the near end to packets in a script's words.

use super::build::{message, segment};
use super::flow::{Ends, Flow, Stage};
use super::observe::read;
use super::sign::PeerKeys;
use crate::lang::{Body, Flags, Packet, TcpOption};
use base::{Endpoint, Instant};

/// Name of the near end's first timestamp in scripts.
pub const FIRST_STAMP: u32 = 1_000;

/// One peer. Sequence numbers count from the initial ones, timestamps of the near end from [`FIRST_STAMP`].
pub struct Peer {
    local: Endpoint,
    remote: Endpoint,
    flow: Flow,
    latest: u32,
    keys: PeerKeys,
}

impl Peer {
    /// A peer at `remote` of the near end at `local`, whose port is 0 if it is not known yet; `isn` is the peer's.
    pub fn new(local: Endpoint, remote: Endpoint, isn: u32) -> Peer {
        let mut flow = Flow::new(Stage::Going, None);
        flow.remote_isn = isn;
        Peer { local, remote, flow, latest: 0, keys: PeerKeys::default() }
    }

    /// Tells the near end's address and port.
    pub fn set_local(&mut self, local: Endpoint) {
        self.local = local;
    }

    /// Returns the latest timestamp of the near end, as the script would call it; 0 if there was none.
    pub fn latest_stamp(&self) -> u32 {
        self.latest
    }

    /// Returns the bytes of an IP packet to the near end. An echo that the near end has not shown is computed.
    ///
    /// # Errors
    /// Says what cannot be built: a packet that is neither a segment nor ICMP, or a segment without a number.
    pub fn build(&mut self, packet: &Packet) -> Result<Vec<u8>, String> {
        let tcp = match &packet.body {
            Body::Tcp(tcp) => tcp,
            Body::Icmp(icmp) => {
                let from = self.remote.addr;
                return message(&packet.ip, icmp, &self.flow, from, self.local, self.remote);
            }
            Body::Udp(..) => return Err("the peer sends segments and ICMP".into()),
        };
        if let Some((script, live)) = self.flow.first_stamp {
            for option in tcp.options.iter().flatten() {
                if let TcpOption::Timestamps { ecr, absolute: false, .. } = option {
                    let computed = live.wrapping_add(ecr.wrapping_sub(script));
                    self.flow.stamps.entry(*ecr).or_insert(computed);
                }
            }
        }
        let ends = Ends { source: self.remote, destination: self.local };
        segment(&packet.ip, tcp, &self.flow, ends, &self.keys)
    }

    /// Returns a packet of the near end in a script's words; `None` if it is no segment to this peer. A segment with
    /// SYN tells the near end's initial number.
    ///
    /// # Errors
    /// Says what is wrong with the packet: a bad header, a wrong checksum, a byte that the application did not write.
    pub fn read(&mut self, bytes: Vec<u8>) -> Result<Option<Packet>, String> {
        let sent = read(Instant::ZERO, bytes)?;
        let Some(tcp) = sent.tcp().filter(|_| sent.destination == self.remote) else { return Ok(None) };
        let known = self.local.port == 0 || self.local.port == sent.source.port;
        if !known {
            return Ok(None);
        }
        self.local = sent.source;
        if tcp.flags.has(Flags::SYN) {
            self.flow.local_isn = (tcp.seq.map_or(0, |range| range.start), 0);
        }
        let stamp = tcp.options.iter().flatten().find_map(|option| match option {
            TcpOption::Timestamps { val, .. } => *val,
            _ => None,
        });
        if let Some(live) = stamp {
            let script = self.flow.script_stamp(live).unwrap_or(FIRST_STAMP);
            self.flow.show_stamp(script, live);
            self.latest = script;
        }
        if let Some(seq) = sent.wrong_byte(&self.flow).filter(|_| !sent.payload.is_empty()) {
            return Err(format!("byte {seq} is not what the application wrote there"));
        }
        let mut packet = sent.in_script(&self.flow);
        if let (Body::Tcp(tcp), Some(live)) = (&mut packet.body, sent.tcp()) {
            tcp.ports = None;
            // The answer to a segment without ACK has no number of the near end's.
            let zero = live.seq.filter(|range| range.start == 0);
            if let Some(range) = zero.filter(|_| live.flags.has(Flags::RST) && live.flags.has(Flags::ACK)) {
                (tcp.seq, tcp.absolute) = (Some(range), true);
            }
        }
        Ok(Some(packet))
    }
}

/// Returns the byte that stands at this place of either stream; the first is at 1.
pub fn byte(seq: u32) -> u8 {
    super::flow::byte(seq)
}

#[cfg(test)]
mod tests;
