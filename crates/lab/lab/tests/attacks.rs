//! Goal: honest clients keep nine tenths of their rate beside every attack, memory and work stay in their bounds.
//! `millstream lab attacks` prints the same at full size.

use lab::attacks::{ATTACKS, Scale};

#[test]
fn honest_clients_are_served_beside_every_attack() {
    for attack in ATTACKS {
        let finding = attack.run(Scale::Small, 1);
        println!("{}: {:.2} {finding:?}", attack.name, finding.kept());
        finding.judge().unwrap_or_else(|why| panic!("{}: {why}", attack.name));
    }
}

/// Beside what honest clients move meanwhile, an idle connection has less than a kilobyte.
#[test]
fn idle_connections_take_less_than_a_kilobyte_each() {
    let idle = ATTACKS.iter().find(|attack| attack.name == "idle").expect("it is there");
    let finding = idle.run(Scale::Small, 1);
    let (memory, most) = (finding.memory[0], finding.connections[0]);
    assert!(memory < (8 << 20) + 1_024 * most, "{memory} bytes for {most}");
}
