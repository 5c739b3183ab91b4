//! Goal: every row of every policy takes its ends and nothing beyond, and tells what was set.
use crate::{Controller, Registry, TunableError};
extern crate std;

#[test]
fn every_row_takes_its_range_and_nothing_else() {
    let mut registry = Registry::new();
    registry.allow_unfair(true).unwrap();
    for name in Registry::built_in() {
        let mut policy = registry.create(name).unwrap();
        let rows: std::vec::Vec<_> = policy.tunables().into_iter().flatten().collect();
        for row in &rows {
            let at_first = policy.tunable(row.name).unwrap();
            assert_eq!(row.checked(at_first), Ok(at_first), "{name}.{}: its default", row.name);
            let beyond = Err(TunableError::OutOfRange { min: row.min, max: row.max });
            for (value, outcome) in
                [(row.min, Ok(())), (row.max, Ok(())), (row.min - 1, beyond), (row.max + 1, beyond)]
            {
                assert_eq!(policy.set_tunable(row.name, value), outcome, "{name}.{} = {value}", row.name);
            }
            assert_eq!(policy.tunable(row.name), Some(row.max), "{name}.{}", row.name);
            assert_eq!(rows.iter().filter(|other| other.name == row.name).count(), 1);
        }
        assert_eq!(policy.tunable("magic"), None);
        assert_eq!(policy.set_tunable("magic", 0), Err(TunableError::Unknown));
    }
}
