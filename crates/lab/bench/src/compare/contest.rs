//! Our own entries in memory, and smoltcp's, as programs of their own: `millstream-bench contest WHO LOAD N SECONDS`.

use super::Figures;
use crate::memory::{self, Load};
use crate::{again, bulk, smol};

/// Connections that ask in `some`.
pub(crate) const ACTIVE: u32 = 64;

/// Options of a run of this stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Packets that the link hands over a turn, at most.
    pub(crate) batch: usize,
    /// Segments that continue each other go through the stack as one.
    pub(crate) gro: bool,
    /// The link takes super-segments.
    pub(crate) offloads: bool,
    /// The cache is asked for what will be read soon.
    pub(crate) prefetch: bool,
    /// Connections begin from cache entries, which all peers of a kind share.
    pub(crate) handshake_cache: bool,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options, String> {
        let mut options =
            Options { batch: usize::MAX, gro: true, offloads: false, prefetch: true, handshake_cache: true };
        for word in words {
            match word.split_once('=') {
                Some(("batch", n)) => options.batch = n.parse().map_err(|_| format!("batch={n}?"))?,
                Some(("gro", on)) => options.gro = on == "on",
                Some(("offloads", on)) => options.offloads = on == "on",
                Some(("prefetch", on)) => options.prefetch = on == "on",
                Some(("handshake-cache", on)) => options.handshake_cache = on == "on",
                _ => {
                    return Err(format!(
                        "{word}? There are batch=N, and gro, offloads, prefetch, handshake-cache=on|off"
                    ));
                }
            }
        }
        Ok(options)
    }
}

/// Runs one entry; its figures.
///
/// # Errors
/// Words that are unknown.
pub fn contest(words: &[String]) -> Result<Figures, String> {
    let [who, load, n, seconds, more @ ..] = words else {
        return Err(
            "contest millstream|smoltcp short|keep|some|again|bulk|rest N SECONDS [KEY=VALUE...]".into()
        );
    };
    let n: u32 = n.parse().map_err(|_| format!("{n}: a number, please"))?;
    let seconds: f64 = seconds.parse().map_err(|_| format!("{seconds}: a number, please"))?;
    let options = Options::parse(more)?;
    if !ring::prefetching(options.prefetch) {
        return Err("this program is built without the feature prefetch-switch".into());
    }
    let figure = |name: &str, value: f64| Figures::from([(name.to_string(), value)]);
    let rate =
        |(per_s, packets)| Figures::from([("per_s".to_string(), per_s), ("packets".to_string(), packets)]);
    match (who.as_str(), load.as_str()) {
        ("millstream", "short") => Ok(rate(memory::measure(Load::Short, n, 8, seconds, options.batch))),
        ("millstream", "keep") => Ok(rate(memory::measure(Load::Keep, n, 8, seconds, options.batch))),
        ("millstream", "some") => Ok(figure("per_s", memory::some(n, ACTIVE, seconds))),
        ("millstream", "again") => Ok(figure("per_s", again::rate(options.handshake_cache, n, seconds))),
        ("millstream", "rest") => Ok(figure("bytes", memory::rest(n)?)),
        ("millstream", "bulk") => Ok(figure("gbit", bulk::measure(n, seconds, options))),
        ("smoltcp", "short") => Ok(figure("per_s", smol::measure(Load::Short, n as usize, seconds))),
        ("smoltcp", "keep") => Ok(figure("per_s", smol::measure(Load::Keep, n as usize, seconds))),
        ("smoltcp", "bulk") => Ok(figure("gbit", smol::bulk::measure(seconds))),
        ("smoltcp", "rest") => Ok(figure("bytes", smol::bytes_per_socket())),
        _ => Err(format!("{who} does not do {load}")),
    }
}
