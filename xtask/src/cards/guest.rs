//! A guest: QEMU without KVM, one network card on a tap device, and a shell on its second serial line.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::dpdk;
use super::hardware::Card;
use super::kernels::Kernel;
use crate::{Outcome, run};

/// A guest on a busy machine takes its time: where nothing else runs, it boots in 4 s.
const BOOT: Duration = Duration::from_secs(120);
/// The guest's memory, MiB.
const MEMORY: &str = "1500";
/// The guest's link-layer address, by which its card is found.
pub(super) const MAC: &str = "52:54:00:00:00:02";
/// The tap device, in a network namespace of the laboratory's own.
pub(super) const TAP: &str = "wire0";

/// QEMU's socket for orders to it, in the folder of the guest's files.
const ORDERS: &str = "orders";

/// A guest at work. It ends when it is dropped.
pub(super) struct Guest {
    qemu: Child,
    shell: ChildStdin,
    lines: Receiver<String>,
    console: PathBuf,
    /// QEMU's own words.
    complaints: PathBuf,
    /// [`ORDERS`].
    orders: PathBuf,
    /// The card as QEMU takes it.
    device: String,
}

/// Result of a command in a guest.
pub(super) struct Answer {
    pub(super) status: i32,
    pub(super) text: String,
}

impl Guest {
    /// Boots a guest ([`Guest::boot_once`]), a second time if it does not come up: nothing of ours has run in it by
    /// then, and an emulator that hangs is no finding about a card. A line says that it did.
    pub(super) fn boot(
        kernel: &Kernel,
        card: &Card,
        cores: u32,
        iommu: bool,
        folder: &Path,
        more: &[String],
    ) -> Result<Guest, String> {
        Guest::boot_once(kernel, card, cores, iommu, folder, more).or_else(|why| {
            println!("  the guest did not come up and is booted once more: {why}");
            Guest::boot_once(kernel, card, cores, iommu, folder, more)
        })
    }

