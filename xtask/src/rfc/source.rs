//! Comments and strings of Rust source, with their items: enough of a lexer to know comments from
//! code, braces from braces in strings, and whose comment it is.

/// Something said in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Remark {
    /// The function it is said in or about, else the item; `None` for the file.
    pub(super) item: Option<String>,
    /// Where the item stands.
    pub(super) place: Place,
    pub(super) text: String,
}

/// Kind of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Shipped code.
    Code,
    /// A function that the test runner runs.
    Test,
    /// Code that only tests use.
    Help,
}

/// Everything said in the file at `path`.
pub(super) fn remarks(path: &str, text: &str) -> Vec<Remark> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let helps = ["/tests/", "/examples/", "/fuzz/"].iter().any(|part| path.contains(part))
        || ["tests.rs", "testing.rs", "fuzz.rs"].contains(&file);
    let place = if helps { Place::Help } else { Place::Code };
    let outermost = Scope { item: None, place, function: false };
    let mut reader =
        Reader { scopes: vec![outermost], next: None, waiting: Vec::new(), test: false, found: Vec::new() };
    let tokens = tokens(text);
    let mut at = 0;
    while at < tokens.len() {
        at += reader.take(&tokens[at..]);
    }
    reader.flush();
    reader.found
}

#[derive(PartialEq, Eq, Debug)]
enum Token<'a> {
    /// `//`, `///`, `//!` or `/*`, and what it says.
    Comment(&'a str, String),
    Text(String),
    Word(&'a str),
    Sign(char),
}

#[derive(Clone, Debug)]
struct Scope {
    item: Option<String>,
    place: Place,
    function: bool,
}

struct Reader {
    scopes: Vec<Scope>,
    /// The item whose braces have not opened yet.
    next: Option<Scope>,
    /// Comments that may be about what follows.
    waiting: Vec<String>,
    /// An attribute said that what follows is for tests.
    test: bool,
    found: Vec<Remark>,
}

impl Reader {
    /// Takes the first token, and those that belong to it: how many.
    fn take(&mut self, tokens: &[Token<'_>]) -> usize {
        match &tokens[0] {
            Token::Comment("//!", text) => self.say(text.clone()),
            Token::Comment(_, text) if self.here().function => self.say(text.clone()),
            Token::Comment(_, text) => self.waiting.push(text.clone()),
            Token::Text(text) => self.say(text.clone()),
            Token::Sign('#') => return self.attribute(tokens),
            Token::Sign('{') => {
                self.flush();
                let scope = self.next.take().unwrap_or_else(|| self.here().clone());
                self.scopes.push(scope);
            }
            Token::Sign('}') => {
                self.flush();
                if self.scopes.len() > 1 {
                    self.scopes.pop();
                }
            }
            Token::Sign(';') => (self.next, self.test) = (None, false),
            Token::Sign(_) => {}
            Token::Word(word) => return self.word(word, tokens),
        }
        1
    }

    fn here(&self) -> &Scope {
        self.scopes.last().expect("the outermost scope is never left")
    }

    fn word(&mut self, word: &str, tokens: &[Token<'_>]) -> usize {
        const MODIFIERS: &[&str] = &["pub", "crate", "super", "in", "async", "unsafe", "extern", "default"];
        const ITEMS: &[&str] = &[
            "fn",
            "mod",
            "struct",
            "enum",
            "union",
            "trait",
            "impl",
            "const",
            "static",
            "type",
            "macro_rules",
        ];
        let name = match tokens.get(1) {
            Some(Token::Word(name)) => Some(*name),
            Some(Token::Sign('!')) => tokens.iter().skip(2).find_map(|token| match token {
                Token::Word(name) => Some(*name),
                _ => None,
            }),
            _ => None,
        };
        match word {
            _ if MODIFIERS.contains(&word) => {}
            "const" if matches!(name, Some("fn" | "unsafe" | "extern" | "async")) => {}
            // `fn` also begins the type of a pointer to one.
            "fn" if name.is_some() => self.begin(name, true),
            _ if ITEMS.contains(&word) && !self.here().function => {
                self.begin(name.filter(|name| *name != "_" && *name != "for"), false);
            }
            _ => self.flush(),
        }
        1
    }

    /// An item begins, and the comments before it are about it.
    fn begin(&mut self, name: Option<&str>, function: bool) {
        let outer = self.here();
        let place = match (outer.place, self.test, function) {
            (_, true, true) => Place::Test,
            (_, true, false) => Place::Help,
            (place, false, _) => place,
        };
        let item = name.map(str::to_owned).or_else(|| outer.item.clone());
        let scope = Scope { item, place, function };
        for text in std::mem::take(&mut self.waiting) {
            self.found.push(Remark { item: scope.item.clone(), place, text });
        }
        (self.next, self.test) = (Some(scope), false);
    }

    /// `#[...]`: is what follows a test, or only for tests?
    fn attribute(&mut self, tokens: &[Token<'_>]) -> usize {
        let mut depth = 0;
        let mut words = Vec::new();
        for (at, token) in tokens.iter().enumerate().skip(1) {
            match token {
                Token::Sign('[') => depth += 1,
                Token::Sign(']') if depth == 1 => {
                    self.test |= words == ["test"] || words == ["cfg", "test"];
                    return at + 1;
                }
                Token::Sign(']') => depth -= 1,
                Token::Sign('!') if depth == 0 => {}
                _ if depth == 0 => return 1,
                Token::Word(word) => words.push(*word),
                _ => {}
            }
        }
        1
    }

    fn say(&mut self, text: String) {
        let scope = self.next.as_ref().unwrap_or(self.here());
        self.found.push(Remark { item: scope.item.clone(), place: scope.place, text });
    }

    /// Comments that are about nothing in particular: the scope's.
    fn flush(&mut self) {
        for text in std::mem::take(&mut self.waiting) {
            let Scope { item, place, .. } = self.here().clone();
            self.found.push(Remark { item, place, text });
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found: Vec<Token<'_>> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
        } else if rest.starts_with("//") {
            let line = rest.lines().next().unwrap_or(rest);
            let mark = ["//!", "///"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or("//");
            let said = line[mark.len()..].trim();
            rest = &rest[line.len()..];
            match found.last_mut() {
                Some(Token::Comment(same, before)) if *same == mark => *before += &format!(" {said}"),
                _ => found.push(Token::Comment(mark, said.into())),
            }
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            found.push(Token::Comment("/*", squeezed(&rest[..end])));
            rest = &rest[end..];
        } else if let Some((said, after)) = string(rest) {
            found.push(Token::Text(squeezed(said)));
            rest = after;
        } else if first == '\'' {
            rest = after_quote(rest);
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            found.push(Token::Sign(first));
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// A string at the front of `text`, raw or not: what it says, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let body = text.trim_start_matches(['b', 'c']);
    // A prefix is one letter, and `b` alone is a name.
    let body = if text.len() - body.len() <= 1 { body } else { text };
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[hashes..].strip_prefix('"')?;
        let end = inside.find(&format!("\"{}", "#".repeat(hashes))).unwrap_or(inside.len());
        let after = (end + 1 + hashes).min(inside.len());
        return Some((&inside[..end], &inside[after..]));
    }
    let inside = body.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&inside[..at], &inside[at + 1..])),
            _ => {}
        }
    }
    Some((inside, ""))
}

/// Behind a character or the quote of a lifetime.
fn after_quote(text: &str) -> &str {
    let inside = &text[1..];
    let mut chars = inside.char_indices();
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let body = &inside[at + escaped.len_utf8()..];
            body.find('\'').map_or("", |end| &body[end + 1..])
        }
        (Some(_), Some((at, '\''))) => &inside[at + 1..],
        _ => inside,
    }
}

/// On one line, without what continues a string or frames a comment.
fn squeezed(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "*" | "\\" | "/*" | "*/" | "/**"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
