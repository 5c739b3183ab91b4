//! Two namespaces, and one run of a script between them, or between one of them and our stack.

use crate::compare::{Line, normalise};
use crate::kernel::{Kernel, Namespace, enter, turn};
use crate::ours::Ours;
use crate::path::{End, Path};
use crate::play::{Host, Meeting, play};
use crate::scripts::Script;
use base::Duration;
use drill::run::Profile;
use ring::doorbell;
use sock::{Clock, SystemClock};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

const FAR: [u8; 4] = [10, 79, 0, 2];
const NEAR_KERNEL: [u8; 4] = [10, 79, 0, 1];
/// Another than the kernel's in its place, so that nothing remembers the other's link-layer address.
const NEAR_OURS: [u8; 4] = [10, 79, 0, 3];
/// Time for packets still under way when both ends have made their calls.
const AFTERMATH: Duration = Duration::from_millis(700);

/// Stack of the near end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    Kernel,
    Ours(Profile),
}

pub(crate) struct Bed {
    near: Namespace,
    far: Namespace,
}

impl Bed {
    pub(crate) fn new() -> Result<Bed, String> {
        Ok(Bed { near: Namespace::new(NEAR_KERNEL)?, far: Namespace::new(FAR)? })
    }

    /// Runs a script. Returns the packets and results of the near end, and the largest lateness of a thread's
    /// wake-up meanwhile.
    pub(crate) fn run(&mut self, script: &Script, who: Who) -> Result<(Vec<Line>, Duration), String> {
        static PORT: AtomicU16 = AtomicU16::new(2_000);
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        let addr = if who == Who::Kernel { NEAR_KERNEL } else { NEAR_OURS };
        let (near_at, far_at) = (SocketAddrV4::new(addr.into(), port), SocketAddrV4::new(FAR.into(), port));
        self.near.prepare(script.sysctls, None)?;
        self.far.prepare(&[], script.far_mtu)?;
        let path = Arc::new(Path::new(port, script.rules));
        let ours = match who {
            Who::Ours(profile) => Some(Ours::new(path.clone(), addr, profile, script.sysctls)?),
            Who::Kernel => None,
        };
        let ((near_net, near_tap), (far_net, far_tap)) = (self.near.parts(), self.far.parts());
        let bell = || doorbell().map_err(|e| e.to_string());
        let ((far_bell, far_sleeper), (near_bell, near_sleeper)) = (bell()?, bell()?);
        path.set_bell(End::Far, far_bell);
        if who == Who::Kernel {
            path.set_bell(End::Near, near_bell);
        }
        let (stop, meeting) = (AtomicBool::new(false), Meeting::default());
        let (told, late) = std::thread::scope(|scope| {
            let mut turning = vec![scope.spawn(|| turn(far_tap, &path, (End::Far, far_sleeper), &stop))];
            if who == Who::Kernel {
                turning.push(scope.spawn(|| turn(near_tap, &path, (End::Near, near_sleeper), &stop)));
            }
            let witness = scope.spawn(|| witness(&stop));
            let far = scope.spawn(|| {
                enter(far_net)?;
                play(&Kernel, far_at, near_at, script.far, &meeting).map_err(|e| format!("the far end: {e}"))
            });
            let near = scope.spawn(|| {
                enter(near_net)?;
                let host: &dyn Host = ours.as_ref().map_or(&Kernel, |ours| ours);
                play(host, near_at, far_at, script.near, &meeting).map_err(|e| format!("the near end: {e}"))
            });
            let panicked = |_| "a thread panicked".to_owned();
            let played = (near.join().map_err(panicked), far.join().map_err(panicked));
            std::thread::sleep(AFTERMATH);
            stop.store(true, Ordering::Release);
            for thread in turning {
                thread.join().map_err(panicked)??;
            }
            played.1??;
            Ok::<_, String>((played.0??, witness.join().map_err(panicked)?))
        })?;
        let mut lines = normalise(&path.take_seen());
        lines.extend(told.into_iter().map(|text| Line { at: None, text, push: false }));
        Ok((lines, late))
    }
}

/// Sleeps again and again until told to stop; how much longer than asked it slept at most.
fn witness(stop: &AtomicBool) -> Duration {
    let (clock, nap, mut late) = (SystemClock::new(), Duration::from_millis(3), Duration::ZERO);
    while !stop.load(Ordering::Acquire) {
        let before = clock.now();
        std::thread::sleep(nap);
        late = late.max(clock.now().since(before).saturating_sub(nap));
    }
    late
}
