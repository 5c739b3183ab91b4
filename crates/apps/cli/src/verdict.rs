//! Limits of a connection, from two snapshots, in words and numbers: the sender's side in RFC 4898's terms, and the
//! application's reading of received data.

use serde_json::Value;

/// Limit of one direction of a connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Verdict {
    /// The limit's name, as in `ss`; `cpu` besides.
    pub(crate) word: &'static str,
    /// Share of the interval in which it held; `None` where no time is counted.
    pub(crate) share: Option<f64>,
    /// Explanation, and the remedy.
    pub(crate) text: String,
}

/// Two looks at a connection, and how busy its core was between them.
pub(crate) struct Looks<'a> {
    pub(crate) before: &'a Value,
    pub(crate) now: &'a Value,
    pub(crate) load: Option<f64>,
}

/// Names of the sender's limits that are counted in time.
const HELD: [&str; 6] =
    ["send-buffer", "peer-window", "congestion-window", "pacing", "loss-recovery", "stack"];

/// A core that is busy for more than this has no time left.
const SATURATED: f64 = 0.95;

/// A share of the bytes sent again from which losses, and not the path's rate, hold a congestion window.
const LOSSY: f64 = 0.02;

/// A share of the time from which a reader counts as slow.
const SLOW_READER: f64 = 0.3;

/// A number in a row.
pub(crate) fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

/// `bits` a second with its unit.
pub(crate) fn rate(bits: f64) -> String {
    let (mut value, mut unit) = (bits, "bit/s");
    for larger in ["kbit/s", "Mbit/s", "Gbit/s"] {
        if value < 999.5 {
            break;
        }
        (value, unit) = (value / 1_000.0, larger);
    }
    let digits = usize::from(value < 99.95 && unit != "bit/s");
    format!("{value:.digits$} {unit}")
}

