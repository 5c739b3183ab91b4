//! Goal: both stacks use the handshake cache as often as they should, whatever the messages, and sizes of tables stay.
use super::*;

fn bed(words: &str, count: u64) -> again::Bed {
    again::exactly(Case::parse(words, 4).expect(words), count)
}

#[test]
fn all_but_the_first_begin_from_the_cache() {
    let hits = |words: &str, count: u64| {
        bed(words, count).stat("handshake_cache_hits").map(|hits| hits as f64 / count as f64)
    };
    for size in [64, 20_000] {
        assert!(hits(&format!("on:{size}:100:3"), 400).iter().all(|&part| part > 0.95));
    }
    assert_eq!(hits("off:64:100:3", 400), [0.0; 2]);
    // And so does the one that is like an earlier one.
    for words in ["on:64:0:3", "on:64:50:3", "on:64:100:500"] {
        assert!(hits(words, 400).iter().all(|&part| part > 0.95), "{words}");
    }
}

#[test]
fn the_same_packets_pass_with_it_and_without() {
    for words in ["64:60:5", "5000:100:2", "64:0:1"] {
        let sent = ["on", "off"].map(|way| bed(&format!("{way}:{words}"), 300).stat("packets_out"));
        assert_eq!(sent[0], sent[1], "{words}");
    }
    assert!(Case::parse("on:64:100", 1).is_none() && Case::parse("on:0:100:1", 1).is_none());
}
