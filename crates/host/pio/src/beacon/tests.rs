//! Goal: readable by each of its descriptors and by its date, and silent otherwise.
use super::*;
use crate::port::Wake;
use crate::sleep_on;
use ring::EventFd;
use std::os::fd::AsFd;

fn lit(beacon: &Beacon, wait: Duration) -> bool {
    matches!(sleep_on(&[beacon.as_raw_fd()], Some(wait)), Ok(Wake::Ready))
}

#[test]
fn descriptors_and_a_date() {
    let bells = [EventFd::new().unwrap(), EventFd::new().unwrap()];
    let beacon = Beacon::new(bells[0].as_fd()).unwrap();
    let second = bells[1].as_fd().as_raw_fd();
    beacon.watch(&[], &[second]).unwrap();
    beacon.watch(&[second], &[second]).unwrap();
    assert!(!lit(&beacon, Duration::ZERO));
    for bell in &bells {
        bell.ring();
        assert!(lit(&beacon, Duration::ZERO));
        bell.drain();
        assert!(!lit(&beacon, Duration::ZERO));
    }
    beacon.set(Some(Duration::ZERO)).unwrap();
    assert!(lit(&beacon, Duration::from_secs(5)));
    // It stays so until another date is set.
    assert!(lit(&beacon, Duration::ZERO));
    beacon.set(Some(Duration::from_secs(60))).unwrap();
    assert!(!lit(&beacon, Duration::from_millis(1)));
    beacon.set(None).unwrap();
    assert!(!lit(&beacon, Duration::ZERO));
    beacon.watch(&[second], &[]).unwrap();
    bells[1].ring();
    assert!(!lit(&beacon, Duration::ZERO));
    assert!(beacon.watch(&[], &[-1]).is_err());
}
