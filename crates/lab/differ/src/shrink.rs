//! Reduction of an input that shows a difference to a small one that still shows it.

/// Returns the shortest list of steps found that still differs. `differs` is asked about candidates: lists with a range
/// of steps left out, long ranges first (delta debugging), at most `tries` times. `steps` itself must differ.
pub fn steps<T: Clone>(steps: &[T], tries: usize, mut differs: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut best = steps.to_vec();
    let mut left = tries;
    let mut range = best.len().div_ceil(2);
    while range > 0 {
        let mut at = 0;
        let mut is_shorter = false;
        while at < best.len() && left > 0 {
            let until = (at + range).min(best.len());
            let candidate = [&best[..at], &best[until..]].concat();
            left -= 1;
            if differs(&candidate) {
                best = candidate;
                is_shorter = true;
            } else {
                at = until;
            }
        }
        if left == 0 {
            break;
        }
        // A step that went may let others go, so single steps are tried again.
        range = if is_shorter && range == 1 { 1 } else { range / 2 };
    }
    best
}

#[cfg(test)]
mod tests;
