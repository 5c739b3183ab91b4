//! Content to serve: files below a directory, or generated octets.

use base::{Duration, Instant};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Generated bodies repeat this many printable octets, so that a lost or swapped stretch shows.
const PERIOD: usize = 89;
const BLOCK: usize = PERIOD * 736;

/// Where bodies come from.
pub(crate) enum Content {
    /// Files below this directory.
    Directory(PathBuf),
    /// This many octets unless the path names another number.
    Generated {
        /// Octets when the path names no number.
        bytes: u64,
        /// One block of the endless pattern.
        pattern: Arc<[u8]>,
    },
}

/// Files up to this size are kept in memory while they are fresh.
const KEEP_MAX: u64 = 64 * 1024;
/// How long a file is served without another look at the directory.
const FRESH: Duration = Duration::from_secs(1);
/// Most files a worker remembers.
const REMEMBER_MAX: usize = 1_024;

/// A worker's cache of files, so that a file asked for all the time costs no system call.
#[derive(Default)]
pub(crate) struct Memory {
    files: HashMap<String, Remembered>,
}

struct Remembered {
    bytes: Arc<[u8]>,
    media: &'static str,
    until: Instant,
}

impl Memory {
    /// The body for a request path, from memory while it is fresh.
    pub(crate) fn find(
        &mut self,
        content: &Content,
        path: &str,
        now: Instant,
    ) -> Result<(Body, &'static str), Refused> {
        if let Some(known) = self.files.get(path).filter(|known| known.until > now) {
            return Ok((Body::kept(known.bytes.clone()), known.media));
        }
        let (body, media) = content.find(path)?;
        let Body::File { file, end, .. } = &body else { return Ok((body, media)) };
        if *end > KEEP_MAX {
            return Ok((body, media));
        }
        let mut bytes = vec![0; *end as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|_| Refused(500, "Internal Server Error"))?;
        let bytes: Arc<[u8]> = bytes.into();
        if self.files.len() >= REMEMBER_MAX {
            self.files.clear();
        }
        self.files.insert(path.into(), Remembered { bytes: bytes.clone(), media, until: now + FRESH });
        Ok((Body::kept(bytes), media))
    }
}

/// The body of one answer.
pub(crate) enum Body {
    /// Octets `at..end` of the pattern.
    Generated {
        /// Next octet.
        at: u64,
        /// One past the last.
        end: u64,
    },
    /// Octets `at..end` of a file.
    File {
        /// The file.
        file: File,
        /// Next octet.
        at: u64,
        /// One past the last.
        end: u64,
    },
    /// Octets `at..end` of a file in memory.
    Kept {
        /// The whole file.
        bytes: Arc<[u8]>,
        /// Next octet.
        at: u64,
        /// One past the last.
        end: u64,
    },
}

impl Body {
    fn kept(bytes: Arc<[u8]>) -> Body {
        Body::Kept { at: 0, end: bytes.len() as u64, bytes }
    }

    /// Octets left.
    pub(crate) fn len(&self) -> u64 {
        let (Body::Generated { at, end } | Body::File { at, end, .. } | Body::Kept { at, end, .. }) = self;
        end - at
    }

    /// Octets were sent.
    pub(crate) fn advance(&mut self, n: usize) {
        let (Body::Generated { at, .. } | Body::File { at, .. } | Body::Kept { at, .. }) = self;
        *at += n as u64;
    }
}

/// Why there is no body: an HTTP status.
#[derive(Clone, Copy)]
pub(crate) struct Refused(pub(crate) u16, pub(crate) &'static str);

impl Content {
    /// Serves `dir`.
    pub(crate) fn directory(dir: &Path) -> Result<Self, String> {
        let dir = dir.canonicalize().map_err(|e| format!("--dir {}: {e}", dir.display()))?;
        if dir.is_dir() {
            Ok(Content::Directory(dir))
        } else {
            Err(format!("--dir {} is not a directory", dir.display()))
        }
    }

    /// Serves `bytes` octets to everybody.
    pub(crate) fn generated(bytes: u64) -> Self {
        let pattern = (0..BLOCK).map(|i| b'!' + (i % PERIOD) as u8).collect();
        Content::Generated { bytes, pattern }
    }

    /// The body for a request path, and its media type.
    pub(crate) fn find(&self, path: &str) -> Result<(Body, &'static str), Refused> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        match self {
            Content::Generated { bytes, .. } => {
                let end = path.strip_prefix('/').and_then(|n| n.parse().ok()).unwrap_or(*bytes);
                Ok((Body::Generated { at: 0, end }, "text/plain"))
            }
            Content::Directory(dir) => open_below(dir, path),
        }
    }

    /// The next octets of `body` where they lie, if they lie in memory: at least one, unless it is empty.
    pub(crate) fn in_place<'a>(&'a self, body: &'a Body) -> Option<(&'a Arc<[u8]>, Range<usize>)> {
        let want = usize::try_from(body.len()).unwrap_or(usize::MAX);
        match (self, body) {
            (Content::Generated { pattern, .. }, Body::Generated { at, .. }) => {
                let start = (at % PERIOD as u64) as usize;
                Some((pattern, start..start + want.min(pattern.len() - start)))
            }
            (_, Body::Kept { bytes, at, .. }) => Some((bytes, *at as usize..*at as usize + want)),
            _ => None,
        }
    }

    /// Copies the next octets of `body` to `into`; how many.
    pub(crate) fn fill(&self, body: &Body, into: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(body.len()).unwrap_or(usize::MAX).min(into.len());
        if let Some((bytes, range)) = self.in_place(body) {
            let n = want.min(range.len());
            into[..n].copy_from_slice(&bytes[range.start..range.start + n]);
            return Ok(n);
        }
        match body {
            Body::File { file, at, .. } => match file.read_at(&mut into[..want], *at)? {
                0 if want > 0 => {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file shrank while it was served"))
                }
                n => Ok(n),
            },
            Body::Generated { .. } | Body::Kept { .. } => Ok(0),
        }
    }
}

