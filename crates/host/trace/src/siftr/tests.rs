//! Goal: lines are what each profile's readers expect, to the last digit; TEACUP's reader, written anew from what is
//! known of it, reads a log of ours; and the controls do what SIFTR's do, whatever happens to the file.
use super::controls::{ControlError, Cores, Siftr};
use super::profile::{Lines, Profile, Skipped, Summary};
use super::record::{LEN, Record, STATES, announcing};
use super::*;
use crate::queue::Format;
use base::{Addr, Endpoint, FlowKey};
use std::path::PathBuf;
use tcp::{Features, State, Vitals};

pub(super) fn record() -> Record {
    Record {
        at: Instant::from_micros(19_300_014),
        outbound: true,
        flow: 3,
        vitals: Vitals {
            state: State::Established,
            cwnd: 17_520,
            ssthresh: u32::MAX,
            snd_wnd: 71_000,
            rcv_wnd: 66_608,
            scale: (6, 3),
            snd_mss: 1_448,
            srtt_us: 29_250,
            rto_us: 255_000,
            features: Features::new(true, true, true, true),
            sndbuf: (33_304, 100),
            rcvbuf: (66_608, 7),
            flight: 208,
            reassembly: 2,
        },
        rtt_us: 20_000,
        hash: 0xbec491,
    }
}

pub(super) fn key() -> FlowKey {
    let (local, remote) = (Addr::v4([172, 16, 7, 28]), Addr::v4([172, 16, 2, 5]));
    FlowKey::new(Endpoint::new(local, 22), Endpoint::new(remote, 55_931))
}

fn bytes(record: &Record) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    record.put(&mut bytes);
    bytes
}

fn line(profile: Profile, record: &Record, key: &FlowKey) -> String {
    let mut out = Vec::new();
    let mut lines = Lines::new(profile, 1_000_000_000_000_000);
    lines.record(0, &announcing(&bytes(record), key), &mut out);
    let announced = String::from_utf8(std::mem::take(&mut out)).unwrap();
    lines.record(0, &bytes(record), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), announced, "the same once it is known");
    announced
}

/// A number means what its own ring said last, and nothing before.
#[test]
fn unknown_flows_have_no_line() {
    let mut lines = Lines::new(Profile::Teacup, 0);
    let mut said = |ring: usize, bytes: &[u8]| {
        let mut out = Vec::new();
        lines.record(ring, bytes, &mut out);
        String::from_utf8(out).unwrap().split(',').nth(4).map(str::to_string)
    };
    let numbered = |flow: u32| bytes(&Record { flow, ..record() });
    let (one, two) = (key(), key().reversed());
    assert_eq!(said(0, &numbered(3)), None);
    assert_eq!(said(1, &announcing(&numbered(3), &one)).as_deref(), Some("22"));
    for (ring, flow) in [(0, 3), (1, 2), (1, 4), (2, 3)] {
        assert_eq!(said(ring, &numbered(flow)), None);
    }
    assert_eq!(said(1, &announcing(&numbered(0), &two)).as_deref(), Some("55931"));
    assert_eq!(said(1, &numbered(3)).as_deref(), Some("22"));
    assert_eq!(said(1, &numbered(0)).as_deref(), Some("55931"));
    // What is too short to be one is none.
    assert_eq!(said(1, &numbered(0)[..LEN - 1]), None);
}

#[test]
fn lines_of_every_profile() {
    let tuple = "1000000019.300014,172.16.7.28,22,172.16.2.5,55931";
    let middle = "1073725440,17520,0,71000,66608,6,3,4,1448";
    let end = "33304,100,66608,7,208";
    // 936/32 ticks of a millisecond are 29.25 ms, 255 of them a timeout of 0.255 s, and 996 is 0x3e4.
    let old = format!("o,0x00bec491,{tuple},{middle},936,1,996,255,{end}");
    let flow = 720_608_986;
    for (profile, expected) in [
        (Profile::V1_2, format!("{old}\n")),
        (Profile::FreeBsd9, format!("{old},2\n")),
        (Profile::V1_2_4, format!("{old},2,{flow},63\n")),
        (Profile::V1_3, format!("o,{tuple},{middle},29250,1,996,255000,{end},2,{flow},63\n")),
        (Profile::Teacup, format!("{old},2,640\n")),
    ] {
        let line = line(profile, &record(), &key());
        assert_eq!(line, expected, "{}", profile.name());
        assert_eq!(line.split(',').count(), profile.columns());
        assert_eq!(Profile::find(profile.name()), Some(profile));
    }
    assert_eq!(Profile::find("siftr"), None);
}

