//! Goal: the lists mean what dummynet's `pls` meant, and nonsense is refused by name.
use super::*;

fn read(text: &str) -> Result<Positions, PositionsError> {
    text.parse()
}

#[test]
fn the_list_of_the_2009_handbook() {
    let list = read("1,5-10,30").unwrap();
    assert_eq!(list.count(), 8);
    let forwarded: Vec<u64> = (1..=40).filter(|n| !list.contains(*n)).collect();
    assert_eq!(forwarded.len(), 32);
    assert!(forwarded.starts_with(&[2, 3, 4, 11]) && forwarded.ends_with(&[38, 39, 40]));
}

#[test]
fn lists_are_merged_and_printed_in_order() {
    for (text, canonical) in
        [("5,3-4", "3-5"), ("1-3,2-6", "1-6"), ("7-7", "7"), ("none", "none"), ("9,1", "1,9")]
    {
        let list = read(text).unwrap();
        assert_eq!(list.to_string(), canonical);
        assert_eq!(read(canonical).unwrap(), list);
    }
    assert!(read(&GREATEST.to_string()).unwrap().contains(GREATEST));
}

#[test]
fn nonsense_is_refused() {
    use PositionsError::*;
    for (text, why) in [
        ("", Malformed),
        ("0", Zero),
        ("5-", Malformed),
        ("-5", Malformed),
        ("10-5", Reversed),
        ("1,,2", Malformed),
        ("a", Malformed),
        ("+1", Malformed),
        (" 1", Malformed),
        ("9223372036854775809", TooBig),
        ("99999999999999999999", TooBig),
    ] {
        assert_eq!(read(text), Err(why), "{text:?}");
    }
}
