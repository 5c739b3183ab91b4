//! Comments and strings of Rust source, with their items.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

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
    for token in tokenize(text, FrontmatterAllowed::No) {
        let (said, after) = rest.split_at(token.len as usize);
        rest = after;
        match token.kind {
            TokenKind::Whitespace | TokenKind::Lifetime { .. } => {}
            TokenKind::LineComment { .. } => {
                let mark = ["//!", "///"].into_iter().find(|mark| said.starts_with(mark)).unwrap_or("//");
                let said = said[mark.len()..].trim();
                match found.last_mut() {
                    Some(Token::Comment(same, before)) if *same == mark => *before += &format!(" {said}"),
                    _ => found.push(Token::Comment(mark, said.into())),
                }
            }
            TokenKind::BlockComment { .. } => found.push(Token::Comment("/*", squeezed(said))),
            TokenKind::Literal { kind: LiteralKind::Char { .. } | LiteralKind::Byte { .. }, .. } => {}
            TokenKind::Literal { .. } if let (Some(from), Some(to)) = (said.find('"'), said.rfind('"')) => {
                found.push(Token::Text(squeezed(&said[from + 1..to])));
            }
            TokenKind::Literal { .. } | TokenKind::Ident | TokenKind::RawIdent => {
                found.push(Token::Word(said));
            }
            _ => found.extend(said.chars().map(Token::Sign)),
        }
    }
    found
}

/// On one line, without what continues a string or frames a comment.
fn squeezed(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "*" | "\\" | "/*" | "*/" | "/**"));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
