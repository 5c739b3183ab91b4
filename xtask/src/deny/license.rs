//! SPDX licence expressions, as far as packages use them: AND, OR, parentheses, WITH as part of the name, and
//! the old `/` for OR.

/// Can the terms of `expression` be met with the allowed licences alone? An expression that cannot be read, or
/// is empty, cannot.
pub(super) fn satisfied(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, allowed };
    let met = parser.either();
    met == Some(true) && parser.at == parser.words.len()
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    allowed: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let here = self.words.get(self.at).is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(here);
        here
    }

    fn either(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.either()?;
            return self.take(")").then_some(met);
        }
        let mut name = self.words.get(self.at)?.to_string();
        self.at += 1;
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.words.get(self.at)?);
            self.at += 1;
        }
        Some(self.allowed.contains(&name))
    }
}

#[cfg(test)]
mod tests;
