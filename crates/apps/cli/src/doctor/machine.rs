//! The kernel, and the rights of this user, whichever interface is examined.

use std::fs;

/// The kernel and this process.
#[derive(Default)]
pub(super) struct Machine {
    /// The kernel's release, such as 6.12.107.
    pub(super) kernel: String,
    /// Capabilities that links take, and whether this process has them.
    pub(super) capabilities: Vec<(&'static str, bool)>,
    /// Most bytes that may be locked; `None` for no limit.
    pub(super) lockable: Option<u64>,
    /// When the kernel makes huge pages of ordinary memory: always, madvise or never; empty if it does not tell.
    pub(super) merges: String,
    /// Reserved huge pages that are free, and all of them.
    pub(super) huge_pages: (u64, u64),
    /// The kernel's busy polling of sockets, microseconds (`net.core.busy_poll`).
    pub(super) busy_poll: Option<u64>,
    /// Processors that this process may use.
    pub(super) processors: usize,
}

impl Machine {
    /// Reads it.
    pub(super) fn of_this() -> Machine {
        // What cannot be read the kernel does not have.
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Machine {
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            capabilities: pio::capabilities(),
            lockable: pio::lockable_memory(),
            merges: chosen(&read("/sys/kernel/mm/transparent_hugepage/enabled")).into(),
            huge_pages: huge_pages(&read("/proc/meminfo")),
            busy_poll: read("/proc/sys/net/core/busy_poll").trim().parse().ok(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The kernel's version as two numbers.
    pub(super) fn version(&self) -> (u32, u32) {
        let mut numbers = self.kernel.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// Returns the choice in brackets: `always [madvise] never`.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(word, _)| word)
}

/// Returns the huge pages of /proc/meminfo: free ones and all.
fn huge_pages(meminfo: &str) -> (u64, u64) {
    let number = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    };
    (number("HugePages_Free"), number("HugePages_Total"))
}

#[cfg(test)]
mod tests;
