//! Signed segments: TCP MD5 (RFC 2385) and TCP-AO (RFC 5925), as routers protect BGP with.
//!
//! ```text
//! a socket's Keyring ──> Auth of one connection ──> the option of each segment
//!   for whom, with what    traffic keys, extension     reserved by the connection, filled in when
//!                          of numbers, key in use      the bytes are complete, checked when they come
//! ```
//! A connection without keys has one bit to say so and nothing else. Signed ones send no super-segments: each segment
//! of the wire needs a signature of its own (`allowance` in `output/data.rs` sees to it).

mod algorithm;
mod ao;
mod bytes;
mod connection;
mod keyring;

use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{FlowKey, Seq};
use wire::tcp::{Segment, Signature};

pub use algorithm::{Algorithm, TAG_MAX};
pub use ao::{AoCounts, AoKeyReport};
pub use keyring::{KEY_MAX, KeyError, Keyring, MAC_LEN, MAC_LEN_MAX, MasterKey, Md5Key, Peers, Secret};

use ao::Ao;
use bytes::Covered;

/// Why a segment is not believed: dropped in silence, and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Without the MD5 signature that its connection demands.
    Md5Missing,
    /// With an MD5 signature without a key for it.
    Md5Unexpected,
    /// With a wrong MD5 signature.
    Md5Bad,
    /// Without the TCP-AO that its connection demands.
    AoMissing,
    /// With TCP-AO without a key for it.
    AoUnexpected,
    /// With a KeyID that is unknown.
    AoKey,
    /// With a wrong MAC.
    AoBad,
    /// With several signatures.
    Several,
    /// Signed, for a port where nothing listens: an answer could not be signed, so it would not be believed.
    Unwanted,
}

impl Refused {
    /// Counts it.
    pub fn count(self, counters: &mut crate::Counters) {
        let counter = match self {
            Refused::Md5Missing => &mut counters.md5_missing,
            Refused::Md5Unexpected => &mut counters.md5_unexpected,
            Refused::Md5Bad => &mut counters.md5_bad,
            Refused::AoMissing => &mut counters.ao_missing,
            Refused::AoUnexpected => &mut counters.ao_unexpected,
            Refused::AoKey => &mut counters.ao_unknown_key,
            Refused::AoBad => &mut counters.ao_bad,
            Refused::Several => &mut counters.several_signatures,
            Refused::Unwanted => &mut counters.unwanted_signatures,
        };
        *counter += 1;
    }

    /// Why a segment with such a signature is not for a listener without keys. RFC 5925 would take TCP-AO there by
    /// default (section 7.3); `takes_ao` says whether that is requested.
    /// RFC 5925, 7.3-2 and 7.3-3.
    pub fn by_stranger(signature: Signature, takes_ao: bool) -> Option<Refused> {
        match signature {
            Signature::Md5 => Some(Refused::Md5Unexpected),
            Signature::Ao { .. } => (!takes_ao).then_some(Refused::AoUnexpected),
            Signature::Several => Some(Refused::Several),
        }
    }
}

/// How the segments of one connection are signed.
#[derive(Clone, Debug)]
pub struct Auth {
    flow: FlowKey,
    kind: Kind,
}

/// How a connection's segments are signed, where they are.
#[derive(Default, Debug)]
pub(crate) struct Signing(Option<Box<Auth>>);

#[derive(Clone, Debug)]
enum Kind {
    Md5(Md5Key),
    Ao(Box<Ao>),
}

impl Auth {
    /// For a connection that begins with this number of ours; `None` if `ring` has no key for the peer.
    pub fn new(ring: &Keyring, flow: &FlowKey, isn: Seq) -> Option<Auth> {
        let kind = match Ao::new(ring, flow, isn) {
            Some(ao) => Kind::Ao(Box::new(ao)),
            None => Kind::Md5(ring.md5_for(flow.remote().addr)?.clone()),
        };
        Some(Auth { flow: *flow, kind })
    }

    /// Both initial sequence numbers are known.
    pub fn complete(&mut self, local: Seq, remote: Seq) {
        if let Kind::Ao(ao) = &mut self.kind {
            ao.complete(local, remote);
        }
    }

