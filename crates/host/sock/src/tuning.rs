//! TCP_CCALGOOPT: the tunables of one socket's congestion control, as text. What a socket without a connection is told
//! its connections begin with; setting a tunable there chooses the policy, too, so that the two stay together.

use crate::Errno;
use crate::engine::Engine;
use crate::object::{Kind, Settings};
use crate::sockets::Fd;
use crate::transport::Transport;
use cc::TunableError;
use stack::ConnId;

impl From<TunableError> for Errno {
    fn from(error: TunableError) -> Errno {
        match error {
            TunableError::Unknown => Errno::ENOENT,
            TunableError::OutOfRange { .. } => Errno::ERANGE,
        }
    }
}

/// Text up to a NUL, if there is one.
fn text(value: &[u8]) -> Result<&str, Errno> {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).map_err(|_| Errno::EINVAL)
}

/// `NAME=VALUE`.
fn assignment(value: &[u8]) -> Result<(&str, i64), Errno> {
    let (name, number) = text(value)?.split_once('=').ok_or(Errno::EINVAL)?;
    Ok((name.trim(), number.trim().parse().map_err(|_| Errno::EINVAL)?))
}

impl<T: Transport> Engine<T> {
    /// ENOENT: the policy has no such tunable; ERANGE: the value is out of its range; EINVAL: not of that form.
    pub(crate) fn set_tunable(&mut self, fd: Fd, value: &[u8]) -> Result<(), Errno> {
        let (name, number) = assignment(value)?;
        if let Ok(stream) = self.stream(fd) {
            let conn = stream.conn;
            self.core.tune(conn, name, Some(number))?;
            return Ok(());
        }
        let policy = self.congestion(fd)?;
        self.core.would_tune(policy, name, Some(number))?;
        let (settings, listener) = match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => (&mut **settings, None),
            Kind::Listener(listener) => (&mut listener.settings, Some(listener.id)),
            _ => return Err(Errno::ENOTSOCK),
        };
        settings.choose_control(policy);
        match settings.tuned.iter_mut().find(|(known, _)| known == name) {
            Some((_, kept)) => *kept = number,
            None => settings.tuned.push((name.into(), number)),
        }
        if let Some(id) = listener {
            self.core.set_listener_control(id, policy);
        }
        Ok(())
    }

    /// `into` holds the name, and then the value, with a NUL behind it if there is room; EFAULT if there is too little.
    pub(crate) fn get_tunable(&mut self, fd: Fd, into: &mut [u8]) -> Result<usize, Errno> {
        let name = text(into)?.trim();
        let number = match self.stream(fd).map(|stream| stream.conn) {
            Ok(conn) => self.core.tune(conn, name, None)?,
            Err(_) => match self.tuned(fd)?.iter().find(|(known, _)| known == name) {
                Some((_, kept)) => *kept,
                None => {
                    let policy = self.congestion(fd)?;
                    self.core.would_tune(policy, name, None)?
                }
            },
        };
        let digits = number.to_string();
        into.get_mut(..digits.len()).ok_or(Errno::EFAULT)?.copy_from_slice(digits.as_bytes());
        if let Some(end) = into.get_mut(digits.len()) {
            *end = 0;
        }
        Ok(digits.len())
    }

    fn tuned(&self, fd: Fd) -> Result<&[(String, i64)], Errno> {
        let settings: &Settings = match &self.object(fd)?.kind {
            Kind::Fresh(settings) => settings,
            Kind::Listener(listener) => &listener.settings,
            _ => return Err(Errno::ENOTSOCK),
        };
        Ok(&settings.tuned)
    }

    /// A connection of this socket begins.
    pub(crate) fn tune_begun(&mut self, fd: Fd, conn: ConnId) -> Result<(), Errno> {
        if self.tuned(fd)?.is_empty() {
            return Ok(());
        }
        self.apply_tuned(fd, conn)
    }

    #[cold]
    fn apply_tuned(&mut self, fd: Fd, conn: ConnId) -> Result<(), Errno> {
        // A connection whose policy could not be made has another, and what was chosen for that is not meant for it.
        if self.core.control_name(conn) != self.congestion(fd)? {
            return Ok(());
        }
        for (name, number) in self.tuned(fd)?.to_vec() {
            // Only a library loaded since under the same name could refuse what was tried before; the connection is
            // begun, and as good with the library's own value.
            let tuned = self.core.tune(conn, &name, Some(number));
            debug_assert!(tuned.is_ok(), "{name}={number}: {tuned:?}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
