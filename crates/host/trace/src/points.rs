//! The static tracepoints of [`usdt`], reached with what a core shows those that watch it. A core has this probe only
//! while an observer looks at a point, and then it does something for the points that are looked at.

use base::{Duration, Endpoint, FlowKey, Instant};
use cc::Signal;
use std::collections::HashMap;
use tcp::{Incident, Probe, Seen, State};
use usdt::{
    Accepted, Closed, Congestion, Connected, Failed, Flow, RecoveryEntered, RecoveryLeft, RttMeasured,
    SegmentDropped, SegmentReceived, SegmentSent, StateChanged, Timeout, WindowChanged,
};

/// Connections whose window is remembered at most; changes of others are not told.
const WINDOWS_MAX: usize = 65_536;

/// The probe that reaches them.
#[derive(Default)]
pub struct Points {
    /// The window of each connection when it was last seen, for `window__changed`.
    windows: HashMap<FlowKey, u32>,
}

impl Points {
    /// Nothing was seen yet.
    pub fn new() -> Points {
        Points::default()
    }

    fn compare_window(&mut self, seen: &Seen<'_>) {
        let (key, vitals) = (seen.conn.key(), seen.conn.vitals());
        if !vitals.state.is_synchronized() {
            // Before there is a path there is no window to speak of.
            return;
        }
        let known = self.windows.len();
        let before = match self.windows.get_mut(key) {
            Some(known) => std::mem::replace(known, vitals.cwnd),
            None if known < WINDOWS_MAX => {
                self.windows.insert(*key, vitals.cwnd);
                return;
            }
            None => return,
        };
        if before != vitals.cwnd {
            let flow = flow_of(key);
            let (flow, cwnd, ssthresh) = (flow.place(), vitals.cwnd.into(), vitals.ssthresh.into());
            WindowChanged { flow, cwnd, before: before.into(), ssthresh }.reach();
        }
    }
}

impl Probe for Points {
    fn packet(&mut self, seen: &Seen<'_>) {
        let watched = if seen.outbound { SegmentSent::is_watched() } else { SegmentReceived::is_watched() };
        if watched {
            show_segment(seen);
        }
        if WindowChanged::is_watched() {
            self.compare_window(seen);
        }
    }

    fn state(&mut self, _: Instant, key: &FlowKey, from: State, to: State) {
        let flow = flow_of(key);
        let flow = flow.place();
        if StateChanged::is_watched() {
            StateChanged { flow, from: from.number().into(), to: to.number().into() }.reach();
        }
        match (from, to) {
            (State::SynSent, State::Established) if Connected::is_watched() => Connected { flow }.reach(),
            (State::SynReceived, State::Established) if Accepted::is_watched() => Accepted { flow }.reach(),
            (_, State::Closed) => {
                self.windows.remove(key);
                if Closed::is_watched() {
                    Closed { flow }.reach();
                }
            }
            _ => {}
        }
    }

    fn incident(&mut self, _: Instant, key: &FlowKey, incident: &Incident) {
        let flow = flow_of(key);
        let flow = flow.place();
        match *incident {
            Incident::Timeout { nth } if Timeout::is_watched() => Timeout { flow, nth: nth.into() }.reach(),
            Incident::RecoveryEntered if RecoveryEntered::is_watched() => RecoveryEntered { flow }.reach(),
            Incident::RecoveryLeft { needless } if RecoveryLeft::is_watched() => {
                RecoveryLeft { flow, needless: needless.into() }.reach();
            }
            Incident::Congestion(signal) if Congestion::is_watched() => {
                let signal = match signal {
                    Signal::Loss => 1,
                    Signal::Ecn => 2,
                    Signal::Timeout { .. } => 3,
                };
                Congestion { flow, signal }.reach();
            }
            Incident::Dropped(why) if SegmentDropped::is_watched() => {
                let (why, length) = usdt::text(why.name());
                SegmentDropped { flow, why, length }.reach();
            }
            Incident::Failed(error) if Failed::is_watched() => {
                let why = format!("{error:?}");
                let (why, length) = usdt::text(&why);
                Failed { flow, why, length }.reach();
            }
            _ => {}
        }
    }

    fn round_trip(&mut self, _: Instant, key: &FlowKey, sample: Duration) {
        if RttMeasured::is_watched() {
            let flow = flow_of(key);
            RttMeasured { flow: flow.place(), sample: sample.as_micros() as u64 }.reach();
        }
    }
}

fn show_segment(seen: &Seen<'_>) {
    let (flow, header) = (flow_of(seen.conn.key()), seen.header());
    let flow = flow.place();
    let (seq, ack) = (header.seq.raw().into(), header.ack.raw().into());
    let (flags, window) = (header.flags.0.into(), header.window.into());
    let (bytes, segments) = (seen.payload.len().into(), seen.segments().into());
    if seen.outbound {
        let (in_flight, again) = (seen.conn.vitals().flight.into(), seen.retransmitted().into());
        SegmentSent { flow, seq, ack, flags, window, bytes, segments, in_flight, again }.reach();
    } else {
        SegmentReceived { flow, seq, ack, flags, window, bytes, segments }.reach();
    }
}

fn flow_of(key: &FlowKey) -> Flow {
    let address = |end: Endpoint| end.addr.bytes();
    Flow {
        local: address(key.local()),
        remote: address(key.remote()),
        local_port: key.local().port,
        remote_port: key.remote().port,
    }
}
