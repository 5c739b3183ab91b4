//! Goal: indices stay valid, vacancies are reused, the limit holds, growth never moves an entry.
use super::*;

#[test]
fn lifecycle() {
    let mut slab = Slab::new(600);
    let all: Vec<u32> = (0..600).map(|v| slab.insert(v).unwrap()).collect();
    assert_eq!(slab.insert(999), Err(999));
    assert!(all.iter().all(|&i| slab.get(i) == Some(&i)));
    assert_eq!(slab.remove(300), Some(300));
    assert_eq!(slab.remove(300), None);
    assert_eq!(slab.get(300), None);
    assert_eq!(slab.insert(7), Ok(300));
    assert_eq!(slab.iter().count(), 600);
    assert_eq!(slab.remove(100_000), None);
    for i in all {
        slab.remove(i);
    }
    assert!(slab.is_empty());
}
