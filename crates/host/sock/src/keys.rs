//! Keys of signed segments (RFC 2385, RFC 5925) as socket options: Linux's names and layouts, and typed calls for them.

use crate::engine::Engine;
use crate::net::{TcpListener, TcpStream};
use crate::object::Kind;
use crate::sockets::Fd;
use crate::transport::Transport;
use crate::{Errno, Stack, c};
use base::{Addr, Endpoint};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tcp::auth::{
    AoCounts, AoReport, AoSettings, Choice, KeyChange, KeyError, Keyring, MAC_LEN, MasterKey, Md5Key, Peers,
    Secret,
};

const KEY: usize = 80;
const NAME: usize = 64;
/// `struct sockaddr_storage`.
const STORAGE: usize = 128;
/// TCP_MD5SIG_FLAG_PREFIX and TCP_MD5SIG_FLAG_IFINDEX.
const MD5_PREFIX: u8 = 1;
const MD5_IFINDEX: u8 = 2;
/// TCP_AO_KEYF_IFINDEX and TCP_AO_KEYF_EXCLUDE_OPT.
const AO_IFINDEX: u8 = 1;
const AO_EXCLUDE_OPTIONS: u8 = 2;

/// Bits of the structs' first words.
const SET_CURRENT: u32 = 1;
const SET_NEXT: u32 = 2;
const INFO_REQUIRED: u32 = 4;
const INFO_COUNTERS: u32 = 8;
const INFO_ICMPS: u32 = 16;
const GET_CURRENT: u16 = 1;
const GET_NEXT: u16 = 2;
const GET_ALL: u16 = 4;

/// Bytes of `struct tcp_md5sig`, `tcp_ao_add`, `tcp_ao_del`, `tcp_ao_info_opt` and `tcp_ao_getsockopt`.
const MD5SIG: usize = 216;
const AO_ADD: usize = 288;
const AO_DEL: usize = 144;
const AO_INFO: usize = 48;
const AO_KEY: usize = 304;

impl From<KeyError> for Errno {
    fn from(e: KeyError) -> Errno {
        match e {
            KeyError::MacTooLong => Errno::EMSGSIZE,
            KeyError::Unknown => Errno::ENOENT,
            KeyError::Exists => Errno::EEXIST,
            KeyError::Rejected => Errno::EKEYREJECTED,
            KeyError::Busy => Errno::EBUSY,
            KeyError::Full => Errno::ENOMEM,
            KeyError::NotSigned => Errno::EISCONN,
            KeyError::Invalid => Errno::EINVAL,
        }
    }
}

