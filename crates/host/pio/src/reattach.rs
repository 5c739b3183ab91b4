//! Words and answers that all links share when their interface is deleted and made again.

/// Said when the interface goes.
pub(crate) const GONE: &str = "the interface is gone (deleted, moved to another network namespace, or its card was \
     pulled out); connections over it wait for one of its name";

/// Says that the interface is back in vain, for the reason `why`.
pub(crate) fn unusable(why: &str) -> String {
    format!(
        "the interface is back, but cannot be used ({why}); connections over it end, and its ports are the kernel's. \
         Start the program again"
    )
}

/// Why an interface that is back cannot be gone on with.
pub(crate) enum Refusal {
    /// It was deleted again meanwhile, is not told of yet, or is down: the next news tell.
    Absent,
    /// For the reason said.
    Final(String),
}
