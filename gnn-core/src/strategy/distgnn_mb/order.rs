//! Lines of a cache in the order of their age.
//!
//! Each time that a line is taken it is noted at the end of a ring. Where it stood before, it is passed over when
//! the oldest is asked for: a line that moves touches its own place and the end of the ring, which are known
//! ahead, and no neighbours, as those of a list would be.

const NONE: u32 = u32::MAX;

/// The order.
#[derive(Debug)]
pub(super) struct Order {
    lines: Vec<Line>,
    /// Lines as they were taken, of which those that `lines` does not know at that place are passed over; twice
    /// as many places as lines.
    ring: Vec<u32>,
    first: usize,
    count: usize,
}

/// Whose row a line has, of which step, and its place in the ring.
#[derive(Debug, Clone, Copy)]
struct Line {
    vertex: u32,
    place: u32,
    step: u64,
}

impl Order {
    /// Of so many lines, fewer than 2³¹, none of which is in it.
    pub(super) fn new(lines: usize) -> Order {
        let line = Line {
            vertex: NONE,
            place: NONE,
            step: 0,
        };
        Order {
            lines: vec![line; lines],
            ring: vec![NONE; 2 * lines],
            first: 0,
            count: 0,
        }
    }

    /// Bytes of so many lines.
    pub(super) fn needs(lines: usize) -> usize {
        (size_of::<Line>() + 2 * size_of::<u32>()) * lines
    }

    /// Lines in it and out of it.
    pub(super) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Whose row a line has.
    pub(super) fn vertex(&self, line: u32) -> u32 {
        self.lines[line as usize].vertex
    }

    /// The step of a line's row.
    pub(super) fn step(&self, line: u32) -> u64 {
        self.lines[line as usize].step
    }

    /// Gives `line` to `vertex` in step `now`: it is the newest.
    #[inline]
    pub(super) fn take(&mut self, line: u32, vertex: u32, now: u64) {
        if self.count == self.ring.len() {
            self.close_ranks();
        }
        let place = self.place(self.count);
        self.ring[place] = line;
        self.count += 1;
        self.lines[line as usize] = Line {
            vertex,
            place: place as u32,
            step: now,
        };
    }

    /// The oldest line.
    #[inline]
    pub(super) fn oldest(&mut self) -> Option<u32> {
        while self.count > 0 {
            let line = self.ring[self.first];
            if self.lines[line as usize].place as usize == self.first {
                return Some(line);
            }
            self.pass();
        }
        None
    }

    /// Takes the oldest line out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let line = self.oldest()?;
        self.lines[line as usize].place = NONE;
        self.pass();
        Some(line)
    }

    /// All lines that are in it, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.count).filter_map(|k| {
            let (place, line) = (self.place(k), self.ring[self.place(k)]);
            (self.lines[line as usize].place as usize == place).then_some(line)
        })
    }

    /// Brings what taking `line` reads from memory.
    #[inline]
    pub(super) fn prefetch(&self, line: u32) {
        if let Some(line) = self.lines.get(line as usize) {
            kernels::prefetch(line);
        }
    }

    /// The line of the ring's place `k` from its end, if it has as many.
    #[inline]
    pub(super) fn ahead(&self, k: usize) -> Option<u32> {
        (k < self.count).then(|| self.ring[self.place(k)])
    }

    /// The `k`-th place in use.
    #[inline]
    fn place(&self, k: usize) -> usize {
        let place = self.first + k;
        match place < self.ring.len() {
            true => place,
            false => place - self.ring.len(),
        }
    }

    fn pass(&mut self) {
        self.first = self.place(1);
        self.count -= 1;
    }

    /// Takes those that are passed over out of the ring.
    fn close_ranks(&mut self) {
        let mut kept = 0;
        for k in 0..self.count {
            if let Some(next) = self.ahead(k + 16) {
                self.prefetch(next);
            }
            let (from, to) = (self.place(k), self.place(kept));
            let line = self.ring[from];
            let place = &mut self.lines[line as usize].place;
            if *place as usize == from {
                *place = to as u32;
                self.ring[to] = line;
                kept += 1;
            }
        }
        self.count = kept;
    }
}
