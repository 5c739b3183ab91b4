//! A device of DPDK: found or made, configured, run, and closed with its last queue.

use super::eal::{self, Ear, Held};
use super::ffi::{self, Info, Setup};
use super::frames::{self, Frames};
use super::{DpdkConfig, SUPER};
use crate::Rss;
use crate::open_error::OpenError;
use base::Duration;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes around an IP packet on the wire: link header and two VLAN tags.
pub(super) const LINK: usize = 22;
/// Bytes of a slot: the smaller takes what Ethernet has without being asked, the larger jumbo frames.
const SLOTS: [usize; 2] = [4096, 16384];
/// Frames beside those that the device's rings hold.
const FRAMES: u32 = 2048;
/// The kernel's folders of PCI devices.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// How long a link may take to come up, where the driver says when it has.
const LINK_TRIES: u32 = 300;

/// State that all queues of a device share. Closed when the last of them is gone.
pub(super) struct Device {
    pub(super) port: u16,
    pub(super) name: String,
    pub(super) info: Info,
    pub(super) setup: Setup,
    pub(super) mac: [u8; 6],
    pub(super) mtu: usize,
    /// This process made the device through us, and unmakes it.
    ours: bool,
    /// Frames of queues that are gone: the device has buffers of them until it is closed.
    retired: Mutex<Vec<Frames>>,
}

impl Device {
    /// Opens and runs a device, with frames for each queue.
    pub(super) fn open(config: &DpdkConfig) -> Result<(Device, Vec<Frames>), OpenError> {
        let name = config.device.as_str();
        let mut held = Held::now();
        let eal = held.eal();
        eal.start(name, &config.eal)?;
        if eal.open.contains(name) {
            return Err(OpenError::Busy {
                what: format!("DPDK device {name}"),
                help: "another link of this process has it; say queues=N to share it among cores".into(),
            });
        }
        let found = find(name);
        let ours = found.is_none() || eal.is_ours();
        let port = match found {
            Some(port) => port,
            None => probe(config)?,
        };
        let opened = Device::run(config, port, ours);
        match &opened {
            Ok(_) => drop(eal.open.insert(name.to_owned())),
            Err(_) => {
                let _ear = Ear::listen();
                // SAFETY: a port that nothing runs.
                unsafe { ffi::ms_dpdk_close(port, ours.into()) };
            }
        }
        opened
    }

    /// The rule by which the device chooses receive queues, if it tells one that makes sense. Its hash is Toeplitz's
    /// as far as this version of DPDK can say.
    pub(super) fn rss(&self) -> Option<Rss> {
        let (mut key, mut key_len, mut families) = ([0_u8; 64], 64, 0);
        let mut table = [0_u16; 512];
        // SAFETY: room as said for key and table, and two bytes.
        let entries = unsafe {
            ffi::ms_dpdk_rss(
                self.port,
                key.as_mut_ptr(),
                &raw mut key_len,
                table.as_mut_ptr(),
                table.len() as u16,
                &raw mut families,
            )
        };
        let table = table.get(..usize::try_from(entries).ok().filter(|&entries| entries > 0)?)?.to_vec();
        let key = key.get(..usize::from(key_len))?.to_vec();
        // A driver that leaves the key alone has not told it.
        key.iter().any(|&byte| byte != 0).then_some(Rss {
            key,
            table,
            v4: families & 1 != 0,
            v6: families & 2 != 0,
        })
    }

