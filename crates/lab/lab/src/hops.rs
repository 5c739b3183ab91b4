//! The hops of a path, and which flows cross which.

use crate::spec::{Path, Spec, SpecError};

/// Most hops in a row.
pub(crate) const HOPS_MAX: u32 = 64;

impl Spec {
    /// The hops from the senders to the receivers, each as often as it says: one in a dumbbell, several in what the
    /// literature calls a parking lot.
    ///
    /// # Errors
    /// The file has none, more than there is room for, or `[path]` beside `[[hop]]`.
    pub fn all_hops(&self) -> Result<Vec<&Path>, SpecError> {
        if self.path.is_some() && !self.hops.is_empty() {
            return Err(SpecError("either `[path]` or `[[hop]]`".into()));
        }
        let tables = self.path.iter().chain(&self.hops);
        let hops: Vec<&Path> =
            tables.flat_map(|hop| std::iter::repeat_n(hop, hop.count.min(HOPS_MAX + 1) as usize)).collect();
        match hops.len() {
            0 => Err(SpecError("there is no `[path]` and no `[[hop]]`".into())),
            many if many > HOPS_MAX as usize => Err(SpecError(format!("more than {HOPS_MAX} hops"))),
            _ => Ok(hops),
        }
    }
}

/// Which of `hops` hops something crosses: `all`, one like `2` (the first being 1) or `2-3`. First and last, counted
/// from 0.
pub(crate) fn crossed(over: &str, hops: usize) -> Result<(usize, usize), SpecError> {
    let wants = "`all`, or hops like `2` or `2-3` (flows also `each`)";
    let wrong = || SpecError(format!("over: want {wants}, of which there are {hops}, not `{over}`"));
    if over == "all" {
        return Ok((0, hops - 1));
    }
    let (first, last) = over.split_once('-').unwrap_or((over, over));
    let nth =
        |text: &str| text.parse::<usize>().ok().filter(|nth| (1..=hops).contains(nth)).ok_or_else(wrong);
    let (first, last) = (nth(first)?, nth(last)?);
    if first <= last { Ok((first - 1, last - 1)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
