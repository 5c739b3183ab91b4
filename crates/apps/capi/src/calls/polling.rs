//! Waiting for several descriptors: epoll(7) and poll(2).

use crate::boundary::{Outcome, Refused};
use crate::memory;
use base::Duration;
use libc::{c_int, epoll_event, nfds_t, pollfd};
use sock::{EpollEvent, EpollOp, PollFd, Ready};
use std::cell::RefCell;

/// Most events of one call, and most rows of one poll.
const EVENTS_MAX: usize = 65_536;

/// EPOLLWAKEUP: nothing here suspends the machine.
const WAKEUP: u32 = 1 << 29;

thread_local! {
    static EVENTS: RefCell<Vec<EpollEvent>> = const { RefCell::new(Vec::new()) };
    static ROWS: RefCell<Vec<PollFd>> = const { RefCell::new(Vec::new()) };
}

/// Milliseconds as epoll_wait and poll take them.
fn timeout(ms: c_int) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// Bits as the stack knows them.
fn interest(bits: u32) -> Ready {
    Ready(bits & !WAKEUP)
}

/// Returns the operation of epoll_ctl; only EPOLL_CTL_DEL comes without an event.
fn operation(op: c_int, event: Option<epoll_event>) -> Outcome<EpollOp> {
    let Some(event) = event else { return Ok(EpollOp::Delete) };
    let event = EpollEvent { ready: interest(event.events), data: event.u64 };
    match op {
        libc::EPOLL_CTL_ADD => Ok(EpollOp::Add(event)),
        libc::EPOLL_CTL_MOD => Ok(EpollOp::Modify(event)),
        _ => Err(Refused(libc::EINVAL)),
    }
}

api! {
    /// epoll_create(2): as many sets as you like; `size` must be positive and means nothing.
    fn ms_epoll_create(ctx, size: c_int) -> c_int {
        if size <= 0 {
            return Err(Refused(libc::EINVAL));
        }
        Ok(ctx.opened(ctx.sockets()?.epoll_create()?))
    }

    /// epoll_create1(2): EPOLL_CLOEXEC or 0.
    fn ms_epoll_create1(ctx, flags: c_int) -> c_int {
        if flags & !libc::EPOLL_CLOEXEC != 0 {
            return Err(Refused(libc::EINVAL));
        }
        Ok(ctx.opened(ctx.sockets()?.epoll_create()?))
    }

    /// epoll_ctl(2): level, edge (EPOLLET) and one-shot; sockets, pipes and other sets of this context, not the
    /// kernel's descriptors.
    fn ms_epoll_ctl(ctx, epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        // SAFETY: C's contract.
        let event = if op == libc::EPOLL_CTL_DEL { None } else { Some(unsafe { memory::value(event) }?) };
        ctx.sockets()?.nonblocking(epfd)?;
        let op = ctx.unless_bad(fd, operation(op, event))?;
        ctx.sockets()?.epoll_ctl(epfd, fd, op)?;
        Ok(0)
    }

    /// epoll_wait(2): milliseconds, -1 for ever. A signal ends it (EINTR), and so can a pipe.
    fn ms_epoll_wait(ctx, epfd: c_int, events: *mut epoll_event, max: c_int, timeout_ms: c_int) -> c_int {
        let count = usize::try_from(max).ok().filter(|max| *max > 0).ok_or(Refused(libc::EINVAL))?;
        // SAFETY: C's contract.
        let into = unsafe { memory::rows(events, count.min(EVENTS_MAX)) };
        let into = ctx.unless_bad(epfd, into)?;
        EVENTS.with_borrow_mut(|found| {
            found.resize(into.len(), EpollEvent::default());
            let n = ctx.sockets()?.epoll_wait(epfd, found, timeout(timeout_ms))?;
            for (slot, event) in into.iter_mut().zip(&found[..n]) {
                *slot = epoll_event { events: event.ready.0, u64: event.data };
            }
            Ok(n as c_int)
        })
    }

    /// poll(2), for descriptors of this context.
    fn ms_poll(ctx, fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
        let count = usize::try_from(count).ok().filter(|n| *n <= EVENTS_MAX).ok_or(Refused(libc::EINVAL))?;
        // SAFETY: C's contract.
        let list = unsafe { memory::rows(fds, count) }?;
        ROWS.with_borrow_mut(|rows| {
            rows.clear();
            rows.extend(list.iter().map(|row| PollFd {
                fd: row.fd,
                interest: interest(u32::from(row.events as u16)),
                ready: Ready::NONE,
            }));
            let n = ctx.sockets()?.poll(rows, timeout(timeout_ms))?;
            for (slot, row) in list.iter_mut().zip(rows.iter()) {
                slot.revents = row.ready.0 as i16;
            }
            Ok(n as c_int)
        })
    }
}

#[cfg(test)]
mod tests;
