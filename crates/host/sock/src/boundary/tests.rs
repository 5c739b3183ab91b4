//! Goal: names and numbers are unique, all options of the stack are in the table, and the page has all rows.
use super::*;
use std::collections::HashSet;

#[test]
fn a_name_stands_for_one_row() {
    let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
    for row in rows() {
        assert!(names.insert(row.name), "{} twice", row.name);
        if let Some(number) = row.number {
            assert!(numbers.insert((row.manual.level(), number)), "{}: number {number} twice", row.name);
        }
    }
}

#[test]
fn every_option_of_the_stack_is_in_the_table() {
    for known in crate::options::TABLE.iter().filter(|row| row.text != "TCP_CCALGOOPT") {
        assert_eq!(name_of(known.level, known.name), Some(known.text));
    }
}

#[test]
fn the_page_has_every_row() {
    let page = page();
    for row in rows() {
        assert!(page.contains(&format!("| `{}` |", row.name)), "{}", row.name);
    }
}

#[test]
fn names_of_options() {
    assert_eq!(name_of(6, 9), Some("TCP_DEFER_ACCEPT"));
    assert_eq!(name_of(libc::SOL_SOCKET, libc::SO_PRIORITY), Some("SO_PRIORITY"));
    assert_eq!(name_of(0, 13), Some("IP_RECVTOS"));
    assert_eq!(name_of(41, 26), Some("IPV6_V6ONLY"));
    assert_eq!((name_of(6, 9_999), name_of(77, 1)), (None, None));
    assert_eq!([libc::IP_TTL, libc::IP_MTU, 9_999].map(is_set_of_ip), [true, false, false]);
}
