//! Goal: a plain queue, but for who takes the place of one that left.
use super::*;
use base::Rng;

#[test]
fn a_plain_list_does_the_same() {
    for seed in 0..100 {
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed);
        let (mut idle, mut list) = (Idle::default(), Vec::<Fd>::new());
        for _ in 0..500 {
            let fd = rng.below(12) as Fd;
            match rng.below(3) {
                0 if !list.contains(&fd) => {
                    idle.push(fd);
                    list.push(fd);
                }
                1 => {
                    let first = (!list.is_empty()).then(|| list.remove(0));
                    assert_eq!(idle.pop(), first);
                }
                _ => {
                    idle.remove(fd);
                    if let Some(at) = list.iter().position(|&other| other == fd) {
                        list.swap_remove(at);
                    }
                }
            }
            assert_eq!((idle.len(), idle.is_empty()), (list.len(), list.is_empty()));
        }
    }
}
