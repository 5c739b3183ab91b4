//! The language: text to a tree, or a complaint with its place.
//!
//! It is packetdrill's, in google's and in FreeBSD's dialect: option lines, times, packets, system calls with
//! what they must return, shell lines and assertions. Comments run from `//` to the end of the line or stand
//! between `/*` and `*/`; `#ifdef NAME` ... `#else` ... `#endif` choose.

mod ast;
mod lex;
mod parse;
mod source;

pub use ast::*;
pub use parse::parse;
pub use source::{Diagnostic, Span};

#[cfg(test)]
mod tests;
