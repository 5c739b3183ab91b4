//! Which connection a point is about.

/// The two ends of a connection, seen from this host, as a tracing program reads them from memory:
///
/// ```text
/// struct flow { unsigned char local[16], remote[16]; unsigned short local_port, remote_port; };
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Flow {
    /// Our address; an IPv4 address is mapped (`::ffff:a.b.c.d`).
    pub local: [u8; 16],
    /// The peer's.
    pub remote: [u8; 16],
    /// Our port, in the machine's own order.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}

const _: () = assert!(size_of::<Flow>() == 36);

impl Flow {
    /// Where it lies: what points take.
    pub fn place(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }
}
