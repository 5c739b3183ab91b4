//! Retransmissions and what became of them, against a note per byte.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::Input;
use crate::recovery::reordering::Left;
use crate::recovery::resent::Resent;

/// Bytes in flight.
const FLIGHT: u32 = 400;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Byte {
    /// Not sent again, or arrived.
    Quiet,
    /// Left again then.
    UnderWay(u32),
    /// Lost again.
    Lost,
}

/// Model of `resent`.
pub fn resent(data: &[u8]) {
    let mut input = Input::new(data);
    let first = Seq::new(u32::MAX - input.below(600));
    let (mut real, mut bytes) = (Resent::default(), vec![Byte::Quiet; FLIGHT as usize]);
    let (mut una, mut now) = (0, u32::MAX - input.below(60));
    while !input.is_empty() {
        match input.u8() % 8 {
            0..=2 => {
                let start = una + input.below(FLIGHT - una + 1);
                let end = (start + 1 + input.below(40)).min(FLIGHT);
                if start < end {
                    real.push(first + start, first + end, now);
                    bytes[start as usize..end as usize].fill(Byte::UnderWay(now));
                }
            }
            3 => now = now.wrapping_add(input.below(5)),
            4 | 5 => {
                // What left within these microseconds may be under way.
                let young = input.below(12);
                let remaining = |left: Left| Some(young.saturating_sub(now.wrapping_sub(left.at)));
                let (told, wait) = real.find_lost(first + una, remaining);
                let old = |byte: &Byte| matches!(byte, Byte::UnderWay(at) if now.wrapping_sub(*at) >= young);
                let mut youngest = None;
                for byte in bytes.iter_mut().filter(|byte| old(byte)) {
                    let Byte::UnderWay(at) = *byte else { continue };
                    let younger = youngest.is_none_or(|than| now.wrapping_sub(at) < now.wrapping_sub(than));
                    youngest = if younger { Some(at) } else { youngest };
                    *byte = Byte::Lost;
                }
                assert_eq!(told, youngest);
                let ages = bytes.iter().filter_map(|byte| match byte {
                    Byte::UnderWay(at) => Some(young - now.wrapping_sub(*at)),
                    _ => None,
                });
                assert_eq!(wait, ages.min(), "the oldest decides");
            }
            _ => {
                una += input.below(FLIGHT - una + 1).min(input.below(12));
                let blocks: Vec<(u32, u32)> = (0..input.below(4))
                    .map(|_| (input.below(FLIGHT), input.below(50)))
                    .map(|(left, len)| (left, (left + len).min(FLIGHT)))
                    .collect();
                let ranges = blocks.iter().map(|&(left, right)| (first + left, first + right));
                let told = real.take_delivered(first + una, ranges);
                let mut latest: Option<(u32, u32)> = None;
                for (l, r) in core::iter::once((0, una)).chain(blocks) {
                    for i in l..r.max(l) {
                        let byte = core::mem::replace(&mut bytes[i as usize], Byte::Quiet);
                        let Byte::UnderWay(at) = byte else { continue };
                        let age = |at: u32| now.wrapping_sub(at);
                        if latest
                            .is_none_or(|(known, end)| age(at) < age(known) || (at == known && i + 1 > end))
                        {
                            latest = Some((at, i + 1));
                        }
                    }
                }
                let latest = latest.map(|(at, end)| Left { at, end: first + end, again: true });
                assert_eq!(told, latest);
            }
        }
        check(&real, &bytes, first, una, &mut input);
    }
}

fn check(real: &Resent, bytes: &[Byte], first: Seq, una: u32, input: &mut Input<'_>) {
    let at = input.below(FLIGHT);
    assert_eq!(real.covers(first + at), matches!(bytes[at as usize], Byte::UnderWay(_)), "byte {at}");
    let lost = |byte: &Byte| *byte == Byte::Lost;
    assert_eq!(real.lost_bytes() as usize, bytes.iter().filter(|byte| lost(byte)).count());
    let next = (una..FLIGHT).find(|&i| lost(&bytes[i as usize]));
    assert_eq!(real.lost(first + una).map(|(start, _)| start), next.map(|i| first + i));
    if let Some((start, end)) = real.lost(first + una) {
        let (start, end) = (start.offset_from(first) as usize, end.offset_from(first) as usize);
        assert!(start < end && bytes[start..end].iter().all(lost));
    }
}
