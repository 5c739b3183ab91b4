//! Limits of a connection, from two snapshots, in words and numbers: the sender's side in RFC 4898's terms, and the
//! application's reading of received data.

use serde_json::Value;

/// Limit of one direction of a connection.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Verdict {
    /// The limit's name, as in `ss`; `cpu` besides.
    pub(crate) word: &'static str,
    /// For which share of the time it was that.
    pub(crate) share: f64,
    /// Explanation, and the remedy.
    pub(crate) text: String,
}

/// Two looks at a connection, and how busy its core was between them.
pub(crate) struct Looks<'a> {
    /// Null on a connection that is new.
    pub(crate) before: &'a Value,
    pub(crate) now: &'a Value,
    pub(crate) load: Option<f64>,
}

/// Names of the sender's limits that are counted in time.
const HELD: [&str; 6] =
    ["send-buffer", "peer-window", "congestion-window", "pacing", "loss-recovery", "stack"];

/// A core that is busy for more than this has no time left.
const SATURATED: f64 = 0.95;

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
fn octets(count: u64) -> String {
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

/// `window` bytes in each round trip of `rtt` microseconds, as text.
fn allows(window: u64, rtt: u64) -> String {
    rate(window as f64 * 8e6 / rtt.max(1) as f64)
}

impl Looks<'_> {
    fn grew(&self, key: &str) -> u64 {
        number(self.now, key).saturating_sub(number(self.before, key))
    }

    /// Microseconds between the looks; 0 on a new connection.
    pub(crate) fn span(&self) -> u64 {
        if self.before.is_null() { 0 } else { self.grew("now_us") }
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

    /// Bits a second that arrived.
    pub(crate) fn received(&self) -> f64 {
        self.bits("bytes_received")
    }

    /// Of the two directions that which moves more.
    pub(crate) fn verdict(&self) -> Verdict {
        if self.received() > self.sent() { self.receiver() } else { self.sender() }
    }

    /// Returns the limit of this end's sending.
    pub(crate) fn sender(&self) -> Verdict {
        let (word, share) = self.sender_word();
        Verdict { word, share, text: self.explain(word) }
    }

    fn sender_word(&self) -> (&'static str, f64) {
        let held = |name: &'static str| {
            let time = number(&self.now["limited_us"], name);
            (name, time.saturating_sub(number(&self.before["limited_us"], name)))
        };
        let current = self.now["limit"].as_str().unwrap_or("");
        if self.span() == 0 {
            let known = ["idle", "application"].iter().chain(&HELD).find(|name| **name == current);
            return (known.copied().unwrap_or("idle"), 1.0);
        }
        let busy = self.grew("busy_us").min(self.span());
        let times = HELD.map(held);
        let (top, longest) = times.into_iter().max_by_key(|&(_, time)| time).unwrap_or(("idle", 0));
        let all: u64 = times.iter().map(|&(_, time)| time).sum();
        let free = self.share(busy.saturating_sub(all));
        if current == "idle" && self.grew("bytes_acked") == 0 {
            return ("idle", 1.0);
        }
        let saturated = self.load.filter(|&load| load > SATURATED);
        if let (Some(load), true) = (saturated, all * 2 < busy.max(1) || top == "stack") {
            return ("cpu", load);
        }
        if longest > 0 && all >= busy.saturating_sub(all) {
            return (top, self.share(longest));
        }
        // It had nothing to send for the rest.
        ("application", self.share(self.span() - busy) + free)
    }

    /// Returns the limit of the peer's sending, as far as this end can tell.
    pub(crate) fn receiver(&self) -> Verdict {
        let slow = self.share(self.grew("reader_us"));
        let limit = self.now["receive_limit"].as_str().unwrap_or("");
        let (word, share) = match limit {
            _ if self.span() > 0 && slow >= SLOW_READER => ("reader", slow),
            "reader" => ("reader", slow),
            "receive-buffer" => ("receive-buffer", 1.0),
            _ => match self.load.filter(|&load| load > SATURATED && self.received() > 0.0) {
                Some(load) => ("cpu", load),
                None => ("peer", 1.0),
            },
        };
        Verdict { word, share, text: self.explain(word) }
    }

    fn explain(&self, word: &str) -> String {
        let row = self.now;
        let (srtt, cc) = (number(row, "srtt_us"), row["cc"].as_str().unwrap_or("the policy"));
        let rtt = ms(srtt);
        match word {
            "idle" => "Nothing to send, and nothing in flight.".into(),
            "application" => self.explain_application(),
            "send-buffer" if row["memory_scarce"] == true => format!(
                "More than half of the core's memory for data is in use, so the send buffer is held at {}, this \
                 connection's share: raise `buffers`, or look for peers that do not read (`millstream stat` shows \
                 chunks_used of chunks_most).",
                octets(number(row, "sndbuf"))
            ),
            "send-buffer" => format!(
                "All that the application wrote is in flight, and it waits for room: {} over {rtt} allow {}. Raise \
                 SO_SNDBUF, or do not set it, so that it grows with the window (setting sndbuf).",
                octets(number(row, "sndbuf")),
                allows(number(row, "sndbuf"), srtt)
            ),
            "peer-window" if number(row, "snd_wnd") == 0 => {
                "The peer's window is shut: its application does not read what it was sent.".into()
            }
            "peer-window" => format!(
                "The peer's window of {} over {rtt} allows {}: raise its receive buffer, or have its application read \
                 faster.",
                octets(number(row, "snd_wnd")),
                allows(number(row, "snd_wnd"), srtt)
            ),
            "congestion-window" => format!(
                "The congestion window of {} ({cc}) over {rtt} allows {}: this is what the path carries as far as \
                 {cc} knows, with {} sent again.",
                octets(number(row, "cwnd")),
                allows(number(row, "cwnd"), srtt),
                self.again()
            ),
            "pacing" => self.explain_pacing(cc),
            "loss-recovery" => format!(
                "The path loses packets: {} of what was sent went again, with {} timeouts since the connection began. \
                 {cc} keeps a window of {} over {rtt}, which allows {}.",
                self.again(),
                number(row, "timeouts"),
                octets(number(row, "cwnd")),
                allows(number(row, "cwnd"), srtt)
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
                "The application reads slowly: {} wait to be read, the window it leaves the peer is {}, and it was \
                 shut for {} of the time.",
                octets(number(row, "recv_q")),
                octets(number(row, "rcv_wnd")),
                percent(self.share(self.grew("reader_us")))
            ),
            "receive-buffer" => {
                let rtt = number(row, "rcv_rtt_us").max(srtt);
                format!(
                    "The application reads at once, but a receive buffer of {} over {} allows {}: raise SO_RCVBUF, or \
                     do not set it, so that it grows (setting rcvbuf is how far).",
                    octets(number(row, "rcvbuf")),
                    ms(rtt),
                    allows(number(row, "rcvbuf"), rtt)
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
        let window = number(row, "cwnd").min(number(row, "snd_wnd"));
        let srtt = number(row, "srtt_us");
        format!(
            "The application has no more to send: it gave {}, and the windows allow {}. Nothing in the network would \
             make it faster.",
            rate(self.sent()),
            allows(window, srtt)
        )
    }

    fn explain_pacing(&self, cc: &str) -> String {
        let bits = |key: &str| self.now[key].as_u64().map(|octets| rate(octets as f64 * 8.0));
        let pace = bits("pacing").unwrap_or_else(|| "a rate".into());
        match bits("max_pacing") {
            Some(most) if self.now["max_pacing"] == self.now["pacing"] => {
                format!(
                    "The application set SO_MAX_PACING_RATE, and {most} is what leaves: raise it, or do not set it."
                )
            }
            _ => format!("{cc} sends at {pace}, which it measured the path to deliver."),
        }
    }

    /// The share of bytes that were sent again since the last look, or ever.
    fn again(&self) -> String {
        let (again, sent) = (self.grew("bytes_retransmitted"), self.grew("bytes_sent"));
        format!("{:.1} %", again as f64 * 100.0 / (again + sent).max(1) as f64)
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
mod tests {
    //! Goal: the verdict is what took most of the time between two looks, and its sentence has the numbers of the row.
    use super::*;
    use serde_json::json;

    fn row(now_us: u64, limit: &str, more: &Value) -> Value {
        let mut row = json!({
            "now_us": now_us, "limit": limit, "receive_limit": "peer", "cc": "cubic", "cwnd": 1 << 20,
            "srtt_us": 80_000, "snd_wnd": 64 << 10, "sndbuf": 1 << 20, "rcvbuf": 1 << 17, "busy_us": now_us,
            "mss": 1_448, "limited_us": {},
            "bytes_acked": now_us, "bytes_received": 0, "unsent": 1 << 20, "bytes_sent": 2_000, "reader_us": 0,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            row[key] = value.clone();
        }
        row
    }

    /// The verdict of a second in which the figures grew from nothing to these.
    fn second(limit: &str, more: Value, load: Option<f64>) -> Verdict {
        let (before, now) = (row(1_000_000, limit, &Value::Null), row(2_000_000, limit, &more));
        Looks { before: &before, now: &now, load }.verdict()
    }

    #[track_caller]
    fn says(verdict: &Verdict, word: &str, share: f64, parts: &[&str]) {
        assert_eq!((verdict.word, (verdict.share * 100.0).round()), (word, share * 100.0), "{verdict:?}");
        for part in parts {
            assert!(verdict.text.contains(part), "{part:?} is not in {verdict:?}");
        }
    }

    #[test]
    fn the_longest_wins_and_says_its_numbers() {
        let held = |name: &str| json!({"limited_us": {name: 900_000}});
        says(
            &second("peer-window", held("peer-window"), None),
            "peer-window",
            0.9,
            &["64 KiB over 80 ms", "6.6 Mbit/s"],
        );
        says(
            &second("idle", held("send-buffer"), None),
            "send-buffer",
            0.9,
            &["1.0 MiB", "105 Mbit/s", "SO_SNDBUF"],
        );
        let scarce = json!({"limited_us": {"send-buffer": 900_000}, "memory_scarce": true, "sndbuf": 4_096});
        says(&second("idle", scarce, None), "send-buffer", 0.9, &["4 KiB", "memory", "`buffers`"]);
        says(
            &second("", held("congestion-window"), None),
            "congestion-window",
            0.9,
            &["1.0 MiB (cubic) over 80 ms"],
        );
        says(&second("", held("stack"), None), "stack", 0.9, &["its port took no more"]);
        let lossy = json!({"limited_us": {"loss-recovery": 600_000, "congestion-window": 300_000}, "bytes_sent": 9_000,
                           "bytes_retransmitted": 1_000, "timeouts": 3});
        says(&second("", lossy, None), "loss-recovery", 0.6, &["12.5 % of what was sent", "3 timeouts"]);
        let capped = json!({"limited_us": {"pacing": 990_000}, "pacing": 125_000, "max_pacing": 125_000});
        says(&second("", capped, None), "pacing", 0.99, &["SO_MAX_PACING_RATE", "1.0 Mbit/s"]);
        let own = json!({"limited_us": {"pacing": 990_000}, "pacing": 250_000, "cc": "bbr"});
        says(&second("", own, None), "pacing", 0.99, &["bbr sends at 2.0 Mbit/s"]);
        let shut = json!({"limited_us": {"peer-window": 1_000_000}, "snd_wnd": 0});
        says(&second("", shut, None), "peer-window", 1.0, &["does not read"]);
    }

    #[test]
    fn who_is_not_held_is_the_applications() {
        let little = json!({"limited_us": {"peer-window": 50_000}, "busy_us": 1_300_000});
        says(
            &second("application", little, None),
            "application",
            0.95,
            &["gave 8.0 Mbit/s", "allow 6.6 Mbit/s"],
        );
        let nagle = json!({"busy_us": 2_000_000, "unsent": 100});
        says(&second("application", nagle, None), "application", 1.0, &["100 bytes wait", "TCP_NODELAY"]);
        let still = json!({"bytes_acked": 1_000_000, "busy_us": 1_000_000});
        says(&second("idle", still, None), "idle", 1.0, &["Nothing to send"]);
        says(&second("application", Value::Null, Some(0.99)), "cpu", 0.99, &["99 % busy"]);
        says(&second("application", Value::Null, Some(0.94)), "application", 1.0, &[]);
    }

    #[test]
    fn what_is_received() {
        let come = |more: Value| {
            let mut all = json!({"bytes_acked": 1_000_000, "bytes_received": 9_000_000});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let slow = come(json!({"reader_us": 700_000, "recv_q": 65_536, "rcv_wnd": 100}));
        says(&second("idle", slow, None), "reader", 0.7, &["64 KiB wait", "100 bytes", "70 % of the time"]);
        let small = come(json!({"receive_limit": "receive-buffer", "rcv_rtt_us": 100_000}));
        says(&second("idle", small, None), "receive-buffer", 1.0, &["128 KiB over 100 ms", "10.5 Mbit/s"]);
        says(&second("idle", come(json!({})), None), "peer", 1.0, &["Nothing at this end"]);
        says(&second("idle", come(json!({})), Some(1.0)), "cpu", 1.0, &["100 % busy"]);
    }

    #[test]
    fn one_look_says_what_holds_now() {
        let now = row(5, "peer-window", &Value::Null);
        says(&Looks { before: &Value::Null, now: &now, load: None }.verdict(), "peer-window", 1.0, &[]);
        assert_eq!(word(&now), "peer-window");
        assert_eq!(word(&json!({"limit": "application", "receive_limit": "reader"})), "reader");
        assert_eq!(word(&json!({"limit": "pacing", "receive_limit": "reader"})), "pacing");
        assert_eq!(
            (word(&json!({"limit": "idle", "receive_limit": "peer"})), word(&json!({}))),
            ("idle", "")
        );
    }
}
