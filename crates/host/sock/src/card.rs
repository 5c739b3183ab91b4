//! Receive offload on threads of its own: the setting `offload_workers`.

use crate::clock::{Clock, SystemClock};
use crate::cpu::pin_to;
use crate::open::OpenError;
use crate::settings::{Offload, Receivers, Settings, Workers};
use base::Duration;
use pio::{Card, CardConfig, PacketIo};

/// The workers of a card that do not receive: at the link, and on the way up.
const OTHERS: usize = 2;

/// The port of a core behind a card with as many receive workers as are requested, if any are.
pub(crate) fn card(
    settings: &Settings,
    core: usize,
    seed: u64,
    port: Box<dyn PacketIo>,
) -> Result<Box<dyn PacketIo>, OpenError> {
    let Receivers(receivers @ 1..) = settings.offload_workers else { return Ok(port) };
    let engine = engine(settings)?;
    let threads = usize::from(receivers) + OTHERS;
    let Workers(lanes) = settings.workers;
    // Behind the CPUs of all cores' own threads and of the lanes' helpers.
    let first = usize::from(settings.cores) * usize::from(lanes.max(1)) + core * threads;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let enough = cpus >= usize::from(settings.cores) * (usize::from(lanes.max(1)) + threads);
    let spin = if enough { Duration::from_micros(settings.spin_us) } else { Duration::ZERO };
    let config = CardConfig { engine, spin, ..CardConfig::new(receivers.into(), seed ^ core as u64) };
    let pinned = settings.pin && enough;
    let begin = move |number| {
        if pinned {
            // Without its own CPU it runs where the kernel puts it.
            pin_to(first + number);
        }
    };
    let clock = SystemClock::new();
    match Card::over(port, &config, &format!("card{core}"), move || clock.now(), begin) {
        Ok(card) => Ok(Box::new(card)),
        Err(e) => Err(refusal(settings, &format!("do not start: {e}; use fewer"))),
    }
}

/// How the workers merge, if there are to be any.
///
/// # Errors
/// Other settings exclude receive workers.
pub(crate) fn engine(settings: &Settings) -> Result<Option<offload::Config>, OpenError> {
    let any = settings.offload_workers.0 > 0;
    if any && settings.share != 0 {
        let why = "and share: whose a segment is must be known at once; set one of them to 0";
        return Err(refusal(settings, why));
    }
    let plain = offload::Config::default();
    let budget = Duration::from_micros(settings.offload_budget.0);
    match settings.offload {
        Offload::Off => Ok(None),
        Offload::Inline => Ok(Some(plain)),
        Offload::Hold => Ok(Some(offload::Config { hold: budget, ..plain })),
        Offload::Reorder => Ok(Some(offload::Config { reorder: budget, ..plain })),
    }
}

fn refusal(settings: &Settings, why: &str) -> OpenError {
    OpenError::because(format!("offload_workers = {} {why}", settings.offload_workers.0))
}
