//! Words to statements.

use super::lex::{Tok, tokens};

/// Deepest nesting.
const DEPTH_MAX: u32 = 48;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Statement {
    /// `assert condition, message`
    Assert(Expr, Option<Expr>),
    /// `name = value`, or with an operator in front of the `=`.
    Assign(String, Option<&'static str>, Expr),
    /// Something evaluated for what it does, such as `print(...)`.
    Do(Expr),
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A whole number.
    Int(i128),
    /// A number with a point.
    Float(f64),
    /// A text.
    Text(String),
    /// A name.
    Name(String),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `f(a, b)`
    Call(String, Vec<Expr>),
    /// `-a`, `~a`, `not a`
    Unary(&'static str, Box<Expr>),
    /// `a + b` and the like; `and` and `or` too.
    Binary(&'static str, Box<Expr>, Box<Expr>),
    /// `a <= b < c`
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
    /// `a if condition else b`: condition, a, b.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Operators from loosest to tightest; each row binds to the left.
const LEVELS: &[&[&str]] = &[&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "//", "/", "%"]];
const COMPARISONS: &[&str] = &["==", "!=", "<=", ">=", "<", ">"];

/// Reads the text between `%{` and `}%`.
///
/// # Errors
/// A sentence on the part that could not be parsed.
pub fn parse(text: &str) -> std::result::Result<Vec<Statement>, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let mut statements = Vec::new();
    loop {
        while parser.accept(&Tok::Line) {}
        if parser.at == parser.tokens.len() {
            return Ok(statements);
        }
        if let Some(statement) = parser.statement()? {
            statements.push(statement);
        }
        if !parser.accept(&Tok::Line) {
            return Err(format!("{} after the end of a statement", parser.shown()));
        }
    }
}

struct Parser {
    tokens: Vec<Tok>,
    at: usize,
    depth: u32,
}

type Result<T> = std::result::Result<T, String>;

impl Parser {
    fn peek(&self) -> Option<&Tok> {
        self.tokens.get(self.at)
    }

    fn accept(&mut self, token: &Tok) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn accept_mark(&mut self, mark: &'static str) -> bool {
        self.accept(&Tok::Mark(mark))
    }

    fn accept_name(&mut self, name: &str) -> bool {
        let found = matches!(self.peek(), Some(Tok::Name(n)) if n == name);
        self.at += usize::from(found);
        found
    }

    /// Which of `marks` comes next, taken.
    fn any_mark(&mut self, marks: &[&'static str]) -> Option<&'static str> {
        let found = marks.iter().copied().find(|mark| self.peek() == Some(&Tok::Mark(mark)))?;
        self.at += 1;
        Some(found)
    }

    fn shown(&self) -> String {
        match self.peek() {
            None | Some(Tok::Line) => "the end of the statement".into(),
            Some(Tok::Name(name)) => format!("`{name}`"),
            Some(Tok::Int(value)) => format!("`{value}`"),
            Some(Tok::Float(value)) => format!("`{value}`"),
            Some(Tok::Text(text)) => format!("'{text}'"),
            Some(Tok::Mark(mark)) => format!("`{mark}`"),
        }
    }

    fn statement(&mut self) -> Result<Option<Statement>> {
        if self.accept_name("pass") {
            return Ok(None);
        }
        if self.accept_name("assert") {
            let condition = self.expr()?;
            let message = if self.accept_mark(",") { Some(self.expr()?) } else { None };
            return Ok(Some(Statement::Assert(condition, message)));
        }
        if let (Some(Tok::Name(name)), Some(Tok::Mark(mark))) = (self.peek(), self.tokens.get(self.at + 1)) {
            let operator = match *mark {
                "=" => Some(None),
                "+=" => Some(Some("+")),
                "-=" => Some(Some("-")),
                "*=" => Some(Some("*")),
                _ => None,
            };
            if let Some(operator) = operator {
                let name = name.clone();
                self.at += 2;
                return Ok(Some(Statement::Assign(name, operator, self.tuple()?)));
            }
        }
        Ok(Some(Statement::Do(self.tuple()?)))
    }

    /// One value, or several with commas.
    fn tuple(&mut self) -> Result<Expr> {
        let first = self.expr()?;
        if self.peek() != Some(&Tok::Mark(",")) {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.accept_mark(",") {
            if matches!(self.peek(), None | Some(Tok::Line | Tok::Mark(")"))) {
                break;
            }
            all.push(self.expr()?);
        }
        Ok(Expr::Tuple(all))
    }

    fn expr(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} deep"));
        }
        let value = self.either()?;
        let whole = if self.accept_name("if") {
            let condition = self.either()?;
            if !self.accept_name("else") {
                return Err(format!("{} where `else` must stand", self.shown()));
            }
            Expr::If(Box::new(condition), Box::new(value), Box::new(self.expr()?))
        } else {
            value
        };
        self.depth -= 1;
        Ok(whole)
    }

    fn either(&mut self) -> Result<Expr> {
        let mut left = self.both()?;
        while self.accept_name("or") {
            left = self.binary("or", left, Self::both)?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expr> {
        let mut left = self.inverted()?;
        while self.accept_name("and") {
            left = self.binary("and", left, Self::inverted)?;
        }
        Ok(left)
    }

    /// A chain makes a tree as deep as it is long, so it counts as nesting.
    fn binary(&mut self, op: &'static str, left: Expr, next: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} deep"));
        }
        Ok(Expr::Binary(op, Box::new(left), Box::new(next(self)?)))
    }

    fn inverted(&mut self) -> Result<Expr> {
        let mut inversions = 0_u32;
        while self.accept_name("not") {
            inversions += 1;
        }
        let mut value = self.comparison()?;
        // Two make a truth value of anything; more than two are one or two.
        for _ in 0..if inversions > 2 { 2 - inversions % 2 } else { inversions } {
            value = Expr::Unary("not", Box::new(value));
        }
        Ok(value)
    }

    fn comparison(&mut self) -> Result<Expr> {
        let first = self.level(0)?;
        let mut rest = Vec::new();
        while let Some(op) = self.any_mark(COMPARISONS) {
            rest.push((op, self.level(0)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    fn level(&mut self, level: usize) -> Result<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let depth = self.depth;
        let mut left = self.level(level + 1)?;
        while let Some(op) = self.any_mark(operators) {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return Err(format!("nested more than {DEPTH_MAX} deep"));
            }
            left = Expr::Binary(op, Box::new(left), Box::new(self.level(level + 1)?));
        }
        self.depth = depth;
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr> {
        let Some(op) = self.any_mark(&["-", "+", "~"]) else { return self.power() };
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} deep"));
        }
        let value = Expr::Unary(op, Box::new(self.unary()?));
        self.depth -= 1;
        Ok(value)
    }

    fn power(&mut self) -> Result<Expr> {
        let base = self.atom()?;
        if !self.accept_mark("**") {
            return Ok(base);
        }
        Ok(Expr::Binary("**", Box::new(base), Box::new(self.unary()?)))
    }

    fn atom(&mut self) -> Result<Expr> {
        let wrong = format!("{} where a value must stand", self.shown());
        let Some(token) = self.peek().cloned() else { return Err(wrong) };
        self.at += 1;
        Ok(match token {
            Tok::Int(value) => Expr::Int(value),
            Tok::Float(value) => Expr::Float(value),
            Tok::Text(text) => Expr::Text(text),
            Tok::Name(name) if self.accept_mark("(") => Expr::Call(name, self.arguments()?),
            Tok::Name(name) => Expr::Name(name),
            Tok::Mark("(") => {
                if self.accept_mark(")") {
                    return Ok(Expr::Tuple(Vec::new()));
                }
                let inside = self.tuple()?;
                self.close()?;
                inside
            }
            _ => return Err(wrong),
        })
    }

    fn arguments(&mut self) -> Result<Vec<Expr>> {
        let mut all = Vec::new();
        while self.peek() != Some(&Tok::Mark(")")) {
            all.push(self.expr()?);
            if !self.accept_mark(",") {
                break;
            }
        }
        self.close()?;
        Ok(all)
    }

    fn close(&mut self) -> Result<()> {
        if self.accept_mark(")") { Ok(()) } else { Err(format!("{} where `)` must stand", self.shown())) }
    }
}
