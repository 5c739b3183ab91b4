//! Goal: the first difference without a row is found, and its key has no amounts.
use super::*;

fn lines(all: &[&str]) -> Vec<String> {
    all.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn keys_have_no_amounts() {
    let steps = [Step { name: "recv", args: vec![0, 50, 2, 0, 0] }];
    let Verdict::Found(found) = compare(&steps, &lines(&["0: 50 sum 12345678"]), &lines(&["0: -1 EAGAIN"]))
    else {
        panic!("no difference")
    };
    assert_eq!(found.key, "recv MSG_PEEK: n | -1 EAGAIN");
}

#[test]
fn a_call_that_woke_on_one_side_is_named() {
    let steps = [("recv", vec![0, 50, 0, 0, 0]), ("psend", vec![0, 5, 0])];
    let steps = steps.map(|(name, args)| Step { name, args });
    let kernel = lines(&["0: asleep", "1: 5", "0 woke: 5", "0 asleep at the end"]);
    let Verdict::Found(found) = compare(&steps, &kernel, &lines(&["0: asleep", "1: 5", "2: 0"])) else {
        panic!("no difference")
    };
    assert_eq!(found.key, "recv: woke: 5 | asleep");
}

#[test]
fn of_two_calls_that_woke_the_first_is_named() {
    let steps = ["poll", "recv", "psend"].map(|name| Step { name, args: vec![] });
    let asleep = ["0: asleep", "1: asleep", "2: 1"];
    let first = lines(&[&asleep[..], &["0 woke: 1 0x1", "1 woke: 1"]].concat());
    let second = lines(&[&asleep[..], &["1 woke: 1"]].concat());
    for (kernel, stack, key) in
        [(&first, &second, "poll: woke: 1 0x1 | asleep"), (&second, &first, "poll: asleep | woke: 1 0x1")]
    {
        let Verdict::Found(found) = compare(&steps, kernel, stack) else { panic!("no difference") };
        assert_eq!(found.key, key);
    }
}

#[test]
fn a_program_that_ends_early_differs() {
    let steps = [Step { name: "join", args: vec![] }];
    let verdict = compare(&steps, &lines(&["0: 1"]), &[]);
    assert!(matches!(verdict, Verdict::Found(Difference { key, .. }) if key == "join: 1 | nothing"));
    assert_eq!(compare(&steps, &lines(&["0: 1"]), &lines(&["0: 1"])), Verdict::Explained(BTreeSet::new()));
}
