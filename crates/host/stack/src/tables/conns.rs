//! The connections of a core, and the lists they stand in.

use ring::Table;
use tcp::{Connection, Events};

/// A connection of this core; valid until its owner closes or aborts it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnId(pub u32);

const PAGE: usize = 64;
pub(crate) const NIL: u32 = u32::MAX;

/// Flags of a connection, beside its TCP state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SlotFlags(u16);

impl SlotFlags {
    /// Its flow table entry leads here.
    pub(crate) const IN_TABLE: SlotFlags = SlotFlags(1);
    /// A socket owns it: it may be over, but stays until its owner lets go.
    pub(crate) const OWNED: SlotFlags = SlotFlags(2);
    /// Stands in a list.
    pub(crate) const LISTED: SlotFlags = SlotFlags(4);
    /// A notice for its owner is due.
    pub(crate) const NOTICED: SlotFlags = SlotFlags(8);
    /// In SYN-RECEIVED, counted by its listener.
    pub(crate) const HALF_OPEN: SlotFlags = SlotFlags(16);
    /// Waits for accept.
    pub(crate) const QUEUED: SlotFlags = SlotFlags(32);
    /// Its local endpoint was reserved for it alone.
    pub(crate) const BOUND: SlotFlags = SlotFlags(64);
    /// Its owner, or its listener's, was told something this turn and may add to what is to be sent.
    pub(crate) const HELD: SlotFlags = SlotFlags(128);
    /// Began with data in the SYN and is counted by its listener until the peer answers the SYN-ACK (RFC 7413).
    pub(crate) const UNPROVEN: SlotFlags = SlotFlags(256);
    /// Its segments are signed.
    pub(crate) const SIGNED: SlotFlags = SlotFlags(512);
    /// Begun from the handshake cache.
    pub(crate) const CACHED: SlotFlags = SlotFlags(1024);
    /// As before, and its first segment has not left: the cached handshake is in `owner` for an accepted
    /// connection, in `listener` for a connecting one.
    pub(crate) const OPENING: SlotFlags = SlotFlags(2048);

    #[inline]
    pub(crate) fn has(self, mark: SlotFlags) -> bool {
        self.0 & mark.0 != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, mark: SlotFlags) {
        self.0 |= mark.0;
    }

    #[inline]
    pub(crate) fn clear(&mut self, mark: SlotFlags) {
        self.0 &= !mark.0;
    }
}

impl std::ops::BitOr for SlotFlags {
    type Output = SlotFlags;
    fn bitor(self, rhs: SlotFlags) -> SlotFlags {
        SlotFlags(self.0 | rhs.0)
    }
}

/// The stack's state of a connection, beside TCP's own.
#[derive(Clone, Copy)]
pub(crate) struct Meta {
    /// Hash of its flow.
    pub(crate) hash: u64,
    /// Index of the neighbour its segments go to, as found under generation `way` of the routes; that is `LOOPED` where
    /// they stay inside the stack.
    pub(crate) hop: u32,
    pub(crate) way: u32,
    /// The owner's handle.
    pub(crate) owner: u32,
    /// The listener it came from, while half-open or unproven.
    pub(crate) listener: u32,
    /// The next in its list, or in the chain of vacant slots.
    next: u32,
    pub(crate) flags: SlotFlags,
    /// Events its owner has not been told.
    pub(crate) events: Events,
}

const _: () = assert!(size_of::<Meta>() <= 32);

impl Meta {
    pub(crate) fn new(hash: u64, hop: u32, way: u32) -> Self {
        let flags = SlotFlags::default();
        Meta { hash, hop, way, owner: 0, listener: NIL, next: NIL, flags, events: Events::default() }
    }
}

/// One place. A connection that ends while it stands in a list leaves its place taken until the list gets
/// there.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) meta: Meta,
    pub(crate) tcp: Option<Connection>,
}

/// Connections by index; they never move.
pub(crate) struct Conns {
    slots: Table<Slot, PAGE>,
    vacant: u32,
    len: u32,
    limit: u32,
}

impl Conns {
    pub(crate) fn new(limit: u32) -> Self {
        Conns { slots: Table::new(), vacant: NIL, len: 0, limit: limit.min(1 << 30) }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.limit
    }

