//! Goal: what was kept comes back, and every reason is told.
use super::*;

fn entry(cores: u32, outcome: Outcome) -> Entry {
    Entry {
        card: "igb".into(),
        kernel: "6.1.0-56-amd64".into(),
        cores,
        link: "nic".into(),
        role: "serve".into(),
        outcome,
        day: "2026-01-02".into(),
    }
}

#[test]
fn lines_come_back() {
    for outcome in [
        Outcome::Works("generic XDP".into()),
        Outcome::Refused("it has 1\tqueue".into()),
        Outcome::Dead("nothing\ncame".into()),
    ] {
        let kept = Entry::read(&entry(4, outcome).line()).expect("a line");
        assert_eq!(kept.key(), entry(4, Outcome::Dead(String::new())).key());
        assert_eq!(Entry::read(&kept.line()).map(|again| again.outcome), Some(kept.outcome));
    }
    assert!(Entry::read("igb\t6.1").is_none());
}

#[test]
fn reasons_are_told() {
    let why = "it has 1 queue";
    let entries = [
        entry(1, Outcome::Works("XDP in the driver; requests of the cores: 40 41".into())),
        entry(4, Outcome::Refused(why.into())),
    ];
    let table = table(&entries, "QEMU 10.0.2");
    assert!(
        table.contains("works, driver |") && table.contains("refused (1)") && table.contains(why),
        "{table}"
    );
}
