//! Goal: the tool gets what the script does not say itself, and nothing that would win over its lines.
use super::*;

fn arguments(source: &str, config: &Config) -> Vec<String> {
    let original = Original { tool: "tool".into(), library: "lib.so".into() };
    let command = original.command(Path::new("/x/y.pkt"), source, config);
    command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

#[test]
fn a_script_keeps_its_own_options() {
    let plain = arguments("", &Config::default());
    assert!(plain.contains(&"--local_ip=192.168.0.1".to_owned()), "{plain:?}");
    assert!(plain.contains(&"--so_flags=profile=linux,local_ip=192.168.0.1,remote_ip=192.0.2.1".to_owned()));
    assert_eq!(plain.last().map(String::as_str), Some("y.pkt"));
    let own = arguments("--local_ip=192.168.0.2\n--remote_ip=10.0.0.1\n", &Config::default());
    assert!(!own.iter().any(|argument| argument.contains("local_ip") || argument.contains("remote_ip")));
    let six = arguments("", &Config { version: IpVersion::V6, ..Config::default() });
    assert!(six.contains(&"--mtu=1520".to_owned()) && six.contains(&"--ip_version=ipv6".to_owned()));
}

#[test]
fn the_line_is_the_tools() {
    assert_eq!(
        verdict_first("millstream_drill: no\nb.pkt:7: late\n"),
        "b.pkt:7: late\nmillstream_drill: no\n"
    );
    assert_eq!(line_of(Path::new("a/b.pkt"), "x\nb.pkt:25: error handling packet: no\n"), 25);
    assert_eq!(line_of(Path::new("a/b.pkt"), "b.pkt: error executing init command\n"), 0);
}