/// Bytes with their unit.
fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} bytes"),
        1_024..1_048_576 => format!("{:.0} KiB", count as f64 / 1_024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn ms(micros: u64) -> String {
    format!("{} ms", (micros as f64 / 1_000.0 * 10.0).round() / 10.0)
}

impl Looks<'_> {
    fn grew(&self, key: &str) -> u64 {
        number(self.now, key).saturating_sub(number(self.before, key))
    }

    /// Microseconds between the looks.
    pub(crate) fn span(&self) -> u64 {
        self.grew("now_us")
    }

    fn share(&self, micros: u64) -> f64 {
        (micros as f64 / self.span().max(1) as f64).min(1.0)
    }

    fn bits(&self, key: &str) -> f64 {
        match self.span() {
            0 => 0.0,
            span => self.grew(key) as f64 * 8e6 / span as f64,
        }
    }

    /// Bits a second that were acknowledged.
    pub(crate) fn sent(&self) -> f64 {
        self.bits("bytes_acked")
    }

    /// Bits a second that left, retransmissions included.
    pub(crate) fn left(&self) -> f64 {
        self.bits("bytes_sent") + self.bits("bytes_retransmitted")
    }

    /// Bits a second that arrived.
    pub(crate) fn received(&self) -> f64 {
        self.bits("bytes_received")
    }

    /// Of the two directions that which moves more; a reader that stopped lets nothing arrive.
    pub(crate) fn verdict(&self) -> Verdict {
        let receiver = self.receiver();
        let (received, sent) = (self.received(), self.sent());
        if received > sent || received == sent && receiver.word == "reader" {
            receiver
        } else {
            self.sender()
        }
    }

    /// Returns the limit of this end's sending.
    pub(crate) fn sender(&self) -> Verdict {
        let (word, share) = self.sender_word();
        Verdict { word, share, text: self.explain(word) }
    }

    /// Returns what held sending for longest: one of the limits, or nothing, where everything written was in flight
    /// (`application`) or acknowledged (`idle`).
    fn sender_word(&self) -> (&'static str, Option<f64>) {
        let held = |name: &'static str| {
            let time = number(&self.now["limited_us"], name);
            (name, time.saturating_sub(number(&self.before["limited_us"], name)))
        };
        let times = HELD.map(held);
        let all: u64 = times.iter().map(|&(_, time)| time).sum();
        let busy = self.grew("busy_us").min(self.span());
        let free = [("application", busy.saturating_sub(all)), ("idle", self.span() - busy)];
        let (word, longest) =
            times.into_iter().chain(free).max_by_key(|&(_, time)| time).unwrap_or(("idle", 0));
        // A window that random losses keep small says nothing of the path's rate.
        if word == "congestion-window" && self.lost() >= LOSSY {
            return ("loss-recovery", Some(self.share(longest + held("loss-recovery").1)));
        }
        match self.saturated() {
            Some(load) if matches!(word, "idle" | "application" | "stack") && self.sent() > 0.0 => {
                ("cpu", Some(load))
            }
            _ => (word, Some(self.share(longest))),
        }
    }

    /// Returns the load of a core that had no time left.
    fn saturated(&self) -> Option<f64> {
        self.load.filter(|&load| load > SATURATED)
    }

    /// Returns the limit of the peer's sending, as far as this end can tell.
    pub(crate) fn receiver(&self) -> Verdict {
        let slow = self.share(self.grew("reader_us"));
        let limit = self.now["receive_limit"].as_str().unwrap_or("");
        // Only the time of a shut window is counted. Of the rest it is known what both looks agree on.
        let stays = self.before["receive_limit"] == self.now["receive_limit"];
        let (word, share) = match (limit, self.saturated()) {
            _ if slow >= SLOW_READER => ("reader", Some(slow)),
            ("reader", _) if stays => ("reader", None),
            ("receive-buffer", _) if stays => ("receive-buffer", None),
            (_, Some(load)) if self.received() > 0.0 => ("cpu", Some(load)),
            _ => ("peer", None),
        };
        Verdict { word, share, text: self.explain(word) }
    }

    /// Returns a value that both looks have, to an eighth.
    fn steady(&self, key: &str) -> Option<u64> {
        let (was, is) = (self.before[key].as_u64()?, self.now[key].as_u64()?);
        (was.abs_diff(is) <= was.max(is) / 8).then_some(is)
    }

    /// Returns the text of a window and what it allows in round trips of `rtt`, where both looks have the same of
    /// either, and the interval's `rate` does not exceed it: a window of one instant says nothing about an interval.
    fn allows(&self, window: &str, rtt: &str, moved: f64) -> Option<String> {
        let (window, rtt) = (self.steady(window)?, self.steady(rtt).filter(|&rtt| rtt > 0)?);
        let bits = window as f64 * 8e6 / rtt as f64;
        (bits >= moved * 0.9).then(|| format!(" {} over {} allow {}.", bytes(window), ms(rtt), rate(bits)))
    }

    fn explain(&self, word: &str) -> String {
        let row = self.now;
        let (sent, cc) = (rate(self.sent()), row["cc"].as_str().unwrap_or("the policy"));
        let of = |window| self.allows(window, "srtt_us", self.sent()).unwrap_or_default();
        match word {
            "idle" if self.sent() > 0.0 => format!(
                "The application had nothing to send and nothing was in flight for most of the time; it gave {sent}."
            ),
            "idle" => "Nothing to send, and nothing in flight.".into(),
            "application" => self.explain_application(),
            "send-buffer" if row["memory_scarce"] == true => format!(
                "More than half of the core's memory for data is in use, so the send buffer is held at {}, this \
                 connection's share: raise `buffers`, or look for peers that do not read (`millstream stat` shows \
                 chunks_used of chunks_most).",
                bytes(number(row, "sndbuf"))
            ),
            "send-buffer" => format!(
                "All that the application wrote was in flight, and it waited for room.{} Raise SO_SNDBUF, or do not \
                 set it, so that it grows with the window (setting sndbuf).",
                of("sndbuf")
            ),
            // What is left of it may be too small for a segment.
            "peer-window"
                if number(row, "snd_wnd") < number(row, "mss") && self.grew("bytes_acked") < number(row, "mss") =>
            {
                "The peer's window is shut, and nothing left: its application does not read what it was sent.".into()
            }
            "peer-window" => format!(
                "The peer's window was full.{} Raise its receive buffer, or have its application read faster.",
                of("snd_wnd")
            ),
            "congestion-window" => format!(
                "The congestion window ({cc}) was full.{} This is what the path carries as far as {cc} knows, with {} \
                 sent again.",
                of("cwnd"),
                self.again()
            ),
            "pacing" => self.explain_pacing(cc),
            "loss-recovery" if self.grew("bytes_acked") == 0 => format!(
                "The peer acknowledged nothing, and {} timeouts passed: it, or the path to it, is silent.",
                self.grew("timeouts")
            ),
            "loss-recovery" => format!(
                "The path loses packets: {} of what was sent went again, with {} timeouts. Losses keep the congestion \
                 window ({cc}) small.",
                self.again(),
                self.grew("timeouts")
            ),
            "stack" => "The core could send, but its port took no more, or there was no frame: the interface is slower \
                        than the connection (`millstream stat` counts no_frame and what the link refused)."
                .into(),
            "cpu" => format!(
                "The thread that turns its core had no time left ({} busy), stack and application together: give the \
                 program more cores, or it less to do.",
                percent(self.load.unwrap_or(1.0))
            ),
            "reader" => format!(
                "The application reads slowly: the window it leaves the peer was shut for {} of the time.",
                percent(self.share(self.grew("reader_us")))
            ),
            "receive-buffer" => {
                let rtt = if number(row, "rcv_rtt_us") > 0 { "rcv_rtt_us" } else { "srtt_us" };
                format!(
                    "The application reads at once, but a round trip's data nearly fills the receive buffer.{} Raise \
                     SO_RCVBUF, or do not set it, so that it grows (setting rcvbuf is how far).",
                    self.allows("rcvbuf", rtt, self.received()).unwrap_or_default()
                )
            }
            _ => "Nothing at this end: the peer has no more to send, or the path carries no more.".into(),
        }
    }

    fn explain_application(&self) -> String {
        let row = self.now;
        let (unsent, mss) = (number(row, "unsent"), number(row, "mss"));
        if unsent > 0 && unsent < mss && row["nodelay"] != true {
            return format!(
                "{unsent} bytes wait, too few for a segment of {mss} while others are in flight (Nagle's algorithm): \
                 write more at once, or set TCP_NODELAY."
            );
        }
        format!(
            "The application has no more to send: it gave {}, and waited for acknowledgments of all of it. No window \
             held it for as long.",
            rate(self.sent())
        )
    }

    fn explain_pacing(&self, cc: &str) -> String {
        let sent = rate(self.sent());
        match self.now["max_pacing"].as_u64() {
            Some(most) if self.now["max_pacing"] == self.now["pacing"] => format!(
                "The application set SO_MAX_PACING_RATE to {}, and {sent} left: raise it, or do not set it.",
                rate(most as f64 * 8.0)
            ),
            _ => format!(
                "{sent} left at the pace of {cc}, which is the rate that it measured the path to deliver."
            ),
        }
    }

    /// Returns the share of bytes that were sent again in the interval.
    fn lost(&self) -> f64 {
        let (again, sent) = (self.grew("bytes_retransmitted"), self.grew("bytes_sent"));
        again as f64 / (again + sent).max(1) as f64
    }

    fn again(&self) -> String {
        format!("{:.1} %", self.lost() * 100.0)
    }
}

/// Returns the limit of a connection in one snapshot: the side that is held, or the one that moved more.
pub(crate) fn word(row: &Value) -> &str {
    let (sender, receiver) = (row["limit"].as_str(), row["receive_limit"].as_str());
    let receives = number(row, "bytes_received") > number(row, "bytes_acked");
    match (sender, receiver) {
        (Some("idle" | "application"), Some(held @ ("reader" | "receive-buffer"))) => held,
        (Some("idle"), Some(peer)) if receives => peer,
        (sender, _) => sender.unwrap_or(""),
    }
}

#[cfg(test)]
mod tests;
