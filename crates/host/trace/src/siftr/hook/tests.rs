//! Goal: whatever the ring has room for and whenever it is drained, each record has a line of its own flow, in
//! order, or is counted, its direction too; also those of a flow whose first records were dropped.
use super::*;
use crate::siftr::tests::{key, record};
use crate::siftr::{Log, LogConfig};
use base::{Endpoint, Rng};

/// A file that shares what it holds.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for File {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The flow between our port 22 and this one.
fn flow(port: u16) -> FlowKey {
    FlowKey::new(key().local(), Endpoint::new(key().remote().addr, port))
}

fn model(seed: u64) {
    let mut rng = Rng::new(seed);
    let config = LogConfig {
        threaded: false,
        room: 128 << rng.below(8),
        flows: 1 + rng.below(30) as usize,
        ..LogConfig::default()
    };
    let file = File::default();
    let (log, mut hooks) = Log::begin(&config, Box::new(file.clone()), Instant::ZERO).unwrap();
    let mut hook = hooks.remove(0);
    // Port and direction of each record, whose number is told as its congestion window.
    let mut offered: Vec<(u16, bool)> = Vec::new();
    for _ in 0..rng.below(400) {
        for _ in 0..rng.below(100) {
            let (port, outbound) = (1 + rng.below(20) as u16, rng.below(2) == 1);
            let number = offered.len() as u32;
            offered.push((port, outbound));
            hook.keep(&flow(port), outbound, |flow, rtt_us| {
                let mut record = Record { outbound, flow, rtt_us, ..record() };
                record.vitals.cwnd = number;
                record
            });
        }
        if rng.below(3) > 0 {
            hook.pause();
        }
        if rng.below(3) > 0 {
            log.drain().unwrap();
        }
    }
    drop(hook);
    let skipped = log.end(Instant::ZERO).unwrap().skipped;
    let text = String::from_utf8(file.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (mut last, mut told) = (None, [0; 2]);
    for line in &lines[1..lines.len() - 1] {
        let columns: Vec<&str> = line.split(',').collect();
        let number: usize = columns[8].parse().unwrap();
        let (port, outbound) = offered[number];
        assert!(last < Some(number), "seed {seed}: {line}");
        assert_eq!(
            (columns[0], columns[6]),
            (if outbound { "o" } else { "i" }, &*port.to_string()),
            "{seed}"
        );
        last = Some(number);
        told[usize::from(outbound)] += 1;
    }
    let of = |way: bool| offered.iter().filter(|record| record.1 == way).count() as u64;
    assert_eq!([told[0] + skipped.malloc[0], told[1] + skipped.malloc[1]], [of(false), of(true)], "{seed}");
    assert_eq!(skipped.total(), skipped.malloc[0] + skipped.malloc[1]);
}

#[test]
fn each_record_is_a_line_or_counted() {
    (0..60).for_each(model);
}
