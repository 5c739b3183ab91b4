//! Goal: a name is one experiment, the first part of names is all that begin so, and nothing is taken twice.
use super::*;

fn names(asked: &[&str]) -> Result<Vec<String>, String> {
    let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
    let chosen = all(&asked, false).map_err(|error| error.to_string())?;
    Ok(chosen.into_iter().map(|one| one.experiment.name).collect())
}

#[test]
fn the_first_part_of_names_is_a_family() {
    assert_eq!(names(&["p2-abc", "p7"]).unwrap(), ["p2-abc", "p7-round-trip", "p7-topology"]);
    assert_eq!(names(&["fairness"]).unwrap(), ["fairness"], "a whole name is that one");
    let family = names(&["mulwin"]).unwrap();
    assert!(family.len() == 8 && family.iter().all(|name| name.starts_with("mulwin-")), "{family:?}");
    assert!(names(&["p"]).unwrap_err().contains("no experiment p"), "a part ends at a dash");
    assert!(names(&["p7", "p7-topology"]).unwrap_err().contains("two experiments"));
}
