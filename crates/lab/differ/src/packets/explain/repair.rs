//! Predicates about windows, timers and what is sent again.

use super::super::case::{Case, ahead, data_of, takes_numbers, tcp};
use super::super::compare::{DELAYED, TOLERANCE};
use super::super::input::{Action, Call, Echo, MSS, Step};
use super::{BLOCKS, LEAST, Predicate, Then, ends_stream};
use drill::lang::{Body, Flags, Range};

/// Predicates by key, behind those of the segments themselves, the narrowest first.
pub(super) const PREDICATES: &[(&str, Then, Predicate)] = &[
    ("duplicate_behind", Then::Ends, |case| {
        // The number of the segment lies behind that of the one that told the window.
        let start = case.segment.filter(|tcp| tcp.len == 0).and_then(|tcp| tcp.seq).map(|range| range.start);
        let is_behind = start.zip(case.wl1).is_some_and(|(start, wl1)| ahead(start, wl1));
        let fresh = case.data().1.is_some_and(|range| range.start == case.heard);
        let is_now = is_behind
            && case.ack() == Some(case.acked)
            && ahead(case.heard, case.acked)
            && fresh
            && case.difference.ours[1..] == case.difference.kernel;
        // Or one before, which told the window last, lets a later write send up to two segments more.
        let was_duplicate = case.before().iter().any(|step| {
            let Action::Send(packet, _) = &step.action else { return false };
            tcp(&packet.body).filter(|tcp| !takes_numbers(tcp)).is_some_and(|tcp| {
                let is_last = case.wl1.is_some() && tcp.seq.map(|range| range.start) == case.wl1;
                is_last && tcp.ack == Some(case.acked) && !tcp.flags.has(Flags::SYN | Flags::RST)
            })
        });
        let is_more = case.data().0.zip(case.data().1).is_some_and(|(kernel, ours)| {
            let more = ours.end.wrapping_sub(kernel.end);
            kernel.start == ours.start && ours.start == case.heard && (1..=2 * u32::from(MSS)).contains(&more)
        });
        let is_in_flight = ahead(case.heard, case.acked) && case.segment.is_none();
        is_now
            || was_duplicate
                && is_in_flight
                && is_more
                && case.difference.ours[1..] == case.difference.kernel[1..]
    }),
    ("syn_again", Then::Ends, |case| {
        // Two repetitions leave a window of one segment; the last one is echoed by a number of its own.
        let (kernel, ours) = case.data();
        let is_one = |range: Range| range.start == 1 && range.end.wrapping_sub(1) <= MSS.into();
        let is_more = kernel.zip(ours).is_some_and(|(kernel, ours)| {
            is_one(kernel) && kernel.start == ours.start && ahead(ours.end, kernel.end)
        });
        let is_false_echo = case.acked == 0
            && matches!(case.input.steps.get(case.difference.step).map(|step| &step.action),
                Some(Action::Send(_, Echo::Latest(more))) if *more != 0)
            && case.difference.ours.is_empty()
            && case.difference.kernel.len() == 1
            && case.difference.kernel[0].starts_with("R ");
        case.has_refused && case.called(Call::Connect) && (is_more && case.heard == 1 || is_false_echo)
    }),
    ("silly_window", Then::Ends, |case| {
        // Less than a segment, up to the edge of the peer's window.
        let (kernel, ours) = case.data();
        let is_edge = |range: Range| range.end == case.allowed || range.end == case.told;
        kernel.is_some_and(is_edge) && !ours.is_some_and(is_edge)
    }),
    ("shut_window", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        let is_shut = case.told == case.una() && ahead(case.heard, case.una());
        // That was a timeout for the kernel, with a congestion window of one segment.
        let is_fresh = ours.is_some_and(|range| range.start == case.heard);
        // And what was lost then follows the first acknowledgment.
        (is_shut || case.has_shut_again && case.una() != case.acked)
            && kernel.is_some_and(|range| range.start == case.una() && ahead(case.heard, range.start))
            && ours.is_none()
            || case.has_shut_again && kernel.is_none() && is_fresh
    }),
    ("data_before_fin", Then::Ends, |case| {
        // The last byte that was written has the last place in the window.
        let is_write = |step: &Step| matches!(step.action, Action::Call(Call::Write(_)));
        let moments = case.before().iter().zip(&case.kernel.moments);
        let writes = moments.filter(|(step, _)| is_write(step));
        let written: u32 = writes.filter_map(|(_, moment)| moment.answer.as_ref()?.parse::<u32>().ok()).sum();
        let is_last = |range: Range| {
            range.start == case.heard && range.end == case.allowed && range.end == written.wrapping_add(1)
        };
        let is_again = |line: &String| data_of(line).is_some_and(|range| ahead(case.heard, range.start));
        ends_stream(case)
            && !case.has_ended
            && case.data().1.is_some_and(is_last)
            && case.difference.kernel.iter().all(is_again)
    }),
    ("few_bytes", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        let is_fresh = ours.is_some_and(|range| range.start == case.heard);
        // All that the window takes, which never was more.
        let is_all = is_fresh && ours.is_some_and(|range| range.end == case.allowed) && case.largest < LEAST;
        // Or what comes behind a few bytes that were sent again.
        let is_behind =
            is_fresh && case.has_repeated && (1..LEAST).contains(&case.heard.wrapping_sub(case.una()));
        kernel.is_none() && (is_all || is_behind)
    }),
    ("undone_at_once", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        // It sends nothing again, or nothing at all where the window is full.
        let is_again = |range: Range| range.start == case.una() && ahead(case.heard, range.start);
        let is_over = ours.is_some_and(is_again) && !kernel.is_some_and(is_again);
        let acked = case.una().wrapping_sub(case.acked);
        // By the test of a second timeout it sends nothing again at the acknowledgment of what was sent again, either.
        let is_second = case.again[0] > 1 && acked > 0 && is_over;
        // A second timeout in a row, and what was not sent before, or the FIN.
        let is_tested = case.acks_once || case.again[0] > 1;
        let fin = format!("F. {0}:{0}(0) ", case.heard);
        // Or what follows that, where this stack has sent it later.
        let is_next = |range: Range| [case.heard, case.heard_by_both].contains(&range.start);
        let is_fresh = kernel.is_some_and(is_next)
            || case.difference.kernel.first().is_some_and(|line| line.starts_with(&fin));
        let goes_on = is_tested && is_fresh && ours.is_some_and(|range| range.start == case.una());
        // Or a tail loss probe follows there, which does not during a repair.
        let is_piece = |range: Range| range.end == case.heard_by_both && ahead(range.start, case.una());
        let is_probed = case.has_acked_once
            && kernel.is_some_and(is_piece)
            && !ours.is_some_and(is_piece)
            && case.difference.ours == case.difference.kernel[1..];
        // Or by its timer alone, which it restarts.
        let at_once = |line: &String| line.starts_with("after 0 ms: ");
        let is_later = case.is_kernel_timed && case.only_again() && case.difference.ours.iter().all(at_once);
        // Or its congestion window was undone by one before.
        let is_more = case.kernel_sends_more()
            || case.difference.kernel.split_first().is_some_and(|(_, rest)| rest == case.difference.ours);
        case.acks_once && (case.kernel_sends_more() || is_over || is_later)
            || case.has_undone && is_fresh && is_more
            || goes_on
            || is_second
            || is_probed
    }),
    ("override_apart", Then::Ends, |case| case.is_override_apart && case.only_again()),
    ("override_backed_off", Then::Ends, |case| {
        // Less than a segment that the window or TCP_CORK held, which a timer sends.
        let is_held = |range: Range| {
            let is_edge = [case.allowed, case.told].contains(&range.end) || case.is_corked;
            range.start == case.heard && range.end.wrapping_sub(range.start) < MSS.into() && is_edge
        };
        let is_doubled = case.has_repeated || case.has_probed[1];
        let ours = &case.difference.ours;
        is_doubled
            && case.difference.kernel.is_empty()
            && !ours.is_empty()
            && case.una() == case.heard
            && ours.iter().all(|line| data_of(line).is_some_and(is_held))
    }),
    ("forced_probe", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        let is_less = |ours: Range| kernel.is_none_or(|kernel| ahead(ours.end, kernel.end));
        let is_fresh = |range: Range| range.start == case.heard;
        // Or the kernel sends less than a segment behind it at once.
        let is_small = |kernel: Range| is_fresh(kernel) && kernel.end.wrapping_sub(kernel.start) < MSS.into();
        // The probe was a timeout for the kernel, so the next one comes later there.
        let is_una = |line: &String| {
            line.starts_with("after ") || data_of(line).is_some_and(|range| range.start == case.una())
        };
        let is_next = (case.again[0] > 0 || case.is_repeating && case.difference.kernel.is_empty())
            && case.difference.kernel.iter().chain(&case.difference.ours).all(is_una);
        case.has_forced
            && (case.has_repeated && ours.is_some_and(|ours| is_fresh(ours) && is_less(ours))
                || is_next
                || ours.is_none() && kernel.is_some_and(is_small))
    }),
    ("restart_by_timer", Then::Ends, |case| {
        // The initial window, whatever it was before.
        let (_, ours) = case.data();
        let is_initial = ours.is_some_and(|ours| {
            let len = ours.end.wrapping_sub(ours.start);
            ours.start == case.heard && (10 * (u32::from(MSS) - 40)..=11 * u32::from(MSS)).contains(&len)
        });
        case.has_forced
            && case.una() == case.heard
            && case.kernel_sends_more()
            && is_initial
            && case.says_alike()
    }),
    ("window_in_segments", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        let is_fresh = kernel.is_some_and(|range| range.start == case.heard) && ours.is_none();
        // One short segment is a window of one for the kernel, and less than one here. A part of one is none for it.
        let in_flight = case.heard.wrapping_sub(case.una());
        let is_full = ours.is_some_and(|ours| {
            ours.start == case.heard && ours.end.wrapping_sub(case.una()) <= MSS.into() && in_flight > 0
        });
        let short = case.short_ones(case.una());
        // Beside where the data ends the two say the same.
        let is_alike = case.says_alike();
        let is_part = kernel.zip(ours).is_some_and(|(kernel, ours)| {
            let more = ours.end.wrapping_sub(kernel.end);
            kernel.start == ours.start
                && ours.start == case.heard
                && (1..=(1 + short) * u32::from(MSS)).contains(&more)
        });
        let has_no_news = kernel.is_none_or(|range| ahead(case.heard, range.start));
        // Each short one counts as a whole one.
        let is_of_short_ones = kernel.zip(ours).is_some_and(|(kernel, ours)| {
            let apart = (kernel.end.wrapping_sub(ours.end) as i32).unsigned_abs();
            kernel.start == ours.start
                && ours.start == case.heard
                && (1..=case.short_ones(0) * u32::from(MSS)).contains(&apart)
        });
        // Or it sends one more where this stack only acknowledges.
        let is_one_more = kernel.is_some_and(|range| {
            let bare = |line: &String| line.starts_with(&format!(". {0}:{0}(0) ", case.heard));
            let (first, rest) =
                case.difference.ours.split_first().map_or((None, &[][..]), |(a, b)| (Some(a), b));
            range.start == case.heard
                && range.end.wrapping_sub(range.start) <= MSS.into()
                && case.short_ones(0) > 0
                && first.is_some_and(bare)
                && case.difference.kernel[1..] == *rest
        });
        let is_apart = is_of_short_ones
            || case.has_split && is_part
            || case.has_repeated && (case.kernel_sends_more() || has_no_news && is_full && kernel.is_some());
        // A segment that was larger before packet too big counts as one when it is acknowledged.
        let is_too_big = |step: &Step| {
            matches!(&step.action, Action::Send(packet, _)
            if matches!(&packet.body, Body::Icmp(error) if error.mtu.is_some()))
        };
        let is_behind = |line: &String| data_of(line).is_some_and(|range| ahead(range.start, case.heard));
        let is_grown = case.has_repeated
            && case.difference.kernel.is_empty()
            && case.difference.ours.iter().all(is_behind)
            && case.before().iter().any(is_too_big);
        is_apart && is_alike
            || is_one_more
            || is_grown
            || case.has_repeated && (is_fresh || is_full && kernel.is_none())
    }),
    ("part_in_segments", Then::Ends, |case| {
        let Some((fresh, rest)) = case.difference.ours.split_first() else { return false };
        let is_fresh = data_of(fresh).is_some_and(|range| {
            range.start == case.heard && range.end.wrapping_sub(range.start) <= MSS.into()
        });
        // What it would acknowledge with the data the kernel acknowledges alone.
        let is_bare = |line: &String| line.starts_with(". ") && data_of(line).is_none();
        let kernel = match case.difference.kernel.split_first() {
            Some((first, others)) if is_bare(first) => others,
            _ => &case.difference.kernel,
        };
        // The initial window is in flight, or it was lowered.
        (case.has_repeated || case.departures.len() >= 10)
            && case.una() != case.acked
            && case.is_within_a_segment()
            && is_fresh
            && kernel == rest
    }),
    ("fin_beyond_window", Then::Ends, |case| {
        let is_fin = |line: &String| line.starts_with("F. ") && line.contains("(0)");
        // The initial window at least is in flight, in segments.
        let in_flight = case.heard.wrapping_sub(case.una());
        let is_full = case.departures.len() >= 10 || in_flight >= 10 * (u32::from(MSS) - 40);
        let Some((fin, rest)) = case.difference.ours.split_first() else { return false };
        // Or it acknowledges alone what it would have with the FIN.
        let bare = |line: &String| is_fin(fin) && fin.strip_prefix("F") == Some(line);
        let kernel = match case.difference.kernel.split_first() {
            Some((first, others)) if bare(first) => others,
            _ => &case.difference.kernel,
        };
        // The last one may have been sent again after the watch by one of the two.
        let both = rest.len().min(kernel.len());
        let is_again = |line: &String| data_of(line).is_some_and(|range| range.start == case.una());
        (case.has_repeated || is_full)
            && is_fin(fin)
            && rest[..both] == kernel[..both]
            && rest[both..].iter().chain(&kernel[both..]).all(is_again)
    }),
    ("backoff_reverted", Then::Ends, |case| {
        let until = (case.difference.step + 1).min(case.input.steps.len());
        let tells = |step: &Step| {
            let Action::Send(packet, _) = &step.action else { return false };
            let Body::Icmp(error) = &packet.body else { return false };
            let code = error.code.as_deref().unwrap_or_default();
            error.kind == "unreachable" && ["net_unreachable", "host_unreachable", "no_route"].contains(&code)
        };
        let (kernel, _) = case.data();
        let is_again = |range: Range| range.start == case.una() && ahead(case.heard, range.start);
        case.has_repeated
            && case.input.steps[..until].iter().any(tells)
            && case.only_again()
            && (kernel.is_some_and(is_again) || Case::only(&case.difference.kernel, &["after "]))
    }),
    ("partial_ack", Then::GoesOn, |case| {
        let bare = |lines: &[String]| -> Option<String> {
            let [line] = lines else { return None };
            line.strip_prefix("after ")?.split_once(": ").map(|(_, line)| line.to_owned())
        };
        let kernel = bare(&case.difference.kernel);
        case.has_split && kernel.is_some() && kernel == bare(&case.difference.ours)
    }),
    ("partial_ack", Then::Ends, |case| {
        // Or the next step comes before that of the other one.
        let is_one = case.difference.kernel.len() == 1 && case.difference.ours.is_empty();
        case.is_within_a_segment() && is_one && case.is_kernel_timed && case.data().0.is_some()
    }),
    ("probe_timeout", Then::GoesOn, |case| {
        let is_later = |lines: &[String]| lines.len() == 1 && lines[0].starts_with("after ");
        let is_first = case.again[0] == 0 && (case.again[1] > 0 || case.has_probed[0]);
        is_first && is_later(&case.difference.kernel) && is_later(&case.difference.ours)
    }),
    ("probe_timeout", Then::Ends, |case| {
        // Or the next step comes before that of the other one.
        let is_first = case.again[0] == 0 && (case.again[1] > 0 || case.has_probed[0]);
        let is_una = |range: Range| range.start == case.una();
        is_first && case.difference.ours.is_empty() && case.data().0.is_some_and(is_una) && case.only_again()
    }),
    ("round_trip_of_latest", Then::Ends, |case| {
        let (kernel, ours) = case.data();
        let is_una = |range: Range| range.start == case.una();
        let mut soon = case.kernel_within(DELAYED + TOLERANCE).filter(|tcp| tcp.len > 0);
        let is_repair = soon.any(|tcp| tcp.seq.is_some_and(is_una));
        let is_fresh = kernel.is_some_and(|range| range.start == case.heard);
        case.is_report_later && is_repair && is_fresh && ours.is_some_and(is_una)
    }),
    ("round_trip_of_several", Then::Ends, |case| case.is_round_trip_apart && case.only_again()),
    // The first probe, as it was cut or anew.
    ("cut_again", Then::GoesOn, |case| {
        let is_both = !case.difference.kernel.is_empty() && !case.difference.ours.is_empty();
        is_both && case.again == [0, 0] && case.only_again() && case.says_alike()
    }),
    ("cut_again", Then::GoesOn, |case| {
        // Or that of pieces that fit into one segment.
        let (kernel, ours) = case.data();
        let is_last = |range: Range| range.end == case.heard_by_both && ahead(range.start, case.una());
        case.heard_by_both.wrapping_sub(case.una()) <= MSS.into()
            && kernel.is_some_and(is_last)
            && ours.is_some_and(|range| range.start == case.una())
            && case.difference.kernel[1..] == case.difference.ours[1..]
    }),
    ("too_big_unsized", Then::Ends, |case| {
        let step = case.input.steps.get(case.difference.step).map(|step| &step.action);
        let Some(Action::Send(packet, _)) = step else { return false };
        matches!(&packet.body, Body::Icmp(error) if error.mtu == Some(0))
            && !case.difference.kernel.is_empty()
    }),
    ("too_big", Then::Ends, |case| {
        let step = case.input.steps.get(case.difference.step).map(|step| &step.action);
        let is_error = matches!(step, Some(Action::Send(packet, _))
            if matches!(&packet.body, Body::Icmp(error) if error.mtu.is_some()));
        // Where one segment begins it may hold more than was sent before.
        let is_again = |line: &String| data_of(line).is_some_and(|range| ahead(case.heard, range.start));
        is_error
            && !case.difference.ours.is_empty()
            && case.difference.kernel.iter().chain(&case.difference.ours).all(is_again)
    }),
    ("false_echo", Then::Ends, |case| {
        // Or what a timer forces into a small window.
        let (kernel, ours) = case.data();
        let is_edge = |range: Range| [case.allowed, case.told].contains(&range.end);
        let is_forced = |range: Range| range.start == case.heard && is_edge(range);
        // Or new data of a tail loss probe.
        let is_probe_of = |range: Range, lines: &[String]| {
            range.start == case.heard_by_both
                && case.heard_by_both != case.una()
                && range.end.wrapping_sub(range.start) <= MSS.into()
                && lines.len() == 1
        };
        let is_tail_probe = kernel.is_none()
            && ours.is_some_and(|range| is_probe_of(range, &case.difference.ours))
            || ours.is_none() && kernel.is_some_and(|range| is_probe_of(range, &case.difference.kernel));
        let is_shut = case.told == case.una() && case.una() == case.heard;
        let probes = |line: &String| is_shut && case.is_window_probe(line);
        let is_probe = case.difference.kernel.iter().chain(&case.difference.ours).all(probes);
        let is_one = kernel.is_none() && ours.is_some_and(is_forced)
            || ours.is_none() && kernel.is_some_and(is_forced);
        case.has_false_echo && (case.only_again() || is_one || is_probe || is_tail_probe)
    }),
    ("block_with_fin", Then::Ends, |case| {
        // The block takes room of data.
        let (kernel, ours) = case.data();
        let is_cut = kernel.zip(ours).is_some_and(|(kernel, ours)| {
            let pieces = kernel.end.wrapping_sub(kernel.start).div_ceil(u32::from(MSS) - 2 * BLOCKS);
            kernel.start == ours.start && (1..=BLOCKS * pieces).contains(&ours.end.wrapping_sub(kernel.end))
        });
        case.early_fin.is_some() && (case.only_again() || is_cut)
    }),
    ("cut_middle", Then::Ends, |case| {
        // Or the window has no room for the kernel's.
        let (kernel, ours) = case.data();
        let is_again = ours.is_some_and(|range| ahead(case.heard, range.start));
        case.has_split && (case.only_again() || kernel.is_none() && is_again)
    }),
];
