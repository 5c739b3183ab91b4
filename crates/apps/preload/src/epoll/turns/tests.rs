//! Goal: whatever is ready on each side and however little room there is, each gets half of its fair share or more,
//! and a part in which nothing is ready is looked at now and then only.
use super::*;

/// Events of each of ours and of the kernel's that 1,000 waits tell, and looks at the kernel's part.
fn told(ours: usize, kernels: usize, max: usize) -> (usize, usize, usize) {
    let turns = Turns::new();
    let (mut of_ours, mut of_kernels, mut looks, mut at) = (0, 0, 0, 0);
    for _ in 0..1_000 {
        let turn = turns.before_kernels(ours, max);
        let n = ours.min(turn.unwrap_or(max));
        turns.told_ours(n);
        of_ours += n;
        if turn.is_none() && n > 0 {
            continue;
        }
        looks += 1;
        let words: Vec<u64> = (0..kernels.min(max - n)).map(|i| ((at + i) % kernels) as u64).collect();
        at += words.len();
        of_kernels += words.len();
        turns.told_kernels(words.iter().copied(), max - n, ours);
        let rest = (ours - n).min(max - n - words.len());
        turns.told_ours(rest);
        of_ours += rest;
    }
    (of_ours, of_kernels, looks)
}

#[test]
fn both_sides_have_their_turns() {
    for (ours, kernels, max) in
        (1..12).flat_map(|a| (1..12).flat_map(move |b| (1..12).map(move |m| (a, b, m))))
    {
        let (of_ours, of_kernels, _) = told(ours, kernels, max);
        let all = 1_000 * max.min(ours + kernels);
        let fair = |part: usize| all * part / (ours + kernels);
        assert!(
            of_ours * 2 >= fair(ours) && of_kernels * 2 >= fair(kernels),
            "{ours} {kernels} {max}: {of_ours} {of_kernels}"
        );
    }
    for max in 1..5 {
        assert_eq!(told(3, 0, max).2, 1_000 / LOOK_EVERY as usize);
    }
}
