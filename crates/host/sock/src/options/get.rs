//! Values of a socket's options.

use super::{Id, Shape, find, get_plain, values};
use crate::c;
use crate::engine::Engine;
use crate::object::{Kind, Settings};
use crate::sockets::{Family, Fd};
use crate::transport::Transport;
use crate::{Errno, tcp_info};
use tcp::{State, defer};
use values::{chosen, micros, put, rate_bytes, timeval_bytes};

impl<T: Transport> Engine<T> {
    /// See [`crate::Sockets::getsockopt`].
    pub fn getsockopt(&mut self, fd: Fd, level: i32, name: i32, into: &mut [u8]) -> Result<usize, Errno> {
        self.require_socket(fd)?;
        if level == c::IPPROTO_IPV6 && self.family(fd)? == Family::V4 {
            return Err(Errno::EOPNOTSUPP);
        }
        let row = find(level, name).ok_or(Errno::ENOPROTOOPT)?;
        match row.shape {
            Shape::Linger => {
                let mut value = [0; 8];
                value[..4].copy_from_slice(&i32::from(self.options(fd)?.linger.is_some()).to_ne_bytes());
                value[4..].copy_from_slice(&self.lingered(fd)?.to_ne_bytes());
                Ok(put(into, &value))
            }
            Shape::Time => {
                let extras = self.extras(fd);
                let time = if row.id == Id::RcvTimeo { extras.recv } else { extras.send };
                Ok(put(into, &timeval_bytes(time)))
            }
            Shape::Name => {
                let mut value = [0; 16];
                let name = self.congestion(fd)?.as_bytes();
                let n = name.len().min(15);
                value[..n].copy_from_slice(&name[..n]);
                Ok(put(into, &value))
            }
            Shape::Tunable => self.get_tunable(fd, into),
            Shape::Info => {
                let conn = match &self.object(fd)?.kind {
                    Kind::Stream(stream) => stream.conn,
                    other => {
                        let listens = matches!(other, Kind::Listener(_));
                        return Ok(put(into, &tcp_info::encode_state(listens)));
                    }
                };
                let info = self.core.info(self.now(), conn).ok_or(Errno::ENOTCONN)?;
                Ok(put(into, &tcp_info::encode(&info)))
            }
            Shape::Rate => {
                let len = if into.len() < 8 { 4 } else { 8 };
                Ok(put(into, &rate_bytes(self.options(fd)?.max_pacing, len)[..len]))
            }
            Shape::Keys => {
                let now = self.now();
                let own = self.fast_open(fd)?.listen.keys;
                let keys = own.or_else(|| self.core.fast_open_keys(now)).ok_or(Errno::EIO)?;
                let (bytes, len) = keys.bytes();
                Ok(put(into, &bytes[..len]))
            }
            Shape::Auth => self.get_keys(fd, name, into),
            Shape::Ucred => {
                // No process, and no user and group.
                Ok(put(into, [0_i32, -1, -1].map(i32::to_ne_bytes).as_flattened()))
            }
            _ if row.id == Id::Stamping => {
                // Behind the flags stands the hardware clock that is wanted: none.
                Ok(put(into, [self.get_int(fd, row.id)?, 0].map(i32::to_ne_bytes).as_flattened()))
            }
            Shape::Bool | Shape::Word | Shape::Int(..) => {
                Ok(values::put_int(into, level, self.get_int(fd, row.id)?))
            }
        }
    }

