//! Goal: every row is a setting that exists, and sysctls do what they say.
use super::*;

#[test]
fn rows_are_settings_with_values_in_bounds() {
    for (name, values) in ROWS {
        for value in values {
            assert_eq!(tcp::Config::default().set(name, value), Ok(()), "{name} = {value}");
        }
    }
    for (_, effect) in SYSCTLS {
        let rows = match effect {
            Set(rows, _) => rows,
            Choice(row, values) => {
                for (_, value) in *values {
                    assert_eq!(tcp::Config::default().set(row, value), Ok(()), "{row} = {value}");
                }
                continue;
            }
            Sizes(row) | First(row) | Switch(row) => std::slice::from_ref(row),
            _ => continue,
        };
        for row in rows {
            assert!(tcp::Config::ROWS.iter().any(|known| known.name == *row), "{row}");
        }
    }
}

#[test]
fn the_default_profile_is_what_ships() {
    assert_eq!(Profile::named("default"), Some(Profile::Production));
    let core = crate::run::core_config(Profile::Production);
    assert_eq!(core.tcp, tcp::Config::default());
    assert_eq!(core.control, CoreConfig::default().control);
}

#[test]
fn sysctls_set_rows_or_are_refused() {
    let mut config = CoreConfig { tcp: settings(Profile::Linux), ..CoreConfig::default() };
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_rmem", "4096 540000 15728640"), Ok(()));
    assert_eq!(config.tcp.rcvbuf, (540_000, 15_728_640));
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.recvspace", "65536"), Ok(()));
    assert_eq!(config.tcp.rcvbuf, (65_536, 15_728_640));
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_timestamps", "0"), Ok(()));
    assert!(!config.tcp.timestamps);
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.cc.hystartplusplus.css_rounds", "3"), Ok(()));
    assert_eq!(config.tcp.hystart_limits.get("css_rounds"), Some(3));
    assert!(set_sysctl(&mut config, "net.inet.tcp.cc.hystartplusplus.css_rounds", "0").is_err());
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_congestion_control", "reno"), Ok(()));
    assert_eq!(config.control, "newreno");
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_fastopen", "0x70403"), Ok(()));
    assert_eq!(config.tcp.fastopen, 0x403);
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.fastopen.server_enable", "0"), Ok(()));
    assert_eq!(config.tcp.fastopen, 0x401);
    assert_eq!(set_sysctl(&mut config, "net/ipv4/tcp_sack", "0"), Ok(()));
    assert!(!config.tcp.sack);
    assert_eq!(set_sysctl(&mut config, "sack.enable", "1"), Ok(()));
    assert!(config.tcp.sack);
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_ecn", "3"), Ok(()));
    assert_eq!(config.tcp.ecn, tcp::EcnPolicy::Accurate);
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.ecn.enable", "4"), Ok(()));
    assert_eq!(config.tcp.ecn, tcp::EcnPolicy::PassiveAccurate);
    for (name, value) in [("net.ipv4.tcp_ecn", "6"), ("net.no.such", "1"), ("net.ipv4.tcp_sack", "x")] {
        assert_eq!(set_sysctl(&mut config, name, value), Err(format!("the sysctl {name}={value}")));
    }
}

#[test]
fn a_sysctl_that_would_change_nothing_is_refused() {
    let mut config = CoreConfig::default();
    let before = config.tcp.clone();
    for (name, value) in [("net.core.rmem_max", "1"), ("net.ipv4.tcp_retries1", "3")] {
        assert_eq!(set_sysctl(&mut config, name, value), Err(format!("the sysctl {name}={value}")));
    }
    let only = "the sysctl net.ipv4.tcp_syncookies=0 (this stack has 1)";
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_syncookies", "0"), Err(only.into()));
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_syncookies", "1"), Ok(()), "so it is");
    assert_eq!(config.tcp, before);
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.keepcnt", "8"), Ok(()));
    assert_eq!(config.tcp.keep_count, 8);
    for value in ["0", "128"] {
        assert!(set_sysctl(&mut config, "net.ipv4.tcp_keepalive_probes", value).is_err(), "as on Linux");
    }
    assert_eq!(set_sysctl(&mut config, "kern.ipc.maxsockbuf", "2097152"), Ok(()));
    assert_eq!((config.tcp.rcvbuf, config.tcp.sndbuf), ((131_072, 2_097_152), (131_072, 2_097_152)));
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_no_metrics_save", "1"), Ok(()));
    assert_eq!(set_sysctl(&mut config, "net.ipv4.tcp_rfc1337", "0"), Ok(()));
    assert_eq!((config.tcp.host_cache, config.tcp.time_wait_reset), (0, true));
    assert_eq!(set_sysctl(&mut config, "net.inet.tcp.insecure_rst", "1"), Ok(()));
    assert!(config.tcp.quirks.insecure_rst && !config.tcp.quirks.insecure_syn);
}

/// docs/DRILL.md has a row for each quirk, with its system; the profiles imitate that system alone.
#[test]
fn the_guide_has_every_quirk() {
    let page = include_str!("../../../../../../docs/DRILL.md");
    for (name, system, _) in Quirks::ROWS {
        assert!(page.contains(&format!("| `{name}` | {system} |")), "docs/DRILL.md lacks `{name}`, {system}");
    }
    // RFC 9293, section 3.10.7.4: a reset in CLOSE-WAIT is a "connection reset", too.
    let rfc = Quirks { reset_after_fin: true, ..Quirks::default() };
    assert_eq!(settings(Profile::Rfc).quirks, rfc);
    assert_eq!(tcp::Config::default().quirks, Quirks::default());
}
