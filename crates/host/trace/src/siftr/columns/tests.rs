//! Goal: the same as writing each number, whatever the lines before had, and how many.
use super::*;
use base::Rng;

#[test]
fn as_each_for_itself() {
    let mut rng = Rng::new(9);
    let mut columns = Columns::new();
    let mut values = [0; MOST];
    for _ in 0..20_000 {
        for _ in 0..rng.below(4) {
            values[rng.below(MOST as u64) as usize] = match rng.below(8) {
                0 => u64::MAX,
                1 => 0,
                _ => rng.next_u64() >> rng.below(64),
            };
        }
        let some = &values[..rng.below(MOST as u64 + 1) as usize];
        let mut out = Vec::new();
        columns.write(&mut out, some);
        let expected: String = some.iter().map(|value| format!(",{value}")).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    let mut out = Vec::new();
    columns.write(&mut out, &[u64::MAX; MOST]);
    assert_eq!(out.len(), MOST * 21);
}
