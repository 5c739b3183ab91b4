//! Option lines of a script: family, addresses, MTU, tolerance.

use crate::lang::Setting;
use base::{Addr, Duration};
use std::net::IpAddr;
use std::path::Path;

/// Address family of the sockets and of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IpVersion {
    /// IPv4 sockets, IPv4 packets.
    #[default]
    V4,
    /// IPv6 sockets, IPv6 packets.
    V6,
    /// IPv6 sockets, IPv4 packets.
    Mapped,
}

impl IpVersion {
    /// Every family with its name.
    pub const ALL: &'static [(&'static str, IpVersion)] =
        &[("ipv4", IpVersion::V4), ("ipv6", IpVersion::V6), ("ipv4-mapped-ipv6", IpVersion::Mapped)];

    /// The family of this name.
    pub fn named(name: &str) -> Option<IpVersion> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, version)| *version)
    }

    /// Returns the name of the family.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, version)| *version == self).map_or("", |(name, _)| name)
    }

    /// Returns the addresses of the stack and of its peer, where a script names none.
    pub(crate) fn usual_addresses(self) -> (&'static str, &'static str) {
        match self {
            IpVersion::V6 => ("fd3d:a0b:17d6::1", "fd3d:fa7b:d17d::1"),
            IpVersion::V4 | IpVersion::Mapped => ("192.168.0.1", "192.0.2.1"),
        }
    }

    /// Where `asked` is not what a script of this name with these lines is for: the family that it names by an option,
    /// by an address, or, as google's runner has it, by the end of its file's name.
    pub(crate) fn of_script(path: &Path, source: &str, asked: IpVersion) -> Option<IpVersion> {
        let option = |name: &str| {
            let lines = source.lines().map(str::trim).filter_map(|line| line.strip_prefix("--"));
            lines
                .filter_map(|line| line.split_once('='))
                .find(|(known, _)| *known == name)
                .map(|(_, text)| text)
        };
        if let Some(name) = option("ip_version") {
            return IpVersion::named(name.split_whitespace().next()?);
        }
        let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let named = ["local_ip", "remote_ip"].into_iter().find_map(option).and_then(address);
        let v4 = named.map(|addr| addr.is_v4()).or_else(|| match stem.rsplit(['-', '_']).next() {
            Some("v4" | "ipv4") => Some(true),
            Some("v6" | "ipv6") => Some(false),
            _ => None,
        })?;
        match (v4, asked) {
            (false, _) => Some(IpVersion::V6),
            (true, IpVersion::V6) => Some(IpVersion::V4),
            (true, _) => None,
        }
    }
}

/// Everything that option lines set.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) version: IpVersion,
    pub(super) local: Addr,
    pub(super) remote: Addr,
    pub(super) gateway: Addr,
    pub(super) prefix: u8,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    pub(super) mtu: usize,
    /// Payload of the segments that an injected one stands for.
    pub(super) mss: Option<u16>,
    pub(super) tolerance: Duration,
    /// In thousandths of the time since the event before.
    pub(super) tolerance_permille: u32,
    /// One tick of TSval, if it is compared.
    pub(super) tick: Option<Duration>,
    /// An echo that the script has not shown is computed.
    pub(super) scaled_echo: bool,
    /// Super-segments must come as written.
    pub(super) strict_segments: bool,
    /// Calls that fail are told and do not end the run.
    pub(super) forgive_calls: bool,
    /// Differences of packets are reported and do not end the run.
    pub(super) forgive_packets: bool,
}

impl Options {
    /// Returns the options of a script that says nothing but its family.
    pub(super) fn new(version: IpVersion) -> Options {
        let v6 = version == IpVersion::V6;
        let addr = |v4: &str, six: &str| if v6 { parse_addr(six) } else { parse_addr(v4) };
        let (local, remote) = version.usual_addresses();
        Options {
            version,
            local: parse_addr(local),
            remote: parse_addr(remote),
            gateway: addr("192.168.0.254", "fd3d:a0b:17d6:8888::1"),
            prefix: if v6 { 48 } else { 16 },
            bind_port: 8_080,
            connect_port: 8_080,
            mtu: 1_500,
            mss: None,
            tolerance: Duration::from_micros(4_000),
            tolerance_permille: 125,
            tick: None,
            scaled_echo: false,
            strict_segments: false,
            forgive_calls: false,
            forgive_packets: false,
        }
    }

