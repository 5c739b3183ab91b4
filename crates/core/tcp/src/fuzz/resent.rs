//! Retransmissions and what became of them, against a note per byte.

use alloc::vec;
use alloc::vec::Vec;

use base::Seq;

use super::Input;
use crate::rack::Left;
use crate::resent::Resent;

/// Bytes in flight.
const FLIGHT: u32 = 400;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Octet {
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
    let (mut real, mut octets) = (Resent::default(), vec![Octet::Quiet; FLIGHT as usize]);
    let (mut una, mut now) = (0, u32::MAX - input.below(60));
    // What left last, if it may still turn out not to have.
    let mut last: Option<(u32, u32)> = None;
    while !input.is_empty() {
        match input.u8() % 8 {
            0..=2 => {
                let start = una + input.below(FLIGHT - una + 1);
                let end = (start + 1 + input.below(40)).min(FLIGHT);
                if start < end {
                    real.push(first + start, first + end, now);
                    octets[start as usize..end as usize].fill(Octet::UnderWay(now));
                    last = Some((start, end));
                }
            }
            3 => {
                now = now.wrapping_add(input.below(5));
                last = None;
            }
            4 => {
                if let Some((start, end)) = last.take() {
                    let from = start + input.below(end - start + 1);
                    real.cut(first + from);
                    octets[from as usize..end as usize].fill(Octet::Quiet);
                }
            }
            5 => {
                // What left within these microseconds may be under way.
                let young = input.below(12);
                let remaining = |left: Left| Some(young.saturating_sub(now.wrapping_sub(left.at)));
                let (told, wait) = real.find_lost(first + una, remaining);
                let old =
                    |octet: &Octet| matches!(octet, Octet::UnderWay(at) if now.wrapping_sub(*at) >= young);
                let mut youngest = None;
                for octet in octets.iter_mut().filter(|octet| old(octet)) {
                    let Octet::UnderWay(at) = *octet else { continue };
                    let younger = youngest.is_none_or(|than| now.wrapping_sub(at) < now.wrapping_sub(than));
                    youngest = if younger { Some(at) } else { youngest };
                    *octet = Octet::Lost;
                }
                assert_eq!(told, youngest);
                let ages = octets.iter().filter_map(|octet| match octet {
                    Octet::UnderWay(at) => Some(young - now.wrapping_sub(*at)),
                    _ => None,
                });
                assert_eq!(wait, ages.min(), "the oldest decides");
                last = None;
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
                        let octet = core::mem::replace(&mut octets[i as usize], Octet::Quiet);
                        let Octet::UnderWay(at) = octet else { continue };
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
                last = None;
            }
        }
        check(&real, &octets, first, una, &mut input);
    }
}

fn check(real: &Resent, octets: &[Octet], first: Seq, una: u32, input: &mut Input<'_>) {
    let at = input.below(FLIGHT);
    assert_eq!(real.covers(first + at), matches!(octets[at as usize], Octet::UnderWay(_)), "byte {at}");
    let lost = |octet: &Octet| *octet == Octet::Lost;
    assert_eq!(real.lost_octets() as usize, octets.iter().filter(|octet| lost(octet)).count());
    let next = (una..FLIGHT).find(|&i| lost(&octets[i as usize]));
    assert_eq!(real.lost(first + una).map(|(start, _)| start), next.map(|i| first + i));
    if let Some((start, end)) = real.lost(first + una) {
        let (start, end) = (start.offset_from(first) as usize, end.offset_from(first) as usize);
        assert!(start < end && octets[start..end].iter().all(lost));
    }
}
