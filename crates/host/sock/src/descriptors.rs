//! Table of open descriptors, and the objects to which they refer. Several descriptors may share an object (dup),
//! which lives as long as one of them.

use crate::Errno;
use crate::object::{Kind, Object, Settings, Stream};
use crate::sockets::Fd;
use crate::table::FdTable;
use base::Slab;

/// The descriptors of one engine.
pub(crate) struct Descriptors {
    table: FdTable,
    objects: Slab<Object>,
}

impl Descriptors {
    /// At most `limit`.
    pub(crate) fn new(limit: u32) -> Self {
        Descriptors { table: FdTable::new(limit as usize), objects: Slab::new(limit) }
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes held.
    pub(crate) fn footprint(&self) -> usize {
        self.table.footprint() + self.objects.footprint()
    }

    /// A new descriptor for a new object, and the object's index; EMFILE when the limit is reached.
    pub(crate) fn insert(&mut self, kind: Kind) -> Result<(Fd, u32), Errno> {
        let index = self.objects.insert(Object::new(kind)).map_err(|_| Errno::EMFILE)?;
        match self.table.open(index) {
            Some(fd) => Ok((fd, index)),
            None => {
                self.objects.remove(index);
                Err(Errno::EMFILE)
            }
        }
    }

    /// Another descriptor for the same object.
    pub(crate) fn dup(&mut self, fd: Fd) -> Result<Fd, Errno> {
        let index = self.index(fd)?;
        let new = self.table.open(index).ok_or(Errno::EMFILE)?;
        self.object_mut(fd)?.refs += 1;
        Ok(new)
    }

    /// Closes a descriptor; the object, if it was its last.
    pub(crate) fn close(&mut self, fd: Fd) -> Result<Option<Object>, Errno> {
        let index = self.table.close(fd).ok_or(Errno::EBADF)?;
        let object = self.objects.get_mut(index).ok_or(Errno::EBADF)?;
        object.refs -= 1;
        Ok(if object.refs == 0 { self.objects.remove(index) } else { None })
    }

    /// The object behind an index.
    pub(crate) fn at(&self, index: u32) -> Option<&Object> {
        self.objects.get(index)
    }

    /// The object behind an index, to change.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Object> {
        self.objects.get_mut(index)
    }

    /// The index of a descriptor's object.
    pub(crate) fn index(&self, fd: Fd) -> Result<u32, Errno> {
        self.table.get(fd).ok_or(Errno::EBADF)
    }

    /// A descriptor's object.
    pub(crate) fn object(&self, fd: Fd) -> Result<&Object, Errno> {
        self.objects.get(self.index(fd)?).ok_or(Errno::EBADF)
    }

    /// A descriptor's object, to change.
    pub(crate) fn object_mut(&mut self, fd: Fd) -> Result<&mut Object, Errno> {
        let index = self.index(fd)?;
        self.objects.get_mut(index).ok_or(Errno::EBADF)
    }

    /// All sockets that have a connection.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.objects.iter().filter_map(|(_, object)| match &object.kind {
            Kind::Stream(stream) => Some(stream),
            _ => None,
        })
    }

    /// A socket that has a connection.
    pub(crate) fn stream(&self, fd: Fd) -> Result<&Stream, Errno> {
        match &self.object(fd)?.kind {
            Kind::Stream(stream) => Ok(stream),
            other => Err(no_stream(other)),
        }
    }

    /// A socket that has a connection, to change.
    pub(crate) fn stream_mut(&mut self, fd: Fd) -> Result<&mut Stream, Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Stream(stream) => Ok(stream),
            other => Err(no_stream(other)),
        }
    }

    /// A socket that neither listens nor has a connection, to change.
    pub(crate) fn fresh_mut(&mut self, fd: Fd) -> Result<&mut Settings, Errno> {
        match &mut self.object_mut(fd)?.kind {
            Kind::Fresh(settings) => Ok(settings),
            Kind::Stream(_) | Kind::Listener(_) => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTSOCK),
        }
    }
}

fn no_stream(kind: &Kind) -> Errno {
    match kind {
        Kind::Fresh(_) | Kind::Listener(_) => Errno::ENOTCONN,
        _ => Errno::ENOTSOCK,
    }
}
