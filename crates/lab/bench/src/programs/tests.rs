//! Goal: rows are sound: each has one program under test, and words that stand for something.
use super::*;

#[test]
fn rows_are_sound() {
    for (at, row) in ALL.iter().enumerate() {
        let tested = [row.server, row.client].iter().filter(|line| line.contains("{run")).count();
        assert_eq!(tested, 1, "{}", row.name);
        assert!(ALL[..at].iter().all(|other| other.name != row.name), "{} twice", row.name);
        let mut lines = [row.prepare, row.server, row.client].concat();
        for word in ["{run}", "{run as postgres}", "{server}", "{client}", "{dir}", "{peers}", "{secs}"] {
            lines = lines.replace(word, "");
        }
        let unknown = lines.split('{').skip(1).find(|rest| {
            rest.split('}').next().is_some_and(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        });
        assert_eq!(unknown, None, "{}", row.name);
    }
}
