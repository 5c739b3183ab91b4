//! Goal: super-segments arrive as what was written, whatever cuts them, in order with what stands around them in the
//! batch; what no kernel would send is refused; every long frame comes back.

use super::host::{Cable, OURS, OURS6, PEER, listener, resolve};
use crate::Claims;
use crate::tests::testnet::{Puppet, addr, pattern};
use crate::xdp::{XdpConfig, XdpMode};
use crate::{ChecksumOffload, PacketIo, PortClaim, SegmentationOffload, TxBatch, TxMeta, TxPacket, sys};
use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

/// Leaves the cutting of super-segments to the kernel, on our end.
fn no_offload() {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const ETHTOOL_STSO: u32 = 0x1f;
    let mut value = [ETHTOOL_STSO, 0];
    // SAFETY: all zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[..2].copy_from_slice(&[b'x' as libc::c_char, b'0' as libc::c_char]);
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
    // SAFETY: the structure at `ifru_data` is what this command reads.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) }).unwrap();
}

fn value(port: &impl PacketIo, name: &str) -> u64 {
    port.stats().iter().find(|(n, _)| *n == name).unwrap().1
}

/// A kernel client reads `size` bytes of ours.
fn download(mode: XdpMode, local: &str, offload: bool, size: usize) {
    let Some(cable) = Cable::new(1, 1500) else { return };
    if !offload {
        no_offload();
    }
    let config = XdpConfig { mode, ..XdpConfig::default() };
    let Some(mut port) = cable.open(&config).and_then(|mut ports| ports.pop()) else { return };
    if port.caps().tso_max == 0 {
        return eprintln!("SKIPPED: this kernel fills in no checksums for AF_XDP");
    }
    let local = addr(local);
    port.claim(&PortClaim { addr: base::Addr::UNSPECIFIED_V6, ..listener(7) }).unwrap();
    let mut puppet = Puppet::new(port, local, 7);
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            cable.on_peer(|| {
                let to = SocketAddr::new(local.into(), 7);
                let mut stream = TcpStream::connect_timeout(&to, std::time::Duration::from_secs(5)).unwrap();
                stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                assert!(got == pattern(size), "{} bytes of {size} came, or others", got.len());
            })
        });
        assert!(puppet.run(|seen| seen.established), "no client connects");
        puppet.send(&pattern(size));
        puppet.finish();
        far.join().unwrap();
    });
    let (cut, lost) = (value(&puppet.port, "tx_socket"), value(&puppet.port, "tx_socket_lost"));
    assert!(cut > 0 && cut < size as u64 / 10_000 && lost == 0, "{cut} packets, {lost} lost");
}

#[test]
fn the_peer_takes_them_whole() {
    download(XdpMode::Native, OURS, true, 1_000_000);
    download(XdpMode::Native, OURS6, true, 1_000_000);
    download(XdpMode::Generic, OURS, true, 1_000_000);
}

#[test]
fn the_kernel_cuts_them() {
    download(XdpMode::Native, OURS, false, 1_000_000);
    download(XdpMode::Generic, OURS6, false, 1_000_000);
}

/// A UDP datagram to the peer's port 9 with one byte of payload, as a super-segment might be: any packet may leave by
/// either way.
fn datagram(port: &mut impl PacketIo, mac: [u8; 6], payload: u8) -> TxPacket {
    let mut frame = port.take().unwrap();
    frame.set_range(frame.headroom(), 43);
    let ours = port.caps().mac;
    let data = frame.data_mut();
    data.fill(0);
    data[..6].copy_from_slice(&mac);
    data[6..12].copy_from_slice(&ours);
    data[12..14].copy_from_slice(&[8, 0]);
    data[14..24].copy_from_slice(&[0x45, 0, 0, 29, 0, 0, 0x40, 0, 64, 17]);
    data[26..30].copy_from_slice(&addr(OURS).v4_bytes().unwrap());
    data[30..34].copy_from_slice(&addr(PEER).v4_bytes().unwrap());
    let sum = wire::checksum::Sum::of(&data[14..34]).checksum();
    data[24..26].copy_from_slice(&sum.to_be_bytes());
    data[34..42].copy_from_slice(&[0, 9, 0, 9, 0, 9, 0, 0]);
    data[42] = payload;
    TxPacket { frame, meta: TxMeta::default() }
}

/// A packet that asks to be cut in a way that makes no sense.
fn nonsense(port: &mut impl PacketIo, len: usize, size: u16, header_len: u16) -> TxPacket {
    let mut frame = port.take_long().unwrap();
    frame.set_range(frame.headroom(), len);
    let checksum = Some(ChecksumOffload { start: 34, offset: 16 });
    let cut = SegmentationOffload { size, header_len, v6: false };
    TxPacket { frame, meta: TxMeta { checksum, segmentation: Some(cut) } }
}

#[test]
fn order_and_refusals() {
    let Some(cable) = Cable::new(1, 1500) else { return };
    let Some(mut port) = cable.port() else { return };
    if port.caps().tso_max == 0 {
        return eprintln!("SKIPPED: this kernel fills in no checksums for AF_XDP");
    }
    let mac = resolve(&mut port, PEER);
    let far = cable.on_peer(|| UdpSocket::bind(SocketAddr::new(addr(PEER).into(), 9)).unwrap());
    far.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
    // Those before the first that is to be cut leave by the ring, those after it by the socket.
    let mut batch = TxBatch::new();
    let wrong = [(60, 0, 54), (60, 10, 60), (60, 10, 51), (60, 0, 59)];
    let mut wrong = wrong.into_iter();
    for number in 0..40 {
        batch.push_back(datagram(&mut port, mac, number));
        if number % 10 == 9 {
            let (len, size, header_len) = wrong.next().unwrap();
            batch.push_back(nonsense(&mut port, len, size, header_len));
        }
    }
    assert_eq!(port.tx(&mut batch).unwrap(), 44);
    for number in 0..40 {
        let mut got = [0; 2];
        assert_eq!(far.recv(&mut got).unwrap(), 1);
        assert_eq!(got[0], number);
    }
    assert_eq!((value(&port, "tx_socket"), value(&port, "tx_socket_refused")), (30, 4));

    let mut held = Vec::new();
    while let Some(frame) = port.take_long() {
        assert!(frame.capacity() - frame.headroom() > 65_000);
        held.push(frame);
    }
    assert!(!held.is_empty());
    held.into_iter().for_each(|frame| port.retire(frame));
    assert!(port.take_long().map(|frame| port.retire(frame)).is_some());
}
