//! Assertions between `%{` and `}%`: a small, safe part of Python over the connection's numbers.
//!
//! Statements: `assert CONDITION, MESSAGE`, `NAME = VALUE` (and `+=`, `-=`, `*=`), `print(...)`, `pass`, an
//! expression. Expressions: numbers, texts, tuples, names, arithmetic, bits, comparisons (chained), `and`, `or`,
//! `not`, `a if c else b`, `text % values`, and abs, min, max, int, len, str, round. Names live as long as the script.

mod eval;
mod lex;
mod parse;
mod value;

pub use eval::{Failure, Names, run};
pub use parse::{Expr, Statement, parse};
pub use value::Value;

#[cfg(test)]
mod tests;
