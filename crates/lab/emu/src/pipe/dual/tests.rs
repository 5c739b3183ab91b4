//! Goal: packets go to their queues, the step and the coupling mark, and the controller keeps the classic delay.
use super::*;

fn packet(ecn: u8, since: Instant) -> Waiting {
    let mut bytes = vec![0; 1_514];
    bytes[12..14].copy_from_slice(&wire::ethernet::IPV4.to_be_bytes());
    bytes[14..16].copy_from_slice(&[0x45, ecn]);
    let packet = Packet { bytes, meta: Default::default() };
    Waiting { packet, name: None, bytes: 1_514, since, ill: true }
}

fn at(ms: f64) -> Instant {
    Instant::from_nanos((ms * 1e6) as u64)
}

#[test]
fn codepoints_choose_the_queue_and_the_low_one_goes_first() {
    let mut dual = Dual::default();
    (0..4).for_each(|ecn| dual.enter(packet(ecn, at(f64::from(ecn)))));
    let order: Vec<bool> =
        std::iter::from_fn(|| dual.next(&DualPi2::default(), at(4.0))).map(|turn| turn.low).collect();
    assert_eq!(order, [true, true, false, false]);
}

#[test]
fn the_classic_queue_waits_no_longer_than_the_shift() {
    let mut dual = Dual::default();
    dual.enter(packet(0, at(0.0)));
    dual.enter(packet(1, at(29.0)));
    dual.enter(packet(1, at(31.0)));
    let order: Vec<bool> =
        std::iter::from_fn(|| dual.next(&DualPi2::default(), at(32.0))).map(|turn| turn.low).collect();
    assert_eq!(order, [true, false, true]);
}

/// RFC 9332, section 2.5.1: native marks of the L queue at a delay of 1 ms, but never for a lone packet.
#[test]
fn the_step_marks_what_waited_for_more_than_a_millisecond() {
    let mut fates: Vec<Vec<Fate>> = Vec::new();
    for waited in [0.9, 1.1] {
        let mut dual = Dual::default();
        (0..3).for_each(|_| dual.enter(packet(1, at(0.0))));
        fates.push(
            std::iter::from_fn(|| dual.next(&DualPi2::default(), at(waited))).map(|t| t.fate).collect(),
        );
    }
    // The accumulated likelihood of the first packet is not above 1 yet.
    assert_eq!(fates, [vec![Fate::Pass; 3], vec![Fate::Pass, Fate::Mark, Fate::Pass]]);
}

/// RFC 9332, section 2.1: p_C = (p_CL / k)^2.
#[test]
fn the_two_probabilities_are_coupled_by_a_square() {
    let mut dual = Dual { base: 0.2, update_at: Some(at(1e9)), ..Dual::default() };
    let mut hits = [0, 0];
    for nth in 0..20_000_u32 {
        dual.enter(packet((nth % 2) as u8, at(0.0)));
        let turn = dual.next(&DualPi2::default(), at(0.0)).expect("one waits");
        hits[usize::from(turn.low)] += u32::from(turn.fate == Fate::Mark);
    }
    assert!((395..=405).contains(&hits[0]) && (3_990..=4_010).contains(&hits[1]), "{hits:?}");
}

#[test]
fn saturation_drops_in_both_queues() {
    let mut dual = Dual { base: 0.9, update_at: Some(at(1e9)), ..Dual::default() };
    let mut drops = [0, 0];
    for nth in 0..2_000_u32 {
        dual.enter(packet((nth % 2) as u8, at(0.0)));
        let turn = dual.next(&DualPi2::default(), at(0.0)).expect("one waits");
        drops[usize::from(turn.low)] += u32::from(turn.fate == Fate::Drop);
    }
    assert!(drops.iter().all(|drops| (800..=820).contains(drops)), "{drops:?}");
}
