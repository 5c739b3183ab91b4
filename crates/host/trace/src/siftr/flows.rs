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
mod tests;
