//! Goal: the part of Python that scripts use means here what it means there, and nothing brings it down.
use super::*;
use std::collections::HashMap;

fn lookup(name: &str) -> Option<Value> {
    match name {
        "tcpi_snd_cwnd" => Some(Value::Int(10)),
        "tcpi_rtt" => Some(Value::Int(12_000)),
        "TCPI_OPT_SACK" => Some(Value::Int(2)),
        _ => None,
    }
}

fn run_text(text: &str) -> Result<Vec<String>, String> {
    let statements = parse(text)?;
    let mut own = HashMap::new();
    let mut printed = Vec::new();
    let mut names = Names { own: &mut own, lookup: &lookup };
    run(&statements, &mut names, &mut printed).map_err(|e| e.to_string())?;
    Ok(printed)
}

/// Expressions and the values that Python prints, written by hand.
#[test]
fn expressions_have_python_s_values() {
    let table = [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("7 // -2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("7 / 2", "3.5"),
        ("2 ** 10", "1024"),
        ("-2 ** 2", "-4"),
        ("1 << 4 | 1", "17"),
        ("6 & 3 ^ 1", "3"),
        ("~5", "-6"),
        ("0x7fffffff", "2147483647"),
        ("1 < 2 < 3", "True"),
        ("1 < 3 < 2", "False"),
        ("5000 <= tcpi_rtt <= 20000", "True"),
        ("not 1 == 2", "True"),
        ("1 and 0 or 5", "5"),
        ("1 if 0 else 2", "2"),
        ("'cwnd=%d of %s' % (tcpi_snd_cwnd, 'ten')", "cwnd=10 of ten"),
        ("(TCPI_OPT_SACK & 2) != 0, tcpi_rtt", "(True, 12000)"),
        ("max(1, 3, 2) - min(4, 2)", "1"),
        ("abs(-3)", "3"),
        ("True + True", "2"),
        ("'a' + \"b\"", "ab"),
        ("round(2.6)", "3"),
    ];
    for (expression, expected) in table {
        let text = if expression.contains(", tcpi") {
            format!("print(({expression}))")
        } else {
            format!("print({expression})")
        };
        assert_eq!(run_text(&text), Ok(vec![expected.to_string()]), "{expression}");
    }
}

#[test]
fn names_last_and_assertions_tell_what_they_saw() {
    assert_eq!(
        run_text("cwnd = 9; cwnd += 1\nassert tcpi_snd_cwnd == cwnd, tcpi_snd_cwnd # fine"),
        Ok(vec![])
    );
    assert_eq!(
        run_text("assert tcpi_snd_cwnd == 11, 'cwnd=%d' % tcpi_snd_cwnd"),
        Err("assertion failed: tcpi_snd_cwnd = 10; cwnd=10".into())
    );
    assert_eq!(run_text("assert tcpi_nonsense == 1"), Err("no such name: tcpi_nonsense".into()));
    assert_eq!(run_text("assert tcpi_rtt < 20000, \\\n  tcpi_rtt; \\\nassert 1"), Ok(vec![]));
    assert_eq!(run_text("pass\nprint(\n1,\n2)"), Ok(vec!["1 2".into()]));
}

#[test]
fn what_makes_no_sense_is_told_not_obeyed() {
    for (text, complaint) in [
        ("assert", "the end of the statement where a value must stand"),
        ("1 +", "the end of the statement where a value must stand"),
        ("(1", "the end of the statement where `)` must stand"),
        ("1 2", "`2` after the end of a statement"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("'%d' % 'x'", "%d of a text"),
        ("'%d %d' % 1", "not enough values for the format"),
        ("'a' < 1", "a text < a whole number"),
        ("2 ** 200", "2 ** 200 is too large"),
        ("open('x')", "no function open() of 1 arguments"),
        ("'", "a text without its closing '"),
        ("import os", "`os` after the end of a statement"),
    ] {
        assert_eq!(run_text(text), Err(complaint.into()), "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    for text in
        ["(".repeat(10_000), "1+".repeat(10_000) + "1", "-".repeat(10_000) + "1", "not ".repeat(9_999) + "1"]
    {
        let _ = run_text(&text);
    }
    assert_eq!(run_text(&("print(".to_string() + &"not ".repeat(9_999) + "1)")), Ok(vec!["False".into()]));
}
