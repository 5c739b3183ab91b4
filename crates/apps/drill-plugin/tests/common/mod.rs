//! The tool's side: it loads the library as the original does, and makes packets as it does.

#![allow(dead_code, reason = "each test program uses its own part")]

use libc::{c_char, c_int, c_void, sockaddr, sockaddr_in, socklen_t, timeval};
use millstream_drill::Interface;
use std::ffi::CString;
use std::path::PathBuf;

pub(crate) const LOCAL: [u8; 4] = [192, 168, 0, 1];
pub(crate) const REMOTE: [u8; 4] = [192, 0, 2, 1];
pub(crate) const PORT: u16 = 8080;

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;

/// The library, which cargo builds beside the tests.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("a program knows where it is");
    let beside = tests.parent().expect("it lies in a folder").join("libmillstream_drill.so");
    assert!(beside.exists(), "{} is not there", beside.display());
    beside
}

/// The tool with the library loaded. Only one thread at a time may not wait in it.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) ifc: Interface,
}

// SAFETY: the plug-in is made for two threads.
unsafe impl Send for Tool {}

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The line that tells this eventfd from every other one (proc(5)), which its number alone does not: the kernel gives a
/// number that was closed to the next thread that asks. Nothing where the number stands for no eventfd.
pub(crate) fn eventfd_id(number: c_int) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    info.lines().find(|line| line.starts_with("eventfd-id:")).map(str::to_owned)
}

impl Tool {
    pub(crate) fn new(flags: Option<&str>) -> Tool {
        let path = CString::new(library().to_str().expect("text")).expect("no NUL");
        let mode = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE | libc::RTLD_DEEPBIND;
        let flags = flags.map(|flags| CString::new(flags).expect("no NUL"));
        // SAFETY: strings of C; the symbol is the function of this type, which fills all of the struct.
        let ifc = unsafe {
            let handle = libc::dlopen(path.as_ptr(), mode);
            assert!(!handle.is_null(), "the library cannot be loaded");
            let symbol = libc::dlsym(handle, c"packetdrill_interface_init".as_ptr());
            assert!(!symbol.is_null());
            let init: unsafe extern "C" fn(*const c_char, *mut Interface) = std::mem::transmute(symbol);
            let mut ifc = std::mem::MaybeUninit::uninit();
            init(flags.as_ref().map_or(std::ptr::null(), |flags| flags.as_ptr()), ifc.as_mut_ptr());
            ifc.assume_init()
        };
        Tool { ifc }
    }

    pub(crate) fn usual() -> Tool {
        Tool::new(Some("local_ip=192.168.0.1,remote_ip=192.0.2.1,prefix=16,mtu=1500,profile=linux"))
    }

    pub(crate) fn user(&self) -> *mut c_void {
        self.ifc.userdata
    }

    pub(crate) fn socket(&self) -> c_int {
        // SAFETY: no pointer but userdata.
        let fd =
            unsafe { (self.ifc.socket)(self.user(), libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP) };
        assert!(fd >= 0);
        fd
    }

    pub(crate) fn listener(&self) -> c_int {
        let fd = self.socket();
        let addr = address(LOCAL, PORT);
        // SAFETY: a whole address.
        unsafe {
            assert_eq!((self.ifc.bind)(self.user(), fd, (&raw const addr).cast::<sockaddr>(), 16), 0);
            assert_eq!((self.ifc.listen)(self.user(), fd, 8), 0);
        }
        fd
    }

    pub(crate) fn connect(&self, fd: c_int) -> c_int {
        let addr = address(REMOTE, PORT);
        // SAFETY: a whole address.
        unsafe { (self.ifc.connect)(self.user(), fd, (&raw const addr).cast::<sockaddr>(), 16) }
    }

    /// With the peer's port.
    pub(crate) fn accept(&self, fd: c_int) -> (c_int, u16) {
        let (mut addr, mut len) = (address([0; 4], 0), size_of::<sockaddr_in>() as socklen_t);
        // SAFETY: room for the address.
        let got =
            unsafe { (self.ifc.accept)(self.user(), fd, (&raw mut addr).cast::<sockaddr>(), &raw mut len) };
        if got >= 0 {
            assert_eq!(len, 16);
            assert_eq!(addr.sin_addr.s_addr.to_ne_bytes(), REMOTE);
        }
        (got, u16::from_be(addr.sin_port))
    }

    pub(crate) fn write(&self, fd: c_int, data: &[u8]) -> isize {
        // SAFETY: the slice.
        unsafe { (self.ifc.write)(self.user(), fd, data.as_ptr().cast(), data.len()) }
    }

    pub(crate) fn read(&self, fd: c_int, len: usize) -> Result<Vec<u8>, i32> {
        let mut into = vec![0; len];
        // SAFETY: the vector.
        let got = unsafe { (self.ifc.read)(self.user(), fd, into.as_mut_ptr().cast(), len) };
        let got = usize::try_from(got).map_err(|_| errno())?;
        into.truncate(got);
        Ok(into)
    }

    pub(crate) fn close(&self, fd: c_int) -> c_int {
        // SAFETY: no pointer but userdata.
        unsafe { (self.ifc.close)(self.user(), fd) }
    }

