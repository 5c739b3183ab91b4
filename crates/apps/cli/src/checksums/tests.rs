//! Goal: what was dropped and accepted is counted over cores and since the first look, and a hint comes only where
//! the card computes all checksums and no peer ever acknowledged.
use super::*;

fn core(core: u64, now_us: u64, bad: u64, open: u64, card: bool) -> (u32, Value) {
    let stack = json!({"drop_checksum": bad, "partial_checksums": open});
    (
        7,
        json!({"core": core, "now_us": now_us, "stack": stack, "port": {"name": "xdp:eth0", "tx_checksum": card}}),
    )
}

fn row(delivered: u64, retransmits: u64) -> (u32, Value) {
    (7, json!({"delivered": delivered, "retransmits": retransmits}))
}

fn words(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.word).collect()
}

#[test]
fn counts_are_of_all_cores_and_of_the_last_look() {
    let before = [core(0, 1_000_000, 3, 0, true), core(1, 1_000_000, 1, 0, true)];
    let now = [core(0, 2_500_000, 5, 0, true), core(1, 2_500_000, 1, 9, true)];
    let found = findings(&before, &now, &[]);
    assert_eq!(words(&found), ["bad-checksum", "open-checksum"]);
    assert_eq!((found[0].count, found[0].recent), (6, Some(2)));
    assert!(
        found[0].text.starts_with("6 packets since the stack began 2.5 s ago, 2 of them in the last 1.5 s")
    );
    assert_eq!((found[1].count, found[1].recent), (9, Some(9)));
    assert_eq!(found[1].as_json()["finding"], "open-checksum");
    assert!(findings(&now[..0], &[core(0, 1, 0, 0, true)], &[]).is_empty());
}

#[test]
fn a_silent_peer_is_a_hint_only_with_the_cards_checksums() {
    let of = |card: bool, rows: &[(u32, Value)]| {
        let (before, now) = ([core(0, 1, 0, 0, card)], [core(0, 2, 0, 0, card)]);
        findings(&before, &now, rows)
    };
    let found = of(true, &[row(0, 2), row(0, 5), row(0, 1)]);
    assert_eq!((words(&found), found[0].count), (vec!["unacknowledged"], 2));
    assert!(found[0].text.contains("`--link xdp:eth0,checksum=stack`"), "{}", found[0].text);
    // One that was heard shows that checksums are right.
    assert!(of(true, &[row(0, 2), row(1, 0)]).is_empty());
    assert!(of(true, &[row(0, 1)]).is_empty());
    assert!(of(false, &[row(0, 2)]).is_empty());
    // A listener has neither.
    assert!(of(true, &[(7, json!({"state": "LISTEN"}))]).is_empty());
}

#[test]
fn remedies_by_kind_of_port() {
    assert_eq!(remedy("packet:eth0"), "`--link packet:eth0,offload=off`");
    assert_eq!(remedy("xdp:eth0"), "`--link xdp:eth0,checksum=stack`");
}
