//! Words of the assertions.

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Tok {
    Name(String),
    Int(i128),
    Float(f64),
    Text(String),
    /// An operator or a mark.
    Mark(&'static str),
    /// End of a statement.
    Line,
}

/// Longest first, so that `<=` is not `<` and `=`.
const MARKS: &[&str] = &[
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "+=", "-=", "*=", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "<", ">", "=", "(", ")", ",",
];

/// All tokens, or what could not be read.
pub(super) fn tokens(text: &str) -> Result<Vec<Tok>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut open = 0_u32;
    while let Some(c) = rest.chars().next() {
        let before = rest.len();
        if let Some(after) = rest.strip_prefix("\\\n") {
            rest = after;
        } else if c == '\n' || c == ';' {
            // Within parentheses a line may end anywhere.
            if open == 0 {
                out.push(Tok::Line);
            }
            rest = &rest[1..];
        } else if c.is_whitespace() || c == '\\' {
            rest = &rest[c.len_utf8()..];
        } else if c == '#' {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if c == '"' || c == '\'' {
            let (text, len) = quoted(rest, c)?;
            out.push(Tok::Text(text));
            rest = &rest[len..];
        } else if c.is_ascii_alphabetic() || c == '_' {
            let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            out.push(Tok::Name(rest[..len].into()));
            rest = &rest[len..];
        } else if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            let (number, len) = number(rest)?;
            out.push(number);
            rest = &rest[len..];
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            match *mark {
                "(" => open += 1,
                ")" => open = open.saturating_sub(1),
                _ => {}
            }
            out.push(Tok::Mark(mark));
            rest = &rest[mark.len()..];
        } else {
            return Err(format!("`{c}` means nothing here"));
        }
        debug_assert!(rest.len() < before);
    }
    out.push(Tok::Line);
    Ok(out)
}

fn number(text: &str) -> Result<(Tok, usize), String> {
    if let Some(digits) = text.strip_prefix("0x") {
        let len = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let value = i128::from_str_radix(&digits[..len], 16);
        return value
            .map(|v| (Tok::Int(v), 2 + len))
            .map_err(|_| format!("`{}` is no number", &text[..2 + len]));
    }
    let len = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let digits = &text[..len];
    let token = match digits.contains('.') {
        true => digits.parse().ok().map(Tok::Float),
        false => digits.parse().ok().map(Tok::Int),
    };
    token.map(|token| (token, len)).ok_or_else(|| format!("`{digits}` is no number"))
}

fn quoted(text: &str, mark: char) -> Result<(String, usize), String> {
    let mut out = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            'n' if escaped => out.push('\n'),
            't' if escaped => out.push('\t'),
            _ if escaped => out.push(c),
            '\\' => {
                escaped = true;
                continue;
            }
            _ if c == mark => return Ok((out, at + 1)),
            _ => out.push(c),
        }
        escaped = false;
    }
    Err(format!("a text without its closing {mark}"))
}
