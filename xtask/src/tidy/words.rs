//! The field's words in prose: comments, documents and messages use no private word for what has a name there.
//!
//! Prose is taken from each kind of file: comments and messages (strings with a space) of source, text of pages. What
//! stands in backticks, in braces of a message and in targets of links names code and is left out.

/// Private words, each with the field's. Split, so that this table does not accuse itself.
const WORDS: &[(&[&str], &str)] = &[
    (&[concat!("oct", "et"), concat!("oct", "ets")], "byte"),
    (
        &[
            concat!("no", "body"),
            concat!("some", "body"),
            concat!("any", "body"),
            concat!("every", "body"),
            concat!("who", "ever"),
        ],
        "the thread, program, peer or caller that is meant",
    ),
    (&[concat!("tra", "in"), concat!("tra", "ins")], "merged run"),
    (&[concat!("mou", "ld"), concat!("mou", "lds")], "handshake cache entry"),
    (&[concat!("lo", "an"), concat!("lo", "ans")], "borrowed run"),
    (&[concat!("err", "and"), concat!("err", "ands")], "handoff"),
    (&[concat!("do", "or"), concat!("do", "ors")], "API"),
    (&[concat!("roo", "ms")], "crates"),
    (&[concat!("cr", "ew"), concat!("cr", "ews")], "worker pool"),
    (
        &[concat!("wi", "sh"), concat!("wis", "hes"), concat!("wis", "hed"), concat!("wis", "hing")],
        "request or option",
    ),
    (&[concat!("pat", "ience")], "busy-polling time or timeout"),
    (&[concat!("rhy", "thm")], "interval"),
    (&[concat!("nud", "ge"), concat!("nud", "ges")], "wake-up"),
    (&[concat!("back", "stop"), concat!("back", "stops")], "watchdog"),
];

/// A place where a private word stays: the file, the word, how often it stands there, and why.
type Allowed = (&'static str, &'static str, usize, &'static str);

/// Exceptions, each of an exact number: one that no longer fits its file is a complaint.
const ALLOWED: &[Allowed] = &[
    ("crates/apps/capi/tests/header/main.rs", concat!("do", "ors"), 2, "the name of a macro"),
    ("crates/apps/cli/tests/elevated.rs", concat!("no", "body"), 1, "the name of a user"),
    ("crates/apps/cli/tests/pipe.rs", concat!("oct", "ets"), 1, "the name of a column of the log"),
    ("crates/apps/cli/tests/strangers.rs", concat!("no", "body"), 1, "the name of a user"),
    (
        "crates/apps/python/millstream/_asyncio.py",
        concat!("do", "or"),
        1,
        "the name of a class in an annotation",
    ),
    (
        "crates/core/cc/src/hystart.rs",
        concat!("tra", "in"),
        5,
        "a term of HyStart for acknowledgments in a row",
    ),
    ("crates/host/pio/src/tap/tests.rs", concat!("no", "body"), 2, "the name of a user"),
    ("crates/lab/bench/src/compare/contest.rs", concat!("tra", "ins"), 1, "the name of an option"),
    ("crates/lab/bench/src/programs/rows.rs", concat!("no", "body"), 1, "the name of a user"),
    ("crates/lab/emu/src/pipe/log.rs", concat!("oct", "ets"), 1, "the name of a column of the log"),
    ("crates/lab/lab/tests/published.rs", concat!("oct", "ets"), 2, "the key of a file of an experiment"),
];

/// Notations that comments and strings are told by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Comments behind `//` and in `/* */`.
    Slashes,
    /// Comments behind `#`; strings in single, double and three quotes.
    Hash,
    /// A page: all of it is prose, but for fenced code.
    Page,
}

fn notation(path: &str) -> Option<Notation> {
    match path.rsplit_once('.')?.1 {
        "rs" | "c" | "h" | "head" | "go" | "js" | "java" | "pkt" | "css" => Some(Notation::Slashes),
        "toml" | "py" | "pyi" | "sh" => Some(Notation::Hash),
        "md" | "1" => Some(Notation::Page),
        _ => None,
    }
}

/// A character that is not prose, for which a space stands.
fn blank(c: char) -> char {
    if c == '\n' { c } else { ' ' }
}

/// Whether `chars` go on with `what` at `at`.
fn begins(chars: &[char], at: usize, what: &str) -> bool {
    what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
}

/// The place at which `what` begins, from `at` on; the end if it does not come.
fn until(chars: &[char], at: usize, what: &str) -> usize {
    (at..chars.len()).find(|i| begins(chars, *i, what)).unwrap_or(chars.len())
}