    /// Can a segment be signed that belongs to no connection? TCP-AO needs both ISNs for that.
    pub fn signs_resets(&self) -> bool {
        matches!(self.kind, Kind::Md5(_))
    }

    /// Returns the signature for which a segment's header reserves room.
    pub fn signature(&self) -> Signature {
        match &self.kind {
            Kind::Md5(_) => Signature::Md5,
            Kind::Ao(ao) => ao.signature(),
        }
    }

    /// A segment with this number leaves.
    pub fn on_transmit(&mut self, seq: Seq) {
        if let Kind::Ao(ao) = &mut self.kind {
            ao.on_transmit(seq);
        }
    }

    /// Fills in the signature of a segment of ours: `tcp` is its header, with the option that [`Auth::signature`] asked
    /// for, and its data. The checksum comes after.
    pub fn sign(&self, tcp: &mut [u8]) {
        let Some(signed) = Signature::find(tcp) else {
            return debug_assert!(false, "no room for a signature");
        };
        let (src, dst) = (self.flow.local().addr, self.flow.remote().addr);
        let Some(covered) = Covered::new(src, dst, tcp, &signed) else { return };
        let tag = match &self.kind {
            Kind::Md5(key) => key.algorithm.tag(key.secret.bytes(), &covered.md5()),
            Kind::Ao(ao) => ao.mac(&covered),
        };
        let mac = &mut tcp[signed.mac];
        mac.copy_from_slice(&tag[..mac.len()]);
    }

    /// Is the peer's segment `seg`, whose bytes are `tcp`, signed as it must be? True if we sign with another key from
    /// now on, because the peer asked for it.
    /// RFC 2385, 2.0-2 and 4.1-1; RFC 5925, 2.2-1, 2.2-2, 7.5-1 and 7.5-2.
    pub fn verify(&mut self, tcp: &[u8], seg: &Segment<'_>) -> Result<bool, Refused> {
        let (src, dst) = (self.flow.remote().addr, self.flow.local().addr);
        let signed = Signature::find(tcp);
        let covered = signed.as_ref().and_then(|signed| Covered::new(src, dst, tcp, signed));
        let given = |signed: Option<wire::tcp::Signed>| signed.map_or(&[][..], |signed| &tcp[signed.mac]);
        match (&mut self.kind, seg.options.signature, &covered) {
            (_, Some(Signature::Several), _) => Err(Refused::Several),
            (Kind::Md5(key), Some(Signature::Md5), Some(covered)) => {
                let right = key.algorithm.tag(key.secret.bytes(), &covered.md5());
                match algorithm::same(&right[..16], given(signed.clone())) {
                    true => Ok(false),
                    false => Err(Refused::Md5Bad),
                }
            }
            (Kind::Ao(ao), Some(Signature::Ao { key_id, next, .. }), Some(covered)) => {
                ao.verify(covered, given(signed.clone()), (key_id, next))
            }
            (Kind::Md5(_), ..) => Err(Refused::Md5Missing),
            (Kind::Ao(ao), ..) => {
                ao.counts.required += 1;
                Err(Refused::AoMissing)
            }
        }
    }

    /// Is ICMP not to be believed that says `hard` things about a synchronized connection? Then it is counted.
    /// RFC 5925, 7.8-1 and 7.8-2.
    pub fn ignores_icmp(&mut self) -> bool {
        match &mut self.kind {
            Kind::Ao(ao) if !ao.accept_icmps => {
                ao.counts.dropped_icmp += 1;
                true
            }
            _ => false,
        }
    }

    /// The room that signatures leave among the 40 bytes of options, beside timestamps: none for a SACK block?
    pub(crate) fn crowds_out_sack(&self) -> bool {
        const STAMPS_AND_BLOCK: usize = 12 + 12;
        self.signature().len() + STAMPS_AND_BLOCK > wire::tcp::MAX_OPTIONS_LEN
    }

