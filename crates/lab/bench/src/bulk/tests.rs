//! Goal: data flow, whatever the link hands over at once.
use super::*;

#[test]
fn data_flow_with_every_option() {
    for (batch, gro, offloads) in [(usize::MAX, true, false), (1, true, false), (3, false, true)] {
        assert!(
            measure(2, 0.01, Options { batch, gro, offloads, prefetch: true, handshake_cache: true }) > 0.0
        );
    }
}
