//! Doubly linked lists of slots, kept in arrays.
//!
//! Several [`List`]s may share one [`Links`]. A slot is in at most one of these lists at a time.

/// Stands for "no slot".
pub(super) const NIL: u32 = u32::MAX;

/// The neighbours of all slots.
#[derive(Default)]
pub(super) struct Links {
    /// Per slot: the neighbour towards the head and the neighbour towards the tail.
    around: Vec<(u32, u32)>,
}

impl Links {
    /// Extends the arrays to cover `slot`.
    pub(super) fn reserve(&mut self, slot: u32) {
        if slot as usize >= self.around.len() {
            self.around.resize(slot as usize + 1, (NIL, NIL));
        }
    }

    /// Returns the neighbour towards the head (the newer slot), or [`NIL`].
    pub(super) fn newer(&self, slot: u32) -> u32 {
        self.around[slot as usize].0
    }
}

/// The ends of one list. The head is the newest slot.
#[derive(Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL }
    }
}

impl List {
    /// Returns the newest slot, or [`NIL`].
    #[inline]
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Returns the oldest slot, or [`NIL`].
    #[inline]
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Adds a slot that is in no list at the head.
    #[inline]
    pub(super) fn push(&mut self, links: &mut Links, slot: u32) {
        links.around[slot as usize] = (NIL, self.head);
        match self.head {
            NIL => self.tail = slot,
            head => links.around[head as usize].0 = slot,
        }
        self.head = slot;
    }

    /// Removes a slot that is in this list.
    #[inline]
    pub(super) fn remove(&mut self, links: &mut Links, slot: u32) {
        let (newer, older) = links.around[slot as usize];
        match newer {
            NIL => self.head = older,
            newer => links.around[newer as usize].1 = older,
        }
        match older {
            NIL => self.tail = newer,
            older => links.around[older as usize].0 = newer,
        }
    }
}