/// Checks the form of a line, column by column: a direction, perhaps a hash, a date, two ends, and numbers.
fn has_shape(profile: Profile, line: &str) -> bool {
    let mut columns = line.trim_end_matches('\n').split(',');
    let mut next = |test: &dyn Fn(&str) -> bool| columns.next().is_some_and(test);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let hash = |text: &str| {
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.strip_prefix("0x").is_some_and(|hex| hex.len() == 8 && hex.bytes().all(lower))
    };
    let date = |text: &str| {
        text.split_once('.').is_some_and(|(secs, micros)| digits(secs) && digits(micros) && micros.len() == 6)
    };
    let addr = |text: &str| text.parse::<std::net::IpAddr>().is_ok();
    let port = |text: &str| text.parse::<u16>().is_ok();
    let head = next(&|text| text == "i" || text == "o")
        && (profile == Profile::V1_3 || next(&hash))
        && next(&date)
        && next(&addr)
        && next(&port)
        && next(&addr)
        && next(&port);
    let numbers: Vec<&str> = columns.collect();
    let wanted = match profile {
        Profile::V1_2 => 18,
        Profile::FreeBsd9 => 19,
        Profile::Teacup => 20,
        Profile::V1_2_4 | Profile::V1_3 => 21,
    };
    head && numbers.len() == wanted && numbers.iter().all(|number| digits(number))
}

#[test]
fn every_line_has_its_shape() {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1], bytes[15]) = (0x20, 1, 9);
    for &profile in Profile::ALL {
        for state in STATES {
            let mut record = record();
            record.vitals.state = state;
            let of_v4 = line(profile, &record, &key());
            assert!(has_shape(profile, &of_v4), "{of_v4}");
            let key = FlowKey::new(Endpoint::new(Addr::v6(bytes), 1), Endpoint::new(Addr::v6(bytes), 0));
            record.hash = u32::MAX;
            assert!(has_shape(profile, &line(profile, &record, &key)));
        }
    }
    assert!(!has_shape(Profile::V1_2, &line(Profile::V1_2_4, &record(), &key())));
    assert!(!has_shape(Profile::V1_3, &line(Profile::Teacup, &record(), &key())));
}

