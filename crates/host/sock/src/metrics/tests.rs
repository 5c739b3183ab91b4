//! Goal: what is served is OpenMetrics to the letter, says everything that is counted, and strangers who ask wrongly,
//! slowly or in crowds get little and hold up nothing.
use super::*;
use crate::{Limits, Runner, SystemClock};
use pio::{PairConfig, pair};
use std::collections::HashSet;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

fn a_stack() -> Stack {
    let (port, _) = pair(&PairConfig::default()).unwrap();
    let core = stack::Core::new(stack::CoreConfig::default(), Box::new(port));
    let engine = Engine::new(core, Box::new(SystemClock::new()), Limits::default());
    Arc::new(Runner::new(engine, Box::new(crate::runner::Threads)))
}

fn is_name(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_' || c == b':');
    first && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b':')
}

/// Reads a text by the grammar of OpenMetrics 1.0, as far as it concerns counters, gauges and gauge histograms; the
/// families, and how many samples there are.
fn parse(text: &str) -> Result<(Vec<String>, usize), String> {
    let body = text.strip_suffix("# EOF\n").ok_or("does not end with EOF")?;
    let (mut families, mut kind, mut samples) = (Vec::<String>::new(), "", 0);
    let (mut series, mut below) = (HashSet::new(), None::<(f64, u64)>);
    for line in body.lines() {
        let refuse = |why: &str| Err(format!("{why}: {line}"));
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let [Some(what), Some(name), Some(value)] = [words.next(), words.next(), words.next()] else {
                return refuse("metadata has three words");
            };
            match what {
                "TYPE" if !is_name(name) || families.iter().any(|known| known == name) => {
                    return refuse("a family begins once, and with a name");
                }
                "TYPE" => {
                    let reserved =
                        ["_total", "_created", "_count", "_sum", "_bucket", "_gcount", "_gsum", "_info"];
                    if reserved.iter().any(|end| name.ends_with(end)) {
                        return refuse("the name ends as a sample does");
                    }
                    families.push(name.into());
                    kind = ["counter", "gauge", "gaugehistogram"]
                        .into_iter()
                        .find(|&k| k == value)
                        .ok_or_else(|| format!("unknown type: {line}"))?;
                }
                _ if families.last().map(String::as_str) != Some(name) => {
                    return refuse("metadata of another family");
                }
                "UNIT" if !name.ends_with(&format!("_{value}")) => return refuse("the unit ends the name"),
                "UNIT" | "HELP" => {}
                _ => return refuse("unknown metadata"),
            }
            continue;
        }
        let family = families.last().ok_or("a sample before the first family")?;
        let (head, value) = line.rsplit_once(' ').ok_or("a sample has a value")?;
        let (name, labels) = head.strip_suffix('}').and_then(|h| h.split_once('{')).ok_or("want labels")?;
        let suffix = name.strip_prefix(family.as_str()).ok_or_else(|| format!("another family: {line}"))?;
        let mut bound = None;
        for label in labels.split(',') {
            let (key, text) = label.split_once('=').ok_or("a label has a value")?;
            let text = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')).ok_or("quotes")?;
            if !is_name(key) || key.contains(':') || text.contains(['"', '\\', '\n']) {
                return refuse("label");
            }
            if key == "le" {
                bound = Some(if text == "+Inf" { f64::INFINITY } else { text.parse().map_err(|_| "le")? });
            }
        }
        if !series.insert(head.to_string()) {
            return refuse("twice");
        }
        let number: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
        match (kind, suffix) {
            ("counter", "_total") | ("gauge", "") if number >= 0.0 => {}
            ("gaugehistogram", "_bucket") => {
                let (bound, count) = (bound.ok_or("le")?, number as u64);
                let grows = below.is_none_or(|(b, c)| bound > b && count >= c);
                if !grows {
                    return refuse("buckets hold those below them");
                }
                below = Some((bound, count));
            }
            ("gaugehistogram", "_gcount") => {
                if below.take() != Some((f64::INFINITY, number as u64)) {
                    return refuse("the last bucket holds all");
                }
            }
            ("gaugehistogram", "_gsum") => {}
            _ => return refuse("no sample of this type"),
        }
        samples += 1;
    }
    Ok((families, samples))
}

