//! Choices that the RFCs leave open and systems make differently: a profile is a column of settings, a sysctl a
//! row.

use base::Duration;
use stack::CoreConfig;
use tcp::Quirks;

/// System whose choices the stack makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Linux's choices.
    #[default]
    Linux,
    /// FreeBSD's.
    Freebsd,
    /// The RFCs' recommendation where systems deviate.
    Rfc,
    /// The shipped defaults: [`tcp::Config::default`], unchanged.
    Production,
}

impl Profile {
    /// Every profile with its name.
    pub const ALL: &'static [(&'static str, Profile)] = &[
        ("linux", Profile::Linux),
        ("freebsd", Profile::Freebsd),
        ("rfc", Profile::Rfc),
        ("default", Profile::Production),
    ];

    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|row| row.1 == self).map_or("", |row| row.0)
    }

    /// The profile of this name.
    pub fn named(name: &str) -> Option<Profile> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile)
    }
}

/// A setting of [`tcp::Config`] and its value for linux, freebsd, rfc.
const ROWS: &[(&str, [&str; 3])] = &[
    ("initial_window", ["10", "10", "10"]),
    ("rto_min", ["200ms", "230ms", "1s"]),
    ("rto_above_srtt", ["on", "off", "off"]),
    ("rto_initial", ["1s", "1s", "1s"]),
    ("rto_max", ["120s", "64s", "60s"]),
    ("delayed_ack", ["40ms", "40ms", "200ms"]),
    ("syn_retries", ["6", "12", "7"]),
    ("time_wait", ["60s", "60s", "240s"]),
    ("time_wait_reset", ["on", "off", "off"]),
    ("fin_wait2", ["60s", "60s", "60s"]),
    ("tail_loss_probe", ["on", "off", "on"]),
    ("fastopen_pause", ["0s", "900s", "3600s"]),
    ("abc_limit", ["255", "2", "2"]),
    // Linux paces where a queueing discipline of the device does, and bounds super-segments by its quirk push_bursts.
    ("pace_slow_start", ["off", "off", "off"]),
    ("autosize", ["off", "off", "off"]),
    ("hystart", ["2", "1", "1"]),
    ("reduce_from_window", ["on", "off", "off"]),
    ("reduce_again", ["off", "on", "on"]),
    ("whole_sacks", ["on", "off", "off"]),
    ("quick_acks", ["16", "0", "0"]),
    ("ao_without_key", ["off", "on", "on"]),
    ("tolerate_missing_timestamps", ["on", "off", "off"]),
    ("keep_count", ["9", "8", "9"]),
    ("drop_synfin", ["on", "on", "off"]),
    ("ecn", ["passive", "passive", "passive"]),
    ("ecn_option", ["2", "0", "1"]),
    ("accecn_linux", ["on", "off", "off"]),
    ("rcvbuf", ["131072,6291456", "65536,2097152", "65535,1048576"]),
    ("mtu_probes", ["1", "3", "3"]),
    ("steady_repair", ["on", "on", "off"]),
    ("host_cache", ["0", "0", "1024"]),
    ("sndbuf", ["131072,4194304", "32768,2097152", "65536,1048576"]),
];

/// The settings a profile begins with.
pub fn settings(profile: Profile) -> tcp::Config {
    let column = match profile {
        Profile::Linux => 0,
        Profile::Freebsd => 1,
        Profile::Rfc => 2,
        Profile::Production => return tcp::Config::default(),
    };
    let mut config = tcp::Config::default();
    for (name, values) in ROWS {
        let set = config.set(name, values[column]);
        debug_assert!(set.is_ok(), "{name} = {}", values[column]);
    }
    config.quirks = quirks(profile);
    config
}

/// Returns the quirks of a profile's system.
fn quirks(profile: Profile) -> Quirks {
    match profile {
        Profile::Linux => Quirks {
            push_bursts: true,
            reordering_tick: Duration::from_millis(1),
            grow_reordered: true,
            empty_probes: true,
            charge_pieces: true,
            drop_crossed_text: true,
            window_ramp: true,
            icmp_ends_half_open: true,
            ..Quirks::default()
        },
        Profile::Freebsd => Quirks {
            round_rcvbuf: true,
            ack_second_segment: true,
            tell_all_room: true,
            window_by_buffer: true,
            repeat_fin: true,
            reset_after_fin: true,
            discard_after_shutdown: true,
            syn_waits: true,
            bsd_syn: true,
            ..Quirks::default()
        },
        Profile::Rfc => Quirks { reset_after_fin: true, ..Quirks::default() },
        Profile::Production => Quirks::default(),
    }
}