    /// Places for connections, vacant ones too.
    pub(crate) fn places(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Bytes held for connections.
    pub(crate) fn footprint(&self) -> usize {
        self.slots.footprint()
    }

    /// Takes a vacant place, in which the caller begins a connection at once; it has seen that there is room.
    pub(crate) fn claim(&mut self, meta: Meta) -> u32 {
        if self.vacant == NIL {
            self.grow();
        }
        let index = self.vacant;
        let slot = self.slot_mut(index);
        let next = slot.meta.next;
        slot.meta = meta;
        self.vacant = next;
        self.len += 1;
        index
    }

    #[cold]
    fn grow(&mut self) {
        let first = self.slots.len() as u32;
        let last = first + PAGE as u32 - 1;
        let vacant = |i| Slot {
            meta: Meta { next: if i == last { NIL } else { i + 1 }, ..Meta::new(0, 0, 0) },
            tcp: None,
        };
        self.slots.grow(|i| vacant(i as u32));
        self.vacant = first;
    }

    /// Takes a connection out. Its place is free at once, or when the list it stands in gets there.
    pub(crate) fn remove(&mut self, index: u32) {
        let vacant = self.vacant;
        let slot = self.slot_mut(index);
        if slot.tcp.is_none() {
            return;
        }
        slot.tcp = None;
        let listed = slot.meta.flags.has(SlotFlags::LISTED);
        slot.meta.flags = if listed { SlotFlags::LISTED } else { SlotFlags::default() };
        if !listed {
            slot.meta.next = vacant;
            self.vacant = index;
        }
        self.len -= 1;
    }

    /// The place of `index`.
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> &Slot {
        self.slots.get(index as usize)
    }

    /// The place of `index`, to change.
    #[inline]
    pub(crate) fn slot_mut(&mut self, index: u32) -> &mut Slot {
        self.slots.get_mut(index as usize)
    }

    /// The connection at `index`, if one lives there.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<(&Meta, &Connection)> {
        let slot = self.slot(index);
        Some((&slot.meta, slot.tcp.as_ref()?))
    }

    /// The connection at `index`, if one lives there, to change.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<(&mut Meta, &mut Connection)> {
        let slot = self.slot_mut(index);
        Some((&mut slot.meta, slot.tcp.as_mut()?))
    }

    /// Brings a connection into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) {
        ring::prefetch_all(self.slot(index));
    }

    /// Every connection with its index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Meta, &Connection)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((index as u32, &slot.meta, slot.tcp.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.slots.iter_mut().filter_map(|slot| slot.tcp.as_mut())
    }
}

/// A queue of connections, linked through them: no allocation, and each stands in one at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { head: NIL, tail: NIL }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    /// Appends a connection that stands in no list yet; does nothing otherwise.
    #[inline]
    pub(crate) fn push(&mut self, conns: &mut Conns, index: u32) {
        let meta = &mut conns.slot_mut(index).meta;
        if meta.flags.has(SlotFlags::LISTED) {
            return;
        }
        meta.flags.set(SlotFlags::LISTED);
        meta.next = NIL;
        match self.tail {
            NIL => self.head = index,
            tail => conns.slot_mut(tail).meta.next = index,
        }
        self.tail = index;
    }

    /// Takes the first connection out; those that ended meanwhile are passed over and their places freed.
    #[inline]
    pub(crate) fn pop(&mut self, conns: &mut Conns) -> Option<u32> {
        while self.head != NIL {
            let (index, vacant) = (self.head, conns.vacant);
            let slot = conns.slot_mut(index);
            self.head = slot.meta.next;
            if self.head == NIL {
                self.tail = NIL;
            }
            slot.meta.flags.clear(SlotFlags::LISTED);
            if slot.tcp.is_some() {
                if self.head != NIL {
                    conns.prefetch(self.head);
                }
                return Some(index);
            }
            slot.meta.next = vacant;
            conns.vacant = index;
        }
        None
    }

    /// Moves everything from `other` to the end of this.
    pub(crate) fn append(&mut self, conns: &mut Conns, other: &mut List) {
        if other.is_empty() {
            return;
        }
        match self.tail {
            NIL => self.head = other.head,
            tail => conns.slot_mut(tail).meta.next = other.head,
        }
        self.tail = other.tail;
        *other = List::new();
    }
}