    pub(crate) fn nonblocking(&self, fd: c_int) {
        // SAFETY: no pointer but userdata.
        let set = unsafe { (self.ifc.fcntl)(self.user(), fd, libc::F_SETFL, libc::O_NONBLOCK.into()) };
        assert_eq!(set, 0);
    }

    pub(crate) fn option(&self, fd: c_int, level: c_int, name: c_int) -> i32 {
        let (mut value, mut len) = (0_i32, 4);
        // SAFETY: room for an int.
        let got = unsafe {
            (self.ifc.getsockopt)(self.user(), fd, level, name, (&raw mut value).cast(), &raw mut len)
        };
        assert_eq!((got, len), (0, 4));
        value
    }

    pub(crate) fn inject(&self, packet: &[u8]) -> c_int {
        // SAFETY: the slice.
        unsafe { (self.ifc.netdev_send)(self.user(), packet.as_ptr().cast(), packet.len()) }
    }

    /// The next packet and when it left; `None` if none will.
    pub(crate) fn sniff(&self) -> Option<(i64, Seen)> {
        let (mut bytes, mut micros) = (vec![0_u8; 65_536], 0);
        let mut len = bytes.len();
        // SAFETY: the vector, and two numbers.
        let got = unsafe {
            (self.ifc.netdev_receive)(self.user(), bytes.as_mut_ptr().cast(), &raw mut len, &raw mut micros)
        };
        assert_eq!(got, 0);
        bytes.truncate(len);
        (len > 0).then(|| (micros, Seen::read(&bytes)))
    }

    pub(crate) fn sleep(&self, micros: u32) {
        // SAFETY: no pointer but userdata.
        assert_eq!(unsafe { (self.ifc.usleep)(self.user(), micros) }, 0);
    }

    pub(crate) fn now(&self) -> i64 {
        let mut now = timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: room for the time.
        assert_eq!(unsafe { (self.ifc.gettimeofday)(self.user(), &raw mut now, std::ptr::null_mut()) }, 0);
        now.tv_sec * 1_000_000 + now.tv_usec
    }

    pub(crate) fn free(self) {
        // SAFETY: nothing uses it any more.
        unsafe { (self.ifc.free)(self.user()) }
    }

    /// An established passive connection from this port: its descriptor, and the next number that
    /// the peer acknowledges.
    pub(crate) fn established(&self, listener: c_int, port: u16) -> (c_int, u32) {
        assert_eq!(self.inject(&segment(port, PORT, 0, 0, SYN, &[2, 4, 5, 0xb4], &[])), 0);
        let (_, answer) = self.sniff().expect("a SYN-ACK");
        assert_eq!(answer.flags, SYN | ACK);
        assert_eq!(self.inject(&segment(port, PORT, 1, answer.seq + 1, ACK, &[], &[])), 0);
        let (fd, peer) = self.accept(listener);
        assert!(fd >= 0);
        assert_eq!(peer, port);
        (fd, answer.seq + 1)
    }
}

pub(crate) fn address(addr: [u8; 4], port: u16) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(addr) },
        sin_zero: [0; 8],
    }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 packet from the peer.
pub(crate) fn packet(to: [u8; 4], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let len = (20 + upper.len()) as u16;
    let mut out = vec![0x45, 0];
    out.extend(len.to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    out.extend(REMOTE);
    out.extend(to);
    let checksum = fold(sum(&out));
    out[10..12].copy_from_slice(&checksum);
    out.extend(upper);
    out
}

/// A segment of the peer.
pub(crate) fn segment(
    from: u16,
    to: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    segment_to(LOCAL, from, to, seq, ack, flags, options, data)
}

/// Builds a segment to any address.
#[allow(clippy::too_many_arguments, reason = "they are the fields of the header, in its order")]
pub(crate) fn segment_to(
    addr: [u8; 4],
    from: u16,
    to: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0);
    let mut out = [from.to_be_bytes(), to.to_be_bytes()].concat();
    out.extend(seq.to_be_bytes());
    out.extend(ack.to_be_bytes());
    out.extend([((20 + options.len()) as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    out.extend(options);
    out.extend(data);
    let pseudo = sum(&REMOTE) + sum(&addr) + 6 + out.len() as u32;
    let checksum = fold(pseudo + sum(&out));
    out[16..18].copy_from_slice(&checksum);
    packet(addr, 6, &out)
}

/// An ICMP error of the peer's about a segment of ours.
pub(crate) fn unreachable(code: u8, about: &Seen) -> Vec<u8> {
    let mut out = vec![3, code, 0, 0, 0, 0, 0, 0];
    out.extend(&about.bytes[..28]);
    let checksum = fold(sum(&out));
    out[2..4].copy_from_slice(&checksum);
    packet(LOCAL, 1, &out)
}

/// A segment of the stack.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) from: u16,
    pub(crate) to: u16,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: u8,
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

impl Seen {
    fn read(bytes: &[u8]) -> Seen {
        let tcp = &bytes[usize::from(bytes[0] & 15) * 4..];
        let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
        let header = usize::from(tcp[12] >> 4) * 4;
        Seen {
            from: half(0),
            to: half(2),
            seq: word(4),
            ack: word(8),
            flags: tcp[13],
            options: tcp[20..header].to_vec(),
            data: tcp[header..].to_vec(),
            bytes: bytes.to_vec(),
        }
    }
}