fn open_below(dir: &Path, path: &str) -> Result<(Body, &'static str), Refused> {
    const NOT_FOUND: Refused = Refused(404, "Not Found");
    let decoded = percent_decode(path).ok_or(Refused(400, "Bad Request"))?;
    let relative = Path::new(decoded.trim_start_matches('/'));
    if relative.components().any(|c| !matches!(c, Component::Normal(_))) {
        return Err(NOT_FOUND);
    }
    let mut full = dir.join(relative);
    if full.is_dir() {
        full.push("index.html");
    }
    // A symbolic link must not lead out of the directory.
    let full = full.canonicalize().map_err(|_| NOT_FOUND)?;
    if !full.starts_with(dir) {
        return Err(Refused(403, "Forbidden"));
    }
    let file = File::open(&full).map_err(|_| NOT_FOUND)?;
    let meta = file.metadata().map_err(|_| NOT_FOUND)?;
    if !meta.is_file() {
        return Err(NOT_FOUND);
    }
    Ok((Body::File { file, at: 0, end: meta.len() }, media_type(&full)))
}

fn percent_decode(path: &str) -> Option<String> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let hex = |b: u8| (b as char).to_digit(16);
        let (high, low) = (hex(bytes.next()?)?, hex(bytes.next()?)?);
        out.push((high << 4 | low) as u8);
    }
    String::from_utf8(out).ok().filter(|s| !s.contains('\0'))
}

fn media_type(path: &Path) -> &'static str {
    match path.extension().and_then(|e| e.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("txt" | "md" | "toml") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    //! Goal: no path leads out of the directory, and generated octets are a function of their position.
    use super::*;

    #[test]
    fn nothing_outside_the_directory() {
        let dir = std::env::temp_dir().join(format!("millstream-content-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("sub")).unwrap();
        std::fs::write(dir.join("sub/a b.txt"), "hello").unwrap();
        let _ = std::os::unix::fs::symlink("/etc/passwd", dir.join("leak"));
        let content = Content::directory(&dir).unwrap();
        assert_eq!(content.find("/sub/a%20b.txt?x=1").ok().map(|(b, _)| b.len()), Some(5));
        let status = |path| content.find(path).err().map(|r| r.0);
        assert_eq!(status("/../etc/passwd"), Some(404));
        assert_eq!(status("/sub/%2e%2e/%2e%2e/etc/passwd"), Some(404));
        assert_eq!(status("/leak"), Some(403));
        assert_eq!(status("/%zz"), Some(400));
        assert_eq!(status("/sub"), Some(404));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_is_remembered_for_a_second() {
        let dir = std::env::temp_dir().join(format!("millstream-memory-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("f"), "old").unwrap();
        let (content, mut memory) = (Content::directory(&dir).unwrap(), Memory::default());
        let mut text = |seconds| {
            let (body, _) = memory.find(&content, "/f", Instant::from_secs(seconds)).ok().unwrap();
            let mut buf = [0; 8];
            let n = content.fill(&body, &mut buf).unwrap();
            String::from_utf8_lossy(&buf[..n]).into_owned()
        };
        assert_eq!(text(1), "old");
        std::fs::write(dir.join("f"), "newer").unwrap();
        assert_eq!(text(1), "old");
        assert_eq!(text(3), "newer");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn generated_octets_follow_their_position() {
        let content = Content::generated(64);
        let (mut body, _) = content.find("/200000").ok().unwrap();
        let (mut buf, mut at) = ([0; 1_000], 0usize);
        while body.len() > 0 {
            let n = content.fill(&body, &mut buf).unwrap();
            assert!(n > 0);
            assert!(buf[..n].iter().enumerate().all(|(i, &b)| b == b'!' + ((at + i) % 89) as u8));
            (at, _) = (at + n, body.advance(n));
        }
        assert_eq!(at, 200_000);
        assert_eq!(content.find("/").ok().map(|(b, _)| b.len()), Some(64));
    }
}
