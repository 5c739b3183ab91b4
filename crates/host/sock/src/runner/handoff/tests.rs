//! Goal: only who has worked for one other alone, several times, makes way.
use super::*;

#[test]
fn who_works_for_one_alone_makes_way_and_for_several_stays() {
    let (a, b) = (Rung::One(Some(1)), Rung::One(None));
    let ways = |rung: &[Rung]| {
        let mut handoff = Handoff::default();
        rung.iter().map(|&rung| handoff.on_rung(rung)).collect::<Vec<_>>()
    };
    assert_eq!(ways(&[a, a, Rung::Nobody, a, a]), [false, false, false, false, true]);
    assert_eq!(ways(&[b; 4]), [false, false, false, true]);
    assert!(ways(&[a; 600])[3..].iter().all(|&way| way), "who cannot make way goes on");
    assert!(!ways(&[a, b, a, b, a, b, a, b]).contains(&true));
    assert!(!ways(&[a, a, a, Rung::Several, a, a, a]).contains(&true));
}