    /// The policy that a socket has, or that its connections will have.
    pub(crate) fn congestion(&mut self, fd: Fd) -> Result<&'static str, Errno> {
        if let Ok(stream) = self.stream(fd) {
            let conn = stream.conn;
            return Ok(self.core.control_name(conn));
        }
        match &self.object(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings.control.unwrap_or(self.core.default_control())),
            Kind::Listener(l) => Ok(l.settings.control.unwrap_or(self.core.default_control())),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(super) fn get_int(&mut self, fd: Fd, id: Id) -> Result<i32, Errno> {
        let mut options = self.options(fd)?;
        let mut discover = self.extras(fd).discover;
        if self.is_of_other_family(fd, id)? {
            let other = self.extras(fd).other;
            (options.tos, options.ttl, discover) = (other.tos, other.ttl, other.discover);
        }
        if let Some(v) = get_plain(&options, id) {
            return Ok(v);
        }
        if let Some(bit) = id.kept() {
            return Ok((self.extras(fd).kept & bit != 0).into());
        }
        let conn = self.stream(fd).map(|s| s.conn).ok();
        let now = self.now();
        let info = conn.and_then(|conn| self.core.info(now, conn));
        Ok(match id {
            Id::PendingError => self.take_error(fd)?.map_or(0, Errno::raw),
            Id::RcvBuf => match info {
                Some(info) => info.rcvbuf.0 as i32,
                None => chosen(self.options(fd)?.rcvbuf, self.core.default_buffers().0),
            },
            Id::SndBuf => match info {
                Some(info) => info.sndbuf.0 as i32,
                None => chosen(self.options(fd)?.sndbuf, self.core.default_buffers().1),
            },
            Id::MaxSeg => self.max_seg(fd, info.map(|info| (info.state, info.snd_mss)))?,
            Id::Linger2 => match self.options(fd)?.times.fin_wait2 {
                Some(time) if time.is_zero() => -1,
                Some(time) => time.as_secs() as i32,
                None => self.core.default_times().fin_wait2.map_or(0, |time| time.as_secs() as i32),
            },
            Id::RtoMin => micros(self.options(fd)?.times.rto_min, self.core.default_times().rto_min),
            Id::DelackMax => {
                micros(self.options(fd)?.times.delayed_ack, self.core.default_times().delayed_ack)
            }
            Id::Mtu | Id::Mtu6 => info.ok_or(Errno::ENOTCONN)?.path_mtu.into(),
            Id::FastOpen => {
                self.fast_open(fd)?.listen.queue.map_or(0, |queue| queue.min(i32::MAX as u32) as i32)
            }
            Id::FastOpenConnect => self.fast_open(fd)?.connect.into(),
            Id::FastOpenNoCookie => self.fast_open(fd)?.no_cookie.into(),
            Id::SndLowat => 1,
            Id::ThinDupAck => 0,
            Id::SynCnt => self.core.default_syn_retries().into(),
            Id::ZeroCopy => self.extras(fd).zero_copy.into(),
            Id::Inq => self.extras(fd).inq.into(),
            Id::Mark => self.extras(fd).mark as i32,
            Id::IncomingCpu => {
                let cpu = match conn {
                    Some(conn) => self.core.incoming_cpu(conn),
                    None => self.options(fd)?.incoming_cpu,
                };
                cpu.map_or(-1, |cpu| cpu as i32)
            }
            Id::DeferAccept => defer::seconds_of(self.extras(fd).defer_accept) as i32,
            Id::Priority => self.extras(fd).priority,
            Id::PeekOff => self.extras(fd).peek_offset.map_or(-1, |offset| offset as i32),
            Id::MtuDiscover | Id::MtuDiscover6 => discover as i32,
            Id::Stamp => self.extras(fd).dates.micros.into(),
            Id::StampNs => self.extras(fd).dates.nanos.into(),
            Id::Stamping => self.extras(fd).dates.stamping as i32,
            Id::SockType => c::SOCK_STREAM,
            Id::Domain => match self.family(fd)? {
                Family::V4 => c::AF_INET,
                Family::V6 => c::AF_INET6,
            },
            Id::Protocol => c::IPPROTO_TCP,
            Id::AcceptConn => matches!(self.object(fd)?.kind, Kind::Listener(_)).into(),
            Id::ReuseAddr | Id::ReusePort | Id::V6Only | Id::FreeBind | Id::FreeBind6 => {
                match &self.object(fd)?.kind {
                    Kind::Fresh(s) => flag(s, id),
                    Kind::Listener(l) => flag(&l.settings, id),
                    Kind::Stream(stream) => (stream.binding & id.binding() != 0).into(),
                    _ => 0,
                }
            }
            _ => return Err(Errno::ENOPROTOOPT),
        })
    }

    /// Returns TCP_MAXSEG: the connection's, and the program's own while there is none. `conn` is its state and what it
    /// sends in a segment.
    fn max_seg(&self, fd: Fd, conn: Option<(State, u16)>) -> Result<i32, Errno> {
        let own = self.extras(fd).max_seg.unwrap_or(self.options(fd)?.max_seg);
        let left = match &self.object(fd)?.kind {
            Kind::Fresh(settings) if settings.left.mss > 0 => settings.left.mss,
            _ => 536,
        };
        Ok(match conn {
            Some((State::SynSent, mss)) => self.extras(fd).told_mss.unwrap_or(mss),
            Some((state, mss)) if own == 0 || state != State::Closed => mss,
            _ if own > 0 => own,
            _ => left,
        }
        .into())
    }
}

fn flag(settings: &Settings, id: Id) -> i32 {
    i32::from(match id {
        Id::ReuseAddr => settings.reuse_addr,
        Id::ReusePort => settings.reuse_port,
        Id::FreeBind | Id::FreeBind6 => settings.free_bind,
        _ => settings.v6_only,
    })
}
