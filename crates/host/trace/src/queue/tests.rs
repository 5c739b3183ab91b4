//! Goal: every record reaches the file in whole, in its producer's order and once, or is counted as dropped; and
//! nothing that a file or a thread does makes a producer wait for ever.
use super::*;
use base::Rng;
use std::io::Write;
use std::sync::mpsc;

/// A file whose contents the test sees.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        // In pieces of odd sizes, as a pipe may take them.
        let some = data.len().min(777);
        self.0.lock().unwrap().extend_from_slice(&data[..some]);
        Ok(some)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

const CONFIG: Config = Config { rings: 1, room: 64, longest: 24, policy: Policy::DropNew, threaded: false };

fn opened(config: &Config) -> (Queue, Vec<Producer>, File) {
    let file = File::default();
    let (queue, producers) = open(config, Box::new(Plain), Box::new(file.clone())).unwrap();
    (queue, producers, file)
}

fn check(totals: &[Totals]) {
    for total in totals {
        assert_eq!(total.written + total.dropped, total.offered, "{totals:?}");
    }
}

#[test]
fn every_size_and_one_too_many() {
    for longest in 1..=70 {
        let config = Config { room: 1, longest, ..CONFIG };
        let (queue, mut ends, file) = opened(&config);
        for len in 1..=longest {
            let record = vec![len as u8; len];
            assert_eq!(ends[0].write(&record), Ok(()));
            queue.drain().unwrap();
            assert_eq!(file.take(), record);
        }
        assert_eq!(ends[0].write(&vec![0; longest + 1]), Err(Refused::TooLong));
        assert_eq!(
            queue.totals()[0],
            Totals { offered: longest as u64 + 1, written: longest as u64, dropped: 1 }
        );
    }
}

/// Records of every length at every offset, one piece each, and holes that nothing sees.
#[test]
fn wraps_at_every_offset() {
    for first in 0..64 {
        for len in 0..=24 {
            let (queue, mut ends, file) = opened(&CONFIG);
            // The ring's position comes to `first` or a little behind it.
            for _ in 0..first / 4 {
                ends[0].write(&[]).unwrap();
                queue.drain().unwrap();
            }
            let record: Vec<u8> = (0..len).collect();
            ends[0].write(&record).unwrap();
            ends[0].write(b"behind").unwrap();
            queue.drain().unwrap();
            assert_eq!(file.take(), [&record[..], b"behind"].concat(), "{len} bytes from {first} on");
        }
    }
}

/// Against a plain list: what is taken comes out, what is not is counted.
#[test]
fn is_a_bounded_log() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let config = Config { rings: 1 + rng.below(3) as usize, room: 32 << rng.below(4), ..CONFIG };
        let (mut queue, mut ends, file) = opened(&config);
        let mut taken: Vec<Vec<u8>> = vec![Vec::new(); config.rings];
        let mut offered = vec![(0, 0); config.rings];
        for _ in 0..rng.below(400) {
            let ring = rng.below(config.rings as u64) as usize;
            if rng.below(6) == 0 {
                queue.drain().unwrap();
                continue;
            }
            let len = rng.below(26) as usize;
            let record = vec![(ring as u8) << 6 | len as u8; len];
            offered[ring].0 += 1;
            match ends[ring].write(&record) {
                Ok(()) => taken[ring].extend(&record),
                Err(why) => {
                    assert_eq!(why == Refused::TooLong, len > config.longest);
                    offered[ring].1 += 1;
                }
            }
        }
        let totals = queue.close().unwrap();
        check(&totals);
        let written = file.take();
        for (ring, taken) in taken.iter().enumerate() {
            let mine: Vec<u8> =
                written.iter().copied().filter(|byte| usize::from(byte >> 6) == ring).collect();
            assert_eq!(mine, *taken, "seed {seed}");
            assert_eq!((totals[ring].offered, totals[ring].dropped), offered[ring], "seed {seed}");
        }
        assert_eq!(ends[0].write(b"x"), Err(Refused::Closed));
    }
}

#[test]
fn what_nobody_drains_is_refused_even_to_who_would_wait() {
    let (queue, mut ends, _file) = opened(&Config { policy: Policy::Block, ..CONFIG });
    let taken = (0..100).take_while(|_| ends[0].write(&[7; 20]).is_ok()).count();
    assert!((2..5).contains(&taken), "{taken}");
    assert_eq!(ends[0].write(&[7; 20]), Err(Refused::Full));
    queue.drain().unwrap();
    assert_eq!(ends[0].write(&[7; 20]), Ok(()));
}

/// Numbered lines from several threads; under `block` all arrive, under `drop-new` the counters tell which did not.
#[test]
fn producers_keep_their_order() {
    for policy in [Policy::Block, Policy::DropNew] {
        let config = Config { rings: 4, room: 4_096, policy, threaded: true, ..CONFIG };
        let (mut queue, ends, file) = opened(&config);
        let threads: Vec<_> = (0..)
            .zip(ends)
            .map(|(ring, mut end)| {
                std::thread::spawn(move || {
                    let refused =
                        (0..20_000).filter(|nth| end.write(format!("{ring} {nth}\n").as_bytes()).is_err());
                    refused.count() as u64
                })
            })
            .collect();
        let refused: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let totals = queue.close().unwrap();
        check(&totals);
        let text = String::from_utf8(file.take()).unwrap();
        let mut last = [None; 4];
        let mut lines = [0; 4];
        for line in text.lines() {
            let (ring, nth) = line.split_once(' ').unwrap();
            let (ring, nth): (usize, u32) = (ring.parse().unwrap(), nth.parse().unwrap());
            assert!(last[ring] < Some(nth), "{line} behind {:?}", last[ring]);
            last[ring] = Some(nth);
            lines[ring] += 1;
        }
        for ring in 0..4 {
            let expected = Totals { offered: 20_000, written: lines[ring], dropped: refused[ring] };
            assert_eq!(totals[ring], expected, "{policy:?}");
            assert!(policy == Policy::DropNew || refused[ring] == 0);
        }
    }
}