#[test]
fn first_and_last_lines() {
    let text = |profile: Profile| {
        let mut out = Vec::new();
        profile.enable_line(&mut out, 1_700_000_000_000_042);
        let summary = Summary {
            packets: [7, 5],
            skipped: Skipped { malloc: [1, 0], tcpcb: [0, 2], ..Skipped::default() },
            flows: vec![key(), key().reversed()],
        };
        profile.disable_line(&mut out, 1_700_000_001_500_000, &summary).unwrap();
        String::from_utf8(out).unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    let old = text(Profile::V1_2);
    let (first, last) = old.trim_end().split_once('\n').unwrap();
    let tokens: Vec<&str> = first.split('\t').collect();
    let sysver = format!("sysver={version}");
    assert_eq!(
        tokens,
        [
            "enable_time_secs=1700000000",
            "enable_time_usecs=000042",
            "siftrver=1.2.2",
            "hz=1000",
            "tcp_rtt_scale=32",
            "sysname=Millstream",
            &sysver,
            "ipmode=6"
        ]
    );
    assert_eq!(
        last,
        "disable_time_secs=1700000001\tdisable_time_usecs=500000\tnum_inbound_tcp_pkts=7\tnum_outbound_tcp_pkts=5\
         \ttotal_tcp_pkts=12\tnum_inbound_skipped_pkts_malloc=1\tnum_outbound_skipped_pkts_malloc=0\
         \tnum_inbound_skipped_pkts_mtx=0\tnum_outbound_skipped_pkts_mtx=0\tnum_inbound_skipped_pkts_tcpcb=0\
         \tnum_outbound_skipped_pkts_tcpcb=2\tnum_inbound_skipped_pkts_inpcb=0\tnum_outbound_skipped_pkts_inpcb=0\
         \ttotal_skipped_tcp_pkts=3\tflow_list=172.16.7.28;22-172.16.2.5;55931,172.16.2.5;55931-172.16.7.28;22,"
    );
    let new = text(Profile::V1_3);
    assert!(!new.contains("hz=") && !new.contains("_mtx=") && new.contains("siftrver=1.3.0\tsysname="));
}

/// Cores that are none: hooks are kept until they are taken back.
#[derive(Default)]
struct Nowhere(Vec<Hook>, u64);

impl Cores for Nowhere {
    fn time(&self) -> (Instant, Duration) {
        (Instant::from_secs(self.1), Duration::from_secs(1_700_000_000))
    }

    fn count(&self) -> usize {
        2
    }

    fn attach(&mut self, hooks: Vec<Hook>) {
        self.0 = hooks;
    }

    fn detach(&mut self) {
        self.0.clear();
        self.1 += 1;
    }
}

/// A directory of this test's own.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("ms-siftr-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn controls() {
    let dir = Dir::new("controls");
    let mut siftr = Siftr::new(Nowhere::default(), 1);
    for (name, value) in
        [("enabled", "0"), ("ppl", "1"), ("genhashes", "0"), ("port_filter", "0"), ("profile", "teacup")]
    {
        assert_eq!(siftr.get(name).unwrap(), value);
        siftr.set(name, value).unwrap();
    }
    assert_eq!(siftr.get("logfile").unwrap(), "/var/log/siftr.log");
    for (name, value) in [
        ("enabled", "2"),
        ("enabled", "on"),
        ("logfile", "siftr.log"),
        ("ppl", "0"),
        ("ppl", "4294967296"),
        ("port_filter", "65536"),
        ("genhashes", "yes"),
        ("profile", "siftr"),
    ] {
        assert!(matches!(siftr.set(name, value), Err(ControlError::Value(_))), "{name}={value}");
    }
    assert!(matches!(siftr.set("colour", "1"), Err(ControlError::Unknown)));
    assert!(matches!(siftr.get("colour"), Err(ControlError::Unknown)));
    // A file that cannot be opened leaves it off.
    siftr.set("logfile", &dir.file("none/at/all")).unwrap();
    assert!(matches!(siftr.set("enabled", "1"), Err(ControlError::File(..))));
    let denied = ControlError::File("/var/log/siftr.log".into(), std::io::ErrorKind::PermissionDenied.into());
    let said = denied.to_string();
    assert!(said.contains("runs as user") && said.contains("write to /var/log:"), "{said}");
    assert_eq!(siftr.get("enabled").unwrap(), "0");

    let (one, two) = (dir.file("one.log"), dir.file("two.log"));
    siftr.set("logfile", &one).unwrap();
    siftr.set("profile", "siftr-1.2").unwrap();
    siftr.set("enabled", "1").unwrap();
    siftr.set("enabled", "1").unwrap();
    assert!(matches!(siftr.set("profile", "teacup"), Err(ControlError::Busy)));
    assert!(siftr.set("logfile", &dir.file("none/at/all")).is_err());
    assert_eq!(siftr.get("logfile").unwrap(), one, "the old one stays");
    siftr.set("logfile", &two).unwrap();
    siftr.set("enabled", "0").unwrap();
    siftr.set("enabled", "0").unwrap();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&one).lines().count(), 1);
    assert!(read(&one).starts_with("enable_time_secs=1700000000\t"));
    assert!(read(&two).starts_with("disable_time_secs=1700000001\t"));
    assert!(read(&two).ends_with("total_skipped_tcp_pkts=0\tflow_list=\n"));
    // It is appended to; and who goes away in the middle leaves a last line.
    siftr.set("enabled", "1").unwrap();
    drop(siftr);
    assert_eq!(read(&two).lines().count(), 3);
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&one).unwrap().permissions().mode() & 0o133, 0);
}

#[test]
fn files_that_vanish_and_disks_that_are_full() {
    let dir = Dir::new("faults");
    let mut siftr = Siftr::new(Nowhere::default(), 1);
    let file = dir.file("log");
    siftr.set("logfile", &file).unwrap();
    siftr.set("enabled", "1").unwrap();
    // As with SIFTR, nothing notices.
    std::fs::remove_file(&file).unwrap();
    siftr.set("enabled", "0").unwrap();
    assert!(!std::path::Path::new(&file).exists());
    // The first line does not fit: that is told, and it stays off.
    siftr.set("logfile", "/dev/full").unwrap();
    assert!(matches!(siftr.set("enabled", "1"), Err(ControlError::File(..))));
    assert_eq!(siftr.get("enabled").unwrap(), "0");
    // Full later: that is told at the end, and it is off.
    siftr.set("logfile", &file).unwrap();
    siftr.set("enabled", "1").unwrap();
    siftr.set("logfile", "/dev/full").unwrap();
    let error = siftr.set("enabled", "0").unwrap_err().to_string();
    assert!(error.starts_with("/dev/full: "), "{error}");
    assert_eq!(siftr.get("enabled").unwrap(), "0");
}
