//! A connection that signs.

use alloc::boxed::Box;
use wire::tcp::{Segment, Signature};

use super::{AoReport, Auth, KeyChange, KeyError, Keyring, Refused};
use crate::connection::{Bits, Connection};
use crate::{Cx, State};

crate::bits::writer!(SIGNED);

impl Connection {
    /// From now on every segment is signed, and only signed ones are believed. Before the first segment has left this
    /// decides on options, too: where a signature leaves no room for SACK beside timestamps, timestamps go.
    #[cold]
    pub fn authenticate(&mut self, auth: Auth) {
        let crowded = auth.crowds_out_sack() && self.bits.has(Bits::SACK);
        if crowded && matches!(self.state(), State::SynSent | State::SynReceived) {
            self.forgo_timestamps();
        }
        self.forgo_accurate_ecn();
        self.cold_mut().auth.0 = Some(Box::new(auth));
        self.bits.set(Bits::SIGNED, WRITER);
        self.fit_signature();
    }

    /// Are its segments signed?
    #[inline]
    pub fn is_signed(&self) -> bool {
        self.bits.has(Bits::SIGNED)
    }

    fn auth_mut(&mut self) -> Option<&mut Auth> {
        if self.is_signed() { self.cold_mut().auth.0.as_deref_mut() } else { None }
    }

    /// How its segments are signed, if they are.
    pub fn auth(&self) -> Option<&Auth> {
        self.cold()?.auth.0.as_deref()
    }

    /// Takes the keys out of a closed connection: its TIME-WAIT goes on signing.
    pub fn take_auth(&mut self) -> Option<Box<Auth>> {
        if self.is_signed() { self.cold_mut().auth.0.take() } else { None }
    }

    /// May the segment `seg`, whose bytes are `tcp`, be handed to [`Connection::on_segment`]? If not it is counted,
    /// and nothing else happens.
    #[cold]
    pub fn verify(&mut self, cx: &mut Cx<'_>, tcp: &[u8], seg: &Segment<'_>) -> Result<(), Refused> {
        let Some(auth) = self.auth_mut() else { return Ok(()) };
        match auth.verify(tcp, seg) {
            Ok(false) => Ok(()),
            Ok(true) => {
                // Another key's MAC may be of another length.
                self.fit_signature();
                Ok(())
            }
            Err(refused) => {
                refused.count(cx.counters);
                Err(refused)
            }
        }
    }

    /// Fills in the signature of a segment that `poll_transmit` gave: see [`Auth::sign`].
    #[cold]
    pub fn sign(&self, tcp: &mut [u8]) {
        if let Some(auth) = self.auth() {
            auth.sign(tcp);
        }
    }

    /// Returns the signature for which a segment with this sequence number reserves room.
    #[cold]
    pub(crate) fn signature_for(&mut self, seq: base::Seq) -> Option<Signature> {
        let auth = self.auth_mut()?;
        auth.on_transmit(seq);
        Some(auth.signature())
    }

    /// Bytes of options that the signature takes.
    pub(crate) fn signature_len(&self) -> u16 {
        match self.is_signed() {
            false => 0,
            true => self.auth().map_or(0, |auth| auth.signature().len() as u16),
        }
    }

    /// The peer's SYN was taken: its number is known.
    #[cold]
    pub(crate) fn complete_auth(&mut self) {
        let (local, remote) = (self.syn_seq(), self.rcv.nxt() - 1);
        if let Some(auth) = self.auth_mut() {
            auth.complete(local, remote);
        }
    }

    /// Is ICMP that would end this connection, or shrink its segments, not to be believed (RFC 5925, section 7.8)?
    pub fn ignores_icmp(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_signed() || !self.state().is_synchronized() {
            return false;
        }
        let ignored = self.auth_mut().is_some_and(Auth::ignores_icmp);
        cx.counters.ao_icmp_ignored += u64::from(ignored);
        ignored
    }

    /// Changes its keys.
    pub fn change_keys(&mut self, change: &KeyChange) -> Result<(), KeyError> {
        let (peer, signs_resets) = (self.key().remote().addr, self.auth().is_some_and(Auth::signs_resets));
        match (self.auth_mut(), change) {
            (Some(_), KeyChange::RemoveMd5(peers)) if signs_resets && peers.has(peer) => {
                self.cold_mut().auth.0 = None;
                self.bits.clear(Bits::SIGNED, WRITER);
            }
            (Some(auth), change) => auth.change(change)?,
            (None, KeyChange::SetMd5(key)) => {
                let mut ring = Keyring::default();
                ring.set_md5(key.clone())?;
                if let Some(auth) = Auth::new(&ring, self.key(), self.snd.una()) {
                    self.authenticate(auth);
                }
            }
            (None, KeyChange::RemoveMd5(_)) => return Err(KeyError::Unknown),
            (None, _) => return Err(KeyError::NotSigned),
        }
        self.fit_signature();
        Ok(())
    }

    /// Returns the values of TCP_AO_INFO and TCP_AO_GET_KEYS; `None` without TCP-AO.
    pub fn ao_report(&self) -> Option<AoReport> {
        self.auth()?.report()
    }
}
