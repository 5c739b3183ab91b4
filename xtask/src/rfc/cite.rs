//! The notation of a citation, which reads like any other comment:
//!
//! * `RFC 9293, MUST-14` or `RFC 9293, MUST-14 and SHLD-5` or `RFC 9293 (MUST-7)`: clauses that have names of their
//!   own;
//! * `RFC 5961, 3.2-1`: the first clause of section 3.2, in the order of `docs/rfc/rfc5961.toml`;
//! * `RFC 6298, rule 5.4` or `RFC 6298, rules 5.4 to 5.6`: the same where a section numbers its rules itself;
//! * `RFC 5961, section 3.2`: a section, which stands for its clause if it has only one.

/// Clause or section that a comment cites.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Citation {
    pub(super) rfc: u32,
    pub(super) target: Target,
}

/// One item of a citation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A clause by its identifier.
    Clause(String),
    /// A section by its number.
    Section(String),
}

/// Every citation in `text`, whose line breaks and comment marks are gone.
pub(super) fn citations(text: &str) -> Vec<Citation> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("RFC ") {
        rest = &rest[at + 4..];
        let digits = leading(rest, |c| c.is_ascii_digit());
        let Ok(rfc) = digits.parse() else { continue };
        rest = &rest[digits.len()..];
        let targets = items(&mut rest);
        found.extend(targets.into_iter().map(|target| Citation { rfc, target }));
    }
    found
}

/// Is this how clauses are named?
pub(super) fn is_clause(word: &str) -> bool {
    let Some((head, ordinal)) = word.rsplit_once('-') else { return false };
    let known = matches!(head, "MUST" | "SHLD" | "MAY" | "REC");
    (known || is_section(head)) && !ordinal.is_empty() && ordinal.bytes().all(|b| b.is_ascii_digit())
}

/// `3.10.7` or `A.1`.
fn is_section(word: &str) -> bool {
    let mut parts = word.split('.');
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let letter = |part: &str| part.len() == 1 && part.as_bytes()[0].is_ascii_uppercase();
    parts.next().is_some_and(|first| number(first) || letter(first)) && parts.all(number)
}

/// Meaning of a word, which the one before it may decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Clauses,
    Sections,
    Rules,
}

/// The items behind the RFC's number; what follows the last of them stays in `rest`.
fn items(rest: &mut &str) -> Vec<Target> {
    let mut found = Vec::new();
    let mut mode = Mode::Clauses;
    let mut ahead = *rest;
    loop {
        ahead = ahead.trim_start_matches([',', ' ', '(']);
        let word = leading(ahead, |c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
        let item = word.trim_end_matches(['.', '-']);
        ahead = &ahead[word.len()..];
        match item {
            "section" | "sections" | "appendix" => mode = Mode::Sections,
            "rule" | "rules" => mode = Mode::Rules,
            "and" | "or" if !found.is_empty() => {}
            "to" if mode == Mode::Rules && !found.is_empty() => {
                let last = leading(ahead.trim_start(), |c| c.is_ascii_digit() || c == '.');
                ahead = &ahead.trim_start()[last.len()..];
                found.extend(range(found.last(), last.trim_end_matches('.')));
                *rest = ahead;
            }
            _ if is_clause(item) => {
                found.push(Target::Clause(item.into()));
                *rest = ahead;
            }
            _ if mode == Mode::Sections && is_section(item) => {
                found.push(Target::Section(item.into()));
                *rest = ahead;
            }
            _ if mode == Mode::Rules && is_section(item) => {
                found.extend(rule(item).map(Target::Clause));
                *rest = ahead;
            }
            _ => return found,
        }
        // The end of a sentence is the end of a citation.
        if item != word {
            return found;
        }
    }
}

/// Rule 5.4 is the fourth clause of section 5.
fn rule(word: &str) -> Option<String> {
    word.rsplit_once('.').map(|(section, ordinal)| format!("{section}-{ordinal}"))
}

/// The rules after `first` up to `last`.
fn range(first: Option<&Target>, last: &str) -> Vec<Target> {
    let Some((Target::Clause(first), last)) = first.zip(rule(last)) else { return Vec::new() };
    let split =
        |id: &str| id.rsplit_once('-').and_then(|(head, n)| Some((head.to_owned(), n.parse::<u32>().ok()?)));
    match (split(first), split(&last)) {
        (Some((head, from)), Some((other, to))) if head == other => {
            (from + 1..=to).map(|n| Target::Clause(format!("{head}-{n}"))).collect()
        }
        _ => Vec::new(),
    }
}

fn leading(text: &str, part: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !part(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests;
