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
mod situations;

#[cfg(test)]
mod tests {
    //! Goal: the verdict is what took most of the interval, idle time included, and its sentence has no figure of an
    //! instant that the interval contradicts.
    use super::*;
    use serde_json::json;

    /// A row of a connection that always had something to send, 8 Mbit/s.
    fn row(now_us: u64, more: &Value) -> Value {
        let mut row = json!({
            "now_us": now_us, "limit": "application", "receive_limit": "peer", "cc": "cubic", "cwnd": 1 << 20,
            "srtt_us": 80_000, "snd_wnd": 128 << 10, "sndbuf": 1 << 20, "rcvbuf": 1 << 17, "busy_us": now_us,
            "mss": 1_448, "limited_us": {},
            "bytes_acked": now_us, "bytes_received": 0, "unsent": 1 << 20, "bytes_sent": 2_000, "reader_us": 0,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            row[key] = value.clone();
        }
        row
    }

    /// The verdict of a second in which the figures became these.
    fn second(more: Value, load: Option<f64>) -> Verdict {
        between(&Value::Null, &more, load)
    }

    fn between(was: &Value, is: &Value, load: Option<f64>) -> Verdict {
        Looks { before: &row(1_000_000, was), now: &row(2_000_000, is), load }.verdict()
    }

    /// A share of `None` is one that is not counted.
    #[track_caller]
    fn says(verdict: &Verdict, word: &str, share: impl Into<Option<f64>>, parts: &[&str]) {
        let (said, wanted) = (verdict.share.map(|share| (share * 100.0).round()), share.into());
        assert_eq!((verdict.word, said), (word, wanted.map(|share: f64| share * 100.0)), "{verdict:?}");
        for part in parts {
            assert!(verdict.text.contains(part), "{part:?} is not in {verdict:?}");
        }
    }

    fn held(name: &str) -> Value {
        json!({"limited_us": {name: 900_000}})
    }

    #[test]
    fn idle_time_wins_over_a_limit_that_hardly_held() {
        for name in HELD {
            let mostly_idle = json!({"limited_us": {name: 10_000}, "busy_us": 1_010_000, "limit": name});
            says(&second(mostly_idle, None), "idle", 0.99, &["gave 8.0 Mbit/s"]);
            let held = json!({"limited_us": {name: 510_000}, "busy_us": 1_510_000, "limit": "idle"});
            assert_eq!(second(held, None).word, name);
        }
        let still = json!({"bytes_acked": 1_000_000, "busy_us": 1_000_000, "limit": "idle"});
        says(&second(still, None), "idle", 1.0, &["Nothing to send"]);
    }

    #[test]
    fn a_slow_reader() {
        let (quiet, all) = (json!({"bytes_acked": 0}), |more: Value| {
            let mut all = json!({"bytes_acked": 0, "busy_us": 1_000_000, "bytes_received": 9_000_000});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        });
        let slow = all(json!({"reader_us": 700_000}));
        says(&between(&quiet, &slow, None), "reader", 0.7, &["shut for 70 % of the time"]);
        let stopped = all(json!({"reader_us": 1_000_000, "bytes_received": 0}));
        says(&between(&quiet, &stopped, None), "reader", 1.0, &["reads slowly"]);
        // One look that finds unread data says nothing about the second before.
        let once = all(json!({"receive_limit": "reader", "reader_us": 20_000}));
        says(&between(&quiet, &once, None), "peer", None, &["Nothing at this end"]);
        let before = json!({"bytes_acked": 0, "receive_limit": "reader"});
        says(&between(&before, &once, None), "reader", None, &[]);
    }

    #[test]
    fn a_small_send_buffer() {
        says(&second(held("send-buffer"), None), "send-buffer", 0.9, &["1.0 MiB", "105 Mbit/s", "SO_SNDBUF"]);
        let scarce = json!({"limited_us": {"send-buffer": 900_000}, "memory_scarce": true, "sndbuf": 4_096});
        says(&second(scarce, None), "send-buffer", 0.9, &["4 KiB", "memory", "`buffers`"]);
    }

    #[test]
    fn a_small_receive_buffer() {
        let small = json!({"receive_limit": "receive-buffer", "rcv_rtt_us": 100_000});
        let mut filled = small.clone();
        filled["bytes_received"] = 1_300_000.into();
        says(
            &between(&small, &filled, None),
            "receive-buffer",
            None,
            &["128 KiB over 100 ms", "10.5 Mbit/s"],
        );
    }

    #[test]
    fn the_rate_of_the_path() {
        let verdict = second(held("congestion-window"), None);
        says(
            &verdict,
            "congestion-window",
            0.9,
            &["1.0 MiB over 80 ms", "what the path carries", "0.0 % sent"],
        );
    }

    #[test]
    fn losses() {
        let lossy = json!({"limited_us": {"loss-recovery": 600_000, "congestion-window": 300_000}, "bytes_sent": 9_000,
                           "bytes_retransmitted": 1_000, "timeouts": 7});
        let verdict = between(&json!({"timeouts": 4}), &lossy, None);
        says(&verdict, "loss-recovery", 0.6, &["12.5 % of what was sent", "with 3 timeouts"]);
    }

    #[test]
    fn the_peers_window() {
        let verdict = second(held("peer-window"), None);
        says(&verdict, "peer-window", 0.9, &["128 KiB over 80 ms allow 13.1 Mbit/s", "receive buffer"]);
    }

    /// The figures of an instant are left out where the two looks differ, or where more went than they allow.
    #[test]
    fn no_window_of_an_instant() {
        for (was, is) in [
            (json!({"snd_wnd": 1 << 20}), json!({"snd_wnd": 128 << 10})),
            (json!({"srtt_us": 1_000}), json!({"srtt_us": 80_000})),
            (json!({"snd_wnd": 4_030}), json!({"snd_wnd": 4_030})),
            (json!({"snd_wnd": 0}), json!({"snd_wnd": 0})),
        ] {
            for name in ["peer-window", "application"] {
                let mut is = is.clone();
                is["limited_us"] = json!({name: 900_000});
                let verdict = between(&was, &is, None);
                assert_eq!(verdict.word, name);
                assert!(!verdict.text.contains("allow"), "{verdict:?}");
            }
        }
    }

    #[test]
    fn pacing() {
        let capped = json!({"limited_us": {"pacing": 990_000}, "pacing": 1_000_000, "max_pacing": 1_000_000});
        let parts = ["SO_MAX_PACING_RATE to 8.0 Mbit/s", "8.0 Mbit/s left"];
        says(&second(capped, None), "pacing", 0.99, &parts);
        let own = json!({"limited_us": {"pacing": 990_000}, "pacing": 250_000, "cc": "bbr"});
        says(&second(own, None), "pacing", 0.99, &["8.0 Mbit/s left at the pace of bbr"]);
    }

    #[test]
    fn a_link_that_takes_no_more() {
        says(&second(held("stack"), None), "stack", 0.9, &["its port took no more"]);
    }

    #[test]
    fn a_busy_application() {
        let computes = json!({"busy_us": 1_100_000});
        says(&second(computes.clone(), Some(0.99)), "cpu", 0.99, &["99 % busy"]);
        says(&second(computes, Some(0.94)), "idle", 0.9, &[]);
        says(&second(Value::Null, Some(0.99)), "cpu", 0.99, &[]);
        says(&second(Value::Null, Some(0.94)), "application", 1.0, &["gave 8.0 Mbit/s"]);
        says(&second(held("peer-window"), Some(0.99)), "peer-window", 0.9, &[]);
        let still = json!({"bytes_acked": 1_000_000, "busy_us": 1_000_000});
        says(&second(still, Some(0.99)), "idle", 1.0, &["Nothing to send"]);
        let receives = json!({"bytes_received": 9_000_000});
        says(&second(receives, Some(1.0)), "cpu", 1.0, &["100 % busy"]);
        let nagle = json!({"unsent": 100});
        says(&second(nagle, None), "application", 1.0, &["100 bytes wait", "TCP_NODELAY"]);
    }

    #[test]
    fn a_stalled_peer() {
        let shut = json!({"limited_us": {"peer-window": 1_000_000}, "snd_wnd": 0, "bytes_acked": 1_000_000});
        says(&second(shut, None), "peer-window", 1.0, &["shut", "does not read"]);
        let silent =
            json!({"limited_us": {"loss-recovery": 1_000_000}, "timeouts": 2, "bytes_acked": 1_000_000});
        says(
            &second(silent, None),
            "loss-recovery",
            1.0,
            &["acknowledged nothing, and 2 timeouts", "silent"],
        );
    }

    #[test]
    fn one_look_says_what_holds_now() {
        assert_eq!(word(&row(5, &json!({"limit": "peer-window"}))), "peer-window");
        assert_eq!(word(&json!({"limit": "application", "receive_limit": "reader"})), "reader");
        assert_eq!(word(&json!({"limit": "pacing", "receive_limit": "reader"})), "pacing");
        assert_eq!(
            (word(&json!({"limit": "idle", "receive_limit": "peer"})), word(&json!({}))),
            ("idle", "")
        );
    }
}
