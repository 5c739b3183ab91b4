//! Goal: the limit holds, pages come on demand and stay, the last freed chunk is the next one out.
use super::*;

#[test]
fn lifecycle() {
    let mut pool = Pool::new(100);
    assert_eq!((pool.used(), pool.limit(), pool.footprint()), (0, 100, 0));
    let mut all: Vec<u32> = (0..75).map(|_| pool.take().unwrap()).collect();
    assert_eq!((pool.take(), pool.available()), (None, 0), "a quarter is kept back");
    for end in [Pool::writes_end as fn(&Pool) -> u32, Pool::limit] {
        while let Some(chunk) = pool.dip(end, |pool| pool.take()) {
            all.push(chunk);
        }
        assert_eq!((pool.used(), pool.take()), (end(&pool), None));
    }
    assert_eq!((pool.used(), pool.available()), (100, 0));
    assert!(pool.footprint() >= 128 * CHUNK && pool.footprint() < 140 * CHUNK);
    for &chunk in &all {
        pool.bytes_mut(chunk).fill(chunk as u8);
    }
    assert!(all.iter().all(|&chunk| pool.bytes(chunk).iter().all(|&b| b == chunk as u8)));
    pool.put_list(all[7], all[7], 1);
    pool.put_list(all[3], all[3], 1);
    let mut again = || pool.dip(Pool::limit, |pool| pool.take());
    assert_eq!((again(), again(), again()), (Some(all[3]), Some(all[7]), None));
}
