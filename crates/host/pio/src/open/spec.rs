//! `KIND:WHAT,option=value,...`, taken apart.

use crate::open_error::OpenError;
use base::Addr;
use std::net::IpAddr;
use std::str::FromStr;

/// Parsed text of a link.
pub(super) struct Spec<'a> {
    text: &'a str,
    /// Text before the colon.
    pub(super) kind: &'a str,
    /// Text between the colon and the first comma.
    pub(super) what: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Spec<'a> {
    /// Takes `text` apart; what the parts mean is looked at later.
    pub(super) fn parse(text: &'a str) -> Result<Spec<'a>, OpenError> {
        let wrong = |why: &str| OpenError::Spec { spec: text.into(), why: why.into() };
        let (kind, rest) = text
            .split_once(':')
            .ok_or_else(|| wrong("a link is written KIND:WHAT, such as nic:eth0 or tap:mst0"))?;
        let mut parts = rest.split(',');
        let what = parts.next().unwrap_or_default();
        if what.is_empty() {
            return Err(wrong("nothing stands behind the colon"));
        }
        let option =
            |part: &'a str| part.split_once('=').ok_or_else(|| wrong("options are written name=value"));
        let options = parts.map(option).collect::<Result<_, _>>()?;
        Ok(Spec { text, kind, what, options })
    }

    /// An error about this text.
    pub(super) fn wrong(&self, why: String) -> OpenError {
        OpenError::Spec { spec: self.text.into(), why }
    }

    /// Names of the options that were given.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.options.iter().map(|option| option.0)
    }

    /// Options that are not `known`, as they were written.
    #[cfg(feature = "dpdk")]
    pub(super) fn others(&self, known: impl Fn(&str) -> bool) -> Vec<String> {
        let others = self.options.iter().filter(|option| !known(option.0));
        others.map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Returns the values given for `name`, in order.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter(move |option| option.0 == name).map(|option| option.1)
    }

    /// Returns the last value given for `name`.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.all(name).last()
    }

    /// The value of `name`, if it was given, understood by `read`; `kind` says what it should be.
    fn value<T>(
        &self,
        name: &str,
        kind: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, OpenError> {
        let wrong = |text| self.wrong(format!("{name} is {kind}, not '{text}'"));
        self.text(name).map(|text| read(text).ok_or_else(|| wrong(text))).transpose()
    }

    /// A number.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, OpenError> {
        self.value(name, "a number", |text| text.parse().ok())
    }

    /// `on` or `off`.
    pub(super) fn switch(&self, name: &str) -> Result<Option<bool>, OpenError> {
        self.choice(name, &[("on", true), ("off", false)])
    }

    /// One of several words.
    pub(super) fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<Option<T>, OpenError> {
        let known = words.iter().map(|word| word.0).collect::<Vec<_>>().join(" or ");
        self.value(name, &known, |text| words.iter().find(|word| word.0 == text).map(|word| word.1))
    }

    /// A link-layer address, `02:00:00:00:00:01`.
    pub(super) fn mac(&self, name: &str) -> Result<Option<[u8; 6]>, OpenError> {
        self.value(name, "a link-layer address such as 02:00:00:00:00:01", |text| {
            let mut bytes = text.split(':').map(|part| u8::from_str_radix(part, 16).ok());
            let mut mac = [0; 6];
            for byte in &mut mac {
                *byte = bytes.next()??;
            }
            // Group addresses belong to no host.
            (bytes.next().is_none() && mac[0] & 1 == 0).then_some(mac)
        })
    }

    /// Addresses with their prefix lengths, `10.0.0.1/24`; without one the address stands alone.
    pub(super) fn addresses(&self, name: &str) -> Result<Vec<(Addr, u8)>, OpenError> {
        let wrong = |text| self.wrong(format!("{name} is an address such as 10.0.0.1/24, not '{text}'"));
        self.all(name).map(|text| address(text).ok_or_else(|| wrong(text))).collect()
    }
}

fn address(text: &str) -> Option<(Addr, u8)> {
    let (addr, prefix) = text.split_once('/').map_or((text, None), |(addr, prefix)| (addr, Some(prefix)));
    let addr: IpAddr = addr.parse().ok()?;
    let longest = if addr.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(longest), |prefix| prefix.parse().ok())?;
    (prefix <= longest).then(|| (addr.into(), prefix))
}
