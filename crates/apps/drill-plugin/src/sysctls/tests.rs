//! Goal: a change of the file is seen whatever its time says, and lines do what they say.
use super::*;

#[test]
fn changes_are_seen_once() {
    let path = std::env::temp_dir().join(format!("millstream-sysctls-{}", std::process::id()));
    let mut sysctls = Sysctls::default();
    assert_eq!(sysctls.read(&path), Ok(None), "no file yet");
    std::fs::write(&path, "a=1\n").unwrap();
    assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=1\n", forget: false })));
    assert_eq!(sysctls.read(&path), Ok(None));
    sysctls.read_again();
    assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=1\n", forget: false })));
    assert_eq!(sysctls.read(&path), Ok(None));
    std::fs::write(&path, "a=2\n").unwrap();
    assert_eq!(sysctls.read(&path), Ok(Some(News { text: "a=2\n", forget: false })));
    let purge = "net.inet.tcp.hostcache.purgenow=1\n";
    for text in [purge.to_string(), purge.repeat(2)] {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(sysctls.read(&path), Ok(Some(News { text: &text, forget: true })));
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(sysctls.read(&path), Ok(Some(News { text: "", forget: false })));
    assert!(sysctls.read(Path::new("/")).is_err(), "a folder is no file");
}

#[test]
fn lines_of_both_systems() {
    let mut config = CoreConfig::default();
    let text = "# a comment\nnet.ipv4.tcp_sack = 0\nnet/ipv4/tcp_timestamps=0\n\nnet.inet.tcp.recvspace=65536\n\
                    net.ipv4.tcp_rmem=\"4096 540000 15728640\"\nrfc1323=1\nno.such=3\nnonsense\n\
                    net.ipv4.tcp_syncookies=0\n";
    let complaints = apply(text, &mut config);
    assert!(!config.tcp.sack);
    assert!(config.tcp.timestamps, "the last line wins");
    assert_eq!(config.tcp.rcvbuf, (540_000, 15_728_640));
    assert_eq!(
        complaints,
        [
            "sysctl_file: the sysctl no.such=3 is not obeyed",
            "sysctl_file: the line `nonsense` is not understood",
            "sysctl_file: the sysctl net.ipv4.tcp_syncookies=0 (this stack has 1) is not obeyed"
        ]
    );
}