/// The delimiter of a string that begins at `at`: how many characters open it, and the text that closes it.
fn opening(chars: &[char], at: usize, notation: Notation) -> Option<(usize, String)> {
    let inside_name =
        at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') && chars[at - 1] != 'b';
    match (notation, chars[at]) {
        (Notation::Slashes, 'r') if !inside_name => {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            (chars.get(at + 1 + hashes) == Some(&'"'))
                .then(|| (hashes + 2, format!("\"{}", "#".repeat(hashes))))
        }
        (Notation::Hash, quote @ ('"' | '\'')) if begins(chars, at, &quote.to_string().repeat(3)) => {
            Some((3, quote.to_string().repeat(3)))
        }
        (_, '"') => Some((1, "\"".into())),
        (Notation::Hash, '\'') => Some((1, "'".into())),
        _ => None,
    }
}

/// The place of the text that closes a string whose content begins at `at`.
fn closing(chars: &[char], mut at: usize, close: &str, escapes: bool) -> usize {
    while at < chars.len() && !begins(chars, at, close) {
        at += if escapes && chars[at] == '\\' { 2 } else { 1 };
    }
    at.min(chars.len())
}

/// The text of a message, without the expressions in its braces; a string without a space beside them is a name.
fn message(content: &[char]) -> String {
    let mut depth = 0;
    let outside = |c: &char| {
        depth += i32::from(*c == '{') - i32::from(*c == '}' && depth > 0);
        if depth == 0 { *c } else { '\0' }
    };
    let text: Vec<char> = content.iter().map(outside).collect();
    let is_message = text.contains(&' ');
    let shown = |(c, real): (&char, &char)| if is_message && *c != '\0' { *c } else { blank(*real) };
    text.iter().zip(content).map(shown).collect()
}

/// Comments and messages of source; spaces stand for the rest.
fn of_source(text: &str, notation: Notation) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut prose = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let slashes = notation == Notation::Slashes;
        let comment = match slashes {
            true if begins(&chars, at, "//") => Some("\n"),
            true if begins(&chars, at, "/*") => Some("*/"),
            false if chars[at] == '#' => Some("\n"),
            _ => None,
        };
        let end = if let Some(end) = comment {
            let end = until(&chars, at, end);
            prose.extend(&chars[at..end]);
            end
        } else if let Some((open, close)) = opening(&chars, at, notation) {
            let end = closing(&chars, at + open, &close, open == 1 || !slashes);
            prose.extend(chars[at..at + open].iter().map(|c| blank(*c)));
            prose += &message(&chars[at + open..end]);
            prose.extend(close.chars().map(blank));
            end + close.chars().count()
        } else {
            // A character in quotes, of which one may be the quote of a string; not a lifetime.
            let quoted = slashes && chars[at] == '\'';
            let length = match (chars.get(at + 1), chars.get(at + 2)) {
                (Some('\\'), _) if quoted => until(&chars, at + 3, "'") + 1 - at,
                (_, Some('\'')) if quoted => 3,
                _ => 1,
            };
            let end = (at + length).min(chars.len());
            prose.extend(chars[at..end].iter().map(|c| blank(*c)));
            end
        };
        at = end;
    }
    prose
}

/// A line without what names code: in backticks, and where links lead.
fn without_names(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['`', ']']) {
        let (mark, close) = if rest[at..].starts_with('`') { ("`", '`') } else { ("](", ')') };
        kept += &rest[..at];
        kept.push(' ');
        let inner = rest[at..].strip_prefix(mark);
        rest = match inner.and_then(|inner| inner.split_once(close)) {
            Some((_, after)) => after,
            None => &rest[at + 1..],
        };
    }
    kept + rest
}

/// The lines of prose in a file, with their numbers.
fn lines(path: &str, text: &str) -> Vec<(usize, String)> {
    let Some(notation) = notation(path) else { return Vec::new() };
    let prose = if notation == Notation::Page { text.to_owned() } else { of_source(text, notation) };
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(prose.lines()) {
        let fence = notation == Notation::Page && line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            found.push((number, without_names(line).to_lowercase()));
        }
    }
    found
}

/// How often `word` stands in `line`, not as a part of a name or a path.
fn count(line: &str, word: &str) -> usize {
    let part = |sign: Option<char>, beyond: Option<char>| match sign {
        Some(c) if c.is_alphanumeric() || c == '_' => true,
        Some('/' | '-' | '.' | ':' | '\\' | '=') => {
            beyond.is_some_and(|c| c.is_alphanumeric() || "_:<$".contains(c))
        }
        _ => false,
    };
    let whole = |at: &usize| {
        let (mut before, mut after) = (line[..*at].chars().rev(), line[at + word.len()..].chars());
        !part(before.next(), before.next()) && !part(after.next(), after.next())
    };
    line.match_indices(word).map(|(at, _)| at).filter(whole).count()
}