    fn run(config: &DpdkConfig, port: u16, ours: bool) -> Result<(Device, Vec<Frames>), OpenError> {
        let name = &config.device;
        let refused = |what: &str, rc: i32, ear: &Ear| {
            let said = ear.heard();
            let error = std::io::Error::from_raw_os_error(rc.abs());
            if eal::is_permission(rc, &said) {
                return eal::privilege(format!("DPDK device {name}"));
            }
            let doing = format!("{what} DPDK device {name} ({})", eal::last_line(&said));
            OpenError::Os { doing, error }
        };
        let ear = Ear::listen();
        // SAFETY: all zero is a valid `Info`.
        let mut info: Info = unsafe { std::mem::zeroed() };
        (info.rx_desc, info.tx_desc) = (config.rx_ring, config.tx_ring);
        // SAFETY: `info` is writable.
        let rc = unsafe { ffi::ms_dpdk_info(port, &raw mut info) };
        if rc < 0 {
            return Err(refused("ask", rc, &ear));
        }
        if info.max_queues < config.queues {
            return Err(OpenError::Unusable {
                what: format!("DPDK device {name} by {} cores", config.queues),
                help: format!("it has {} queues; use as many cores at most", info.max_queues),
            });
        }
        // SAFETY: a port that is.
        let mtu = config.mtu.unwrap_or(unsafe { ffi::ms_dpdk_mtu(port) }.into());
        let slot = slot_for(mtu, &info).map_err(|help| OpenError::Unusable {
            what: format!("DPDK device {name} with an MTU of {mtu}"),
            help,
        })?;
        let sums = config.offload && info.tx_tcp != 0;
        // That driver cuts in software, with a library that frees what it was lent (DPDK 22.11, rte_gso).
        let cuts = sums && info.is_tap == 0 && info.tx_tso != 0 && info.tx_ipv4 != 0 && info.tx_chains != 0;
        let mut setup = Setup {
            rss: info.rss,
            mtu: mtu as u32,
            queues: config.queues,
            sums: sums.into(),
            cuts: cuts.into(),
            interrupts: 1,
            link_news: info.link_news,
        };
        let count = u32::from(info.rx_desc) + u32::from(info.tx_desc) + FRAMES;
        let queues = 0..config.queues;
        let all: Vec<_> = queues
            .map(|_| {
                static POOLS: AtomicU32 = AtomicU32::new(0);
                let number = POOLS.fetch_add(1, Ordering::Relaxed);
                Frames::new(&format!("ms_{}_{number}", std::process::id()), count, slot, info.socket)
            })
            .collect::<Result<_, _>>()?;
        // Many devices have no interrupts for received packets, and say so when they are configured or started.
        let mut rc = begin(port, &setup, &info, &all, config.whole);
        if rc < 0 {
            setup.interrupts = 0;
            rc = begin(port, &setup, &info, &all, config.whole);
        }
        // Such a card may keep silent about its link and its packets for ever. Asked, it tells both.
        if rc >= 0 && lacks_messages(Path::new(PCI_DEVICES), &info) {
            // SAFETY: a port that runs.
            unsafe { ffi::ms_dpdk_halt(port) };
            (setup.interrupts, setup.link_news) = (0, 0);
            rc = begin(port, &setup, &info, &all, config.whole);
        }
        if rc < 0 {
            return Err(refused("set up", rc, &ear));
        }
        let mut mac = [0; 6];
        // SAFETY: `mac` holds an address.
        let rc = unsafe { ffi::ms_dpdk_mac(port, mac.as_mut_ptr()) };
        if rc < 0 {
            return Err(refused("ask the address of", rc, &ear));
        }
        let retired = Mutex::default();
        let device = Device { port, name: name.clone(), info, setup, mac, mtu, ours, retired };
        device.await_link();
        Ok((device, all))
    }

