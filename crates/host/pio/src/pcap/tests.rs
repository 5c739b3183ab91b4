//! Goal: what is recorded can be played, whole, in order and in time; nothing is recorded twice or not at
//! all.

use super::*;
use crate::tests::testnet::Wait;
use wire::pcap::classic;

/// A file of our own, removed in the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("ms-pcap-{name}-{}", std::process::id())))
    }

    fn with(name: &str, content: &[u8]) -> Temporary {
        let file = Temporary::new(name);
        std::fs::write(&file.0, content).expect("a file");
        file
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn capture(link: LinkType, packets: &[(u64, &[u8], u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    classic::write_header(&mut file, link);
    for &(millis, data, original_len) in packets {
        classic::write_record(
            &mut file,
            &classic::Record { at: Instant::from_millis(millis), original_len, data },
        );
    }
    file
}

fn open(config: &PcapConfig) -> Pcap {
    open_pcap(config).expect("a capture")
}

/// Everything that is played, without waiting.
fn play(port: &mut Pcap) -> Vec<Vec<u8>> {
    let (mut batch, mut all) = (RxBatch::new(), Vec::new());
    while port.rx(&mut batch).is_ok() {
        for packet in batch.drain(..) {
            all.push(packet.frame.data().to_vec());
            port.retire(packet.frame);
        }
    }
    all
}

#[test]
fn plays_what_fits_and_ends() {
    let packets: [(u64, &[u8], u32); 4] =
        [(5, &[1; 60], 60), (2000, &[2; 60], 90), (1000, &[3; 9000], 9000), (9000, &[4], 1)];
    let file = Temporary::with("plays", &capture(LinkType::Ethernet, &packets));
    let mut port = open(&PcapConfig { speed: 0.0, ..PcapConfig::new(&file.0) });
    assert_eq!(play(&mut port), [vec![1; 60], vec![3; 9000], vec![4]]);
    assert!(matches!(port.rx(&mut RxBatch::new()), Err(IoError::Gone)));
    assert_eq!((port.counts.rx_truncated, port.pool.available()), (1, SLOTS));
    assert_eq!(port.wait(None).unwrap(), Wake::Ready, "the end is worth waking for");
}

#[test]
fn keeps_the_pace() {
    let packets: [(u64, &[u8], u32); 3] = [(0, &[1], 1), (200, &[2], 1), (600, &[3], 1)];
    let file = Temporary::with("pace", &capture(LinkType::Raw, &packets));
    let mut port = open(&PcapConfig { speed: 10.0, ..PcapConfig::new(&file.0) });
    assert_eq!(port.caps().medium, Medium::Ip);
    let (mut batch, mut dates) = (RxBatch::new(), Vec::new());
    let start = sys::monotonic();
    while dates.len() < 3 {
        port.rx(&mut batch).unwrap();
        for packet in batch.drain(..) {
            dates.push(sys::monotonic().since(start));
            port.retire(packet.frame);
        }
        // One sleep is the port's, the other a caller's.
        match dates.len() {
            1 => assert_eq!(port.wait(Some(Duration::from_secs(9))).unwrap(), Wake::Ready),
            2 => {
                let mut fds = Vec::new();
                assert!(port.arm(&mut fds).unwrap());
                let woken = crate::sleep_on(&fds, Some(Duration::from_secs(9)));
                assert_eq!(woken.unwrap(), Wake::Ready);
            }
            _ => {}
        }
    }
    // Never early; how late is the machine's affair.
    assert!(dates[1] >= Duration::from_millis(20) && dates[2] >= Duration::from_millis(60), "{dates:?}");
    let mut port = open(&PcapConfig { speed: 0.001, ..PcapConfig::new(&file.0) });
    assert_eq!(port.rx(&mut batch).unwrap(), 1);
    assert_eq!(port.wait(Some(Duration::from_millis(1))).unwrap(), Wake::Timeout);
}

#[test]
fn what_is_sent_is_recorded() {
    let source = Temporary::with("source", &capture(LinkType::Ethernet, &[(0, &[1; 60], 60)]));
    let sent = Temporary::new("sent");
    let config = PcapConfig { speed: 0.0, record: Some(sent.0.clone()), ..PcapConfig::new(&source.0) };
    let mut port = open(&config);
    for n in 1..5_u8 {
        let mut frame = port.take().unwrap();
        frame.set_range(0, 60);
        frame.data_mut().fill(n);
        assert_eq!(port.tx(&mut TxBatch::from([TxPacket { frame, meta: TxMeta::default() }])).unwrap(), 1);
    }
    drop(port);
    let mut port = open(&PcapConfig { speed: 0.0, ..PcapConfig::new(&sent.0) });
    assert_eq!(play(&mut port), [[1; 60], [2; 60], [3; 60], [4; 60]]);
}

#[test]
fn refusals_say_what_to_do() {
    let text = |path: &std::path::Path| open_pcap(&PcapConfig::new(path)).err().expect("refused").to_string();
    assert!(text("/no/such/file".as_ref()).contains("missing"));
    let junk = Temporary::with("junk", b"this is a text, not a capture, and quite long enough");
    assert!(text(&junk.0).contains("neither a pcap nor a pcapng"));
    let wifi = Temporary::with("wifi", &capture(LinkType::Other(105), &[(0, &[1], 1)]));
    assert!(text(&wifi.0).contains("105"));
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let fifo = Temporary::new("fifo");
    let name = std::ffi::CString::new(fifo.0.to_str().expect("text")).expect("no NUL");
    // SAFETY: a string that ends in NUL.
    sys::check(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }).expect("a FIFO");
    let why = open_pcap(&PcapConfig::new(&fifo.0)).err().expect("refused").to_string();
    assert!(why.contains("FIFO") && why.contains("to a file"), "{why}");
    let good = Temporary::with("beside", &capture(LinkType::Ethernet, &[]));
    let recording = PcapConfig { record: Some(fifo.0.clone()), ..PcapConfig::new(&good.0) };
    let why = open_pcap(&recording).err().expect("refused").to_string();
    assert!(why.contains("FIFO"), "{why}");
    assert!(open_pcap(&PcapConfig::new("/dev/zero")).err().expect("refused").to_string().contains("device"));
}
