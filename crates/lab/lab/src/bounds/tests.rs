//! Goal: every number of a file has a bound, and the error names the number and the bound.
use crate::Experiment;

const FILE: &str = "title = \"t\"\nseconds = 1\n[path]\nrtt_ms = 10\ndown_kbit = 1000\nqueue = \"slots 10\"\n\
                        [path.up]\nloss = 0.1\n[[flow]]\ncc = \"newreno\"\n[cbr]\nbytes = 200\nevery_ms = 20\n";

/// Tables by their structs, and what the place of one is in the file.
const PLACES: [(&str, &str); 5] =
    [("Spec", ""), ("Path", "path."), ("Ills", "path.up."), ("Flow", "flow.0."), ("Cbr", "cbr.")];

/// Places of the numbers in a file, as the structs have them.
fn numbers() -> Vec<String> {
    let source = include_str!("../spec.rs");
    let of = |(name, place): (&str, &str)| {
        let (_, body) = source.split_once(&format!("pub struct {name} {{")).expect("a struct");
        let body = body.split("\n}").next().unwrap_or_default();
        let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(": "));
        let numeric = fields.filter(|(_, kind)| {
            let kind = kind.trim_end_matches(',').trim_start_matches("Option<").trim_end_matches('>');
            ["f64", "u64", "u32", "u16"].contains(&kind)
        });
        numeric.map(|(field, _)| format!("{place}{field}")).collect::<Vec<_>>()
    };
    PLACES.into_iter().flat_map(of).collect()
}

fn error(place: &str, value: &str) -> String {
    let mut file: toml::Value = toml::from_str::<toml::Table>(FILE).unwrap().into();
    let value: toml::Table = toml::from_str(&format!("x = {value}")).unwrap();
    crate::spec::put(&mut file, place, &value["x"]).expect("a place");
    let text = toml::to_string(&file).unwrap();
    Experiment::parse("test", &text).err().map_or_else(String::new, |error| error.0)
}

#[test]
fn every_number_has_a_bound_that_the_error_names() {
    assert_eq!(Experiment::parse("test", FILE).err(), None);
    let numbers = numbers();
    assert!(numbers.len() > 35, "{numbers:?}");
    for place in &numbers {
        for value in ["9e15", "nan", "-1", "4000000000"] {
            let said = error(place, value);
            // Integers of another width or sign are refused where they are read.
            let read = said.contains("invalid value") || said.contains("invalid type");
            let named = said.contains(&format!("{place} = ")) && said.contains(": want ");
            let samples = said.contains("samples");
            let is_within = value == "4000000000"
                && ["path.every", "path.up.every", "flow.0.bytes"].contains(&place.as_str());
            assert!(is_within || read || named || samples, "{place} = {value}: {said:?}");
        }
    }
    assert!(error("flow.0.count", "4000000000").contains("flow.0.count = 4000000000: want 0 to 10000"));
}

#[test]
fn combinations_have_a_bound() {
    let values = format!("{:?}", (0..1_001).collect::<Vec<_>>());
    let text = format!("{FILE}[vary]\n\"path.rtt_ms\" = {values}\n\"flow.0.start\" = {values}\n");
    let said = Experiment::parse("test", &text).err().unwrap().0;
    assert!(said.contains("vary") && said.contains("1000000"), "{said}");
    let experiment = Experiment::parse("test", FILE).unwrap();
    assert!(experiment.tasks(Some(u64::MAX)).err().unwrap().0.contains("1000000"));
    assert_eq!(experiment.tasks(Some(3)).unwrap().len(), 3);
}
