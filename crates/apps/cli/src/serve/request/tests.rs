//! Goal: request heads split anywhere, keep-alive rules of both versions, refusals, and no head that another reader
//! could take for another request.
use super::*;

fn is_bad(head: &[u8]) -> bool {
    matches!(parse(head), Parsed::Bad)
}

#[test]
fn heads() {
    let text = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET";
    for cut in 0..text.len() - 4 {
        assert!(matches!(parse(&text[..cut]), Parsed::Partial), "cut at {cut}");
    }
    let Parsed::Request { head_len, body_len, answer } = parse(text) else { panic!("whole") };
    assert_eq!((head_len, body_len, answer.path, answer.closing), (text.len() - 3, 0, "/x", false));
    let closing =
        |text: &[u8]| matches!(parse(text), Parsed::Request { answer: Answer { closing: true, .. }, .. });
    assert!(closing(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
    assert!(closing(b"GET / HTTP/1.1\r\nConnection: keep-alive, Close\r\n\r\n"));
    assert!(closing(b"GET / HTTP/1.0\r\n\r\n"));
    assert!(!closing(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert!(is_bad(b"\x01\x02\r\n\r\n"));
    let status = |text: &[u8]| match parse(text) {
        Parsed::Request { answer, .. } => answer.error.map(|r| r.0),
        _ => None,
    };
    assert_eq!(status(b"DELETE / HTTP/1.1\r\n\r\n"), Some(405));
    assert_eq!(status(b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"), None);
    assert_eq!(status(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(411));
}

#[test]
fn a_body_has_one_length() {
    let length = |value: &str| {
        let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length:{value}\r\n\r\n");
        match parse(head.as_bytes()) {
            Parsed::Request { body_len, .. } => Some(body_len),
            _ => None,
        }
    };
    assert_eq!(length(" 5"), Some(5));
    assert_eq!(length("\t007 "), Some(7));
    assert_eq!(length("18446744073709551615"), Some(u64::MAX));
    for wrong in [
        "+5",
        "-5",
        "",
        " ",
        "5,5",
        "5, 5",
        "5 5",
        "0x5",
        "5.0",
        "1e3",
        "\u{a0}5",
        "18446744073709551616",
        "\u{b}5",
    ] {
        assert_eq!(length(wrong), None, "{wrong:?}");
    }
    assert_eq!(length(" 5\r\nContent-Length: 5"), None);
    assert_eq!(length(" 5\r\ncontent-length: 6"), None);
}

#[test]
fn heads_that_two_readers_could_take_differently_are_refused() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        "Content-Length : 5",
        " Content-Length: 5",
        "Content-Length: 5\r\n 6",
        "X: a\rContent-Length: 5",
        "X: a\0b",
        "Content-Length\0: 5",
        "Content Length: 5",
        "Host: a\r\nHost: b",
    ] {
        assert!(is_bad(format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n").as_bytes()), "{fields:?}");
    }
    assert!(is_bad(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"));
    assert!(is_bad(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    assert!(is_bad(b"GET / x HTTP/1.1\r\n\r\n"));
    assert!(is_bad(b"GET / HTTP/1.1\rX: y\r\n\r\n"));
}
