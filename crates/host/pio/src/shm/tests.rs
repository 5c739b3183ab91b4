//! Goal: two processes (here: two ends in one) exchange any frames without loss; one that goes is missed and
//! one that comes is found, in any order; a hostile one does no harm.

use super::*;
use crate::tests::testnet::Wait;
use crate::tests::testnet::pattern;
use base::Rng;
use std::path::Path;

/// A folder of our own, removed in the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("ms-shm-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Place(folder)
    }

    fn open(&self) -> Shm {
        open_shm(&ShmConfig::new(self.0.join("cable"))).expect("an end").remove(0)
    }

    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.0).expect("a folder").next().is_none()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("our folder");
    }
}

fn packet(port: &mut Shm, bytes: &[u8], meta: TxMeta) -> TxPacket {
    let mut frame = port.take().expect("a frame");
    frame.set_range(frame.headroom(), bytes.len());
    frame.data_mut().copy_from_slice(bytes);
    TxPacket { frame, meta }
}

fn send(port: &mut Shm, bytes: &[u8], meta: TxMeta) {
    let mut batch = TxBatch::from([packet(port, bytes, meta)]);
    assert_eq!(port.tx(&mut batch).expect("tx"), 1);
}

#[test]
fn frames_of_all_sizes_both_ways() {
    let place = Place::new("sizes");
    let (mut a, mut b) = (place.open(), place.open());
    assert!(a.rx(&mut RxBatch::new()).is_ok(), "the first finds the second");
    let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
    let segmentation = Some(SegmentationOffload { size: 1448, header_len: 66, v6: false });
    let mut batch = RxBatch::new();
    let mut rng = Rng::new(1);
    for round in 0..2000 {
        let (from, to) = if round % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let big = rng.chance(0.1);
        let bytes = pattern(if big { 2000 + rng.below(63_000) } else { 60 + rng.below(1400) } as usize);
        let meta = if big { TxMeta { checksum, segmentation } } else { TxMeta::default() };
        send(from, &bytes, meta);
        assert_eq!(to.rx(&mut batch).unwrap(), 1);
        let got = batch.pop().unwrap();
        assert_eq!(got.frame.data(), bytes);
        let expected = if big { (RxChecksum::Partial, 1448) } else { (RxChecksum::Unverified, 0) };
        assert_eq!((got.meta.checksum, got.meta.gso_size), expected);
        to.retire(got.frame);
    }
    assert_eq!((a.pool.available(), b.pool.available()), (SLOTS, SLOTS));
}

#[test]
fn back_pressure_keeps_order() {
    let place = Place::new("pressure");
    let (mut a, mut b) = (place.open(), place.open());
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    let mut request = TxBatch::new();
    for n in 0..100_u8 {
        let meta = TxMeta {
            checksum: Some(ChecksumOffload { start: 34, offset: 16 }),
            segmentation: Some(SegmentationOffload { size: 1448, header_len: 66, v6: false }),
        };
        request.push_back(packet(&mut a, &[n; 60_000], meta));
    }
    let first = a.tx(&mut request).unwrap();
    assert!((20..60).contains(&first) && request.len() == 100 - first, "{first}");
    let mut expected = 0..100_u8;
    let mut batch = RxBatch::new();
    while !expected.is_empty() {
        b.rx(&mut batch).unwrap();
        for packet in batch.drain(..) {
            assert_eq!(packet.frame.data()[0], expected.next().unwrap());
            b.retire(packet.frame);
        }
        a.tx(&mut request).unwrap();
    }
    assert!(a.counts.tx_full > 0);
}

#[test]
fn sleepers_are_woken() {
    let place = Place::new("sleep");
    let mut a = place.open();
    let mut b = place.open();
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    const COUNT: u32 = 3000;
    let echo = std::thread::spawn(move || {
        let (mut batch, mut answers, mut seen) = (RxBatch::new(), TxBatch::new(), 0);
        while seen < COUNT {
            assert_ne!(b.wait(Some(Duration::from_secs(5))).unwrap(), Wake::Timeout, "a wake was lost");
            b.rx(&mut batch).unwrap();
            for packet in batch.drain(..) {
                seen += 1;
                answers.push_back(TxPacket { frame: packet.frame, meta: TxMeta::default() });
            }
            b.tx(&mut answers).unwrap();
        }
        b
    });
    let (mut batch, mut rng) = (RxBatch::new(), Rng::new(4));
    let mut sent = 0_u32;
    while sent < COUNT {
        let burst = (1 + rng.below(3) as u32).min(COUNT - sent);
        for n in sent..sent + burst {
            send(&mut a, &[&n.to_be_bytes()[..], &[0; 60]].concat(), TxMeta::default());
        }
        for n in sent..sent + burst {
            while batch.is_empty() {
                assert_ne!(a.wait(Some(Duration::from_secs(5))).unwrap(), Wake::Timeout, "a wake was lost");
                a.rx(&mut batch).unwrap();
            }
            let packet = batch.remove(0);
            assert_eq!(packet.frame.data()[..4], n.to_be_bytes());
            a.retire(packet.frame);
        }
        sent += burst;
    }
    let mut b = echo.join().unwrap();
    for port in [&mut a, &mut b] {
        let sleeps = |port: &mut Shm| port.wait(Some(Duration::from_millis(1))).unwrap() == Wake::Timeout;
        assert!((0..3).any(|_| sleeps(port)), "rings heard once are forgotten");
    }
}

