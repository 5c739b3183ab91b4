//! `cargo xtask cards`: the laboratory of cards. Guests with real drivers try our links against the kernel's sockets.
//!
//! Everything happens in namespaces of its own: network (the tap device is there), processes and mounts. When this
//! process ends, however it ends, the first process in there reads the end of its input and ends too; with it the
//! kernel ends every process and removes the device.

mod dpdk;
mod events;
mod guest;
mod hardware;
mod http;
mod kernels;
mod launched;
mod page;
mod roles;
mod scaling;
mod shapes;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::run::now;
use crate::{Outcome, run};
use guest::Guest;
use hardware::{CARDS, CORES, Card, LINKS};
use kernels::Kernel;
use page::Entry;
use roles::{Role, Setting};

/// Boot guests with real network drivers and try the links in them.
///
/// `.ci/setup cards` installs what that takes. A row is CARD/KERNEL/CORES/LINK, such as virtio/6.12/4/nic. Without
/// arguments every row is tried, and the table of docs/CARDS.md is written.
#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// virtio and igb (serve and load), the oldest and the newest kernel, nic: only
    #[arg(long)]
    short: bool,
    /// Rows that have each of these words, as virtio/6.12, igb/4/nic or nic/haproxy; may be repeated
    #[arg(long, value_name = "WORD/WORD...")]
    only: Vec<String>,
    /// Name the rows, try none
    #[arg(long)]
    list: bool,
    /// Boot the first guest and give a shell in it
    #[arg(long)]
    shell: bool,
    /// Write all frames of the wire to FILE (pcap), of the last guest that was booted
    #[arg(long, value_name = "FILE", value_parser = |file: &str| std::path::absolute(file))]
    capture: Option<PathBuf>,
    /// Leave docs/CARDS.md and docs/figures/cards.tsv, which has its rows, as they are
    #[arg(long)]
    keep_page: bool,
    /// Instead, instructions a request on 1 to 8 cores of virtio-net and vmxnet3, counted by a plugin of QEMU, and what
    /// the cores share; results are kept in target/cards/scaling.json
    #[arg(long)]
    scaling: bool,
    /// In the namespaces already.
    #[arg(long, hide = true)]
    inside: bool,
}

impl Options {
    /// Do results go to the page?
    fn writes_page(&self) -> bool {
        !self.keep_page && !self.short
    }

    /// Was this row asked for?
    fn wants(&self, row: &[&str]) -> bool {
        self.only.is_empty() || self.only.iter().any(|words| words.split('/').all(|word| row.contains(&word)))
    }
}

/// A guest to boot, and the links to try in it.
struct Boot {
    card: &'static Card,
    kernel: Kernel,
    cores: u32,
    links: Vec<(&'static str, &'static str)>,
}

impl Boot {
    /// Was this role on a link asked for?
    fn is_wanted(&self, link: &str, role: Role, options: &Options) -> bool {
        let (kernel, cores) = (&self.kernel, self.cores.to_string());
        options.wants(&[self.card.name, &kernel.short(), &kernel.version, &cores, link, role.name()])
    }
}

fn plan(options: &Options, kernels: &[Kernel]) -> Vec<Boot> {
    let (oldest, newest) = (kernels.first(), kernels.last());
    let mut boots = Vec::new();
    for card in CARDS {
        for kernel in kernels {
            let ends = [oldest, newest].into_iter().flatten().any(|end| end.version == kernel.version);
            if options.short && !(ends && ["virtio", "igb"].contains(&card.name)) {
                continue;
            }
            for &cores in CORES {
                let mut boot = Boot { card, kernel: kernel.clone(), cores, links: Vec::new() };
                let wanted = |link: &str| {
                    (!options.short || link == "nic")
                        && roles(&boot, link, options).iter().any(|&role| boot.is_wanted(link, role, options))
                };
                let links = LINKS.iter().copied().filter(|(name, _)| wanted(name)).collect();
                boot.links = links;
                if !boot.links.is_empty() {
                    boots.push(boot);
                }
            }
        }
    }
    boots
}

/// Returns the missing requirements, in words; `None` if all is there.
fn missing() -> Option<String> {
    let version = run::tool("qemu-system-x86_64").args(["--version"]).output().unwrap_or_default();
    let major = version.split("version ").nth(1).and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    match major {
        None => return Some("there is no qemu-system-x86_64".into()),
        // Guests with Linux 6.12 crash in patched code.
        Some(major) if major < 8 => return Some(format!("QEMU {major} crashes with newer kernels")),
        Some(_) => {}
    }
    if run::tool("busybox").args(["true"]).output().is_err() {
        return Some("there is no busybox".into());
    }
    if kernels::all().is_empty() {
        return Some(format!("there are no kernels in {}", kernels::cache().display()));
    }
    let unshare = ["--net", "--pid", "--fork", "--mount", "--mount-proc", "test", "-c", "/dev/net/tun"];
    run::tool("unshare").args(unshare).output().err().map(|error| {
        format!(
            "namespaces or /dev/net/tun are not permitted here ({})",
            error.lines().next().unwrap_or_default()
        )
    })
}

