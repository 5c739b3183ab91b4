//! Goal: numbers find their items before and after a table has become large, items are dropped once, and what is
//! held is counted.
use super::*;
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn items_stay_where_they_are() {
    let mut table = Table::<[u64; 128], 64>::new();
    assert_eq!((table.len(), table.footprint(), table.is_empty()), (0, 0, true));
    table.grow(|i| [i as u64; 128]);
    let first: *const _ = table.get(0);
    assert_eq!(table.footprint(), 64 << 10, "a small table holds no more than it has");
    let pages = if cfg!(miri) { 40 } else { 700 };
    for _ in 1..pages {
        table.grow(|i| [i as u64; 128]);
    }
    assert_eq!(table.len(), pages * 64);
    assert!(std::ptr::eq(first, table.get(0)));
    for index in 0..table.len() {
        assert_eq!(table.get(index)[127], index as u64);
        table.get_mut(index)[0] += 1;
    }
    assert!(table.iter().enumerate().all(|(i, item)| item[0] == i as u64 + 1));
    table.iter_mut().for_each(|item| item[0] = 7);
    assert!(table.iter().all(|item| item[0] == 7));
    assert_eq!(table.footprint(), table.len() * 1024);
}

#[test]
fn items_are_dropped_once() {
    struct Counts(Rc<Cell<u32>>, [u8; 40_000]);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.set(self.0.get() + u32::from(self.1[0]));
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let mut table = Table::<Counts, 4>::new();
    for _ in 0..20 {
        table.grow(|_| Counts(dropped.clone(), [1; 40_000]));
    }
    assert_eq!(dropped.get(), 0);
    drop(table);
    assert_eq!(dropped.get(), 80);
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn what_is_not_there_is_refused() {
    Table::<u8, 4>::new().get(0);
}