/// A C struct, read by offset; what lies behind its end is zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        let there = self.0.get(at..).unwrap_or_default();
        let n = there.len().min(N);
        bytes[..n].copy_from_slice(&there[..n]);
        bytes
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes::<1>(at)[0]
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    /// The address of a `sockaddr_storage`.
    fn addr(&self) -> Result<Addr, Errno> {
        match i32::from(self.half(0)) {
            c::AF_INET => Ok(Addr::v4(self.bytes(4))),
            c::AF_INET6 => Ok(Addr::v6(self.bytes(8))),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Address and prefix, as TCP-AO takes them: no peer in particular means no prefix.
    fn peers(&self, prefix: u8) -> Result<Peers, Errno> {
        let peers = whole(self.addr()?);
        if prefix > peers.prefix || (prefix == 0) != peers.addr.is_unspecified() {
            return Err(Errno::EINVAL);
        }
        Ok(Peers { prefix, ..peers })
    }
}

/// One address.
fn whole(addr: Addr) -> Peers {
    Peers { addr, prefix: if addr.is_v4() { 32 } else { 128 } }
}

fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_addr(into: &mut [u8], addr: Addr) {
    let family = if addr.is_v4() { c::AF_INET } else { c::AF_INET6 };
    put(into, 0, &(family as u16).to_ne_bytes());
    match addr.v4_bytes() {
        Some(bytes) => put(into, 4, &bytes),
        None => put(into, 8, &addr.bytes()),
    }
}

/// `struct tcp_md5sig`: a key of no bytes removes one.
fn read_md5(value: &[u8], extended: bool) -> Result<KeyChange, Errno> {
    if value.len() < MD5SIG {
        return Err(Errno::EINVAL);
    }
    let f = Fields(value);
    let (flags, prefix, len) = (f.byte(128), f.byte(129), usize::from(f.half(130)));
    let mut peers = whole(f.addr()?);
    if extended && flags & MD5_IFINDEX != 0 {
        return Err(Errno::EINVAL);
    }
    if extended && flags & MD5_PREFIX != 0 {
        if prefix > peers.prefix {
            return Err(Errno::EINVAL);
        }
        peers.prefix = prefix;
    }
    if len == 0 {
        return Ok(KeyChange::RemoveMd5(peers));
    }
    let secret = value[136..].get(..len).and_then(Secret::new).ok_or(Errno::EINVAL)?;
    Ok(md5(peers, secret))
}

/// A key of TCP MD5 for these peers.
pub fn md5(peers: Peers, secret: Secret) -> KeyChange {
    KeyChange::SetMd5(Md5Key { peers, secret, algorithm: &sign::Md5 })
}

fn choice(bits: u32, current: u8, next: u8) -> Choice {
    Choice {
        current: (bits & SET_CURRENT != 0).then_some(current),
        next: (bits & SET_NEXT != 0).then_some(next),
    }
}

/// `struct tcp_ao_add`.
fn read_add(value: &[u8]) -> Result<KeyChange, Errno> {
    let f = Fields(value);
    if value.len() < AO_ADD - KEY || f.half(200) != 0 || f.byte(206) & !(AO_IFINDEX | AO_EXCLUDE_OPTIONS) != 0
    {
        return Err(Errno::EINVAL);
    }
    if f.byte(206) & AO_IFINDEX != 0 || f.word(192) != 0 {
        return Err(Errno::EINVAL);
    }
    let name: [u8; NAME] = f.bytes(STORAGE);
    let end = name.iter().position(|&byte| byte == 0).ok_or(Errno::EINVAL)?;
    let name = std::str::from_utf8(&name[..end]).map_err(|_| Errno::EINVAL)?;
    let algorithm = sign::find(name).ok_or(Errno::ENOENT)?;
    let [prefix, send_id, recv_id, mac_len, flags, len] = f.bytes(202);
    let secret = f.bytes::<KEY>(208).get(..usize::from(len)).and_then(Secret::new).ok_or(Errno::EINVAL)?;
    let key = MasterKey {
        covers_options: flags & AO_EXCLUDE_OPTIONS == 0,
        mac_len: if mac_len == 0 { MAC_LEN } else { mac_len },
        ..MasterKey::new(f.peers(prefix)?, (send_id, recv_id), secret, algorithm)
    };
    Ok(KeyChange::AddAo(key, choice(f.word(196), send_id, recv_id)))
}

/// `struct tcp_ao_del`.
fn read_del(value: &[u8]) -> Result<KeyChange, Errno> {
    let f = Fields(value);
    if value.len() < AO_DEL || f.half(136) != 0 {
        return Err(Errno::EINVAL);
    }
    let [prefix, send_id, recv_id, current, next] = f.bytes(138);
    Ok(KeyChange::RemoveAo(f.peers(prefix)?, (send_id, recv_id), choice(f.word(132), current, next)))
}

/// Reads one of the options about keys, by its number and value.
pub fn read(name: i32, value: &[u8]) -> Result<KeyChange, Errno> {
    match name {
        c::TCP_MD5SIG => read_md5(value, false),
        c::TCP_MD5SIG_EXT => read_md5(value, true),
        c::TCP_AO_ADD_KEY => read_add(value),
        c::TCP_AO_DEL_KEY => read_del(value),
        c::TCP_AO_INFO => read_info(value),
        _ => Err(Errno::ENOPROTOOPT),
    }
}

/// `struct tcp_ao_info_opt`.
fn read_info(value: &[u8]) -> Result<KeyChange, Errno> {
    let f = Fields(value);
    let bits = f.word(0);
    if value.len() < AO_INFO || f.half(4) != 0 || bits >> 5 != 0 {
        return Err(Errno::EINVAL);
    }
    let counts = AoCounts {
        good: f.long(8),
        bad: f.long(16),
        key_not_found: f.long(24),
        required: f.long(32),
        dropped_icmp: f.long(40),
    };
    Ok(KeyChange::Ao(AoSettings {
        choice: choice(bits, f.byte(6), f.byte(7)),
        ao_required: bits & INFO_REQUIRED != 0,
        accept_icmps: bits & INFO_ICMPS != 0,
        counts: (bits & INFO_COUNTERS != 0).then_some(counts),
    }))
}

/// TCP_AO_INFO as getsockopt gives it.
fn write_info(report: &AoReport) -> [u8; AO_INFO] {
    let mut value = [0; AO_INFO];
    let current = report.keys.iter().find(|key| key.current);
    let next = report.keys.iter().find(|key| key.next);
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    let bits = bit(current.is_some(), SET_CURRENT)
        | bit(next.is_some(), SET_NEXT)
        | bit(report.ao_required, INFO_REQUIRED)
        | bit(report.accept_icmps, INFO_ICMPS);
    put(&mut value, 0, &bits.to_ne_bytes());
    value[6] = current.map_or(0, |one| one.key.send_id);
    value[7] = next.map_or(0, |one| one.key.recv_id);
    let AoCounts { good, bad, key_not_found, required, dropped_icmp } = report.counts;
    for (nth, count) in [good, bad, key_not_found, required, dropped_icmp].into_iter().enumerate() {
        put(&mut value, 8 + 8 * nth, &count.to_ne_bytes());
    }
    value
}

/// TCP_AO_GET_KEYS: what `into` asks for in its first struct, and as many of the keys as it has room for. The first
/// says how many there are.
fn write_keys(report: &AoReport, into: &mut [u8]) -> Result<usize, Errno> {
    if into.len() < AO_KEY {
        return Err(Errno::EINVAL);
    }
    let f = Fields(into);
    let (asked, bits, send_id, recv_id) = (f.word(272) as usize, f.half(276), f.byte(278), f.byte(279));
    let peers =
        if bits & (GET_ALL | GET_CURRENT | GET_NEXT) == 0 { Some(f.peers(f.byte(280))?) } else { None };
    let wanted = report.keys.iter().filter(|one| match peers {
        Some(peers) => one.key.peers == peers && (one.key.send_id, one.key.recv_id) == (send_id, recv_id),
        None => {
            bits & GET_ALL != 0
                || (bits & GET_CURRENT != 0 && one.current)
                || (bits & GET_NEXT != 0 && one.next)
        }
    });
    let wanted: Vec<_> = wanted.collect();
    let shown = wanted.len().min(asked).min(into.len() / AO_KEY);
    for (one, into) in wanted.iter().zip(into.chunks_exact_mut(AO_KEY)).take(shown) {
        into.fill(0);
        let MasterKey { peers, send_id, recv_id, covers_options, mac_len, secret, algorithm } = &one.key;
        put_addr(into, peers.addr);
        put(into, STORAGE, algorithm.name().as_bytes());
        put(into, STORAGE + NAME, secret.bytes());
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        let bits = bit(one.current, GET_CURRENT) | bit(one.next, GET_NEXT);
        put(into, 276, &bits.to_ne_bytes());
        let flags = if *covers_options { 0 } else { AO_EXCLUDE_OPTIONS };
        let len = secret.bytes().len() as u8;
        put(into, 278, &[*send_id, *recv_id, peers.prefix, *mac_len, flags, len]);
        put(into, 288, &one.counts.0.to_ne_bytes());
        put(into, 296, &one.counts.1.to_ne_bytes());
    }
    put(into, 272, &(wanted.len() as u32).to_ne_bytes());
    Ok(shown.max(1) * AO_KEY)
}

/// A change as an option of IPPROTO_TCP and its value.
fn encode(change: &KeyChange) -> (i32, Vec<u8>) {
    let bits = |choice: &Choice| {
        (u32::from(choice.current.is_some()) * SET_CURRENT) | (u32::from(choice.next.is_some()) * SET_NEXT)
    };
    let struct_of = |len: usize, peers: &Peers| {
        let mut value = vec![0; len];
        put_addr(&mut value, peers.addr);
        value
    };
    match change {
        KeyChange::SetMd5(Md5Key { peers, secret, .. }) => {
            let mut value = struct_of(MD5SIG, peers);
            put(&mut value, 128, &[MD5_PREFIX, peers.prefix]);
            put(&mut value, 130, &(secret.bytes().len() as u16).to_ne_bytes());
            put(&mut value, 136, secret.bytes());
            (c::TCP_MD5SIG_EXT, value)
        }
        KeyChange::RemoveMd5(peers) => {
            let mut value = struct_of(MD5SIG, peers);
            put(&mut value, 128, &[MD5_PREFIX, peers.prefix]);
            (c::TCP_MD5SIG_EXT, value)
        }
        KeyChange::AddAo(key, choice) => {
            let mut value = struct_of(AO_ADD, &key.peers);
            put(&mut value, STORAGE, key.algorithm.name().as_bytes());
            put(&mut value, 196, &bits(choice).to_ne_bytes());
            let flags = if key.covers_options { 0 } else { AO_EXCLUDE_OPTIONS };
            let len = key.secret.bytes().len() as u8;
            put(&mut value, 202, &[key.peers.prefix, key.send_id, key.recv_id, key.mac_len, flags, len]);
            put(&mut value, 208, key.secret.bytes());
            (c::TCP_AO_ADD_KEY, value)
        }
        KeyChange::RemoveAo(peers, (send_id, recv_id), choice) => {
            let mut value = struct_of(AO_DEL, peers);
            put(&mut value, 132, &bits(choice).to_ne_bytes());
            let (current, next) = (choice.current.unwrap_or(0), choice.next.unwrap_or(0));
            put(&mut value, 138, &[peers.prefix, *send_id, *recv_id, current, next]);
            (c::TCP_AO_DEL_KEY, value)
        }
        KeyChange::Ao(AoSettings { choice, ao_required, accept_icmps, counts }) => {
            let given = counts.unwrap_or_default();
            let report = AoReport {
                keys: Vec::new(),
                counts: given,
                accept_icmps: *accept_icmps,
                ao_required: *ao_required,
            };
            let mut value = write_info(&report).to_vec();
            let all = bits(choice) | Fields(&value).word(0) | (u32::from(counts.is_some()) * INFO_COUNTERS);
            put(&mut value, 0, &all.to_ne_bytes());
            put(&mut value, 6, &[choice.current.unwrap_or(0), choice.next.unwrap_or(0)]);
            (c::TCP_AO_INFO, value)
        }
    }
}

impl<T: Transport> Engine<T> {
    /// One of the options about keys is set.
    pub(crate) fn set_keys(&mut self, fd: Fd, name: i32, value: &[u8]) -> Result<(), Errno> {
        let change = read(name, value)?;
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => change_ring(&mut settings.keys, &change),
            Kind::Listener(listener) => {
                change_ring(&mut listener.settings.keys, &change)?;
                let (id, keys) = (listener.id, listener.settings.keys.clone());
                self.core.set_listener_keys(id, keys);
                Ok(())
            }
            Kind::Stream(stream) => {
                let conn = stream.conn;
                Ok(self.core.change_keys(conn, &change)?)
            }
            _ => Err(Errno::ENOTSOCK),
        }
    }

    /// One of the options about keys is asked for.
    pub(crate) fn get_keys(&mut self, fd: Fd, name: i32, into: &mut [u8]) -> Result<usize, Errno> {
        let ring = |keys: &Option<Arc<Keyring>>| keys.as_ref().map(|keys| keys.report());
        let report = match &self.object(fd)?.kind {
            Kind::Fresh(settings) => ring(&settings.keys),
            Kind::Listener(listener) => ring(&listener.settings.keys),
            Kind::Stream(stream) => {
                let conn = stream.conn;
                self.core.ao_report(conn)
            }
            _ => return Err(Errno::ENOTSOCK),
        };
        match name {
            c::TCP_AO_INFO => {
                let value = write_info(&report.ok_or(Errno::ENOENT)?);
                let n = into.len().min(value.len());
                into[..n].copy_from_slice(&value[..n]);
                Ok(n)
            }
            c::TCP_AO_GET_KEYS => write_keys(&report.ok_or(Errno::ENOENT)?, into),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}

/// Changes a ring; one without keys costs its socket nothing.
fn change_ring(keys: &mut Option<Arc<Keyring>>, change: &KeyChange) -> Result<(), Errno> {
    Arc::make_mut(keys.get_or_insert_default()).change(change)?;
    if keys.as_ref().is_some_and(|keys| keys.is_empty()) {
        *keys = None;
    }
    Ok(())
}

fn set(stack: &Stack, fd: Fd, change: &KeyChange) -> io::Result<()> {
    let (name, value) = encode(change);
    Ok(stack.setsockopt(fd, libc::IPPROTO_TCP, name, &value)?)
}

impl TcpListener {
    /// Changes the keys that peers must sign with; connections accepted from now on have them.
    pub fn change_keys(&self, change: &KeyChange) -> io::Result<()> {
        set(self.stack(), self.fd(), change)
    }
}

impl TcpStream {
    /// Connects with these keys: the peer must have one of them.
    pub fn connect_signed(stack: &Stack, addr: SocketAddr, keys: &[KeyChange]) -> io::Result<TcpStream> {
        let socket = TcpStream::unconnected(stack, &addr)?;
        for change in keys {
            set(stack, socket.fd(), change)?;
        }
        stack.connect(socket.fd(), Endpoint::from(addr))?;
        Ok(socket)
    }

    /// Changes the keys of a connection.
    pub fn change_keys(&self, change: &KeyChange) -> io::Result<()> {
        set(self.stack(), self.fd(), change)
    }
}

#[cfg(test)]
mod tests;