/// `cargo xtask cards`. The same words go to the process in the namespaces.
pub(crate) fn cards(options: &Options, words: &[String]) -> Outcome {
    if options.inside {
        return inside(options);
    }
    if let Some(what) = missing() {
        return Err(format!("{what}; `.ci/setup cards` brings what is needed"));
    }
    let kernels = kernels::all();
    let boots = plan(options, &kernels);
    if boots.is_empty() && !options.scaling {
        return Err(format!("no row has these words: {}; `--list` names them", options.only.join(" ")));
    }
    if !options.short && kernels.len() < kernels::WANTED {
        let known: Vec<_> = kernels.iter().map(|kernel| kernel.version.as_str()).collect();
        println!("only of {}: `.ci/setup cards` brings all {} kernels", known.join(", "), kernels::WANTED);
    }
    if options.list {
        for Boot { card, kernel, cores, links } in &boots {
            for (link, _) in links {
                println!(
                    "{}/{}/{cores}/{link}  {}, Linux {}",
                    card.name,
                    kernel.short(),
                    card.about,
                    kernel.version
                );
            }
        }
        return Ok(());
    }
    if options.scaling {
        scaling::build()?;
        return enter(options, words);
    }
    if boots.iter().any(|boot| boot.links.iter().any(|&(name, _)| name == hardware::DPDK)) {
        if dpdk::is_there() {
            dpdk::build()?;
        } else {
            println!(
                "no row of {}: there is no DPDK 22.11 here; `.ci/setup cards` brings it",
                hardware::DPDK
            );
        }
    }
    run::build_launcher("dev")?;
    enter(options, words)
}

/// Runs this program again in namespaces of its own. Its input is a pipe whose end tells it that we are gone.
fn enter(options: &Options, words: &[String]) -> Outcome {
    let me = run::own_path().map_err(|error| error.to_string())?;
    let mut child = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"])
        .arg(me)
        .args(["cards", "--inside"])
        .args(words)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("unshare: {error}"))?;
    let mut input = child.stdin.take().ok_or("no way to the laboratory")?;
    if options.shell {
        // A person's words go through; at their end the pipe ends, too.
        std::thread::spawn(move || std::io::copy(&mut std::io::stdin(), &mut input));
        let status = child.wait().map_err(|error| error.to_string())?;
        return if status.success() { Ok(()) } else { Err(status.to_string()) };
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    drop(input);
    if status.success() {
        return Ok(());
    }
    // Said once more where a reader looks: at the end of everything.
    let dead = fs::read_to_string(dead_rows()).unwrap_or_default();
    Err(format!("not every row works or says why it does not\n{dead}"))
}

/// The file in which a laboratory leaves its dead rows, with reasons, for the process that started it.
fn dead_rows() -> PathBuf {
    run::target_dir().join("cards/work/dead")
}

