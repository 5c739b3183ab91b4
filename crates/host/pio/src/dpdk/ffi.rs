//! The functions and structures of `shim.c`.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A packet buffer of DPDK.
#[repr(C)]
pub(super) struct Mbuf {
    _private: [u8; 0],
}

/// A pool of packet buffers.
#[repr(C)]
pub(super) struct Mempool {
    _private: [u8; 0],
}

/// Capabilities of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Info {
    pub(super) rss: u64,
    pub(super) rx_room_min: u32,
    pub(super) max_queues: u16,
    pub(super) min_mtu: u16,
    pub(super) max_mtu: u16,
    pub(super) rx_desc: u16,
    pub(super) tx_desc: u16,
    pub(super) chain_max: u16,
    pub(super) tx_tcp: u8,
    pub(super) tx_ipv4: u8,
    pub(super) tx_tso: u8,
    pub(super) tx_chains: u8,
    pub(super) rx_tcp: u8,
    pub(super) rx_ipv4: u8,
    pub(super) link_news: u8,
    pub(super) is_tap: u8,
    pub(super) socket: i32,
    pub(super) driver: [u8; 32],
    pub(super) device: [u8; 64],
}

/// Configuration of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) rss: u64,
    pub(super) mtu: u32,
    pub(super) queues: u16,
    pub(super) sums: u8,
    pub(super) cuts: u8,
    pub(super) interrupts: u8,
    pub(super) link_news: u8,
}

/// A received packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Received {
    pub(super) mbuf: *mut Mbuf,
    pub(super) data: *const u8,
    pub(super) len: u32,
    pub(super) sum: u8,
    pub(super) ours: u8,
}

/// Offloads requested for a packet to send.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct TxRequest {
    pub(super) network: u16,
    pub(super) transport: u16,
    pub(super) size: u16,
    pub(super) link: u8,
    pub(super) sum: u8,
    pub(super) v6: u8,
}

unsafe extern "C" {
    pub(super) fn ms_dpdk_listen(on: c_int);
    pub(super) fn ms_dpdk_said(into: *mut c_char, room: usize) -> usize;
    pub(super) fn ms_dpdk_start(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn ms_dpdk_enter_thread() -> c_int;
    pub(super) fn ms_dpdk_leave_thread();
    pub(super) fn ms_dpdk_find(name: *const c_char) -> c_int;
    pub(super) fn ms_dpdk_probe(what: *const c_char) -> c_int;
    pub(super) fn ms_dpdk_known(nth: c_uint, into: *mut c_char, room: usize) -> usize;
    pub(super) fn ms_dpdk_info(port: u16, into: *mut Info) -> c_int;
    pub(super) fn ms_dpdk_configure(port: u16, request: *const Setup, info: *const Info) -> c_int;
    pub(super) fn ms_dpdk_queue(port: u16, queue: u16, info: *const Info, pool: *mut Mempool) -> c_int;
    pub(super) fn ms_dpdk_run(port: u16, all: c_int) -> c_int;
    pub(super) fn ms_dpdk_rss(
        port: u16,
        key: *mut u8,
        key_len: *mut u8,
        table: *mut u16,
        room: u16,
        families: *mut u8,
    ) -> c_int;
    pub(super) fn ms_dpdk_close(port: u16, ours: c_int) -> c_int;
    pub(super) fn ms_dpdk_halt(port: u16);
    pub(super) fn ms_dpdk_mac(port: u16, mac: *mut u8) -> c_int;
    pub(super) fn ms_dpdk_mtu(port: u16) -> u16;
    pub(super) fn ms_dpdk_link(port: u16) -> c_int;
    pub(super) fn ms_dpdk_stats(port: u16, six: *mut u64) -> c_int;
    pub(super) fn ms_dpdk_intr_join(port: u16, queue: u16, epoll: c_int) -> c_int;
    pub(super) fn ms_dpdk_intr_leave(port: u16, queue: u16, epoll: c_int) -> c_int;
    pub(super) fn ms_dpdk_intr(port: u16, queue: u16, on: c_int) -> c_int;
    pub(super) fn ms_dpdk_intr_heard(epoll: c_int) -> c_int;
    pub(super) fn ms_dpdk_memory(
        name: *const c_char,
        len: usize,
        align: c_uint,
        socket: c_int,
        at: *mut *mut c_void,
    ) -> *const c_void;
    pub(super) fn ms_dpdk_memory_free(zone: *const c_void);
    pub(super) fn ms_dpdk_pool(
        name: *const c_char,
        zone: *const c_void,
        base: *mut u8,
        count: u32,
        slot: u32,
        step: u32,
        steps: u32,
        room: u32,
        socket: c_int,
        table: *mut *mut Mbuf,
    ) -> *mut Mempool;
    pub(super) fn ms_dpdk_pool_free(pool: *mut Mempool);
    pub(super) fn ms_dpdk_pool_holds(pool: *mut Mempool) -> u32;
    pub(super) fn ms_dpdk_get(pool: *mut Mempool, mbufs: *mut *mut Mbuf, n: c_uint) -> c_int;
    pub(super) fn ms_dpdk_put(pool: *mut Mempool, mbufs: *const *mut Mbuf, n: c_uint);
    pub(super) fn ms_dpdk_buffer(mbuf: *const Mbuf) -> *mut u8;
    pub(super) fn ms_dpdk_rx(port: u16, queue: u16, pool: *mut Mempool, into: *mut Received, n: u16) -> u16;
    pub(super) fn ms_dpdk_copy(mbuf: *const Mbuf, into: *mut u8, room: u32) -> u32;
    pub(super) fn ms_dpdk_free(mbuf: *mut Mbuf);
    pub(super) fn ms_dpdk_describe(mbuf: *mut Mbuf, data: *const u8, len: u32, request: *const TxRequest);
    pub(super) fn ms_dpdk_chain(first: *mut Mbuf, last: *mut Mbuf, more: *mut Mbuf);
    pub(super) fn ms_dpdk_tx(
        port: u16,
        queue: u16,
        mbufs: *mut *mut Mbuf,
        n: u16,
        requests: c_int,
        invalid: *mut c_int,
    ) -> u16;
    pub(super) fn ms_dpdk_sent(port: u16, queue: u16);
    #[cfg(test)]
    pub(super) fn ms_dpdk_test_hand(ring: *const c_char, mbuf: *mut Mbuf) -> c_int;
    #[cfg(test)]
    pub(super) fn ms_dpdk_test_look(mbuf: *const Mbuf, seven: *mut u32);
    #[cfg(test)]
    pub(super) fn ms_dpdk_sizes(four: *mut usize);
}
