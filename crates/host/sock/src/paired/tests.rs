//! Goal: paired.
