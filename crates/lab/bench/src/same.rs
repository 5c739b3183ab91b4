//! Two runs of a program that tells what it was answered, a line each, under headings that begin with `#`: they say the
//! same, but for differences that are known.

/// A difference that is known: a part of the line, and why it differs.
pub type Known = (&'static str, &'static str);

/// The lines of a run under one heading.
type Section<'l> = (&'l str, Vec<&'l str>);

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    for line in text.lines() {
        match all.last_mut() {
            Some((_, lines)) if !line.starts_with('#') => lines.push(line),
            _ => all.push((line, Vec::new())),
        }
    }
    all
}

/// Compares what the kernel's run and ours have said: at least `least` lines, the same in both but for what is `known`,
/// all of which must still differ.
///
/// # Errors
/// The differences besides, with the output of each.
pub fn compare(kernel: &str, ours: &str, least: usize, known: &[Known]) -> Result<(), String> {
    let count = kernel.lines().filter(|line| !line.starts_with('#')).count();
    if count < least {
        return Err(format!("{count} checks, where there were {least}"));
    }
    let (mut odd, mut used) = (Vec::new(), vec![false; known.len()]);
    let (kernel, ours) = (sections(kernel), sections(ours));
    for (at, (heading, lines)) in kernel.iter().enumerate() {
        let none = Vec::new();
        let others = ours.get(at).filter(|(other, _)| other == heading).map_or(&none, |(_, lines)| lines);
        for (line, other) in lines.iter().zip(others).filter(|(line, other)| line != other) {
            match known.iter().position(|(what, _)| line.contains(what)) {
                Some(place) => used[place] = true,
                None => odd.push(format!("{heading}: kernel: {line}; ours: {other}")),
            }
        }
        if lines.len() != others.len() {
            odd.push(format!("{heading}: {} lines of the kernel's, {} of ours", lines.len(), others.len()));
        }
    }
    let gone = known.iter().zip(&used).filter(|(_, used)| !**used);
    odd.extend(gone.map(|((what, _), _)| format!("no difference any more: {what}")));
    if odd.is_empty() { Ok(()) } else { Err(format!("{} of {count}:\n{}", odd.len(), odd.join("\n"))) }
}

#[cfg(test)]
mod tests;
