//! Doubly linked lists of slots, kept in arrays.
//!
//! Several [`List`]s may share one [`Links`]: a slot is in at most one list at a time.

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// The neighbours of every slot.
#[derive(Default)]
pub(super) struct Links {
    /// `(towards the head, towards the tail)`.
    around: Vec<(u32, u32)>,
}

impl Links {
    /// Makes room for `slot`.
    pub(super) fn reserve(&mut self, slot: u32) {
        if slot as usize >= self.around.len() {
            self.around.resize(slot as usize + 1, (NIL, NIL));
        }
    }

    /// The neighbour towards the head (the newer one), or [`NIL`].
    pub(super) fn newer(&self, slot: u32) -> u32 {
        self.around[slot as usize].0
    }
}

/// The ends of one list; the head is the newest.
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
    /// The newest slot, or [`NIL`].
    #[inline]
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// The oldest slot, or [`NIL`].
    #[inline]
    pub(super) fn tail(&self) -> u32 {
        self.tail
    }

    /// Puts a slot, which is in no list, at the head.
    #[inline]
    pub(super) fn push(&mut self, links: &mut Links, slot: u32) {
        links.around[slot as usize] = (NIL, self.head);
        match self.head {
            NIL => self.tail = slot,
            head => links.around[head as usize].0 = slot,
        }
        self.head = slot;
    }

    /// Takes a slot of this list out of it.
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
