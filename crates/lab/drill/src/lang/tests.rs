//! Goal: every form of the language is read as it is meant, and what is not the language is refused at its place.
use super::*;
use base::Duration;

fn one(line: &str) -> Event {
    let script = parse(line, &[]).unwrap_or_else(|e| panic!("{}", e.render("test", line)));
    assert_eq!(script.events.len(), 1);
    script.events.into_iter().next().unwrap()
}

fn segment(line: &str) -> Segment {
    match one(&format!("0 {line}")).action {
        Action::Packet(packet) => match packet.body {
            Body::Tcp(segment) => segment,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn call(line: &str) -> Call {
    match one(&format!("0 {line}")).action {
        Action::Call(call) => *call,
        other => panic!("{other:?}"),
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn times() {
    let table = [
        ("0", When::At(ms(0))),
        ("1.5", When::At(ms(1_500))),
        ("+0", When::After(ms(0))),
        ("+.01", When::After(ms(10))),
        ("+ 0.000001", When::After(Duration::from_micros(1))),
        ("0.1~0.2", When::Between(ms(100), ms(200))),
        ("+0~+.3", When::AfterBetween(ms(0), ms(300))),
        ("*", When::Any),
    ];
    for (text, expected) in table {
        assert_eq!(one(&format!("{text} `true`\n0 `x`").replace("\n0 `x`", "")).when, expected, "{text}");
    }
}

#[test]
fn a_segment_to_the_bit() {
    let s = segment(
        "< [ect0] SEW. 0:0(0) ack 1 win 65535 urg 7 <mss 1460,nop,wscale 7,sackOK,TS val 1 ecr 2,eol>",
    );
    assert_eq!(s.flags.bits, Flags::SYN | Flags::ECE | Flags::CWR | Flags::ACK);
    assert_eq!((s.ack, s.window, s.urgent), (Some(1), Some(65_535), Some(7)));
    let expected = vec![
        TcpOption::Mss(1_460),
        TcpOption::Nop,
        TcpOption::WindowScale(7),
        TcpOption::SackPermitted,
        TcpOption::Timestamps { val: Some(1), ecr: 2, absolute: false },
        TcpOption::Eol,
    ];
    assert_eq!(s.options, Some(expected));
    let s = segment("> 8080 > 1234 P.5 1:11(10)! ack 1 <sack 1:2 4:5,FO 00ff,FOEXP,gen-29 01ff,exp-f989 aa>");
    assert_eq!(s.ports, Some(Ports { source: 8_080, destination: 1_234 }));
    assert_eq!((s.flags.bits, s.flags.ace, s.absolute), (Flags::PSH | Flags::ACK, Some(5), true));
    let expected = vec![
        TcpOption::Sack(vec![Range { start: 1, end: 2 }, Range { start: 4, end: 5 }]),
        TcpOption::FastOpen(vec![0, 255]),
        TcpOption::FastOpenExp(vec![]),
        TcpOption::Other(29, vec![1, 255]),
        TcpOption::Other(254, vec![0xf9, 0x89, 0xaa]),
    ];
    assert_eq!(s.options, Some(expected));
    let s = segment("> . ...(0) ack 1 <...>/udp(9 > 10)");
    assert_eq!((s.seq, s.options, s.udp), (None, None, Some(Ports { source: 9, destination: 10 })));
    let s = segment("> - 1:1(0) <md5 valid>");
    assert_eq!(s.options, Some(vec![TcpOption::Md5(Digest::Valid)]));
    let s = segment("> - 1:1(0) <ECN e1b 1 ceb 2 e0b 3,TS val ... ecr 7!>");
    let expected = vec![
        TcpOption::AccEcn { kind: 174, counters: vec![1, 2, 3] },
        TcpOption::Timestamps { val: None, ecr: 7, absolute: true },
    ];
    assert_eq!((s.flags, s.options), (Flags::default(), Some(expected)));
}

#[test]
fn headers_around_and_below() {
    const ICMP: &str = "< icmp unreachable frag_needed mtu 1200 id 3 [1:1001(1000)]";
    let packet = |line: &str| match one(&format!("0 {line}")).action {
        Action::Packet(packet) => *packet,
        other => panic!("{other:?}"),
    };
    let ip = packet("> (tos 0x28, flowlabel 0x1, hlim 64) . 1:1(0) ack 1").ip;
    assert_eq!(ip, IpInfo { ecn: Some(Ecn::Bits(0)), dscp: Some(0x28), label: Some(1), ttl: Some(64) });
    assert_eq!(packet("> [ect01] . 1:1(0) ack 1").ip.ecn, Some(Ecn::Ect01));
    assert_eq!(packet("> (dscp af11, ecn ce) . 1:1(0) ack 1").ip.dscp, Some(40));
    assert!(packet("> . 1:1(0) ack 1").ip.is_empty());
    let p = packet("< ipv6 [ce] 2001:db8::1 > fd00::2: udp 53 > 53 (100)");
    assert!(matches!(p.outer[..], [Outer::Ip(_, from, _)] if from.is_ipv6()));
    assert_eq!(p.body, Body::Udp(Some(Ports { source: 53, destination: 53 }), 100));
    assert_eq!(packet("< gre flags [none], sum 0, off 0, key 0, seq 0: . 1:1(0) ack 1").outer, [Outer::Gre]);
    assert_eq!(packet("< mpls (label 1, tc 0, [S], ttl 64): . 1:1(0) ack 1").outer, [Outer::Mpls]);
    assert_eq!(packet("< encap psp spi 7 . 1:1(0) ack 1").outer, [Outer::Psp]);
    let Body::Icmp(icmp) = packet(ICMP).body else { panic!() };
    assert_eq!(
        (icmp.kind.as_str(), icmp.code.as_deref(), icmp.mtu),
        ("unreachable", Some("frag_needed"), Some(1_200))
    );
    assert_eq!((icmp.id, icmp.quoted), (Some(3), Some(Quoted::Tcp(Range { start: 1, end: 1_001 }, 1_000))));
}

#[test]
fn calls() {
    let c = call("...0.2 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
    assert_eq!((c.until, c.name.as_str()), (Some(ms(200)), "connect"));
    assert_eq!((c.result.kind, c.errno.as_deref()), (ExprKind::Int(-1), Some("EINPROGRESS")));
    assert_eq!(c.note.as_deref(), Some("Operation now in progress"));
    let c = call("fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)");
    assert_eq!((c.result.kind, c.errno, c.note.as_deref()), (ExprKind::Int(2), None, Some("flags O_RDWR")));
    let c = call(
        r#"sendmsg(3, {msg_name(...)=..., msg_iov(2)=[{..., 10}, {"a\x41" "b", 2}], msg_flags=0}, MSG_A|MSG_B) = 12"#,
    );
    let ExprKind::Struct(fields) = &c.arguments[1].kind else { panic!() };
    assert!(matches!(&fields[1].kind, ExprKind::Field(name, Some(_), _) if name == "msg_iov"));
    let c = call("epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, fd=4}) = 0");
    let ExprKind::Struct(fields) = &c.arguments[3].kind else { panic!() };
    let ExprKind::Field(_, _, value) = &fields[0].kind else { panic!() };
    assert!(matches!(value.kind, ExprKind::Or(..)), "`|` belongs to the field");
    let c = call(
        r#"bind(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr("10.0.0.1")}, ...) = 0"#,
    );
    let ExprKind::Struct(fields) = &c.arguments[1].kind else { panic!() };
    assert!(
        matches!(&fields[1].kind, ExprKind::Field(_, None, value) if matches!(value.kind, ExprKind::Apply(..)))
    );
}

#[test]
fn the_frame() {
    let text = "--ip_version=ipv4 --dry_run\n--local_ip=fd::1 --define=X=`a b`\n\
                `setup`\n0 `one`\n+0 %{ a\nb }%\n`down`";
    let script = parse(text, &[]).unwrap();
    let options: Vec<_> = script.options.iter().map(|o| (o.name.as_str(), o.value.as_deref())).collect();
    let expected = [
        ("ip_version", Some("ipv4")),
        ("dry_run", None),
        ("local_ip", Some("fd::1")),
        ("define", Some("X=`a b`")),
    ];
    assert_eq!(options, expected);
    assert_eq!(script.init.unwrap().text, "setup");
    assert_eq!(script.cleanup.unwrap().text, "down");
    assert!(matches!(&script.events[1].action, Action::Code(code) if code.text == " a\nb "));
}

#[test]
fn conditions_and_defines() {
    let text = "#ifdef A\n0 `a`\n#else\n0 `b`\n#endif\n#ifndef A\n0 `c`\n#endif\n0 `d` // not `e`\n/* `f` */";
    let commands = |defines| -> Vec<String> {
        let script = parse(text, defines).unwrap();
        let shell = |e: &Event| match &e.action {
            Action::Shell(shell) => shell.text.clone(),
            other => panic!("{other:?}"),
        };
        script.events.iter().map(shell).collect()
    };
    assert_eq!(commands(&[("A", "1")]), ["a", "d"]);
    assert_eq!(commands(&[]), ["b", "c", "d"]);
    let script = parse("0 > S 0:0(0) <mss MSS,FO COOKIE>", &[("MSS", "1440"), ("COOKIE", "c0ffee")]).unwrap();
    let Action::Packet(packet) = &script.events[0].action else { panic!() };
    let Body::Tcp(segment) = &packet.body else { panic!() };
    assert_eq!(
        segment.options,
        Some(vec![TcpOption::Mss(1_440), TcpOption::FastOpen(vec![0xc0, 0xff, 0xee])])
    );
}

#[test]
fn complaints_point_at_the_place() {
    for (text, place, sentence) in [
        ("0 < S 0:0(0 win 1", (1, 13), "`win`; expected `)` after the length of the payload"),
        ("0 < S 0:9(8)", (1, 7), "8 bytes from 0 on do not end at 9; expected 0:8(8)"),
        (
            "0 < Q 0:0(0)",
            (1, 5),
            "`Q` is no flag; expected flags: letters of FSRPUEWA, `.` for ACK, `-` for none",
        ),
        ("0 < S 0:0(0) <mss 70000>", (1, 19), "`70000`; expected a segment size, from 0 to 65535"),
        ("0 < S 0:0(0) <FO 123>", (1, 18), "`123`; expected an even number of hexadecimal digits"),
        ("0 `a", (1, 3), "this ``` has no end; expected another ` at its end"),
        ("0 %{ a", (1, 3), "this `%{` has no end; expected `}%` at its end"),
        (
            "0 close(3) = ",
            (1, 14),
            "the end of the script; expected an expression: a number, a name, `...`, \"text\", [array] or {struct}",
        ),
        ("0 f([1, 2) = 0", (1, 10), "`)`; expected `]` or `,` after an expression"),
        ("1~0 `a`", (1, 3), "a range that ends before it begins; expected a later time"),
        ("#endif", (1, 1), "`#endif` without a condition; expected #ifdef"),
        ("#ifdef A\n0 `a`", (1, 1), "this condition has no end; expected #endif"),
        ("\n\n  0 ?", (3, 5), "`?`; expected a packet (`<` or `>`), a call, `command` or %{ assertion }%"),
        ("0 < ipv4 10.0.0.999 > 1.1.1.1: . 1:1(0)", (1, 10), "`10.0.0.999`; expected an address"),
    ] {
        let complaint = parse(text, &[]).expect_err(text);
        assert_eq!((complaint.at.place(text), complaint.sentence().as_str()), (place, sentence), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    for text in [
        "0 f(".to_string() + &"[".repeat(100_000),
        "0 f(".to_string() + &"a=".repeat(100_000),
        "0 f(a".to_string() + &"|a".repeat(100_000),
    ] {
        assert!(parse(&text, &[]).unwrap_err().found.contains("nested more than 64 deep"));
    }
}
