//! What a fuzz target calls: any octets as a script.

use crate::lang::{Action, Event, Script};
use crate::{code, lang};
use std::collections::HashMap;

/// Reads any octets as a script: a tree or a complaint that can be shown; every assertion in it is run.
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
