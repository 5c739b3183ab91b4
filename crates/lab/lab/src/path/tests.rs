//! Goal: words become pipes, what is not said is harmless, and nonsense is refused by name.
use super::*;

fn read(words: &[(&str, &str)]) -> Result<[PipeConfig; 2], SpecError> {
    let words: Vec<_> = words.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let file = "title = \"An experiment\"\n[path]\nrtt_ms = 40\n[path.up]\nloss = 0.5\n";
    pipes(&Path::read(file, &words)?)
}

#[test]
fn words_become_pipes() {
    let [down, up] = read(&[]).unwrap();
    let plain = PipeConfig {
        delay: Duration::from_millis(20),
        spares_neighbours: true,
        ip_only: true,
        ..PipeConfig::default()
    };
    assert_eq!(down, plain);
    assert_eq!(up, PipeConfig { loss: 0.5, ..plain.clone() });
    let words = [
        ("down_kbit", "20000"),
        ("up_kbit", "800"),
        ("queue", "strict 100000"),
        ("up_queue", "slots 50"),
        ("discard", "per-flow 1,5-10"),
        ("hold", "per-flow sack 1"),
        ("hold_ms", "60"),
        ("jitter_ms", "1.5"),
        ("reorder", "0.01"),
        ("reorder_ms", "3"),
        ("bursts", "0.01 3"),
        ("every", "300"),
        ("up.loss", "0"),
        ("up.aqm", "codel"),
        ("up.bursts", "0.1 0.2 0.9 0"),
        ("up.discard", "7"),
    ];
    let [down, up] = read(&words).unwrap();
    let rate = |kbit: u64| Some(Rate::from_bits_per_sec(kbit * 1000));
    assert_eq!((down.rate, down.queue), (rate(20_000), Queue::Strict(100_000)));
    assert_eq!((up.rate, up.queue, up.loss), (rate(800), Queue::Slots(50), 0.0));
    assert_eq!((down.every, up.every), (300, 0));
    assert_eq!((down.discard.positions.count(), down.discard.per_flow), (7, true));
    assert_eq!(
        (down.hold.to_string().as_str(), down.hold_by),
        ("per-flow sack 1", Duration::from_millis(60))
    );
    assert_eq!((down.jitter, down.reorder_by), (Duration::from_micros(1500), Duration::from_millis(3)));
    assert_eq!((down.reorder, down.bursts), (0.01, Some(GilbertElliott::bursts(0.01, 3.0))));
    assert_eq!(up.discard.to_string(), "7");
    assert_eq!((up.aqm, up.bursts.unwrap().loss_bad), (Aqm::CoDel(CoDel::default()), 0.9));
}

#[test]
fn nonsense_is_refused_by_name() {
    for (key, value, name) in [
        ("queue", "big", "path.queue"),
        ("loss", "1.5", "path.loss"),
        ("up.reorder", "-1", "path.up.reorder"),
        ("bursts", "0.01 0.5", "path.bursts"),
        ("discard", "5-", "path.discard"),
        ("up.hold", "acks 1", "path.up.hold"),
        ("colour", "red", "colour"),
        ("rtt_ms.x", "1", "rtt_ms.x"),
    ] {
        let said = read(&[(key, value)]).unwrap_err().0;
        assert!(said.contains(name), "{key}={value}: {said}");
    }
}
