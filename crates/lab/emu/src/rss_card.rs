//! A network card with several receive queues, in virtual time: the Toeplitz hash of a packet's addresses and ports
//! chooses the queue, as on real cards (RSS).

use crate::{Host, PortId, SimPort};
use base::{Endpoint, FlowKey, Instant};
use pio::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};
use wire::packet::{Content, parse_frame};
use wire::protocol;
use wire::rss::Toeplitz;

/// The card, between the wire's port and one port for each queue.
pub struct RssCard {
    wire: SimPort,
    queues: Vec<SimPort>,
    hash: Toeplitz,
    table: Vec<u16>,
    received: Vec<u64>,
    rx: RxBatch,
    tx: TxBatch,
}

impl RssCard {
    /// A card whose `wire` port is to be joined to the network and whose `queues` to the ports of a host's cores. The
    /// low bits of the hash with `key` choose an entry of `table`, which holds queues. Other packets than TCP go to the
    /// first queue.
    ///
    /// # Panics
    /// If the key is shorter than [`wire::rss::KEY_MIN`], or the table has no power of two of entries.
    pub fn new(wire: SimPort, queues: Vec<SimPort>, key: &[u8], table: Vec<u16>) -> RssCard {
        assert!(table.len().is_power_of_two(), "{} entries", table.len());
        let hash = Toeplitz::new(key).expect("a key that is long enough");
        let received = vec![0; queues.len()];
        RssCard { wire, queues, hash, table, received, rx: RxBatch::new(), tx: TxBatch::new() }
    }

    /// The ports towards the wire and the host.
    pub fn ports(&self) -> Vec<PortId> {
        std::iter::once(&self.wire).chain(&self.queues).map(SimPort::id).collect()
    }

    /// Packets that each queue got.
    pub fn received(&self) -> &[u64] {
        &self.received
    }

    fn queue(&self, frame: &[u8]) -> usize {
        let flow = match parse_frame(frame, frame.len()).map(|frame| frame.content) {
            Ok(Content::Ip(packet)) if packet.protocol == protocol::TCP => {
                packet.tcp(frame).ok().map(|(from, to, _)| {
                    FlowKey::new(Endpoint::new(packet.dst, to), Endpoint::new(packet.src, from))
                })
            }
            _ => None,
        };
        flow.map_or(0, |flow| self.table[self.hash.received(&flow) as usize & (self.table.len() - 1)].into())
    }
}

impl Host for RssCard {
    /// # Panics
    /// If a port fails, which a simulated one never does.
    fn step(&mut self, _now: Instant) -> Option<Instant> {
        while self.wire.rx(&mut self.rx).expect("a simulated port does not fail") > 0 {
            for packet in std::mem::take(&mut self.rx) {
                let queue = self.queue(packet.frame.data());
                self.received[queue] += 1;
                put(&mut self.queues[queue], &mut self.tx, packet.frame.data());
                self.wire.retire(packet.frame);
            }
        }
        for queue in &mut self.queues {
            while queue.rx(&mut self.rx).expect("a simulated port does not fail") > 0 {
                for packet in self.rx.drain(..) {
                    put(&mut self.wire, &mut self.tx, packet.frame.data());
                    queue.retire(packet.frame);
                }
            }
        }
        None
    }
}

/// Sends one packet; what finds no room is lost.
fn put(port: &mut SimPort, batch: &mut TxBatch, bytes: &[u8]) {
    let Some(mut frame) = port.take() else { return };
    frame.set_range(0, bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    batch.push_back(TxPacket { frame, meta: TxMeta::default() });
    port.tx(batch).expect("a simulated port does not fail");
    batch.drain(..).for_each(|packet| port.retire(packet.frame));
}
