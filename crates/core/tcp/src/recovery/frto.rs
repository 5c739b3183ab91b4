//! F-RTO (RFC 5682): was a timeout needless? One segment is sent again. If the acknowledgment of it covers not all
//! that was in flight, new data follows instead of more repairs; if what is acknowledged next was never sent again,
//! nothing was lost but time. Where there are timestamps they tell sooner (RFC 3522).

use base::Seq;

use crate::connection::Connection;
use crate::due::Due;
use crate::recovery::loss::{Frto, Loss};
use crate::recovery::scoreboard::Sacked;
use crate::state::Phase;

impl Connection {
    /// An acknowledgment of `una` after a timeout, before the repair takes notice: true if it shows that the timeout
    /// was needless.
    /// RFC 5682, 2.1-2, 2.1-3 and 2.1-5.
    pub(crate) fn test_timeout(&mut self, una: Seq, sacked: &Sacked) -> bool {
        let advanced = una.after(self.snd.una());
        let room = self.has_unsent() && self.snd.window() > self.snd.flight();
        let Some(loss) = self.recovery.loss.as_mut().filter(|loss| loss.phase == Phase::Timeout) else {
            return false;
        };
        let (now, needless) = match loss.frto {
            Frto::Off => return false,
            // All of it: the first segment was what was missing, or nothing was; which, does not matter any more.
            Frto::One if advanced && una.before(loss.recover) && room => (Frto::Push, false),
            Frto::One => (Frto::Off, false),
            Frto::Push | Frto::New => (Frto::Off, loss.is_answered(una, advanced, sacked)),
        };
        if loss.frto.holds_back() && !needless {
            // Step 3a: the new data fills the window, and still the repair goes on.
            loss.urgent = true;
        }
        loss.frto = now;
        self.request(Due::DATA);
        needless
    }

    /// Does the test send new data now?
    pub(crate) fn tests_by_new_data(&self) -> bool {
        self.recovery.loss.as_ref().is_some_and(|loss| loss.frto == Frto::Push)
    }

    /// Ends a test for which no new data could leave: the repair goes on (step 2b). Returns true if that was so.
    pub(crate) fn ends_test(&mut self) -> bool {
        let nxt = self.snd.nxt();
        let Some(loss) = self.recovery.loss.as_mut().filter(|loss| loss.frto == Frto::Push) else {
            return false;
        };
        let is_in_vain = loss.recover == nxt;
        if is_in_vain {
            loss.frto = Frto::Off;
        }
        is_in_vain
    }
}

impl Loss {
    /// Does the acknowledgment cover something that left once only, and nothing beyond the timeout's flight while
    /// there are holes in it (section 3.1, step 3)?
    /// RFC 5682, 2.1-4 and 3.1-1.
    fn is_answered(&self, una: Seq, advanced: bool, sacked: &Sacked) -> bool {
        let original = advanced && una.after(self.resend);
        let selectively =
            sacked.lowest.is_some_and(|seq| seq.at_or_after(self.resend) && seq.before(self.recover));
        original || selectively
    }
}