/// The laboratory itself.
fn inside(options: &Options) -> Outcome {
    if !options.shell {
        std::thread::spawn(|| {
            // Nothing is ever written: a read ends when our starter does. Then everything in here shall.
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(130);
        });
    }
    let folder = run::target_dir().join("cards/work");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = folder.join("files");
    fs::create_dir_all(&files).map_err(|error| format!("{}: {error}", files.display()))?;
    for size in roles::SIZES {
        let path = files.join(size.to_string());
        fs::write(&path, http::pattern(size)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if options.scaling {
        return scaling::run(options, &folder, &files);
    }
    let leave = |text: &str| {
        fs::write(dead_rows(), text).map_err(|error| format!("{}: {error}", dead_rows().display()))
    };
    leave("")?;
    let boots = plan(options, &kernels::all());
    let (begin, count) = (now(), boots.len());
    let mut dead = Vec::new();
    for (number, boot) in (1..).zip(boots) {
        let seconds = now().duration_since(begin).as_secs();
        println!(
            "[{number}/{count}, {} min {} s] {}, Linux {}, {} core(s)",
            seconds / 60,
            seconds % 60,
            boot.card.about,
            boot.kernel.version,
            boot.cores
        );
        if options.shell {
            let iommu = boot.links.iter().all(|&(name, _)| name == hardware::DPDK);
            return start(&boot, iommu, &folder, options)?.shell();
        }
        try_boot(&boot, &folder, &files, options, &mut dead)?;
    }
    if options.writes_page() {
        page::write(&qemu()?)?;
    }
    if dead.is_empty() {
        return Ok(());
    }
    println!("dead:");
    dead.iter().for_each(|row| println!("  {row}"));
    leave(&dead.join("\n"))?;
    Err(format!("{} dead", dead.len()))
}

fn qemu() -> Result<String, String> {
    let text = run::tool("qemu-system-x86_64").args(["--version"]).output()?;
    let version = text.split("version ").nth(1).and_then(|rest| rest.split_whitespace().next());
    Ok(format!("QEMU {}", version.unwrap_or("of an unknown version")))
}

fn start(boot: &Boot, iommu: bool, folder: &std::path::Path, options: &Options) -> Result<Guest, String> {
    let capture = options
        .capture
        .iter()
        .map(|file| format!("filter-dump,id=capture,netdev=wire,file={}", file.display()));
    let more: Vec<_> = capture.flat_map(|object| ["-object".to_string(), object]).collect();
    Guest::boot(&boot.kernel, boot.card, boot.cores, iommu, folder, &more)
}

/// Boots a guest and tries every link in it. A guest that is lost fails its row, and another is booted for the next.
fn try_boot(
    boot: &Boot,
    folder: &std::path::Path,
    files: &std::path::Path,
    options: &Options,
    dead: &mut Vec<String>,
) -> Outcome {
    let programs: PathBuf = run::target_dir().join("debug");
    let day = run::tool("date").args(["+%Y-%m-%d"]).output()?.trim().to_string();
    let mut guest = None;
    for (name, link) in &boot.links {
        let iommu = *name == hardware::DPDK;
        if iommu {
            if !dpdk::is_there() {
                continue;
            }
            // One of its own: the kernel loses the card, and other rows are not to pay for an IOMMU.
            guest = None;
        }
        let setting = Setting {
            programs: &programs.display().to_string(),
            files: &files.display().to_string(),
            link,
            cores: boot.cores,
        };
        for role in roles(boot, name, options).into_iter().filter(|&role| boot.is_wanted(name, role, options))
        {
            let began = now();
            let outcome = tried(&mut guest, role, &setting, || start(boot, iommu, folder, options));
            let row =
                format!("{}/{}/{}/{name} {}", boot.card.name, boot.kernel.short(), boot.cores, role.name());
            let took = now().duration_since(began);
            tell(&row, &outcome, took);
            if let roles::Outcome::Dead(why) = &outcome {
                dead.push(format!("{row}: {why}"));
            }
            if options.writes_page() {
                page::keep(Entry {
                    card: boot.card.name.into(),
                    kernel: boot.kernel.version.clone(),
                    cores: boot.cores,
                    link: (*name).into(),
                    role: role.name().into(),
                    outcome,
                    day: day.clone(),
                })?;
            }
        }
    }
    Ok(())
}

/// The short form leaves out launched programs. A stack on DPDK has no interface that the kernel could share with them.
/// Events are tried by `nic:`, and other shapes of interface once for each kernel.
fn roles(boot: &Boot, link: &str, options: &Options) -> Vec<Role> {
    let virtio = boot.card.name == "virtio";
    if options.short || link == hardware::DPDK {
        return vec![Role::Serve, Role::Load];
    }
    let mut roles = Role::ALL.to_vec();
    if link == "nic" {
        roles.push(Role::Events);
        roles.extend((virtio && boot.cores == 1).then_some(Role::Shapes));
    }
    roles
}

fn tried(
    guest: &mut Option<Guest>,
    role: Role,
    setting: &Setting<'_>,
    boot: impl FnOnce() -> Result<Guest, String>,
) -> roles::Outcome {
    if guest.is_none() {
        match boot() {
            Ok(booted) => *guest = Some(booted),
            Err(why) => return roles::Outcome::Dead(format!("the guest does not boot: {why}")),
        }
    }
    let Some(machine) = guest.as_mut() else { return roles::Outcome::Dead("no guest".into()) };
    roles::play(role, machine, setting).unwrap_or_else(|why| {
        *guest = None;
        roles::Outcome::Dead(why)
    })
}

fn tell(row: &str, outcome: &roles::Outcome, took: Duration) {
    let seconds = took.as_secs_f64();
    match outcome {
        roles::Outcome::Works(way) => println!("  {row:<34} works, {way} ({seconds:.1} s)"),
        roles::Outcome::Refused(why) => println!("  {row:<34} refused: {why}"),
        roles::Outcome::Dead(why) => println!("  {row:<34} DEAD: {why}"),
    }
}

/// The step of `cargo xtask ci`.
pub(crate) fn short() -> Outcome {
    if let Some(what) = missing() {
        crate::left_out::tell(&format!("{what}; `.ci/setup cards` brings what is needed"));
        return Ok(());
    }
    let options = Options { short: true, keep_page: true, ..Options::default() };
    cards(&options, &["--short".into(), "--keep-page".into()])
}

#[cfg(test)]
mod tests;
