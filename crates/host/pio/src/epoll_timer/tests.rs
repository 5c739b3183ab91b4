//! Goal: readable by each of its descriptors and by its date, and silent otherwise.
use super::*;
use crate::port::Wake;
use crate::sleep_on;
use ring::EventFd;
use std::os::fd::AsFd;

fn lit(epoll: &EpollTimer, wait: Duration) -> bool {
    matches!(sleep_on(&[epoll.as_raw_fd()], Some(wait)), Ok(Wake::Ready))
}

#[test]
fn descriptors_and_a_date() {
    let bells = [EventFd::new().unwrap(), EventFd::new().unwrap()];
    let epoll = EpollTimer::new(bells[0].as_fd()).unwrap();
    let second = bells[1].as_fd().as_raw_fd();
    epoll.watch(&[], &[second]).unwrap();
    epoll.watch(&[second], &[second]).unwrap();
    assert!(!lit(&epoll, Duration::ZERO));
    for bell in &bells {
        bell.ring();
        assert!(lit(&epoll, Duration::ZERO));
        bell.drain();
        assert!(!lit(&epoll, Duration::ZERO));
    }
    epoll.set(Some(Duration::ZERO)).unwrap();
    assert!(lit(&epoll, Duration::from_secs(5)));
    // It stays so until another date is set.
    assert!(lit(&epoll, Duration::ZERO));
    epoll.set(Some(Duration::from_secs(60))).unwrap();
    assert!(!lit(&epoll, Duration::from_millis(1)));
    epoll.set(None).unwrap();
    assert!(!lit(&epoll, Duration::ZERO));
    epoll.watch(&[second], &[]).unwrap();
    bells[1].ring();
    assert!(!lit(&epoll, Duration::ZERO));
    assert!(epoll.watch(&[], &[-1]).is_err());
}
