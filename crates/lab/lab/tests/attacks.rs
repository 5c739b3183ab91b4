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
