//! Heads of requests (RFC 9112), read so that no two readers can see different requests in the same bytes.

use super::content::Refused;

/// A request head of this many bytes is refused.
pub(crate) const HEAD_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How to answer one request.
pub(crate) struct Answer<'p> {
    /// Target of the request.
    pub(crate) path: &'p str,
    /// The connection ends with the answer.
    pub(crate) closing: bool,
    /// The answer has no body.
    pub(crate) head_only: bool,
    /// Status of an error.
    pub(crate) error: Option<Refused>,
}

impl Answer<'_> {
    /// An error after which nothing more can be understood on this connection.
    pub(crate) fn error(status: u16, reason: &'static str) -> Answer<'static> {
        Answer { path: "", closing: true, head_only: false, error: Some(Refused(status, reason)) }
    }
}

/// The next bytes of a connection, as they were read.
pub(crate) enum Parsed<'p> {
    /// The beginning of a head.
    Partial,
    /// No request.
    Bad,
    /// A head, and the length of the body that follows it.
    Request {
        /// Bytes of the head.
        head_len: usize,
        /// Bytes of the body.
        body_len: u64,
        /// How to answer.
        answer: Answer<'p>,
    },
}

/// Reads one request head (RFC 9112).
pub(crate) fn parse(data: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let head_len = match request.parse(data) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(_) => return Parsed::Bad,
    };
    // httparse hands out what it found; all are there once it says complete.
    let (Some(method), Some(path), Some(version)) = (request.method, request.path, request.version) else {
        return Parsed::Bad;
    };
    let (mut keep, mut close) = (version != 0, false);
    let (mut length, mut hosts, mut coded) = (None, 0, None);
    for header in request.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        if is("connection") {
            for word in header.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                close |= word.eq_ignore_ascii_case(b"close");
                keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is("content-length") {
            // Another reader may take the other one of two (section 6.3).
            match (length, content_length(header.value)) {
                (None, Some(n)) => length = Some(n),
                _ => return Parsed::Bad,
            }
        } else if is("transfer-encoding") {
            if coded.replace(header.value).is_some() {
                return Parsed::Bad;
            }
        } else if is("host") {
            hosts += 1;
        }
    }
    if hosts > 1 {
        return Parsed::Bad;
    }
    let mut closing = close || !keep;
    let mut error = None;
    if let Some(coding) = coded {
        // Beside a length, or in HTTP/1.0, a coding is an attempt at smuggling (section 6.1); one that does not end
        // with chunked has no end (section 6.3).
        let last = coding.rsplit(|&byte| byte == b',').next().unwrap_or_default();
        if length.is_some() || version == 0 || !last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            return Parsed::Bad;
        }
        // Bodies of requests are skipped by length; one without a length ends the connection.
        (closing, error) = (true, Some(Refused(411, "Length Required")));
    }
    // A body that is sent to us (PUT, POST) is taken and dropped: good for measuring the way in.
    if error.is_none() && !matches!(method, "GET" | "HEAD" | "PUT" | "POST") {
        error = Some(Refused(405, "Method Not Allowed"));
    }
    Parsed::Request {
        head_len,
        body_len: length.unwrap_or(0),
        answer: Answer { path, closing, head_only: method == "HEAD", error },
    }
}

/// The value of Content-Length: digits alone (RFC 9110, section 8.6).
fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    // What `parse` takes besides, such as a sign, is no length.
    digits.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests;