/// A file that takes nothing until the test says so.
struct Gate(mpsc::Receiver<()>, File);

impl Write for Gate {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        // Who lets go of the other end opens it for good.
        let _ = self.0.recv();
        self.1.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_producer_that_blocks_waits_for_the_file() {
    let (open_gate, gate) = mpsc::channel();
    let file = File::default();
    let config = Config { policy: Policy::Block, threaded: true, ..CONFIG };
    let (mut queue, mut ends) = open(&config, Box::new(Plain), Box::new(Gate(gate, file.clone()))).unwrap();
    let (tell, told) = mpsc::channel();
    let producer = std::thread::spawn(move || {
        for nth in 0..50u8 {
            ends[0].write(&[nth; 20]).unwrap();
            tell.send(nth).unwrap();
        }
    });
    // It gets stuck: what the ring and the writer hold is less than half of it.
    let long = Duration::from_millis(400);
    let before = std::iter::from_fn(|| told.recv_timeout(long).ok()).count();
    assert!(before < 25, "{before}");
    drop(open_gate);
    producer.join().unwrap();
    let totals = queue.close().unwrap();
    assert_eq!(totals[0], Totals { offered: 50, written: 50, dropped: 0 });
    let expected: Vec<u8> = (0..50u8).flat_map(|nth| [nth; 20]).collect();
    assert_eq!(file.take(), expected);
}

#[test]
fn a_few_bytes_do_not_wait_for_more() {
    let (queue, mut ends, file) = opened(&Config { room: 1 << 16, threaded: true, ..CONFIG });
    ends[0].write(b"alone").unwrap();
    let mut written = Vec::new();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(20));
        written = file.take();
        if !written.is_empty() {
            break;
        }
    }
    assert_eq!(written, b"alone");
    drop(queue);
}

#[test]
fn a_full_disk_is_told_and_counted() {
    let full = || Box::new(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for policy in [Policy::DropNew, Policy::Block] {
        let config = Config { policy, threaded: true, ..CONFIG };
        let (mut queue, mut ends) = open(&config, Box::new(Plain), full()).unwrap();
        // Neither policy waits for a file that takes nothing.
        let refused = (0..2_000).filter(|_| ends[0].write(&[1; 20]).is_err()).count() as u64;
        assert!(refused > 1_900, "{refused}");
        assert_eq!(queue.close().unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(queue.fault().is_some());
        assert_eq!(queue.totals()[0], Totals { offered: 2_000, written: 0, dropped: 2_000 });
    }
}

#[test]
fn a_reader_that_is_gone_is_told() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (mut queue, mut ends) = open(&CONFIG, Box::new(Plain), Box::new(writer)).unwrap();
    ends[0].write(b"read").unwrap();
    queue.drain().unwrap();
    drop(reader);
    ends[0].write(b"not read").unwrap();
    assert_eq!(queue.drain().unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(queue.close().is_err());
    assert_eq!(queue.totals()[0], Totals { offered: 2, written: 1, dropped: 1 });
}

/// A file that has room for so many bytes.
struct Small(usize, File);

impl Write for Small {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let some = data.len().min(self.0);
        if some == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0 -= some;
        self.1.write(&data[..some])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_next_file_begins_with_what_the_old_one_did_not_take_in_whole() {
    let (old, new) = (File::default(), File::default());
    let (mut queue, mut ends) = open(&CONFIG, Box::new(Plain), Box::new(Small(10, old.clone()))).unwrap();
    for record in [b"first\n", b"other\n"] {
        ends[0].write(record).unwrap();
    }
    assert_eq!(queue.drain().unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(queue.switch(Box::new(new.clone())).is_err(), "what the old one said last");
    ends[0].write(b"third\n").unwrap();
    queue.line(b"line\n").unwrap();
    assert_eq!(queue.close().unwrap()[0], Totals { offered: 3, written: 3, dropped: 0 });
    assert_eq!((old.take(), new.take()), (b"first\nothe".to_vec(), b"other\nthird\nline\n".to_vec()));
}

/// A file whose first use ends the thread that uses it.
struct Deadly(bool, File);

impl Write for Deadly {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        assert!(std::mem::replace(&mut self.0, true), "the file is deadly once");
        self.1.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_dies_leaves_nobody_waiting() {
    let file = File::default();
    let config = Config { policy: Policy::Block, threaded: true, ..CONFIG };
    let (mut queue, mut ends) =
        open(&config, Box::new(Plain), Box::new(Deadly(false, file.clone()))).unwrap();
    let taken = (0..200u8).filter(|&nth| ends[0].write(&[nth; 20]).is_ok()).count() as u64;
    assert!(taken < 20, "{taken}");
    let totals = queue.close().unwrap();
    assert_eq!(totals[0], Totals { offered: 200, written: taken, dropped: 200 - taken });
    assert_eq!(file.take().len() as u64, 20 * taken);
}
