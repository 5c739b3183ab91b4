//! Interfaces above others: VLAN, bonds, bridges, each over veth in namespaces of the guest, with a client on the
//! kernel's sockets at the other end.

use super::guest::Guest;
use super::roles::{COMMAND, Outcome};

/// Functions of a shell that make a shape and try a link on it; they print `works`, `refused` or `dead`, and words.
const FUNCTIONS: &str = include_str!("shapes.sh");

/// A shape of interface, the commands that make it, and the links on it with the words of their refusals.
type Shape = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const WORKS: &str = "";
const SHAPES: &[Shape] = &[
    (
        "VLAN",
        "vlan 1500",
        &[("nic:x0.10", WORKS), ("packet:x0.10", WORKS), ("xdp:x0.10,mode=native", "no XDP of its own")],
    ),
    ("VLAN, MTU 9000", "vlan 9000", &[("nic:x0.10", WORKS), ("packet:x0.10", WORKS)]),
    (
        "bond, a cable is lost",
        "bond active-backup; during() { lose_a_cable; }",
        &[
            ("nic:bond0", WORKS),
            ("packet:bond0", WORKS),
            ("xdp:bond0,mode=native", "would not reach its sockets"),
        ],
    ),
    (
        "bond of two cables in use, one is lost",
        "bond balance-xor; during() { lose_a_cable; }",
        &[("nic:bond0", WORKS)],
    ),
    (
        "cable of a bond",
        "bond active-backup",
        &[("nic:x0", "use nic:bond0"), ("xdp:x0", "use nic:bond0"), ("packet:x0", "use nic:bond0")],
    ),
    ("bridge", "bridge", &[("nic:br0", WORKS), ("packet:br0", WORKS)]),
    (
        "port of a bridge",
        "bridge",
        &[("nic:x0", "use nic:br0"), ("xdp:x0", "use nic:br0"), ("packet:x0", "use nic:br0")],
    ),
];

/// Tries every shape. An error means that the guest is lost.
pub(super) fn play(guest: &mut Guest, millstream: &str) -> Result<Outcome, String> {
    let functions = FUNCTIONS.replace("@MILLSTREAM@", millstream);
    guest.run(&format!("cat >/run/shapes.sh <<'@@END'\n{functions}\n@@END\n"), COMMAND)?;
    let mut dead = Vec::new();
    for (name, make, links) in SHAPES {
        for (link, refusal) in *links {
            let script = format!("(. /run/shapes.sh; {make}; try {link} '{refusal}'; clean)");
            let answer = guest.run(&script, COMMAND)?;
            let expected = if *refusal == WORKS { "works" } else { "refused" };
            println!("    {name}, {link}: {}", answer.text);
            if !answer.text.starts_with(expected) {
                dead.push(format!("{name}, {link}: {}", answer.text));
            }
        }
    }
    Ok(if dead.is_empty() { Outcome::Works("generic XDP".into()) } else { Outcome::Dead(dead.join("; ")) })
}
