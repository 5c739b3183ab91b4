//! Goal: nothing in a name breaks the page, and commands can be pasted.
use super::*;

#[test]
fn names_and_seeds_are_written_for_people() {
    assert_eq!(escape("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    assert_eq!(span(&[1, 2, 3].into()), "1-3");
    assert_eq!(span(&[1, 3].into()), "1, 3");
}

#[test]
fn a_run_is_repeated_by_a_command_that_can_be_pasted() {
    let point: Point =
        [("path.queue".into(), "strict 100".into()), ("path.rtt_ms".into(), "10".into())].into();
    let seen = replay("p2-abc", &point, 3);
    assert_eq!(seen, "millstream lab replay p2-abc --point 'path.queue=strict 100,path.rtt_ms=10' --seed 3");
    assert_eq!(replay("it's.toml", &Point::new(), 1), "millstream lab replay 'it'\\''s.toml' --seed 1");
}

#[test]
fn a_failure_is_told_with_the_command_that_repeats_it() {
    let file = "title = 't'\nseconds = 1\n[path]\nrtt_ms = 1\ndown_kbit = 1\nqueue = 'slots 1'\n";
    let experiment = Experiment::parse("small", file).unwrap();
    let failure = Failure { point: Point::new(), seed: 7, why: "panicked at <here>".into() };
    let failures = vec![&failure];
    let chapter = Chapter {
        experiment: &experiment,
        outcomes: &[],
        store: None,
        failures,
        verdicts: &[],
        file: "small.toml",
    };
    let mut page = Vec::new();
    html(&[chapter], &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("panicked at &lt;here&gt;"));
    assert!(page.contains("millstream lab replay small.toml --seed 7"));
}

#[test]
fn data_cannot_end_its_script() {
    assert!(!data(&"</script>")[30..].trim_end_matches("</script>").contains("</"));
}