fn judge(path: &str, text: &str, allowed: &[Allowed]) -> Vec<String> {
    let lines = lines(path, text);
    let mut complaints = Vec::new();
    for (word, instead) in
        WORDS.iter().flat_map(|(words, instead)| words.iter().map(move |word| (*word, instead)))
    {
        let places: Vec<usize> =
            lines.iter().flat_map(|(number, line)| vec![*number; count(line, word)]).collect();
        match allowed.iter().find(|row| (row.0, row.1) == (path, word)) {
            Some((.., times, _)) if *times == places.len() => {}
            Some((.., times, why)) => complaints.push(format!(
                "{path}: `{word}` stands here {} times, and {times} times in the list of exceptions ({why})",
                places.len()
            )),
            None => complaints.extend(
                places
                    .iter()
                    .map(|number| format!("{path}:{number}: `{word}` is a private word: say {instead}")),
            ),
        }
    }
    complaints
}

/// Private words in one file, as `path:line: what`, and exceptions that do not fit it.
pub(super) fn complaints(path: &str, text: &str) -> Vec<String> {
    judge(path, text, ALLOWED)
}

/// Exceptions for files that are not among `paths`.
pub(super) fn stale(paths: &[&str]) -> Vec<String> {
    let gone = ALLOWED.iter().filter(|row| !paths.contains(&row.0));
    gone.map(|(path, word, ..)| format!("{path}: an exception for `{word}`, and no such file")).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: each word is found where prose stands, and nowhere else; an exception fits exactly or is told.
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<String> {
        let line =
            |told: &String| told.strip_prefix(path).unwrap()[1..].split(':').next().unwrap().to_owned();
        judge(path, text, &[]).iter().map(line).collect()
    }

    #[test]
    fn every_word_is_found_in_comments_messages_and_pages() {
        for word in WORDS.iter().flat_map(|(words, _)| *words) {
            for (path, text) in [
                ("a.rs", format!("fn f() {{}}\n// The {word} here.\n")),
                ("a.rs", format!("\n    panic!(\"a {word}\");\n")),
                ("a.rs", format!("\n    r#\"a \"{word}\" there\"#\n")),
                ("a.h", format!("int f;\n/** The\n{word}. */").replace("The\n", "The ")),
                ("a.toml", format!("a = 1\nabout = \"\"\"It's\na {word}\"\"\"").replace("It's\n", "It's ")),
                ("a.py", format!("x = 1\n# {}!", word.to_uppercase())),
                ("a.md", format!("A page.\nOne ({word}), [there](x.md).\n")),
            ] {
                assert_eq!(lines_of(path, &text), ["2"], "{path}: {text}");
            }
        }
    }

    #[test]
    fn names_are_not_prose() {
        let word = WORDS[0].0[1];
        for (path, text) in [
            ("a.rs", format!("let {word} = '\"'; f(\"{word}\", \"{{{word}}} bytes\", {word});")),
            (
                "a.rs",
                format!(
                    "/// See `{word}` and [it](crate::{word}), {word}.rs, a/{word}, x::{word}, {word}_max."
                ),
            ),
            ("a.rs", format!("fn f<'a>(x: &'a str) {{ {word}(x, '\\'', b\"{word}\") }}")),
            ("a.rs", format!("f(\"/?{word}={{x * 2}}\")")),
            ("a.toml", format!("{word} = 3")),
            ("a.md", format!("```\n{word} 3\n```\n")),
            ("a.bin", format!("a {word}")),
        ] {
            assert_eq!(lines_of(path, &text), [""; 0], "{text}");
        }
    }

    #[test]
    fn exceptions_are_exact() {
        let word = WORDS[0].0[1];
        let text = format!("{word} and {word}\n");
        let told = |times| judge("a.md", &text, &[("a.md", word, times, "a quotation")]);
        assert_eq!(told(2), [""; 0]);
        assert_eq!((told(1).len(), told(3).len()), (1, 1));
        assert!(told(3)[0].contains("2 times, and 3 times"), "{:?}", told(3));
        assert_eq!(judge("b.md", &text, &[("a.md", word, 2, "a quotation")]).len(), 2, "of another file");
        let known: Vec<&str> = WORDS.iter().flat_map(|(words, _)| words.iter().copied()).collect();
        for (row, (path, word, times, why)) in ALLOWED.iter().enumerate() {
            assert!(*times > 0 && !why.is_empty() && known.contains(word), "{path}: {word}");
            assert!(
                !ALLOWED[..row].iter().any(|other| (other.0, other.1) == (*path, *word)),
                "{path}: {word} twice"
            );
        }
        let paths: Vec<&str> = ALLOWED.iter().map(|row| row.0).collect();
        assert!(stale(&paths).is_empty());
        assert_eq!(stale(&[]).len(), ALLOWED.len());
    }
}
