//! The file that a script's sysctl lines land in.

use drill::run::set_sysctl;
use stack::CoreConfig;
use std::path::Path;

/// The file as it was last read.
#[derive(Default)]
pub(crate) struct Sysctls {
    text: String,
    /// Settings were made past the file, which is read as if it had changed.
    again: bool,
}

/// New content of the file since the last read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct News<'a> {
    /// All of it.
    pub(crate) text: &'a str,
    /// There are more lines than before that say to forget what was learned of destinations.
    pub(crate) forget: bool,
}

/// FreeBSD's order to forget what was learned of destinations.
const PURGE: &str = "hostcache.purgenow";

fn purges(text: &str) -> usize {
    text.lines()
        .filter(|line| line.split_once('=').is_some_and(|(name, _)| name.trim().ends_with(PURGE)))
        .count()
}

impl Sysctls {
    /// Reads new content of the file, if there is any; a file that does not exist yet is empty. The error is a
    /// sentence.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Option<News<'_>>, String> {
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(format!("sysctl_file {}: {e}", path.display())),
        };
        if text == self.text && (!self.again || text.is_empty()) {
            return Ok(None);
        }
        self.again = false;
        let forget = purges(&text) > purges(&self.text);
        self.text = text;
        Ok(Some(News { text: &self.text, forget }))
    }

    /// Makes the next [`Sysctls::read`] tell the file even where nothing in it is new.
    pub(crate) fn read_again(&mut self) {
        self.again = true;
    }
}

/// Lets every line do what it does, in order; with a sentence on each that is not.
pub(crate) fn apply(text: &str, config: &mut CoreConfig) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| match line.split_once('=') {
            Some((name, value)) => match set_sysctl(config, name.trim(), value.trim().trim_matches('"')) {
                Ok(()) => None,
                Err(what) => Some(format!("{what} is not obeyed")),
            },
            None => Some(format!("the line `{line}` is not understood")),
        })
        .map(|what| format!("sysctl_file: {what}"))
        .collect()
}

#[cfg(test)]
mod tests {
    //! Goal: a change of the file is seen whatever its time says, and lines do what they say.
    use super::*;

    #[test]
    fn changes_are_seen_once() {
        let path = std::env::temp_dir().join(format!("millstream-sysctls-{}", std::process::id()));
        let mut sysctls = Sysctls::default();
        assert_eq!(sysctls.read(&path), Ok(None), "no file yet");
        std::fs::write(&path, "a=1\n").unwrap();
        assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=1\n", forget: false })));
        assert_eq!(sysctls.read(&path), Ok(None));
        sysctls.read_again();
        assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=1\n", forget: false })));
        assert_eq!(sysctls.read(&path), Ok(None));
        std::fs::write(&path, "a=2\n").unwrap();
        assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=2\n", forget: false })));
        let purge = "net.inet.tcp.hostcache.purgenow=1\n";
        for text in [purge.to_string(), purge.repeat(2)] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(sysctls.read(&path), Ok(Some(News { text: &text, forget: true })));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(sysctls.read(&path), Ok(Some(News { text: "", forget: false })));
        assert!(sysctls.read(Path::new("/")).is_err(), "a folder is no file");
    }

    #[test]
    fn lines_of_both_systems() {
        let mut config = CoreConfig::default();
        let text = "# a comment\nnet.ipv4.tcp_sack = 0\nnet/ipv4/tcp_timestamps=0\n\nnet.inet.tcp.recvspace=65536\n\
                    net.ipv4.tcp_rmem=\"4096 540000 15728640\"\nrfc1323=1\nno.such=3\nnonsense\n\
                    net.ipv4.tcp_syncookies=0\n";
        let complaints = apply(text, &mut config);
        assert!(!config.tcp.sack);
        assert!(config.tcp.timestamps, "the last line wins");
        assert_eq!(config.tcp.rcvbuf, (540_000, 15_728_640));
        assert_eq!(
            complaints,
            [
                "sysctl_file: the sysctl no.such=3 is not obeyed",
                "sysctl_file: the line `nonsense` is not understood",
                "sysctl_file: the sysctl net.ipv4.tcp_syncookies=0 (this stack has 1) is not obeyed"
            ]
        );
    }
}
