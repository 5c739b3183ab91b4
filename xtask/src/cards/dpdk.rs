//! DPDK's drivers in a guest: behind an emulated IOMMU the card goes from the kernel to vfio-pci, and from there to
//! `dpdk:`. The command is built with the feature.

use std::fs;
use std::path::PathBuf;

use super::guest::{GUEST4, GUEST6, Guest, MAC};
use super::roles::{Outcome, START, refusal};
use crate::{Outcome as Done, run};

/// Modules by which a program drives a card.
pub(super) const MODULES: [&str; 2] = ["vfio_iommu_type1", "vfio_pci"];
/// Huge pages of a guest, of 2 MiB each: some for each queue's packets.
const PAGES: u32 = 128;

/// The folder with the command that was built with the feature.
pub(super) fn programs() -> PathBuf {
    run::target_dir().join("cards/dpdk")
}

/// Is there a DPDK to build with?
pub(super) fn is_there() -> bool {
    run::tool("pkg-config").args(["--atleast-version=22.11", "libdpdk"]).output().is_ok()
}

/// Builds the command with the feature, and puts it aside: the plain one has the same name.
pub(super) fn build() -> Done {
    run::cargo(&["build", "--quiet", "--locked", "--package", "millstream", "--features", "dpdk"]).check()?;
    let to = programs();
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(&to).map_err(told)?;
    fs::copy(run::target_dir().join("debug/millstream"), to.join("millstream")).map_err(told)?;
    Ok(())
}

/// Takes the card from the guest's kernel, unless that is done. Returns the card's place on the PCI bus, or why
/// vfio-pci does not take it.
pub(super) fn take(guest: &mut Guest) -> Result<Result<String, Outcome>, String> {
    let script = format!(
        "if [ -e /run/place ]; then cat /run/place; exit_status=0; else \
         for d in /sys/class/net/*; do [ \"$(cat $d/address 2>/dev/null)\" != {MAC} ] || card=$d; done; \
         at=$(readlink -f $card/device); while [ ! -e $at/driver_override ] || [ ! -e $at/vendor ] || \
         [ ! -e $at/class ]; do at=${{at%/*}}; [ -n \"$at\" ] || break; done; place=${{at##*/}}; \
         ip link set ${{card##*/}} down; echo vfio-pci >$at/driver_override; \
         echo $place >$at/driver/unbind; echo $place >/sys/bus/pci/drivers_probe; \
         echo {PAGES} >/proc/sys/vm/nr_hugepages; \
         case $(readlink $at/driver) in */vfio-pci) echo $place >/run/place; echo $place; exit_status=0;; \
         *) echo millstream cards: vfio-pci does not take $place; dmesg | tail -5; exit_status=1;; esac; fi; \
         (exit $exit_status)"
    );
    let answer = guest.run(&script, START)?;
    Ok(match answer.status {
        0 => Ok(answer.text.trim().to_string()),
        _ => Err(refusal(&answer)),
    })
}

/// The link of a card, as the command takes it. The guest's addresses go with it.
pub(super) fn link(place: &str) -> String {
    format!("dpdk:{place} --address {GUEST4}/24,{GUEST6}/64")
}

/// Abilities of the card that the running server uses, as `millstream stat` shows them, in words.
pub(super) fn abilities(guest: &mut Guest, command: &str) -> Result<String, String> {
    let millstream = command.split(' ').next().unwrap_or_default();
    let shown = guest.run(&format!("{millstream} stat"), START)?;
    let has = |name: &str| {
        let mut values = shown.text.lines().filter_map(|line| line.trim().strip_prefix(name));
        values.any(|rest| rest.split_whitespace().next().is_some_and(|value| value != "0"))
    };
    // What is 0 is not shown.
    if !shown.text.contains("port.name") {
        return Err(format!("stat tells nothing of the card: {}", shown.text));
    }
    let abilities = [
        ("link.interrupts", "interrupts for packets"),
        ("link.tx_checksum", "checksums"),
        ("link.tx_segments", "segmentation"),
    ];
    let found: Vec<_> = abilities.into_iter().filter(|(name, _)| has(name)).map(|(_, words)| words).collect();
    Ok(format!("by the card: {}", if found.is_empty() { "nothing".into() } else { found.join(", ") }))
}