    /// Reads the script's option lines, where it names this family or none. The error is a sentence.
    pub(super) fn read(
        lines: &[Setting],
        named: Option<IpVersion>,
        asked: IpVersion,
    ) -> Result<Options, String> {
        let mut options = Options::new(named.unwrap_or(asked));
        if asked == IpVersion::V6 && named.is_none() {
            // As google's runner does: the header has twenty bytes more, and scripts of both families name one MSS.
            options.mtu = 1_520;
        }
        for line in lines {
            options.set(line)?;
        }
        if options.local.is_v4() != options.remote.is_v4() {
            return Err("unsupported: local and remote addresses of different families".into());
        }
        Ok(options)
    }

    /// Level and type of control messages from the error queue.
    pub(super) fn error_level(&self) -> (i64, i64) {
        match self.version {
            IpVersion::V4 => (libc::SOL_IP.into(), libc::IP_RECVERR.into()),
            _ => (libc::SOL_IPV6.into(), libc::IPV6_RECVERR.into()),
        }
    }

    fn set(&mut self, line: &Setting) -> Result<(), String> {
        let text = line.value.as_deref().unwrap_or_default();
        let wrong = || format!("--{}={text} cannot be read", line.name);
        let number = || text.parse::<u64>().map_err(|_| wrong());
        match line.name.as_str() {
            "local_ip" => self.local = address(text).ok_or_else(wrong)?,
            "remote_ip" => self.remote = address(text).ok_or_else(wrong)?,
            "gateway_ip" => self.gateway = address(text).ok_or_else(wrong)?,
            "bind_port" => self.bind_port = number()? as u16,
            "connect_port" => self.connect_port = number()? as u16,
            "mtu" => self.mtu = number()?.clamp(68, 65_535) as usize,
            "mss" => self.mss = Some(number()? as u16).filter(|&mss| mss > 0),
            "tolerance_usecs" => self.tolerance = Duration::from_micros(number()?),
            "tolerance_percent" => {
                self.tolerance_permille =
                    (text.parse::<f64>().map_err(|_| wrong())? * 10.0).clamp(0.0, 1e6) as u32;
            }
            "tcp_ts_tick_usecs" => {
                self.tick = Some(Duration::from_micros(number()?)).filter(|t| !t.is_zero())
            }
            "tcp_ts_ecr_scaled" => self.scaled_echo = true,
            "strict_segments" => self.strict_segments = true,
            "non_fatal" => {
                self.forgive_calls |= text.split(',').any(|kind| kind == "syscall");
                self.forgive_packets |= text.split(',').any(|kind| kind == "packet");
            }
            "udp_encapsulation" => return Err("unsupported: TCP in UDP".into()),
            "psp_udp_port" => return Err("unsupported: PSP".into()),
            "tcp_md5_secret" => return Err("unsupported: MD5 signatures".into()),
            // Said already, of no meaning here, or read by `run`.
            "ip_version" if IpVersion::named(text).is_none() => {
                return Err(format!("--ip_version={text} is not a family"));
            }
            "ip_version" | "netmask_ip" | "speed" | "init_scripts" | "wire_client" | "wire_server"
            | "wire_server_ip" | "wire_server_port" | "wire_client_dev" | "wire_server_dev"
            | "so_filename" | "so_flags" | "dry_run" | "is_anyip" | "send_omit_free" | "debug" | "define"
            | "verbose" | "code_command" | "code_format" | "code_sockopt" => {}
            _ => return Err(format!("unsupported: the option --{}", line.name)),
        }
        Ok(())
    }
}

/// An address, perhaps with a prefix length behind it.
fn address(text: &str) -> Option<Addr> {
    text.split('/').next()?.parse::<IpAddr>().ok().map(Addr::from)
}

/// One of the constants above.
fn parse_addr(text: &str) -> Addr {
    address(text).unwrap_or(Addr::UNSPECIFIED_V4)
}
