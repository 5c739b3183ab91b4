//! The flows that a log has seen: as many as were asked for, none forgotten, and found without allocating.

use base::{FlowKey, SipKey};

/// State of a flow. Its number is its place in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// The writer knows whose number it is.
    announced: bool,
    /// Packets to pass by before the next that is logged.
    pub(super) pass: u32,
    /// The last sample of its round-trip time, microseconds.
    pub(super) rtt_us: u32,
}

/// Flows by their key. A flow that finds no room is not let in, and its owner counts it.
pub(super) struct Flows {
    /// One more than the place in `list`; 0 is vacant. A power of two, at most half full.
    places: Vec<u32>,
    list: Vec<Flow>,
    most: usize,
    secret: SipKey,
    /// The flow that was found last: mostly the next packet is its.
    last: usize,
    /// Flows that the writer does not know yet.
    unannounced: usize,
}

impl Flows {
    /// Room for `most` flows. `secret` keeps strangers from choosing places.
    pub(super) fn new(most: usize, secret: SipKey) -> Flows {
        let places = (2 * most.max(1)).next_power_of_two();
        Flows {
            places: vec![0; places],
            list: Vec::with_capacity(most),
            most,
            secret,
            last: 0,
            unannounced: 0,
        }
    }

    /// The flow of `key` and its number, begun if it is new; `None` if there is no room for it.
    #[inline(always)]
    pub(super) fn get(&mut self, key: &FlowKey) -> Option<(u32, &mut Flow)> {
        if self.list.get(self.last).is_none_or(|flow| flow.key != *key) {
            self.last = self.find(key)?;
        }
        Some((self.last as u32, self.list.get_mut(self.last)?))
    }

    /// Does the writer know all of them?
    #[inline]
    pub(super) fn all_announced(&self) -> bool {
        self.unannounced == 0
    }

    /// The ends of flow `number`, if the writer is still to learn them.
    pub(super) fn unannounced(&self, number: u32) -> Option<FlowKey> {
        self.list.get(number as usize).filter(|flow| !flow.announced).map(|flow| flow.key)
    }

    /// The writer was told of flow `number`.
    pub(super) fn announce(&mut self, number: u32) {
        if let Some(flow) = self.list.get_mut(number as usize).filter(|flow| !flow.announced) {
            flow.announced = true;
            self.unannounced -= 1;
        }
    }

    /// A flow that is known.
    pub(super) fn known(&mut self, key: &FlowKey) -> Option<&mut Flow> {
        if self.list.get(self.last).is_none_or(|flow| flow.key != *key) {
            let place = self.place(key);
            self.last = (self.places[place] as usize).checked_sub(1)?;
        }
        self.list.get_mut(self.last)
    }

    #[cold]
    fn find(&mut self, key: &FlowKey) -> Option<usize> {
        let place = self.place(key);
        if let Some(known) = (self.places[place] as usize).checked_sub(1) {
            return Some(known);
        }
        if self.list.len() == self.most {
            return None;
        }
        self.list.push(Flow { key: *key, announced: false, pass: 0, rtt_us: 0 });
        self.unannounced += 1;
        self.places[place] = self.list.len() as u32;
        Some(self.list.len() - 1)
    }

    /// Where `key` stands, or would.
    fn place(&self, key: &FlowKey) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.secret.flow(key) as usize & mask;
        // It ends: half of the places are vacant.
        while let Some(known) = (self.places[place] as usize).checked_sub(1) {
            if self.list[known].key == *key {
                break;
            }
            place = (place + 1) & mask;
        }
        place
    }

    /// The keys of all flows, in the order in which they came.
    pub(super) fn keys(&self) -> impl Iterator<Item = FlowKey> {
        self.list.iter().map(|flow| flow.key)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a map with a bound.
    use super::*;
    use base::{Addr, Endpoint, Rng};
    use std::collections::{HashMap, HashSet};

    #[test]
    fn is_a_bounded_map() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let most = rng.below(60) as usize;
            let mut flows = Flows::new(most, SipKey::new(seed, 1));
            let mut oracle: HashMap<u16, u32> = HashMap::new();
            let mut told = HashSet::new();
            for _ in 0..2_000 {
                let port = rng.below(100) as u16;
                let key = FlowKey::new(
                    Endpoint::new(Addr::v4([10, 0, 0, 1]), 80),
                    Endpoint::new(Addr::v4([10, 0, 0, 2]), port),
                );
                let expected = oracle.contains_key(&port);
                assert_eq!(flows.known(&key).is_some(), expected);
                match flows.get(&key) {
                    Some((number, flow)) => {
                        assert_eq!(flow.pass, *oracle.entry(port).or_default());
                        flow.pass += 1;
                        *oracle.get_mut(&port).unwrap() += 1;
                        if rng.below(3) == 0 {
                            flows.announce(number);
                            told.insert(number);
                        }
                        assert_eq!(flows.unannounced(number), (!told.contains(&number)).then_some(key));
                        assert_eq!(flows.all_announced(), told.len() == oracle.len());
                    }
                    None => assert!(!expected && oracle.len() == most),
                }
            }
            let mut keys: Vec<u16> = flows.keys().map(|key| key.remote().port).collect();
            keys.sort_unstable();
            let mut ports: Vec<u16> = oracle.into_keys().collect();
            ports.sort_unstable();
            assert_eq!(keys, ports);
        }
    }
}