/// Effect of a sysctl.
enum Effect {
    /// Sets rows of [`tcp::Config`]; their notation wants this unit.
    Set(&'static [&'static str], &'static str),
    /// A row with sizes: the second and third of three numbers.
    Sizes(&'static str),
    /// A first or a last size alone.
    First(&'static str),
    /// The default congestion control.
    Control,
    /// Tail loss probes: on from 3 upwards.
    TailProbe,
    /// A row that is on or off: on for any number but zero.
    Switch(&'static str),
    /// Bits of Fast Open: all of them, in C's notation, or one that is on or off.
    FastOpen(Option<u32>),
    /// ECN in FreeBSD's numbers.
    BsdEcn,
    /// One of the numbers of HyStart++.
    HyStart(&'static str),
    /// The greatest size of both buffers.
    Greatest,
    /// Some values, each with the row and value that it stands for.
    Choice(&'static str, &'static [(&'static str, &'static str)]),
    /// A quirk that is on or off.
    Quirk(fn(&mut Quirks) -> &mut bool),
    /// Only this value is what the stack does; another is not supported.
    Only(&'static [&'static str]),
}

use Effect::{
    BsdEcn, Choice, Control, FastOpen, First, Greatest, HyStart, Only, Quirk, Set, Sizes, Switch, TailProbe,
};

/// Bits of Fast Open that mean something.
const FAST_OPEN_BITS: u32 = 0x607;

/// Sysctls of both systems. What is not here is not supported and says so.
const SYSCTLS: &[(&str, Effect)] = &[
    ("net.ipv4.tcp_rmem", Sizes("rcvbuf")),
    ("net.ipv4.tcp_wmem", Sizes("sndbuf")),
    ("net.ipv4.tcp_timestamps", Set(&["timestamps"], "")),
    ("net.ipv4.tcp_sack", Set(&["sack"], "")),
    ("net.ipv4.tcp_window_scaling", Set(&["window_scaling"], "")),
    ("net.ipv4.tcp_syn_retries", Set(&["syn_retries"], "")),
    ("net.ipv4.tcp_synack_retries", Set(&["synack_retries"], "")),
    ("net.ipv4.tcp_retries2", Set(&["data_retries"], "")),
    ("net.ipv4.tcp_orphan_retries", Set(&["orphan_retries"], "")),
    ("net.ipv4.tcp_keepalive_time", Set(&["keep_idle"], "s")),
    ("net.ipv4.tcp_keepalive_intvl", Set(&["keep_interval"], "s")),
    ("net.ipv4.tcp_keepalive_probes", Set(&["keep_count"], "")),
    ("net.ipv4.tcp_tw_reuse", Set(&["time_wait_reuse"], "")),
    ("net.ipv4.tcp_tw_reuse_delay", Set(&["time_wait_reuse_after"], "ms")),
    ("net.ipv4.tcp_fin_timeout", Set(&["fin_wait2"], "s")),
    ("net.ipv4.tcp_congestion_control", Control),
    // Mechanisms that a script may name; those that the stack lacks show in what it sends.
    ("net.ipv4.tcp_frto", Switch("frto")),
    ("net.ipv4.tcp_dsack", Switch("dsack")),
    ("net.ipv4.tcp_fack", Only(&["0"])),
    ("net.ipv4.tcp_reordering", Only(&["3"])),
    ("net.ipv4.tcp_slow_start_after_idle", Switch("idle_restart")),
    ("net.ipv4.tcp_early_retrans", TailProbe),
    ("net.ipv4.tcp_recovery", Set(&["rack"], "")),
    ("net.ipv4.tcp_rto_min_us", Set(&["rto_min"], "us")),
    ("net.ipv4.tcp_rto_max_ms", Set(&["rto_max"], "ms")),
    ("net.ipv4.tcp_max_reordering", Only(&["300"])),
    ("net.ipv4.tcp_adv_win_scale", Only(&["1"])),
    ("net.ipv4.tcp_tso_rtt_log", Only(&["9"])),
    ("net.ipv4.tcp_autocorking", Only(&["0"])),
    ("net.ipv4.tcp_min_rtt_wlen", Only(&["300"])),
    // The more, the less does Linux wait for a larger burst: here nothing waits. 3 is its default.
    ("net.ipv4.tcp_tso_win_divisor", Only(&["3", "100"])),
    ("net.ipv4.tcp_min_tso_segs", Set(&["min_burst"], "")),
    ("net.ipv4.tcp_pacing_ss_ratio", Set(&["pacing_ss_ratio"], "")),
    ("net.ipv4.tcp_pacing_ca_ratio", Set(&["pacing_ca_ratio"], "")),
    ("net.ipv4.tcp_notsent_lowat", Set(&["notsent_lowat"], "")),
    ("net.ipv4.tcp_fastopen", FastOpen(None)),
    ("net.ipv4.tcp_fastopen_key", Set(&["fastopen_key"], "")),
    ("net.ipv4.tcp_fastopen_blackhole_timeout_sec", Set(&["fastopen_pause"], "s")),
    // Cookies are given where the backlog is full.
    ("net.ipv4.tcp_syncookies", Only(&["1"])),
    ("net.ipv4.tcp_abort_on_overflow", Set(&["abort_on_overflow"], "")),
    ("net.ipv4.tcp_mtu_probing", Set(&["mtu_probing"], "")),
    ("net.ipv4.tcp_base_mss", Set(&["base_mss"], "")),
    ("net.ipv4.tcp_mtu_probe_floor", Set(&["mtu_probe_floor"], "")),
    ("net.ipv4.tcp_probe_interval", Set(&["probe_interval"], "s")),
    ("net.ipv4.tcp_probe_threshold", Set(&["probe_threshold"], "")),
    ("net.ipv4.tcp_ecn_option", Set(&["ecn_option"], "")),
    ("net.ipv4.tcp_ecn_option_beacon", Set(&["ecn_option_beacon"], "")),
    ("net.ipv4.tcp_ecn_fallback", Set(&["ecn_fallback"], "")),
    ("net.ipv4.tcp_ecn", Set(&["ecn"], "")),
    ("net.ipv4.tcp_no_metrics_save", Choice("host_cache", &[("0", "1024"), ("1", "0")])),
    ("net.ipv4.tcp_comp_sack_nr", Only(&["0"])),
    ("net.ipv4.tcp_rfc1337", Choice("time_wait_reset", &[("0", "on"), ("1", "off")])),
    ("net.ipv4.tcp_shrink_window", Only(&["0"])),
    ("net.ipv4.tcp_moderate_rcvbuf", Only(&["1"])),
    ("net.inet.tcp.rfc1323", Set(&["timestamps", "window_scaling"], "")),
    ("net.inet.tcp.sack.enable", Set(&["sack"], "")),
    ("net.inet.tcp.delacktime", Set(&["delayed_ack"], "ms")),
    ("net.inet.tcp.rexmit_initial", Set(&["rto_initial"], "ms")),
    ("net.inet.tcp.rexmit_min", Set(&["rto_min"], "ms")),
    ("net.inet.tcp.recvspace", First("rcvbuf")),
    ("net.inet.tcp.sendspace", First("sndbuf")),
    ("net.inet.tcp.cc.algorithm", Control),
    ("net.inet.tcp.cc.hystartplusplus.minrtt_thresh", HyStart("minrtt_thresh")),
    ("net.inet.tcp.cc.hystartplusplus.maxrtt_thresh", HyStart("maxrtt_thresh")),
    ("net.inet.tcp.cc.hystartplusplus.n_rttsamples", HyStart("n_rttsamples")),
    ("net.inet.tcp.cc.hystartplusplus.css_growth_div", HyStart("css_growth_div")),
    ("net.inet.tcp.cc.hystartplusplus.css_rounds", HyStart("css_rounds")),
    ("net.inet.tcp.rexmit_drop_options", Only(&["0"])),
    ("net.inet.tcp.blackhole", Only(&["0"])),
    ("net.inet.tcp.ecn.enable", BsdEcn),
    ("net.inet.tcp.ecn.option", Set(&["ecn_option"], "")),
    ("net.inet.tcp.ecn.maxretries", Only(&["1"])),
    // What is learned of destinations is forgotten by the one that reads the line.
    ("net.inet.tcp.hostcache.purgenow", Only(&["1"])),
    ("net.inet.tcp.insecure_rst", Quirk(|quirks| &mut quirks.insecure_rst)),
    ("net.inet.tcp.insecure_syn", Quirk(|quirks| &mut quirks.insecure_syn)),
    ("net.inet.tcp.drop_synfin", Set(&["drop_synfin"], "")),
    ("net.inet.tcp.tolerate_missing_ts", Set(&["tolerate_missing_timestamps"], "")),
    ("net.inet.tcp.syncookies", Only(&["1"])),
    ("net.inet.tcp.syncookies_only", Only(&["0"])),
    ("net.inet.tcp.icmp_may_rst", Only(&["1"])),
    ("net.inet.tcp.keepidle", Set(&["keep_idle"], "ms")),
    ("net.inet.tcp.keepintvl", Set(&["keep_interval"], "ms")),
    ("net.inet.tcp.keepcnt", Set(&["keep_count"], "")),
    ("net.inet.tcp.udp_tunneling_port", Only(&["0"])),
    ("net.inet.tcp.fastopen.client_enable", FastOpen(Some(1))),
    ("net.inet.tcp.fastopen.server_enable", FastOpen(Some(2))),
    ("net.inet.tcp.path_mtu_discovery", Only(&["1"])),
    ("net.inet.tcp.pmtud_blackhole_detection", Only(&["0"])),
    ("net.inet.tcp.always_keepalive", Only(&["0"])),
    ("net.inet.tcp.functions_default", Only(&["freebsd"])),
    ("kern.ipc.maxsockbuf", Greatest),
];

/// The row of a name: with slashes as Linux also writes it, or without what all of FreeBSD's begin with.
fn effect(name: &str) -> Option<&'static Effect> {
    let name = name.replace('/', ".");
    let named = |known: &str| {
        known == name
            || known.strip_prefix("net.inet.tcp.").or(known.strip_prefix("kern.ipc.")) == Some(&name)
    };
    SYSCTLS.iter().find(|(known, _)| named(known)).map(|(_, effect)| effect)
}

/// Lets a sysctl do what it does.
///
/// # Errors
/// A sysctl or a value that this stack has not, in a sentence: one that would change nothing is refused, too.
pub fn set_sysctl(config: &mut CoreConfig, name: &str, value: &str) -> Result<(), String> {
    let refused = || Err(format!("the sysctl {name}={value}"));
    let Some(effect) = effect(name) else { return refused() };
    let numbers: Vec<&str> = value.split_whitespace().collect();
    let set = |config: &mut CoreConfig, row: &str, text: String| match config.tcp.set(row, &text) {
        Ok(()) => Ok(()),
        Err(_) => refused(),
    };
    match (effect, &numbers[..]) {
        (Set(rows, unit), [number]) => {
            rows.iter().try_for_each(|row| set(config, row, format!("{number}{unit}")))
        }
        (Sizes(row), [_, first, last]) => set(config, row, format!("{first},{last}")),
        (First(row), [first]) => {
            let sizes = config.tcp.show(row).unwrap_or_default();
            let last = sizes.split(',').nth(1).unwrap_or(first).to_string();
            set(config, row, format!("{first},{last}"))
        }
        (Control, [name]) => {
            let name = if *name == "reno" { "newreno" } else { name };
            match cc::Registry::new().offered(name) {
                Ok(known) => config.control = known,
                Err(_) => return refused(),
            }
            Ok(())
        }
        (Switch(row), [number]) => match number.parse::<u32>() {
            Ok(number) => set(config, row, (number != 0).to_string()),
            Err(_) => refused(),
        },
        (TailProbe, [level]) => {
            let on = level.parse::<u8>().map_or(Err(()), |level| Ok(level >= 3));
            on.map_or_else(|()| refused(), |on| set(config, "tail_loss_probe", on.to_string()))
        }
        (FastOpen(bit), [word]) => {
            let digits = word.strip_prefix("0x");
            let parsed = digits.map_or_else(|| word.parse(), |digits| u32::from_str_radix(digits, 16));
            let Ok(number) = parsed else { return refused() };
            // Bits that Linux no longer knows mean nothing.
            let bits = match bit {
                None => number & FAST_OPEN_BITS,
                Some(bit) if number != 0 => config.tcp.fastopen | bit,
                Some(bit) => config.tcp.fastopen & !bit,
            };
            set(config, "fastopen", bits.to_string())
        }
        (BsdEcn, [number]) => {
            // Accurate feedback when asked is its 4, and Linux's 5.
            let number = if *number == "4" { "5" } else { number };
            set(config, "ecn", number.to_string())
        }
        (HyStart(limit), [number]) => {
            let set = number.parse().map(|number| config.tcp.hystart_limits.set(limit, number));
            if matches!(set, Ok(Ok(()))) { Ok(()) } else { refused() }
        }
        (Greatest, [most]) => ["rcvbuf", "sndbuf"].iter().try_for_each(|row| {
            let sizes = config.tcp.show(row).unwrap_or_default();
            let first = sizes.split(',').next().unwrap_or(most);
            set(config, row, format!("{first},{most}"))
        }),
        (Choice(row, values), [value]) => match values.iter().find(|(theirs, _)| theirs == value) {
            Some((_, ours)) => set(config, row, (*ours).to_string()),
            None => refused(),
        },
        (Quirk(quirk), [bit @ ("0" | "1")]) => {
            *quirk(&mut config.tcp.quirks) = *bit == "1";
            Ok(())
        }
        (Only(values), [value]) if values.contains(value) => Ok(()),
        (Only(values), _) => {
            Err(format!("the sysctl {name}={value} (this stack has {})", values.join(" or ")))
        }
        _ => refused(),
    }
}

#[cfg(test)]
mod tests;
