//! pcapng blocks (draft-ietf-opsawg-pcapng): a section, its interfaces with nanosecond clocks, and packets
//! with an optional comment each. Written in little-endian, each block complete, so that a file can be cut
//! between any two.

use super::{LinkType, SNAPLEN};
use alloc::vec::Vec;
use base::Instant;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

const OPT_COMMENT: u16 = 1;
const OPT_APPLICATION: u16 = 4;
const OPT_INTERFACE_NAME: u16 = 2;
const OPT_RESOLUTION: u16 = 9;
const OPT_FLAGS: u16 = 2;
const OPT_RECEIVED: u16 = 4;
const OPT_DROPPED: u16 = 5;

/// Which way a packet travelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Towards us.
    Inbound,
    /// Away from us.
    Outbound,
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Number of its interface: the first one written in the section is 0.
    pub interface: u32,
    /// When.
    pub at: Instant,
    /// Bytes it had on the wire.
    pub original_len: u32,
    /// Those to keep; at most [`SNAPLEN`] are.
    pub data: &'a [u8],
    /// Which way, if known.
    pub direction: Option<Direction>,
    /// Something to say about it; empty for nothing.
    pub comment: &'a str,
}

/// Appends a section header. `application` is the name of the writer.
pub fn write_section(into: &mut Vec<u8>, application: &str) {
    block(into, SECTION, |into| {
        into.extend(BYTE_ORDER.to_le_bytes());
        into.extend([1, 0, 0, 0]);
        // The section's length is not known beforehand.
        into.extend(u64::MAX.to_le_bytes());
        option(into, OPT_APPLICATION, application.as_bytes());
        end_of_options(into);
    });
}

/// Appends an interface, whose packets are dated in nanoseconds.
pub fn write_interface(into: &mut Vec<u8>, link: LinkType, name: &str) {
    block(into, INTERFACE, |into| {
        into.extend(link.number().to_le_bytes());
        into.extend([0, 0]);
        into.extend(SNAPLEN.to_le_bytes());
        option(into, OPT_INTERFACE_NAME, name.as_bytes());
        option(into, OPT_RESOLUTION, &[9]);
        end_of_options(into);
    });
}

/// Appends a packet.
pub fn write_packet(into: &mut Vec<u8>, packet: &Packet<'_>) {
    let data = &packet.data[..packet.data.len().min(SNAPLEN as usize)];
    let nanos = packet.at.as_nanos();
    block(into, PACKET, |into| {
        into.extend(packet.interface.to_le_bytes());
        into.extend(((nanos >> 32) as u32).to_le_bytes());
        into.extend((nanos as u32).to_le_bytes());
        into.extend((data.len() as u32).to_le_bytes());
        into.extend(packet.original_len.to_le_bytes());
        padded(into, data);
        let flags: u32 = match packet.direction {
            Some(Direction::Inbound) => 1,
            Some(Direction::Outbound) => 2,
            None => 0,
        };
        if flags != 0 {
            option(into, OPT_FLAGS, &flags.to_le_bytes());
        }
        if !packet.comment.is_empty() {
            option(into, OPT_COMMENT, packet.comment.as_bytes());
        }
        if flags != 0 || !packet.comment.is_empty() {
            end_of_options(into);
        }
    });
}

/// Appends what became of an interface's packets until `at`: how many passed, and how many of them the file lacks.
pub fn write_statistics(into: &mut Vec<u8>, interface: u32, at: Instant, passed: u64, lacking: u64) {
    let nanos = at.as_nanos();
    block(into, STATISTICS, |into| {
        into.extend(interface.to_le_bytes());
        into.extend(((nanos >> 32) as u32).to_le_bytes());
        into.extend((nanos as u32).to_le_bytes());
        option(into, OPT_RECEIVED, &passed.to_le_bytes());
        option(into, OPT_DROPPED, &lacking.to_le_bytes());
        end_of_options(into);
    });
}

/// A block is its kind and length, the body, and the length again.
fn block(into: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend(kind.to_le_bytes());
    into.extend([0; 4]);
    body(into);
    let len = ((into.len() - start + 4) as u32).to_le_bytes();
    into[start + 4..start + 8].copy_from_slice(&len);
    into.extend(len);
}

/// Values longer than an option holds are cut off.
fn option(into: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    into.extend(code.to_le_bytes());
    into.extend((value.len() as u16).to_le_bytes());
    padded(into, value);
}

fn end_of_options(into: &mut Vec<u8>) {
    into.extend([0; 4]);
}

fn padded(into: &mut Vec<u8>, data: &[u8]) {
    into.extend(data);
    into.resize(into.len() + data.len().wrapping_neg() % 4, 0);
}