    /// Boots `kernel` with `card`, behind an IOMMU or not, and as many processors as `cores`, in a folder for its
    /// files. `more` are further arguments of QEMU.
    fn boot_once(
        kernel: &Kernel,
        card: &Card,
        cores: u32,
        iommu: bool,
        folder: &Path,
        more: &[String],
    ) -> Result<Guest, String> {
        let behind = if iommu { "-iommu" } else { "" };
        let image = folder.join(format!("initrd-{}-{}{behind}", kernel.version, card.name));
        let init = include_str!("init.sh").replace("@ROOT@", &run::root().display().to_string());
        let common = [
            "virtio_pci",
            "9pnet_virtio",
            "9p",
            "overlay",
            "af_packet",
            "veth",
            "8021q",
            "bonding",
            "bridge",
        ];
        let vfio: &[&str] = if iommu { &dpdk::MODULES } else { &[] };
        kernel.pack(&[&common[..], &[card.module], vfio].concat(), &init, &image)?;
        let queues = if card.multi_queue { cores } else { 1 };
        wire(queues > 1)?;
        let console = folder.join("console.log");
        let orders = folder.join(ORDERS);
        let port = if iommu { "" } else { ",bus=riser" };
        let device = format!("{},netdev=wire,mac={MAC}{port}", card.device(queues, iommu));
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-L", "/usr/share/qemu", "-L", "/usr/share/seabios", "-nodefaults", "-nographic"])
            .args(["-machine", "q35", "-cpu", "Haswell-noTSX", "-accel", "tcg,thread=multi", "-no-reboot"])
            // Before the devices that it is for.
            .args(if iommu { &["-device", "intel-iommu,intremap=on"][..] } else { &[] })
            .args(["-smp", &cores.to_string(), "-m", MEMORY])
            .arg("-kernel")
            .arg(kernel.image())
            .arg("-initrd")
            .arg(&image)
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off net.ifnames=0 intel_iommu=on",
            ])
            .args(["-serial", &format!("file:{}", console.display()), "-serial", "stdio"])
            .args(["-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"])
            .args(["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"])
            .args(["-netdev", &netdev(queues)])
            .args(["-qmp", &format!("unix:{ORDERS},server=on,wait=off")])
            // A slot from which a card can be pulled.
            .args(if iommu { &[][..] } else { &["-device", "pcie-root-port,id=riser,chassis=1"] })
            .args(["-device", &format!("{device},id=card")]);
        qemu.args(more);
        // Of processor features that it does not emulate it warns at each start: its words are for those who ask why
        // it ended.
        let complaints = folder.join("qemu.log");
        let errors =
            File::create(&complaints).map_err(|error| format!("{}: {error}", complaints.display()))?;
        qemu.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut qemu = qemu
            .spawn()
            .map_err(|error| format!("qemu-system-x86_64: {error}; `.ci/setup cards` brings it"))?;
        let shell = qemu.stdin.take().ok_or("no way into the guest")?;
        let output = qemu.stdout.take().ok_or("no way out of the guest")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_string()).is_err() {
                    break;
                }
            }
        });
        let mut guest = Guest { qemu, shell, lines, console, complaints, orders, device };
        guest.until("@@up", BOOT)?;
        guest.connect()?;
        Ok(guest)
    }

    /// Gives the card its addresses and waits until the wire carries packets.
    pub(super) fn connect(&mut self) -> Outcome {
        let script = format!(
            "ip link set lo up\n\
             for d in /sys/class/net/*; do [ \"$(cat $d/address)\" != {MAC} ] || card=${{d##*/}}; done\n\
             ip link set $card name card0 2>/dev/null || {{ ip link set $card down; ip link set $card name card0; }}\n\
             ip addr add {GUEST4}/24 dev card0; ip addr add {GUEST6}/64 dev card0 nodad; ip link set card0 up\n\
             for i in $(seq 60); do ping -c1 -W1 {HOST4} && break; sleep 0.2; done && ping -c1 -W5 {HOST6}"
        );
        let answer = self.run(&script, BOOT)?;
        if answer.status == 0 { Ok(()) } else { Err(format!("no packet passes: {}", answer.text)) }
    }

    /// Runs a script in the guest's shell.
    pub(super) fn run(&mut self, script: &str, limit: Duration) -> Result<Answer, String> {
        let line = format!("{{ {script}\n}} </dev/null 2>&1; echo; echo \"@@status $?\"\n");
        // The status is that of the script, not of the empty line.
        let line = line.replace("; echo; echo \"@@status $?\"", "; s=$?; echo; echo \"@@status $s\"");
        self.shell
            .write_all(line.as_bytes())
            .and_then(|()| self.shell.flush())
            .map_err(|error| format!("the guest takes no command: {error}{}", self.last_words()))?;
        let (text, mark) = self.until("@@status", limit)?;
        let status = mark.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(-1);
        Ok(Answer { status, text: text.trim().to_string() })
    }

    /// Asks QEMU to pull the card out of its slot. The guest's kernel gives it up meanwhile.
    pub(super) fn pull_card(&self) -> Outcome {
        self.order("device_del card")
    }

    /// Puts a card like the first into the slot.
    pub(super) fn put_card(&self) -> Outcome {
        self.order(&format!("device_add {},id=card", self.device))
    }

    /// Gives QEMU an order of its monitor (HMP), which answers nothing if it is obeyed.
    fn order(&self, order: &str) -> Outcome {
        let told = |error: std::io::Error| format!("{}: {error}", self.orders.display());
        let mut stream = UnixStream::connect(&self.orders).map_err(told)?;
        stream.set_read_timeout(Some(BOOT)).map_err(told)?;
        let mut answers = BufReader::new(stream.try_clone().map_err(told)?).lines();
        let human = json!({"execute": "human-monitor-command", "arguments": {"command-line": order}});
        for line in [json!({"execute": "qmp_capabilities"}), human] {
            writeln!(stream, "{line}").map_err(told)?;
        }
        let returned = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("return").cloned();
        // The answer to the first line is an object, to the second a text.
        let text = answers.by_ref().map_while(Result::ok).filter_map(|line| returned(&line)).nth(1);
        match text.as_ref().and_then(Value::as_str) {
            Some("") => Ok(()),
            Some(why) => Err(format!("QEMU does not obey `{order}`: {}", why.trim())),
            None => Err(format!("QEMU does not answer `{order}`")),
        }
    }

    /// The lines up to the one with `mark`, and that one.
    fn until(&mut self, mark: &str, limit: Duration) -> Result<(String, String), String> {
        let mut text = String::new();
        let end = run::now() + limit;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(run::now())) {
                Ok(line) if line.contains(mark) => return Ok((text, line)),
                Ok(line) => text += &(line + "\n"),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!(
                        "the guest said nothing for {} s; it had said:\n{text}{}",
                        limit.as_secs(),
                        self.last_words()
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the guest ended:\n{text}{}", self.last_words()));
                }
            }
        }
    }

    /// The ends of the guest kernel's console and of QEMU's own words.
    fn last_words(&self) -> String {
        let end = |path: &Path| {
            let text = std::fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines: Vec<_> = text.lines().collect();
            lines[lines.len().saturating_sub(15)..].join("\n")
        };
        format!("\nconsole:\n{}\nqemu:\n{}", end(&self.console), end(&self.complaints))
    }

    /// A shell for a person, until the end of the input or of the guest.
    pub(super) fn shell(mut self) -> Outcome {
        println!("a shell in the guest; its card is card0, this side is {HOST4} and {HOST6}; `exit` ends it");
        self.shell.write_all(b"exec sh -i 2>&1\n").map_err(|error| error.to_string())?;
        let Guest { qemu, shell, lines, .. } = &mut self;
        std::thread::scope(|scope| {
            scope.spawn(move || lines.iter().for_each(|line| println!("{line}")));
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if line.trim() == "exit" || writeln!(shell, "{line}").is_err() {
                    break;
                }
            }
            // That ends the reader, too.
            qemu.kill()
        })
        .map_err(|error| error.to_string())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
        let _ = run::tool("ip").args(["link", "del", TAP]).output();
    }
}

/// Addresses of the wire's two ends.
pub(super) const HOST4: &str = "10.99.0.1";
pub(super) const HOST6: &str = "fd99::1";
pub(super) const GUEST4: &str = "10.99.0.2";
pub(super) const GUEST6: &str = "fd99::2";

fn netdev(queues: u32) -> String {
    let tap = format!("tap,id=wire,ifname={TAP},script=no,downscript=no,vhost=off");
    if queues > 1 { format!("{tap},queues={queues}") } else { tap }
}

/// The tap device that is the wire, in the laboratory's network namespace.
fn wire(several: bool) -> Outcome {
    let queues: &[&str] = if several { &["multi_queue"] } else { &[] };
    let ip = |words: &[&str]| run::tool("ip").args(words).output().map(drop);
    ip(&["link", "set", "lo", "up"])?;
    ip(&[&["tuntap", "add", TAP, "mode", "tap"], queues].concat())?;
    ip(&["addr", "add", &format!("{HOST4}/24"), "dev", TAP])?;
    ip(&["addr", "add", &format!("{HOST6}/64"), "dev", TAP, "nodad"])?;
    ip(&["link", "set", TAP, "up"])
}