    /// Changes the keys of a live connection.
    pub fn change(&mut self, change: &KeyChange) -> Result<(), KeyError> {
        let own = self.flow.remote().addr;
        match (&mut self.kind, change) {
            (Kind::Md5(known), KeyChange::SetMd5(key)) => {
                if key.peers.has(own) {
                    *known = key.clone();
                }
                Ok(())
            }
            (Kind::Ao(ao), KeyChange::AddAo(key, choice)) => {
                ao.add(key.clone())?;
                ao.choose(choice.current, choice.next)
            }
            (Kind::Ao(ao), KeyChange::RemoveAo(_, ids, choice)) => {
                ao.choose(choice.current, choice.next)?;
                ao.remove(*ids)
            }
            (Kind::Ao(ao), KeyChange::Ao(info)) => {
                ao.choose(info.choice.current, info.choice.next)?;
                ao.accept_icmps = info.accept_icmps;
                ao.counts = info.counts.unwrap_or(ao.counts);
                Ok(())
            }
            (Kind::Ao(_), KeyChange::SetMd5(_)) => Err(KeyError::Rejected),
            _ => Err(KeyError::NotSigned),
        }
    }

    /// Returns the values of TCP_AO_INFO and TCP_AO_GET_KEYS; `None` without TCP-AO.
    pub fn report(&self) -> Option<AoReport> {
        match &self.kind {
            Kind::Ao(ao) => Some(AoReport {
                keys: ao.report().collect(),
                counts: ao.counts,
                accept_icmps: ao.accept_icmps,
                ao_required: true,
            }),
            Kind::Md5(_) => None,
        }
    }
}

/// Keys to sign with, and to ask for, by their KeyIDs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Choice {
    /// SendID of the key that signs.
    pub current: Option<u8>,
    /// RecvID of the key that the peer shall sign with.
    pub next: Option<u8>,
}

/// Values that TCP_AO_INFO sets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AoSettings {
    /// Keys to use.
    pub choice: Choice,
    /// No client connects without TCP-AO.
    pub ao_required: bool,
    /// Believe ICMP.
    pub accept_icmps: bool,
    /// Counts to begin with.
    pub counts: Option<AoCounts>,
}

/// A change of keys, of a socket or of a live connection.
#[derive(Clone, Debug)]
pub enum KeyChange {
    /// A key of TCP MD5.
    SetMd5(Md5Key),
    /// No key of TCP MD5 for exactly these peers any more.
    RemoveMd5(Peers),
    /// A master key tuple.
    AddAo(MasterKey, Choice),
    /// No such tuple any more.
    RemoveAo(Peers, (u8, u8), Choice),
    /// TCP_AO_INFO.
    Ao(AoSettings),
}

impl Keyring {
    /// Changes the keys of a socket that has no connection.
    pub fn change(&mut self, change: &KeyChange) -> Result<(), KeyError> {
        let choose = |ring: &mut Keyring, choice: &Choice| {
            ring.current = choice.current.or(ring.current);
            ring.next = choice.next.or(ring.next);
        };
        match change {
            KeyChange::SetMd5(key) => self.set_md5(key.clone()),
            KeyChange::RemoveMd5(peers) => self.remove_md5(*peers),
            KeyChange::AddAo(key, choice) => {
                self.add_ao(key.clone())?;
                choose(self, choice);
                Ok(())
            }
            KeyChange::RemoveAo(peers, ids, choice) => {
                self.remove_ao(*peers, *ids)?;
                choose(self, choice);
                Ok(())
            }
            KeyChange::Ao(settings) => {
                choose(self, &settings.choice);
                (self.ao_required, self.accept_icmps) = (settings.ao_required, settings.accept_icmps);
                Ok(())
            }
        }
    }

    /// Returns the values of TCP_AO_INFO and TCP_AO_GET_KEYS.
    pub fn report(&self) -> AoReport {
        let keys = self.ao_keys().iter().map(|key| AoKeyReport {
            key: key.clone(),
            current: Some(key.send_id) == self.current,
            next: Some(key.recv_id) == self.next,
            counts: (0, 0),
        });
        AoReport {
            keys: keys.collect(),
            counts: AoCounts::default(),
            accept_icmps: self.accept_icmps,
            ao_required: self.ao_required,
        }
    }
}

/// Values of TCP_AO_INFO and TCP_AO_GET_KEYS.
#[derive(Clone, Debug)]
pub struct AoReport {
    /// The keys.
    pub keys: Vec<AoKeyReport>,
    /// Counters of received segments.
    pub counts: AoCounts,
    /// ICMP is believed.
    pub accept_icmps: bool,
    /// No client connects without TCP-AO.
    pub ao_required: bool,
}
