//! Goal: interrupts that a device promises and never raises are given up, and it is looked at often instead.
use super::super::{DpdkConfig, open_dpdk};
use super::*;
use crate::port::{PacketIo, RxBatch, TxBatch, TxMeta, TxPacket};

#[test]
fn interrupts_that_never_come_are_given_up() {
    let mut port =
        open_dpdk(&DpdkConfig::new("net_ring60")).unwrap_or_else(|error| panic!("{error}")).remove(0);
    // SAFETY: takes a number and returns a new descriptor.
    let epoll = unsafe { sys::owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.expect("a descriptor");
    (port.sleep.interrupts, port.sleep.armed_by_queue) = (Some(epoll), true);
    let (mut sending, mut batch) = (TxBatch::new(), RxBatch::new());
    for misses in 0..MISSES {
        assert!(port.has_interrupts(), "after {misses} sleeps");
        assert_eq!(port.arm(&mut Vec::new()).ok(), Some(true), "nothing came yet");
        let mut frame = port.take().expect("a frame");
        frame.set_range(frame.headroom(), 60);
        sending.push_back(TxPacket { frame, meta: TxMeta::default() });
        assert_eq!((port.tx(&mut sending).ok(), port.rx(&mut batch).ok()), (Some(1), Some(1)));
        batch.drain(..).for_each(|packet| port.retire(packet.frame));
    }
    assert!(!port.has_interrupts());
    assert_eq!(port.sleep.longest(false), NAP_MIN);
}
