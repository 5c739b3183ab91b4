//! Signatures of the script's peer: it has the keys that the script gives the stack, seen from its own end.

use super::calls::{Request, Stop};
use super::flow::{Ends, Flow};
use super::observe::Sent;
use crate::lang::{Body, Digest, Packet, TcpOption};
use base::{Addr, FlowKey, Seq};
use tcp::auth::{Auth, KeyChange, Keyring, MasterKey, Md5Key, Peers};
use wire::packet::parse_ip;
use wire::tcp::{Flags, parse};

/// The peer's keys.
#[derive(Default)]
pub(super) struct PeerKeys(Keyring);

/// Whichever it is.
fn anybody(addr: Addr) -> Peers {
    let addr = if addr.is_v4() { Addr::UNSPECIFIED_V4 } else { Addr::UNSPECIFIED_V6 };
    Peers { addr, prefix: 0 }
}

impl PeerKeys {
    /// The stack was given, or lost, a key: so is the peer.
    pub(super) fn learn(&mut self, request: &Request) -> Result<(), Stop> {
        let Request::SetOption { level: libc::IPPROTO_TCP, name, value, .. } = request else { return Ok(()) };
        let Ok(change) = sock::keys::read(*name, value) else { return Ok(()) };
        let change = match change {
            KeyChange::SetMd5(key) => KeyChange::SetMd5(Md5Key { peers: anybody(key.peers.addr), ..key }),
            KeyChange::AddAo(key, _) => {
                let (peers, send_id, recv_id) = (anybody(key.peers.addr), key.recv_id, key.send_id);
                KeyChange::AddAo(MasterKey { peers, send_id, recv_id, ..key }, Default::default())
            }
            // The peer may go on with a key that the stack does not have any more.
            KeyChange::RemoveMd5(_) | KeyChange::RemoveAo(..) | KeyChange::Ao(_) => return Ok(()),
        };
        self.0.change(&change).or_else(|why| Stop::unsupported(format!("a peer with such keys: {why:?}")))
    }

    /// The peer's view of a connection, with a segment from `source`.
    fn auth(&self, key: &FlowKey, flow: &Flow, seq: Seq, flags: Flags, key_id: Option<u8>) -> Option<Auth> {
        let mut ring = self.0.clone();
        ring.current = key_id;
        let first = flags.has(Flags::SYN) && !flags.has(Flags::ACK);
        let own = if flags.has(Flags::SYN) { seq } else { Seq::new(flow.remote_isn) };
        let mut auth = Auth::new(&ring, key, own)?;
        if !first {
            auth.complete(own, Seq::new(flow.local_isn.0));
        }
        Some(auth)
    }

    /// Signs a segment of the peer, if the script wants it to be valid.
    pub(super) fn sign(
        &self,
        options: &[TcpOption],
        flow: &Flow,
        ends: Ends,
        tcp: &mut [u8],
    ) -> Result<(), String> {
        let key_id = options.iter().find_map(|option| match option {
            TcpOption::Md5(Digest::Valid) => Some(None),
            TcpOption::Ao { key_id, mac: Digest::Valid, .. } => Some(Some(*key_id)),
            _ => None,
        });
        let Some(key_id) = key_id else { return Ok(()) };
        let Ok((.., segment)) = parse(tcp) else { return Err("a header that cannot be signed".into()) };
        let (seq, flags) = (segment.seq, segment.flags);
        let key = FlowKey::new(ends.source, ends.destination);
        let auth = self.auth(&key, flow, seq, flags, key_id);
        auth.ok_or("no key that the peer could sign with")?.sign(tcp);
        Ok(())
    }

    /// A signature of the stack's that is right is called valid.
    pub(super) fn judge(&self, packet: &mut Packet, sent: &Sent, flow: &Flow) {
        let Body::Tcp(shown) = &mut packet.body else { return };
        let signed = |option: &TcpOption| matches!(option, TcpOption::Md5(_) | TcpOption::Ao { .. });
        let Some(option) = shown.options.iter_mut().flatten().find(|option| signed(option)) else { return };
        let Ok(ip) = parse_ip(&sent.bytes, sent.bytes.len()) else { return };
        let Ok((.., segment)) = parse(ip.upper(&sent.bytes)) else { return };
        let key = FlowKey::new(sent.destination, sent.source);
        // As the peer reads it: the ISN of the stack is in its SYN, or known.
        let Some(mut auth) = self.auth(&key, flow, Seq::new(flow.remote_isn), Flags::ACK, None) else {
            return;
        };
        if auth.verify(ip.upper(&sent.bytes), &segment).is_ok() {
            match option {
                TcpOption::Md5(digest) => *digest = Digest::Valid,
                TcpOption::Ao { mac, .. } => *mac = Digest::Valid,
                _ => {}
            }
        }
    }
}
