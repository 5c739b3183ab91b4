//! Goal: what is written is what is read, and no input panics.
