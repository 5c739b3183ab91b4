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
mod tests;
