//! The keys of a socket: with which peers it signs, and how.

use alloc::boxed::Box;
use alloc::vec::Vec;
use base::Addr;

use super::Algorithm;

/// Most bytes of a key (TCP_MD5SIG_MAXKEYLEN, TCP_AO_MAXKEYLEN).
pub const KEY_MAX: usize = 80;
/// Bytes of a MAC where nothing else is said (RFC 5926, section 3.2).
pub const MAC_LEN: u8 = 12;
/// A SYN's other options take twenty bytes: so many are left for the MAC.
pub const MAC_LEN_MAX: u8 = 16;
/// Most keys of one socket, of each kind.
const KEYS_MAX: usize = 1024;

/// A key was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// A length out of bounds.
    Invalid,
    /// MAC longer than what a SYN has room for.
    MacTooLong,
    /// No such key.
    Unknown,
    /// A key with one of these ids for such a peer is there already.
    Exists,
    /// The peer has a key of the other kind, or none where one is required.
    Rejected,
    /// In use: the connection signs with it, or asked its peer to.
    Busy,
    /// Too many keys.
    Full,
    /// The connection does not sign that way.
    NotSigned,
}

/// Secret bytes, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// At most [`KEY_MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        (bytes.len() <= KEY_MAX).then(|| Secret(bytes.into()))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

/// The peers that a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peers {
    /// An address of them.
    pub addr: Addr,
    /// Bits of it that count, within its own family.
    pub prefix: u8,
}

impl Peers {
    /// Is `addr` one of them?
    pub fn has(self, addr: Addr) -> bool {
        // The unspecified address with no bits stands for every peer of its family.
        addr.in_prefix(self.addr, self.prefix)
    }

    /// Is a connection both here and there?
    pub fn meets(self, other: Peers) -> bool {
        let shorter = self.prefix.min(other.prefix);
        self.addr.in_prefix(other.addr, shorter)
    }
}

/// A key of TCP MD5 (RFC 2385).
#[derive(Clone, Debug)]
pub struct Md5Key {
    /// For whom.
    pub peers: Peers,
    /// The password.
    pub secret: Secret,
    /// MD5 with the key behind the bytes.
    pub algorithm: &'static dyn Algorithm,
}

/// A master key tuple of TCP-AO (RFC 5925, section 3.1), for all ports of the peers.
#[derive(Clone, Debug)]
pub struct MasterKey {
    /// For whom.
    pub peers: Peers,
    /// KeyID of what we send.
    pub send_id: u8,
    /// KeyID of what we receive.
    pub recv_id: u8,
    /// Does the MAC cover the other options?
    pub covers_options: bool,
    /// Bytes of the MAC, at most [`MAC_LEN_MAX`].
    pub mac_len: u8,
    /// The master key.
    pub secret: Secret,
    /// KDF and MAC.
    pub algorithm: &'static dyn Algorithm,
}

impl MasterKey {
    /// A tuple with the usual MAC over everything.
    pub fn new(
        peers: Peers,
        (send_id, recv_id): (u8, u8),
        secret: Secret,
        algorithm: &'static dyn Algorithm,
    ) -> Self {
        MasterKey { peers, send_id, recv_id, covers_options: true, mac_len: MAC_LEN, secret, algorithm }
    }

    /// RFC 5925, 3.1-1.
    pub(super) fn check(&self) -> Result<(), KeyError> {
        if self.secret.bytes().is_empty()
            || self.mac_len < 4
            || usize::from(self.mac_len) > self.algorithm.tag_len()
        {
            return Err(KeyError::Invalid);
        }
        if self.mac_len > MAC_LEN_MAX { Err(KeyError::MacTooLong) } else { Ok(()) }
    }

    /// Could a segment leave open which of the two is meant?
    pub(super) fn is_like(&self, other: &MasterKey) -> bool {
        self.peers.meets(other.peers) && (self.send_id == other.send_id || self.recv_id == other.recv_id)
    }
}

/// All keys of a socket: a listener hands them to its children, a connect uses those that fit.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    md5: Vec<Md5Key>,
    ao: Vec<MasterKey>,
    /// No client connects without TCP-AO.
    pub ao_required: bool,
    /// Believe ICMP about connections with TCP-AO (RFC 5925, section 7.8, advises against it).
    pub accept_icmps: bool,
    /// The KeyID to send with at first, and the one to ask for, where they are chosen.
    pub current: Option<u8>,
    /// See `current`.
    pub next: Option<u8>,
}

impl Keyring {
    /// Is there nothing that concerns a connection?
    pub fn is_empty(&self) -> bool {
        self.md5.is_empty() && self.ao.is_empty() && !self.ao_required
    }

    /// Adds a key, or replaces the one for the same peers.
    /// RFC 5925, 2.2-3.
    pub fn set_md5(&mut self, key: Md5Key) -> Result<(), KeyError> {
        if key.secret.bytes().is_empty() {
            return Err(KeyError::Invalid);
        }
        if self.ao_required || self.ao.iter().any(|ao| ao.peers.meets(key.peers)) {
            return Err(KeyError::Rejected);
        }
        match self.md5.iter().position(|known| known.peers == key.peers) {
            Some(at) => self.md5[at] = key,
            None if self.md5.len() >= KEYS_MAX => return Err(KeyError::Full),
            None => self.md5.push(key),
        }
        Ok(())
    }

    /// Removes the key for exactly these peers.
    pub fn remove_md5(&mut self, peers: Peers) -> Result<(), KeyError> {
        let at = self.md5.iter().position(|key| key.peers == peers).ok_or(KeyError::Unknown)?;
        self.md5.remove(at);
        Ok(())
    }

    /// Adds a master key tuple.
    /// RFC 5925, 2.2-3 and 3.1-1.
    pub fn add_ao(&mut self, key: MasterKey) -> Result<(), KeyError> {
        key.check()?;
        if self.md5.iter().any(|md5| md5.peers.meets(key.peers)) {
            return Err(KeyError::Rejected);
        }
        if self.ao.iter().any(|known| known.is_like(&key)) {
            return Err(KeyError::Exists);
        }
        if self.ao.len() >= KEYS_MAX {
            return Err(KeyError::Full);
        }
        self.ao.push(key);
        Ok(())
    }

    /// Removes the tuple of these peers and ids.
    pub fn remove_ao(&mut self, peers: Peers, (send_id, recv_id): (u8, u8)) -> Result<(), KeyError> {
        let is_it = |key: &MasterKey| key.peers == peers && key.send_id == send_id && key.recv_id == recv_id;
        let at = self.ao.iter().position(is_it).ok_or(KeyError::Unknown)?;
        self.ao.remove(at);
        Ok(())
    }

    /// The key for `peer`: that of the longest prefix.
    pub(super) fn md5_for(&self, peer: Addr) -> Option<&Md5Key> {
        self.md5.iter().filter(|key| key.peers.has(peer)).max_by_key(|key| key.peers.prefix)
    }

    /// The tuples for `peer`.
    pub(super) fn ao_for(&self, peer: Addr) -> impl Iterator<Item = &MasterKey> {
        self.ao.iter().filter(move |key| key.peers.has(peer))
    }

    /// All tuples.
    pub fn ao_keys(&self) -> &[MasterKey] {
        &self.ao
    }
}
