//! Buffers that nobody uses at the moment, and which of them is taken for so many elements.
//!
//! The host's pool keeps real ones; a rehearsal only their sizes, by the same rules.

/// Idle buffers that are kept at most: chunks of many layers have hundreds.
const IDLE: usize = 4096;

/// A buffer may have up to so many times the elements that are asked for, if nobody else wants it.
const LOOSE: usize = 2;

/// How many elements a new buffer for `len` has: a few more, so that matrices of nearly the same size, as
/// parts of a graph have, take each other's place.
fn room_for(len: usize) -> usize {
    match len {
        0..4096 => len,
        _ => len.next_multiple_of(len.next_power_of_two() / 32),
    }
}

/// Something with room for elements.
pub(super) trait Buffer {
    /// How many.
    fn room(&self) -> usize;
}

impl Buffer for Vec<f32> {
    fn room(&self) -> usize {
        self.capacity()
    }
}

impl Buffer for usize {
    fn room(&self) -> usize {
        *self
    }
}

/// Idle buffers, and how many elements those in use have.
#[derive(Debug)]
pub(super) struct Shelf<B> {
    idle: Vec<B>,
    idle_room: usize,
    used: usize,
    most_used: usize,
    /// Elements that all buffers may have, idle or in use.
    limit: Option<usize>,
}

impl<B> Default for Shelf<B> {
    fn default() -> Self {
        Shelf {
            idle: Vec::new(),
            idle_room: 0,
            used: 0,
            most_used: 0,
            limit: None,
        }
    }
}

impl<B: Buffer> Shelf<B> {
    /// Elements of all buffers, idle or in use.
    pub(super) fn room(&self) -> usize {
        self.idle_room + self.used
    }

    /// All buffers have so many elements at most from now on, as long as those in use allow it: idle ones are
    /// let go for new ones, which are no larger than they must be.
    pub(super) fn limit(&mut self, elements: usize) {
        self.limit = Some(elements);
        self.make_room(0);
    }

    /// Elements of a new buffer for `len`; what is idle makes room for it.
    pub(super) fn new_room(&mut self, len: usize) -> usize {
        if self.limit.is_none() {
            return room_for(len);
        }
        self.make_room(len);
        len
    }

    fn make_room(&mut self, len: usize) {
        let limit = self.limit.unwrap_or(usize::MAX);
        while self.room() + len > limit {
            let rooms = self.idle.iter().map(B::room).enumerate();
            match rooms.max_by_key(|&(_, room)| room) {
                Some((k, _)) => drop(self.remove(k)),
                None => return,
            }
        }
    }

    /// The idle buffer that is taken for `len` elements. Where there is none, one that is a little too
    /// small is let go.
    pub(super) fn take(&mut self, len: usize) -> Option<B> {
        let fits = |room: usize| room >= len && room <= len + len / 8;
        let limited = self.limit.is_some();
        let loose = |room: usize| !limited && room >= len && room / LOOSE <= len;
        let rooms = || self.idle.iter().map(B::room).enumerate();
        // The smallest, so that larger ones are there for who needs them; of several the one that was used
        // last, which is the likeliest to be in a cache.
        let smallest = |(k, room): &(usize, usize)| (*room, usize::MAX - k);
        let kept = rooms().filter(|&(_, room)| fits(room)).min_by_key(smallest);
        let kept = kept.or_else(|| {
            rooms()
                .filter(|&(_, room)| loose(room))
                .min_by_key(smallest)
        });
        if let Some((k, _)) = kept {
            return Some(self.remove(k));
        }
        // A batch a little larger than all before it takes the place of one of them: else every record
        // would leave a buffer behind that is too small for the next.
        let short = |b: &B| b.room() < len && b.room() >= len - len / 8;
        if let Some(k) = self.idle.iter().position(short) {
            self.remove(k);
        }
        None
    }

    fn remove(&mut self, k: usize) -> B {
        let buffer = self.idle.swap_remove(k);
        self.idle_room -= buffer.room();
        buffer
    }

    /// A buffer of so many elements is in use from now on.
    pub(super) fn lend(&mut self, room: usize) {
        self.used += room;
        self.most_used = self.most_used.max(self.used);
    }

    /// One in use is gone for good.
    pub(super) fn lose(&mut self, room: usize) {
        self.used = self.used.saturating_sub(room);
    }

    /// One in use is idle from now on. It is kept unless idle ones would have more elements than were
    /// ever in use at once: who gets more messages than it sends would keep them all.
    pub(super) fn put(&mut self, buffer: B) {
        let room = buffer.room();
        // A message's buffer may have been larger than its content.
        self.used = self.used.saturating_sub(room);
        let most = match self.limit {
            Some(limit) => limit.saturating_sub(self.used),
            None => self.most_used,
        };
        if room > 0 && self.idle.len() < IDLE && self.idle_room + room <= most {
            self.idle_room += room;
            self.idle.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(shelf: &mut Shelf<usize>, len: usize) -> usize {
        let room = shelf.take(len).unwrap_or(len);
        shelf.lend(room);
        room
    }

    #[test]
    fn within_a_limit_idle_buffers_go_for_new_ones() {
        let mut shelf: Shelf<usize> = Shelf::default();
        let lend = |shelf: &mut Shelf<usize>, len: usize| {
            let room = shelf.take(len).unwrap_or_else(|| shelf.new_room(len));
            shelf.lend(room);
            room
        };
        shelf.limit(20_000);
        let (a, b) = (lend(&mut shelf, 9000), lend(&mut shelf, 9000));
        assert_eq!((a, b), (9000, 9000));
        shelf.put(a);
        // Not one of twice the size; that one goes.
        assert_eq!(lend(&mut shelf, 5000), 5000);
        assert_eq!(shelf.room(), 14_000);
        shelf.put(b);
        assert_eq!(lend(&mut shelf, 8900), 9000);
        // More than that is in use is not refused here.
        assert_eq!(lend(&mut shelf, 7000), 7000);
        assert_eq!(shelf.room(), 21_000);
        // Nor kept when it is idle.
        shelf.put(7000);
        assert_eq!(shelf.room(), 14_000);
    }

    #[test]
    fn idle_buffers_are_used_again() {
        let mut shelf = Shelf::default();
        let (a, b) = (take(&mut shelf, 100), take(&mut shelf, 50));
        shelf.put(a);
        // Less than twice what is asked for.
        assert_eq!(take(&mut shelf, 60), 100);
        assert_eq!(shelf.room(), 150);
        shelf.put(b);
        // A little too small: let go.
        assert_eq!(take(&mut shelf, 52), 52);
        assert_eq!(shelf.room(), 152);
    }

    /// Parts of a graph differ by some rows: each takes what another left.
    #[test]
    fn buffers_of_nearly_the_same_size_take_each_others_place() {
        let (few, many) = (8100 * 128, 8192 * 128);
        assert_eq!(room_for(few), room_for(many));
        let mut shelf = Shelf::default();
        for buffer in [30, 10, 20, 10].map(|len| take(&mut shelf, len)) {
            shelf.put(buffer);
        }
        // The smallest that fits, though others were put down later.
        assert_eq!(
            [9, 19, 29].map(|len| shelf.take(len)),
            [10, 20, 30].map(Some)
        );
    }

    #[test]
    fn messages_that_come_in_do_not_pile_up() {
        let mut shelf = Shelf::default();
        for _ in 0..100 {
            shelf.lend(10);
            shelf.lend(10);
            shelf.put(10);
            shelf.put(10);
        }
        assert_eq!(shelf.room(), 20);
    }
}
