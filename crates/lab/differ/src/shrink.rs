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
mod tests {
    //! Goal: what is needed for the difference stays, what is not goes, and the number of tries is kept.
    use super::steps;

    #[test]
    fn needed_steps_stay_and_others_go() {
        let all: Vec<u32> = (0..100).collect();
        let small = steps(&all, 10_000, |list| list.contains(&17) && list.contains(&80));
        assert_eq!(small, [17, 80]);
    }

    #[test]
    fn a_step_that_needs_another_goes_after_it() {
        // 5 may only go once 9 is gone.
        let all: Vec<u32> = (0..10).collect();
        let small =
            steps(&all, 10_000, |list| list.contains(&2) && (list.contains(&5) || !list.contains(&9)));
        assert_eq!(small, [2]);
    }

    #[test]
    fn tries_are_bounded() {
        let mut asked = 0;
        let all = [0_u8; 64];
        let small = steps(&all, 7, |_| {
            asked += 1;
            false
        });
        assert_eq!((small.len(), asked), (64, 7));
    }
}