#[test]
fn every_row_of_every_core_by_the_grammar() {
    let stacks = [a_stack(), a_stack()];
    stacks[1].inspect(Box::new(|engine| {
        engine.core().attach(Box::new(BlackBox::new(trace::blackbox::Size::default())));
    }));
    let text = text(&stacks);
    let (families, samples) = parse(&text).unwrap();
    let tcp = tcp::Counters::ROWS.iter().map(|row| ("tcp", row));
    for (section, (name, help)) in tcp.chain(stack::Stats::ROWS.iter().map(|row| ("stack", row))) {
        let (family, _) = family(section, name);
        assert!(families.contains(&family), "{family}");
        assert!(text.contains(&format!("# HELP {family} {help}")), "{family}: {help}");
    }
    for why in stack::PacketDrop::ALL {
        assert!(text.contains(&format!("millstream_stack_{}_total{{core=\"1\"", why.name())), "{why}");
    }
    let process = std::process::id();
    for line in [
        "# TYPE millstream_sock_spin_seconds counter".to_string(),
        "# UNIT millstream_sock_spin_seconds seconds".into(),
        format!("millstream_sock_spin_seconds_total{{core=\"0\",process=\"{process}\"}} 0.000000"),
        "# UNIT millstream_tcp_in_bytes bytes".into(),
        format!("millstream_blackbox_connections{{core=\"1\",process=\"{process}\"}} 0"),
        format!("millstream_connection_rtt_seconds_bucket{{core=\"0\",process=\"{process}\",le=\"+Inf\"}} 0"),
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
    // Two cores each, but the black box of one.
    let histograms = 2 * (13 + 2) + 2 * (9 + 2);
    assert_eq!(samples, 2 * (families.len() - 2 - 5) + 5 + histograms);
}

#[test]
fn the_grammar_refuses_what_is_not_openmetrics() {
    let good = "# TYPE a counter\n# HELP a x\na_total{core=\"0\"} 1\n# EOF\n";
    assert!(parse(good).is_ok());
    for (from, to) in [
        ("# EOF\n", ""),
        ("a_total{", "a{"),
        ("counter", "gauge"),
        ("} 1", "} one"),
        ("} 1\n", "} 1\na_total{core=\"0\"} 1\n"),
        ("# HELP a", "# HELP b"),
        ("TYPE a ", "TYPE a_total "),
        ("# HELP a x", "# UNIT a bytes"),
    ] {
        assert!(parse(&good.replacen(from, to, 1)).is_err(), "{from} -> {to}");
    }
    let buckets = |a: u32, b: u32, all: u32| {
        format!(
            "# TYPE h gaugehistogram\nh_bucket{{le=\"1.0\"}} {a}\nh_bucket{{le=\"+Inf\"}} {b}\n\
             h_gcount{{x=\"\"}} {all}\n# EOF\n"
        )
    };
    assert!(parse(&buckets(1, 2, 2)).is_ok());
    assert!(parse(&buckets(3, 2, 2)).is_err() && parse(&buckets(1, 2, 3)).is_err());
}

#[test]
fn what_differs_between_connections_is_counted_in_buckets() {
    let [mut rtt, mut bytes] = Histogram::of_connections();
    [0, 100, 101, 2_000_000].into_iter().for_each(|micros| rtt.add(micros));
    [0, 1, 1 << 33].into_iter().for_each(|n| bytes.add(n));
    let told = Told { samples: Vec::new(), histograms: vec![rtt, bytes] };
    let text = render(&[told], 7);
    parse(&text).unwrap();
    for line in
        ["le=\"0.000100\"} 2", "le=\"0.000250\"} 3", "le=\"1.000000\"} 3", "le=\"+Inf\"} 4", "} 2.000201"]
    {
        assert!(text.contains(line), "{line}\n{text}");
    }
    for line in [
        "le=\"0.0\"} 1",
        "le=\"1024.0\"} 2",
        "le=\"4294967296.0\"} 2",
        "gsum{core=\"0\",process=\"7\"} 8589934593",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

fn ask(serving: &Serving, request: &str) -> String {
    let mut client = TcpStream::connect(serving.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Who is refused may be cut off in the middle of what it says.
    let _ = client.write_all(request.as_bytes());
    let mut reply = Vec::new();
    let _ = client.read_to_end(&mut reply);
    String::from_utf8(reply).unwrap()
}

#[test]
fn over_http() {
    let stacks = [a_stack()];
    let serving = serve("127.0.0.1:0", &stacks).unwrap();
    let reply = ask(&serving, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(CONTENT_TYPE), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    parse(body).unwrap();
    let only_head = ask(&serving, "HEAD /metrics?x=1 HTTP/1.0\r\n\r\n");
    assert!(only_head.starts_with("HTTP/1.1 200") && only_head.ends_with("\r\n\r\n"));
    for (request, status) in [
        ("GET /other HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("GET /metrics\r\n\r\n", "400"),
        ("GET /metrics SPDY/3\r\n\r\n", "400"),
        ("\r\n\r\n", "400"),
    ] {
        assert!(ask(&serving, request).starts_with(&format!("HTTP/1.1 {status} ")), "{request}");
    }
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9_000));
    assert!(!ask(&serving, &long).contains("200 OK"));
    assert!(serve(&serving.address().to_string(), &stacks).is_err(), "taken");
    assert!(serve("nowhere", &stacks).is_err());
    let address = serving.address();
    drop(serving);
    let deadline = std::iter::repeat_with(|| std::net::TcpListener::bind(address)).take(100);
    let free = deadline.inspect(|_| std::thread::sleep(Duration::from_millis(10))).any(|bound| bound.is_ok());
    assert!(free, "its address can be had again");
}

#[test]
fn the_slow_and_the_many_are_bounded() {
    let stacks = [a_stack()];
    let serving = serve("127.0.0.1:0", &stacks).unwrap();
    // A crowd that says nothing: some are let in and thrown out when their time is over, others at once.
    let mut crowd: Vec<_> = (0..50).map(|_| TcpStream::connect(serving.address()).unwrap()).collect();
    for client in &mut crowd {
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        assert!(rest.is_empty(), "nothing asked");
    }
    // And then there is room again.
    let mut reply = String::new();
    for _ in 0..100 {
        reply = ask(&serving, "GET / HTTP/1.1\r\n\r\n");
        if !reply.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}
