//! The descriptor table: small numbers to objects.

use crate::sockets::Fd;

const FREE: u32 = u32::MAX;

/// Descriptors of one engine. The number freed last is given out first: it is the warmest.
pub(crate) struct FdTable {
    objects: Vec<u32>,
    free: Vec<Fd>,
    limit: usize,
}

impl FdTable {
    pub(crate) fn new(limit: usize) -> Self {
        FdTable { objects: Vec::new(), free: Vec::new(), limit }
    }

    /// A new descriptor for `object`; `None` when `limit` are open.
    pub(crate) fn open(&mut self, object: u32) -> Option<Fd> {
        if let Some(fd) = self.free.pop() {
            self.objects[fd as usize] = object;
            return Some(fd);
        }
        if self.objects.len() >= self.limit {
            return None;
        }
        self.objects.push(object);
        Some((self.objects.len() - 1) as Fd)
    }

    /// The object behind `fd`.
    pub(crate) fn get(&self, fd: Fd) -> Option<u32> {
        let object = *self.objects.get(usize::try_from(fd).ok()?)?;
        (object != FREE).then_some(object)
    }

    /// Forgets `fd` and says what it stood for.
    pub(crate) fn close(&mut self, fd: Fd) -> Option<u32> {
        let object = self.get(fd)?;
        self.objects[fd as usize] = FREE;
        self.free.push(fd);
        Some(object)
    }

    /// Open descriptors.
    pub(crate) fn len(&self) -> usize {
        self.objects.len() - self.free.len()
    }

    /// Bytes reserved.
    pub(crate) fn footprint(&self) -> usize {
        self.objects.capacity() * size_of::<u32>() + self.free.capacity() * size_of::<Fd>()
    }
}