#[test]
fn partners_come_and_go() {
    let place = Place::new("come");
    let mut events = Vec::new();
    let mut a = place.open();
    assert!(matches!(a.rx(&mut RxBatch::new()), Err(IoError::Down)));
    a.net_events(&mut events);
    assert_eq!(events, [NetEvent::Link { up: false }]);
    for _ in 0..3 {
        let mut b = place.open();
        assert_eq!(a.wait(Some(Duration::from_secs(1))).unwrap(), Wake::Ready);
        events.clear();
        a.net_events(&mut events);
        assert_eq!(events, [NetEvent::Link { up: true }]);
        send(&mut a, b"hello", TxMeta::default());
        let mut batch = RxBatch::new();
        assert_eq!(b.rx(&mut batch).unwrap(), 1);
        // A third finds no place, and does not disturb.
        let mut c = place.open();
        assert!(matches!(c.rx(&mut RxBatch::new()), Err(IoError::Down)));
        drop(c);
        batch.drain(..).for_each(|packet| b.retire(packet.frame));
        drop(b);
        assert_eq!(a.wait(Some(Duration::from_secs(1))).unwrap(), Wake::Ready);
        events.clear();
        a.net_events(&mut events);
        assert_eq!(events, [NetEvent::Link { up: false }]);
    }
    // The one who listened goes: the other takes its place.
    let mut b = place.open();
    assert!(a.rx(&mut RxBatch::new()).is_ok() && b.rx(&mut RxBatch::new()).is_ok());
    drop(a);
    b.wait(Some(Duration::from_secs(1))).unwrap();
    assert!(matches!(b.rx(&mut RxBatch::new()), Err(IoError::Down)));
    let mut a = place.open();
    assert!(b.rx(&mut RxBatch::new()).is_ok() && a.rx(&mut RxBatch::new()).is_ok());
    drop((a, b));
    assert!(place.is_empty(), "nothing is left behind");
}

#[test]
fn a_busy_poller_notices_too() {
    let place = Place::new("busy");
    let (mut a, b) = (place.open(), place.open());
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    drop(b);
    assert!((0..2 * LOOK_EVERY).any(|_| a.rx(&mut RxBatch::new()).is_err()));
}

#[test]
fn what_a_killed_process_left_is_in_nobodys_way() {
    let place = Place::new("killed");
    let a = place.open();
    // As if killed: files stay, the lock goes with the process.
    let names =
        [("cable", "kept"), ("cable.lock", "kept.lock")].map(|(a, b)| (place.0.join(a), place.0.join(b)));
    names.iter().for_each(|(name, kept)| std::fs::hard_link(name, kept).unwrap());
    drop(a);
    names.iter().for_each(|(name, kept)| std::fs::rename(kept, name).unwrap());
    let (mut a, mut b) = (place.open(), place.open());
    assert!(a.rx(&mut RxBatch::new()).is_ok() && b.rx(&mut RxBatch::new()).is_ok());
}

#[test]
fn strangers_and_liars_are_refused() {
    let place = Place::new("liars");
    let path = place.0.join("cable");
    // A stranger connects and says nothing sensible.
    let mut a = place.open();
    let stranger = std::os::unix::net::UnixStream::connect(&path);
    assert!(stranger.is_err(), "another kind of socket");
    // A partner that writes nonsense is parted from, and the next one is welcome.
    let mut b = place.open();
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    assert!(b.rx(&mut RxBatch::new()).is_ok());
    let link = b.link.as_mut().unwrap();
    link.producer.push(&[0xff; vnet::LEN], &[0; 60]).unwrap();
    link.producer.publish();
    assert_eq!(a.rx(&mut RxBatch::new()).unwrap(), 0);
    assert_eq!(a.counts.rx_malformed, 1);
    b.link.as_mut().unwrap().producer.lie();
    assert!(matches!(a.rx(&mut RxBatch::new()), Err(IoError::Down)));
    assert_eq!(a.counts.partners_broken, 1);
    b.wait(Some(Duration::from_secs(1))).unwrap();
    let _ = b.rx(&mut RxBatch::new());
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    send(&mut b, &[1; 60], TxMeta::default());
    assert_eq!(a.rx(&mut RxBatch::new()).unwrap(), 1);
}

