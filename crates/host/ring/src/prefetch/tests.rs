//! Goal: any reference will do, even to nothing.
use super::*;

#[test]
fn any_reference_will_do() {
    prefetch_read(&());
    prefetch_read("");
    prefetch_read(&[0u64; 99]);
    prefetch_all(&());
    prefetch_all(&[0u64; 99]);
    prefetch_bytes(&[]);
    prefetch_bytes(&[7; 1000]);
}

#[test]
fn it_is_on_and_off_only_where_that_can_be_chosen() {
    assert!(prefetching(true));
    assert_eq!(prefetching(false), cfg!(feature = "prefetch-switch"));
    prefetch_all(&[0u64; 99]);
    assert!(prefetching(true));
}
