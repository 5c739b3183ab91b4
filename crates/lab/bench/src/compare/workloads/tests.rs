//! Goal: every row names what exists.
use super::super::figure;
use super::*;

#[test]
fn rows_are_whole() {
    for (nth, row) in WORKLOADS.iter().enumerate() {
        assert!(WORKLOADS[..nth].iter().all(|other| other.name != row.name), "{} twice", row.name);
        let texts = [row.name, row.title, row.about, row.axis];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", row.name);
        assert!(!row.points.is_empty() && !row.charts.is_empty(), "{}", row.name);
        assert!(row.charts.iter().all(|name| figure::of(name).is_some()), "{}", row.name);
        assert!(row.contenders.iter().all(|name| Contender::of(name).is_some()), "{}", row.name);
        assert!(row.contenders.contains(&"millstream"), "{}", row.name);
    }
}