#[test]
fn queues_are_cables_of_their_own() {
    let place = Place::new("queues");
    let config = ShmConfig { queues: 3, ..ShmConfig::new(place.0.join("cable")) };
    let (mut a, mut b) = (open_shm(&config).unwrap(), open_shm(&config).unwrap());
    for (queue, port) in a.iter_mut().enumerate() {
        assert!(port.rx(&mut RxBatch::new()).is_ok());
        send(port, &[queue as u8; 60], TxMeta::default());
    }
    for (queue, port) in b.iter_mut().enumerate() {
        let mut batch = RxBatch::new();
        assert_eq!(port.rx(&mut batch).unwrap(), 1);
        assert_eq!(batch[0].frame.data()[0], queue as u8);
        assert_eq!(port.caps().queue, queue as u16);
        port.retire(batch.pop().unwrap().frame);
    }
}

#[test]
fn refusals_say_what_to_do() {
    let text = |path: &str| open_shm(&ShmConfig::new(path)).err().expect("refused").to_string();
    assert!(text("/nowhere/at/all").contains("folder"), "{}", text("/nowhere/at/all"));
    assert!(text(&"x".repeat(200)).contains("100"));
}

#[test]
fn a_stream_that_fills_the_lane_never_stalls() {
    let place = Place::new("stream");
    let (mut a, mut b) = (place.open(), place.open());
    assert!(a.rx(&mut RxBatch::new()).is_ok());
    const COUNT: usize = 2000;
    let sink = std::thread::spawn(move || {
        let (mut batch, mut seen) = (RxBatch::new(), 0);
        while seen < COUNT {
            assert_ne!(
                b.wait(Some(Duration::from_secs(5))).unwrap(),
                Wake::Timeout,
                "the reader was not woken"
            );
            b.rx(&mut batch).unwrap();
            seen += batch.len();
            batch.drain(..).for_each(|packet| b.retire(packet.frame));
        }
    });
    let meta = TxMeta {
        checksum: Some(ChecksumOffload { start: 34, offset: 16 }),
        segmentation: Some(SegmentationOffload { size: 1448, header_len: 66, v6: false }),
    };
    let (mut request, mut sent) = (TxBatch::new(), 0);
    while sent < COUNT {
        while request.len() < 64.min(COUNT - sent) {
            request.push_back(packet(&mut a, &[1; 50_000], meta));
        }
        sent += a.tx(&mut request).unwrap();
        if !request.is_empty() {
            assert_ne!(
                a.wait(Some(Duration::from_secs(5))).unwrap(),
                Wake::Timeout,
                "the writer was not woken"
            );
        }
    }
    assert!(a.counts.tx_full > 10, "the test meant to fill the lane");
    sink.join().unwrap();
}

/// Why no end can be opened.
fn refusal(place: &Place) -> String {
    open_shm(&ShmConfig::new(place.0.join("cable"))).err().expect("it is refused").to_string()
}

#[test]
fn what_other_users_put_in_the_way_is_refused_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let place = Place::new("strangers");
    let (cable, lock) = (place.0.join("cable"), place.0.join("cable.lock"));
    let fifo = std::ffi::CString::new(lock.to_str().expect("text")).expect("no NUL");
    // SAFETY: a string that ends in NUL.
    sys::check(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }).expect("a FIFO");
    let why = refusal(&place);
    assert!(why.contains("cable.lock") && why.contains("FIFO"), "{why}");
    std::fs::remove_file(&lock).expect("it is there");
    std::os::unix::fs::symlink("/dev/null", &lock).expect("a link");
    let why = refusal(&place);
    assert!(why.contains("cable.lock") && why.contains("link"), "{why}");
    std::fs::remove_file(&lock).expect("it is there");
    // A file at the socket's place is no leftover of ours.
    std::fs::write(&cable, "precious").expect("a file");
    assert!(refusal(&place).contains("no socket but a file"), "{}", refusal(&place));
    assert_eq!(std::fs::read(&cable).expect("it is still there"), b"precious");
    std::fs::remove_file(&cable).expect("it is there");
    // Where others can replace files, nothing holds.
    mode(&place.0, 0o777);
    assert!(refusal(&place).contains("chmod go-w"), "{}", refusal(&place));
    mode(&place.0, 0o1777);
    // A file of an earlier version, which others could lock.
    std::fs::write(&lock, "").expect("a file");
    mode(&lock, 0o644);
    let a = place.open();
    for path in [&cable, &lock] {
        assert_eq!(
            std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777,
            0o600,
            "{path:?}"
        );
    }
    drop(a);
    if sys::user() != 0 {
        return eprintln!("skipped: only root can give files away");
    }
    for path in [&lock, &cable] {
        let _ = std::fs::remove_file(path);
        let _socket = std::os::unix::net::UnixListener::bind(path).expect("a socket");
        if path == &lock {
            std::fs::remove_file(path).expect("it is there");
            std::fs::write(path, "").expect("a file");
        }
        std::os::unix::fs::lchown(path, Some(65_534), None).expect("root may");
        let why = refusal(&place);
        assert!(why.contains("belongs to") && why.contains(path.to_str().expect("text")), "{why}");
        std::fs::remove_file(path).expect("it is there");
    }
}