    /// Links of real wires come up seconds after their device, and a port that was opened is meant to be used.
    fn await_link(&self) {
        for _ in 0..LINK_TRIES {
            if self.link() != Some(false) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Is the link up? `None` if the device does not say.
    pub(super) fn link(&self) -> Option<bool> {
        // SAFETY: a port that runs.
        let said = unsafe { ffi::ms_dpdk_link(self.port) };
        (said >= 0).then_some(said == 1)
    }

    /// Is the driver `net_tap`, which does a few things in its own way?
    pub(super) fn is_tap(&self) -> bool {
        self.info.is_tap != 0
    }

    /// Largest IP packet that is cut; 0 if none is.
    pub(super) fn tso_max(&self, slot: usize) -> usize {
        if self.setup.cuts == 0 {
            return 0;
        }
        SUPER.min(usize::from(self.info.chain_max) * (slot - frames::START)).saturating_sub(LINK)
    }

    /// A queue is gone; its frames are freed when the device is closed.
    pub(super) fn retire(&self, frames: Frames) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(frames);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let mut held = Held::now();
        let ear = Ear::listen();
        // SAFETY: the port is ours, and no queue is used any more.
        unsafe { ffi::ms_dpdk_close(self.port, self.ours.into()) };
        drop(ear);
        held.eal().open.remove(&self.name);
        self.retired.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The slot that takes packets of this MTU, or what is wrong with it.
fn slot_for(mtu: usize, info: &Info) -> Result<usize, String> {
    let most = SLOTS.map(|slot| frames::room(slot) - LINK)[1].min(info.max_mtu.into());
    let least = usize::from(info.min_mtu).max(68);
    if !(least..=most).contains(&mtu) {
        return Err(format!("it takes {least} to {most}"));
    }
    SLOTS
        .into_iter()
        .find(|&slot| mtu + LINK <= frames::room(slot) && info.rx_room_min as usize <= frames::room(slot))
        .ok_or_else(|| format!("it receives into {} bytes at least, frames have fewer", info.rx_room_min))
}

/// Configures and starts a port; a negative errno, and it is stopped, if that cannot be.
fn begin(port: u16, setup: &Setup, info: &Info, all: &[Frames], whole: bool) -> i32 {
    // SAFETY: a port that does not run, structures of their own kinds, and a live mempool for each queue.
    unsafe {
        let mut rc = ffi::ms_dpdk_configure(port, setup, info);
        for (queue, frames) in (0..).zip(all) {
            if rc >= 0 {
                rc = ffi::ms_dpdk_queue(port, queue, info, frames.mempool());
            }
        }
        if rc >= 0 {
            rc = ffi::ms_dpdk_run(port, whole.into());
        }
        if rc < 0 {
            ffi::ms_dpdk_halt(port);
        }
        rc
    }
}

/// Is it a card, among `devices`, that runs without interrupts by message (MSI, MSI-X)?
///
/// A card that has none (82540EM) has one line, on which packets and link are one interrupt: DPDK's driver
/// `net_e1000_em` takes the one for the other and never hears that the link is up. DPDK 22.11 does not get as far: it
/// asks the kernel for MSI-X on every card, and the driver goes on where it is refused.
fn lacks_messages(devices: &Path, info: &Info) -> bool {
    let name = CStr::from_bytes_until_nul(&info.device).ok().and_then(|name| name.to_str().ok());
    let card =
        name.filter(|name| !name.is_empty()).map(|name| devices.join(name)).filter(|card| card.is_dir());
    card.is_some_and(|card| {
        card.join("msi_irqs").read_dir().map_or(true, |mut numbers| numbers.next().is_none())
    })
}

fn find(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    let _ear = Ear::listen();
    // SAFETY: a string that ends in NUL.
    u16::try_from(unsafe { ffi::ms_dpdk_find(name.as_ptr()) }).ok()
}

/// Has DPDK look for a device, or make one.
fn probe(config: &DpdkConfig) -> Result<u16, OpenError> {
    let name = &config.device;
    let what =
        std::iter::once(name.clone()).chain(config.arguments.iter().cloned()).collect::<Vec<_>>().join(",");
    let ear = Ear::listen();
    let rc = CString::new(what.as_str()).map_or(-libc::EINVAL, |what| {
        // SAFETY: a string that ends in NUL.
        unsafe { ffi::ms_dpdk_probe(what.as_ptr()) }
    });
    let said = ear.heard();
    drop(ear);
    if rc >= 0
        && let Some(port) = find(name)
    {
        return Ok(port);
    }
    if eal::is_permission(rc, &said) {
        return Err(eal::privilege(format!("DPDK device {what}")));
    }
    let what = format!("DPDK device {what} ({})", eal::last_line(&said));
    if eal::is_pci(name) {
        let huge = if eal::has_huge_pages() {
            ""
        } else {
            "; network cards want huge pages: `sysctl vm.nr_hugepages=512`"
        };
        return Err(OpenError::Missing {
            what,
            help: format!(
                "`dpdk-devbind.py --status` lists the cards there are; `dpdk-devbind.py -b vfio-pci {name}` takes one \
                 from the kernel (not for Mellanox){huge}"
            ),
        });
    }
    Err(OpenError::Missing { what, help: known() })
}

/// Returns the names that can be written instead.
fn known() -> String {
    let mut names = Vec::new();
    let mut text = [0u8; 64];
    loop {
        // SAFETY: `text` is writable for its length.
        let len = unsafe { ffi::ms_dpdk_known(names.len() as u32, text.as_mut_ptr().cast(), text.len()) };
        if len == 0 {
            break;
        }
        names.push(String::from_utf8_lossy(&text[..len]).into_owned());
    }
    let there = if names.is_empty() { String::new() } else { format!("; there are: {}", names.join(", ")) };
    format!(
        "name a card by its place on the PCI bus (0000:03:00.0), or a software device with its arguments \
         (net_tap0,iface=NAME; net_af_packet0,iface=NAME; net_ring0); drivers are in librte-net-* packages{there}"
    )
}

#[cfg(test)]
mod tests;
