//! Goal: the order of sources, and errors that name the file.
use super::*;

fn args(config: Option<PathBuf>) -> StackArgs {
    StackArgs {
        config,
        link: None,
        cores: None,
        cc: None,
        mode: None,
        offload: None,
        address: None,
        gateway: None,
        path: None,
        set: Vec::new(),
        json: false,
    }
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("millstream-config-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn flags_win_over_the_file() {
    let path = file("order", "cores = 2\ncc = \"newreno\"\naddress = [\"10.0.0.2/24\", \"fd00::2/64\"]\n");
    let mut a = args(Some(path.clone()));
    a.cores = Some(4);
    a.set = vec!["buffers=64M".into()];
    let s = a.settings().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!((s.cores, s.cc.as_str(), s.address.len(), s.buffers.0), (4, "newreno", 2, 64 << 20));
}

#[test]
fn offload_has_workers_or_not() {
    let said = |ways: &str| StackArgs { offload: Some(ways.into()), ..args(None) }.settings();
    let of = |ways: &str| said(ways).map(|s| (s.offload, s.offload_workers.0)).unwrap();
    assert_eq!(of("inline"), (sock::Offload::Inline, 0));
    assert_eq!(of("workers=2"), (sock::Offload::Inline, 2));
    assert_eq!(of("hold,workers=3"), (sock::Offload::Hold, 3));
    assert!(said("workers=many").unwrap_err().0.contains("0 to 13"));
    assert!(said("outside").unwrap_err().0.contains("inline"));
}

#[test]
fn a_file_may_name_the_run_time_tree() {
    let text = "net.inet.tcp.cc.htcp.rtt_scaling = 1\nnet.inet.tcp.rcvbuf = \"4096,8192\"\n";
    let path = file("tree", text);
    let s = args(Some(path.clone())).settings();
    std::fs::remove_file(path).unwrap();
    let pairs = [("net.inet.tcp.cc.htcp.rtt_scaling", "1"), ("net.inet.tcp.rcvbuf", "4096,8192")];
    assert_eq!(s.unwrap().sysctl.0, pairs.map(|(name, value)| (name.to_string(), value.to_string())));
}

#[test]
fn errors_name_the_file_and_the_key() {
    let path = file("bad", "colour = \"red\"\n");
    let error = args(Some(path.clone())).settings().unwrap_err().0;
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("colour") && error.contains(&path.display().to_string()), "{error}");
    assert!(args(Some(path)).settings().is_err(), "a missing file is an error");
}
