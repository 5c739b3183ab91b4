//! Whether a list names every normative sentence of its document.
//!
//! A normative sentence holds MUST, SHALL, SHOULD, REQUIRED or RECOMMENDED in capitals (RFC 2119). `3.1#2` is the
//! second one of section 3.1. A list counts them by section in `[sentences]`; each clause names in `says` the sentences
//! that it stands for, and `aside` those that ask nothing of a TCP. The texts themselves are not part of this
//! repository: `cargo xtask rfc --text FOLDER` counts again in a folder that has them as `rfcN.txt`.

use std::collections::{BTreeMap, BTreeSet};

/// The number of normative sentences of each section.
pub(super) type Counts = BTreeMap<String, usize>;
/// Sentences by section and number.
pub(super) type Sentences = BTreeSet<(String, usize)>;

/// Reads `3.1#2-4 3.2#1`.
///
/// # Errors
/// Names the word that is no sentence.
pub(super) fn parse(text: &str) -> Result<Sentences, String> {
    let mut found = Sentences::new();
    for word in text.split_whitespace() {
        let wrong = || format!("`{word}` is not SECTION#NUMBER or SECTION#FIRST-LAST");
        let (section, numbers) = word.split_once('#').ok_or_else(wrong)?;
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let first: usize = first.parse().map_err(|_| wrong())?;
        let last: usize = last.parse().map_err(|_| wrong())?;
        if first == 0 || last < first {
            return Err(wrong());
        }
        found.extend((first..=last).map(|number| (section.to_owned(), number)));
    }
    Ok(found)
}

/// Returns the sentences of `counts` that nothing in `named` stands for, and those in `named` that do not exist.
pub(super) fn gaps(counts: &Counts, named: &Sentences) -> (Sentences, Sentences) {
    let all: Sentences =
        counts.iter().flat_map(|(section, n)| (1..=*n).map(|number| (section.clone(), number))).collect();
    (&all - named, named - &all)
}

/// Counts the normative sentences of a document's text.
pub(super) fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    for (section, _) in sentences(text) {
        *counts.entry(section).or_default() += 1;
    }
    counts
}

/// Returns the normative sentences of a document's text with their sections, in its order.
pub(super) fn sentences(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut section, mut paragraph) = ("0".to_owned(), String::new());
    for line in text.lines().map(|line| line.replace('\u{c}', "")) {
        if is_furniture(&line) {
            continue;
        }
        let heading = heading(&line);
        if heading.is_some() || line.trim().is_empty() {
            found.extend(normative(&paragraph).map(|sentence| (section.clone(), sentence)));
            paragraph.clear();
        } else {
            paragraph.push_str(line.trim());
            paragraph.push(' ');
        }
        if let Some(number) = heading {
            section = number.to_owned();
        }
    }
    found.extend(normative(&paragraph).map(|sentence| (section.clone(), sentence)));
    found
}

/// The head and foot of a printed page.
fn is_furniture(line: &str) -> bool {
    let flush = !line.starts_with(char::is_whitespace) && !line.is_empty();
    let foot = line.ends_with(']') && line.contains("[Page ");
    let year = line.len() > 4
        && line.is_char_boundary(line.len() - 4)
        && line[line.len() - 4..].parse::<u16>().is_ok();
    flush && (foot || line.starts_with("RFC ") && year)
}

/// The number of the section that a line begins; entries of a table of contents begin none.
fn heading(line: &str) -> Option<&str> {
    let text = line.strip_prefix(' ').unwrap_or(line);
    let (number, title) = text.split_once(char::is_whitespace)?;
    let number = number.strip_suffix('.').unwrap_or(number);
    let is_number = !number.is_empty()
        && number.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let in_contents = line.contains("...") || line.ends_with(|c: char| c.is_ascii_digit());
    (is_number && !title.trim().is_empty() && !in_contents).then_some(number)
}

/// Returns the normative sentences of a paragraph.
fn normative(paragraph: &str) -> impl Iterator<Item = String> {
    let boilerplate = paragraph.contains("key words");
    let found = split(paragraph).into_iter().filter(|sentence| !boilerplate && is_normative(sentence));
    found.collect::<Vec<_>>().into_iter()
}

fn is_normative(sentence: &str) -> bool {
    const WORDS: [&str; 5] = ["MUST", "SHALL", "SHOULD", "REQUIRED", "RECOMMENDED"];
    sentence.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| WORDS.contains(&word))
}

/// A sentence ends with `.`, `:` or `;` before a blank and a capital, a digit, a bracket or a bullet.
fn split(paragraph: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for word in paragraph.split_whitespace() {
        let ended = sentence.ends_with(['.', ':', ';']);
        let begins =
            word.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "(*o".contains(c));
        if ended && begins {
            sentences.push(std::mem::take(&mut sentence));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
    }
    sentences.push(sentence);
    sentences
}

#[cfg(test)]
mod tests;
