//! Goal: DPDK is started with what the machine has, and with what the user says where he says something.
use super::*;

fn line(what: &str, more: &[&str], huge: bool) -> String {
    let more: Vec<String> = more.iter().map(ToString::to_string).collect();
    arguments(what, &more, huge, &[0, 2])[1..].join(" ")
}

#[test]
fn the_machine_and_the_user_decide() {
    let begin = "--no-telemetry --lcores=0@(0,2) -a";
    assert_eq!(line("0000:03:00.0,x=1", &[], true), format!("{begin} 0000:03:00.0 --in-memory"));
    assert_eq!(line("net_tap0", &[], false), format!("{begin} {NOTHING} --no-huge --no-shconf -m 512"));
    assert_eq!(
        line("net_tap0", &["-m", "64"], false),
        format!("{begin} {NOTHING} --no-huge --no-shconf -m 64")
    );
    assert_eq!(
        line("net_tap0", &["-l", "1", "-b", "0000:04:00.0", "--file-prefix=x"], true),
        "--no-telemetry -l 1 -b 0000:04:00.0 --file-prefix=x"
    );
}

#[test]
fn places_on_the_bus_are_told_from_names() {
    for (what, pci) in [
        ("0000:03:00.0", true),
        ("03:00.1,rx_vec_en=0", true),
        ("net_tap0,iface=a.b", false),
        ("eth0.5", false),
        ("a:b", false),
    ] {
        assert_eq!(is_pci(what), pci, "{what}");
    }
}

#[test]
fn reasons_are_found_in_what_was_said() {
    assert_eq!(last_line("a\n b \n\n"), "b");
    assert_eq!(last_line(""), "it said nothing");
    assert!(is_permission(-libc::EACCES, "") && is_permission(5, "Permission denied"));
    assert!(!is_permission(-libc::ENODEV, "no device") && !is_permission(-1, ""));
}
