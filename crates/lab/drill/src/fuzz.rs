//! Entry of the fuzz target: any bytes as a script.

use crate::lang::{Action, Event, Script};
use crate::run::{Config, Outcome, run};
use crate::{code, lang};
use std::collections::HashMap;
use std::path::Path;

/// Reads any bytes as a script: a tree or a complaint that can be shown; every assertion in it is run.
///
/// # Panics
/// When a promise is broken.
pub fn script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match lang::parse(&text, &[("MSS", "1460"), ("A", "")]) {
        Ok(script) => check(&script, &text),
        Err(complaint) => {
            assert!(complaint.at.from <= complaint.at.to && complaint.at.to as usize <= text.len());
            assert!(complaint.render("fuzz", &text).lines().count() >= 3);
        }
    }
}

fn check(script: &Script, text: &str) {
    let mut own = HashMap::new();
    for Event { action, span, .. } in &script.events {
        assert!(span.from < span.to && span.to as usize <= text.len());
        let Action::Code(code) = action else { continue };
        let Ok(statements) = code::parse(&code.text) else { continue };
        let mut names = code::Names { own: &mut own, lookup: &|_| Some(code::Value::Int(7)) };
        // Failing is fine; not ending, or bringing the program down, is not.
        let _ = code::run(&statements, &mut names, &mut Vec::new());
    }
}

/// Any bytes as what a peer and an application do: segments at and around every edge, calls, time. Everything the
/// stack does must be sound: it never panics, every byte read is what the peer sent, and every byte sent is what
/// the application wrote.
///
/// # Panics
/// When a promise is broken.
pub fn peer(data: &[u8]) {
    let text = play(data);
    let report = run(Path::new("fuzz.pkt"), &text, &Config::default());
    let broken = report.timeline.iter().find(|line| line.contains("is not what"));
    assert!(report.outcome == Outcome::Passed && broken.is_none(), "{:?} {broken:?}\n{text}", report.outcome);
}

/// Bytes of one operation of [`peer`], and the most operations of one run.
const OPERATION: usize = 4;
const OPERATIONS_MAX: usize = 200;

/// How many operations [`peer`] performs for `data`.
pub fn operations(data: &[u8]) -> u64 {
    (data.len() / OPERATION).min(OPERATIONS_MAX) as u64
}

/// A script in which nothing is expected.
fn play(data: &[u8]) -> String {
    const OPEN: &str = "--non_fatal=syscall,packet
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 8) = 0
+0 < S 0:0(0) win 65535 <mss 1000,sackOK,nop,nop,nop,wscale 7>
+0 > S. 0:0(0) ack 1 <...>
+.01 < . 1:1(0) ack 1 win 512
+0 accept(3, ..., ...) = 4
+0 fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
";
    const FLAGS: [&str; 8] = [".", "P.", "F.", "FP.", ".", "PE.", "R", "S"];
    let mut text = OPEN.to_string();
    // Where the peer and the stack are, as far as is needed: edges are near these.
    let (mut sent, mut acked) = (1_u32, 1_u32);
    for op in data.chunks_exact(OPERATION).take(OPERATIONS_MAX) {
        let (kind, a, b, c) = (op[0], u32::from(op[1]), u32::from(op[2]), u32::from(op[3]));
        let line = match kind % 16 {
            0..=6 => {
                let start = sent.wrapping_add(a * 40).wrapping_sub(if kind & 16 == 0 { 0 } else { 2_000 });
                let len = if kind & 32 == 0 { b * 8 } else { 0 };
                let ack = acked.wrapping_add(c * 50).wrapping_sub(if kind & 64 == 0 { 0 } else { 3_000 });
                if a == 0 && kind & 16 == 0 {
                    sent = start.wrapping_add(len);
                }
                acked = if kind & 64 == 0 && c < 40 { ack } else { acked };
                let flags = FLAGS[usize::from(kind >> 5) % if b < 250 { 6 } else { 8 }];
                let window = if c == 255 { 0 } else { 300 + c };
                let end = start.wrapping_add(len);
                format!("+0 < {flags} {start}:{end}({len}) ack {ack} win {window}")
            }
            7 => format!(
                "+0 < . {sent}:{sent}(0) ack {acked} win 400 <nop,nop,sack {}:{}>",
                acked + a * 50,
                acked + a * 50 + b * 20
            ),
            8 | 9 => format!("+0 write(4, ..., {}) = ...", a * 64 + b),
            10 | 11 => format!("+0 read(4, ..., {}) = ...", a * 64 + b),
            12 => format!("+{}.{b:03} `true`", a % 4),
            13 => format!("+0 setsockopt(4, SOL_TCP, TCP_NODELAY, [{}], 4) = 0", a % 2),
            14 if a < 16 => "+0 shutdown(4, SHUT_WR) = 0".into(),
            15 if a < 4 => "+0 close(4) = 0".into(),
            _ => format!("+0.0{:02} `true`", a % 100),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Scripts that make sense, for mutations to start from.
pub fn seeds() -> Vec<Vec<u8>> {
    const SCRIPT: &str = r#"--ip_version=ipv4 --tolerance_usecs=5000
`sysctl -q net.ipv4.tcp_sack=1`
 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr("10.0.0.1")}, ...) = 0
+0...0.1 accept(3, ..., ...) = 4
+0 < [ect0] SEW 0:0(0) win 32792 <mss 1000,sackOK,TS val 1 ecr 0,nop,wscale 7>
+0~+.1 > S. 0:0(0) ack 1 win 1 urg 2 <mss MSS,FO 00ff,FOEXP,gen-29 01,exp-f989 aa,nop>
+.1 < 1 > 2 P.5 1:11(10)! ack 1 win 257 <md5 valid,ECN e0b 1 ceb 2 e1b 3>/udp(9 > 10)
* > . ...(0) ack 1 <sack 1:2 4:5,eol>
+0 > . 1:1(0) ack 1 <...>
+0 < icmp unreachable frag_needed mtu 1200 id 3 [1:1001(1000)]
+0 < (tos 0x28, flowlabel 0x1, ttl 3) udp 1 > 2 (7)
+0 < ipv4 10.0.0.1 > 10.0.0.2: gre: mpls (label 1, tc 0, [S], ttl 64): encap psp spi 7 . 1:1(0)
+0 sendmsg(3, {msg_name(...)=..., msg_iov(1)=[{"a\x41" "b"..., 2}], msg_flags=0}, MSG_A|1) = -1 EPIPE (Broken pipe)
+0 %{ a = -7 // 2; assert 1 < tcpi_x <= 9, 'x=%d' % (a) if not 0 else ~2 ** 3 }%
#ifdef A
#else
#endif
`end`
"#;
    vec![SCRIPT.into()]
}

#[cfg(test)]
mod tests {
    //! Goal: the seed is a script, and no prefix of it brings the parser down.
    use super::*;

    #[test]
    fn a_peer_that_does_anything_is_survived() {
        let mut word = 0x9e37_79b9_u32;
        for _ in 0..60 {
            let mut data = [0; 600];
            for byte in &mut data {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (word >> 24) as u8;
            }
            peer(&data);
        }
    }

    #[test]
    fn the_seed_is_a_script_and_its_prefixes_are_survived() {
        for seed in seeds() {
            let text = String::from_utf8(seed.clone()).unwrap();
            if let Err(complaint) = lang::parse(&text, &[("MSS", "1460")]) {
                panic!("{}", complaint.render("seed", &text));
            }
            for end in 0..=seed.len() {
                script(&seed[..end]);
            }
        }
    }
}
