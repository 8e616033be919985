//! The historical embedding cache: rows that other ranks have made of their vertices, by the vertex.
//!
//! Lines are in the order of their age. A row goes into the line of the same vertex, or else into one whose row
//! is too old, or into a new one, or, when all are in use, into the oldest; rows of one step have one age, and
//! the first of them counts as the oldest. A row is too old when more than `life` steps have passed since its
//! own.
//!
//! Where there is a line for every vertex that it may hear of, a vertex keeps its line for good: of rows that never
//! change, [a word](Hec::renew) is then enough when they are old.
//!
//! # Paper
//! DistGNN-MB § 3.2: HECSearch, HECLoad and HECStore; oldest line first. Lookups are not run beside stores: what a step
//! finds would depend on the clock.

use super::lines::Lines;
use super::order::Order;
use crate::feed::RowData;
use kernels::Par;

const NONE: u32 = u32::MAX;

/// How far ahead of its use a line is asked for; a vertex, twice as far.
const AHEAD: usize = 16;

/// Marks the line of a vertex whose row is too old.
const OLD: u32 = 1 << 31;

/// Rows of one layer.
#[derive(Debug)]
pub(super) struct Hec {
    life: u64,
    /// Whether a vertex keeps its line.
    keeps: bool,
    /// By vertex, its line, marked where its row is too old, and the last round of searches that asked for it.
    of_vertex: Vec<[u32; 2]>,
    round: u32,
    order: Order,
    /// Lines that have a row which is not too old.
    count: usize,
    free: Vec<u32>,
    rows: Lines,
}

/// What became of the lines of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// Rows that took the place of an older one of the same vertex.
    pub(super) renewed: u64,
    /// Rows that went into a line that had none.
    pub(super) added: u64,
    /// Rows that took the place of the oldest one.
    pub(super) evicted: u64,
    /// Rows for which there is no line at all.
    pub(super) refused: u64,
}

impl Stored {
    /// Adds those of another store.
    pub(super) fn add(&mut self, more: Stored) {
        self.renewed += more.renewed;
        self.added += more.added;
        self.evicted += more.evicted;
        self.refused += more.refused;
    }
}

/// How much a cache holds, and for how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) lines: usize,
    /// In steps.
    pub(super) life: u64,
    /// Whether that is a line for every vertex that it will hear of, which are fewer than 2³¹.
    pub(super) all: bool,
}

impl Hec {
    /// None of `vertices` vertices, of rows like `like`.
    pub(super) fn new(vertices: usize, like: &RowData, room: Room) -> Hec {
        let lines = room.lines.min(vertices);
        Hec {
            life: room.life,
            keeps: room.all,
            count: 0,
            of_vertex: vec![[NONE, 0]; vertices],
            round: 0,
            order: Order::new(lines),
            free: (0..lines as u32).rev().collect(),
            rows: Lines::new(lines, like),
        }
    }

    /// Bytes that one of dense rows of `width` holds.
    pub(super) fn needs(vertices: usize, width: usize, lines: usize) -> usize {
        let lines = lines.min(vertices);
        8 * vertices + Order::needs(lines) + (4 + 4 * width) * lines
    }

    /// Lines that have a row.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        let (vertices, lines) = (self.of_vertex.len(), self.order.lines());
        8 * vertices + Order::needs(lines) + 4 * lines + self.rows.bytes()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        while self.drop_oldest() {}
        if !self.keeps {
            // As it was made.
            self.free = (0..self.order.lines() as u32).rev().collect();
        }
    }

    /// Forgets what is too old in step `now`; how many that are.
    pub(super) fn purge(&mut self, now: u64) -> u64 {
        let mut count = 0;
        while let Some(line) = self.order.oldest() {
            if now - self.order.step(line) <= self.life {
                break;
            }
            self.drop_oldest();
            count += 1;
        }
        count
    }

    /// Whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(line) = self.order.pop() else {
            return false;
        };
        self.count -= 1;
        let of = &mut self.of_vertex[self.order.vertex(line) as usize];
        if self.keeps {
            of[0] |= OLD;
        } else {
            of[0] = NONE;
            self.free.push(line);
        }
        true
    }

    /// HECSearch: the line of a vertex.
    #[inline]
    pub(super) fn find(&self, vertex: u32) -> Option<u32> {
        let line = self.of_vertex[vertex as usize][0];
        (line & OLD == 0).then_some(line)
    }

    /// A round of searches begins.
    pub(super) fn begin_round(&mut self) {
        if self.round == u32::MAX {
            self.of_vertex.iter_mut().for_each(|of| of[1] = 0);
            self.round = 0;
        }
        self.round += 1;
    }

    /// HECSearch, and whether this round asks for the vertex for the first time.
    #[inline]
    pub(super) fn search(&mut self, vertex: u32) -> (Option<u32>, bool) {
        let of = &mut self.of_vertex[vertex as usize];
        let first = std::mem::replace(&mut of[1], self.round) != self.round;
        ((of[0] & OLD == 0).then_some(of[0]), first)
    }

    /// Brings what a search of a vertex reads from memory.
    #[inline]
    pub(super) fn prefetch(&self, vertex: u32) {
        kernels::prefetch(&self.of_vertex[vertex as usize]);
    }

    /// The step of a line's row.
    pub(super) fn step(&self, line: u32) -> u64 {
        self.order.step(line)
    }

    /// HECLoad: the rows of `lines`, in their order.
    pub(super) fn load(&self, lines: &[u32], par: &Par) -> RowData {
        self.rows.load(lines, par)
    }

    /// HECLoad of dense rows, to `out: [lines, width]`.
    pub(super) fn load_to(&self, lines: &[u32], out: &mut [f32], par: &Par) {
        self.rows.load_to(lines, out, par);
    }

    /// HECStore: rows of step `now`, one a vertex.
    pub(super) fn store(
        &mut self,
        now: u64,
        vertices: &[u32],
        rows: &RowData,
        par: &Par,
    ) -> Stored {
        let mut stored = Stored::default();
        // By line, the row that it gets; the last one, where a later row took it again.
        let mut jobs: Vec<(u32, u32)> = Vec::with_capacity(vertices.len());
        for (k, &vertex) in vertices.iter().enumerate() {
            self.fetch_ahead(&vertices[k..]);
            if let Some(line) = self.line_for(now, vertex, &mut stored) {
                jobs.push((line, k as u32));
            }
        }
        self.rows.store(&jobs, rows, par);
        stored
    }

    /// Brings what storing rows of `vertices` will read, and the vertices of those that may have to go.
    #[inline]
    fn fetch_ahead(&self, vertices: &[u32]) {
        if let Some(&vertex) = vertices.get(2 * AHEAD) {
            self.prefetch(vertex);
        }
        if let Some(&vertex) = vertices.get(AHEAD) {
            self.order
                .prefetch(self.of_vertex[vertex as usize][0] & !OLD);
        }
        if self.free.is_empty() {
            if let Some(line) = self.order.ahead(2 * AHEAD) {
                self.order.prefetch(line);
            }
            if let Some(line) = self.order.ahead(AHEAD) {
                self.prefetch(self.order.vertex(line));
            }
        }
    }

    /// Rows that were stored before, and are those of step `now`, one a vertex that keeps its line.
    ///
    /// # Panics
    /// For a vertex whose row was never stored.
    pub(super) fn renew(&mut self, now: u64, vertices: &[u32]) -> Stored {
        let mut stored = Stored::default();
        for (k, &vertex) in vertices.iter().enumerate() {
            self.fetch_ahead(&vertices[k..]);
            assert!(
                self.keeps && self.of_vertex[vertex as usize][0] != NONE,
                "only a row that is kept is renewed"
            );
            self.line_for(now, vertex, &mut stored);
        }
        stored
    }

    /// Lines that have a row, their vertices and steps, the oldest first.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        let said = |line| (line, self.order.vertex(line), self.order.step(line));
        self.order.iter().map(said)
    }

    /// The line that a row of `vertex` goes into, as the newest.
    fn line_for(&mut self, now: u64, vertex: u32, stored: &mut Stored) -> Option<u32> {
        let line = match self.find(vertex) {
            Some(line) => {
                stored.renewed += 1;
                line
            }
            None => match self.kept(vertex).or_else(|| self.free.pop()) {
                Some(line) => {
                    stored.added += 1;
                    self.count += 1;
                    line
                }
                None => match self.order.pop() {
                    Some(line) => {
                        stored.evicted += 1;
                        self.of_vertex[self.order.vertex(line) as usize][0] = NONE;
                        line
                    }
                    None => {
                        stored.refused += 1;
                        return None;
                    }
                },
            },
        };
        self.of_vertex[vertex as usize][0] = line;
        self.order.take(line, vertex, now);
        Some(line)
    }

    /// The line that a vertex has kept, whose row is too old.
    fn kept(&self, vertex: u32) -> Option<u32> {
        let line = self.of_vertex[vertex as usize][0];
        (line != NONE).then_some(line & !OLD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::Mat;
    use proptest::prelude::*;
    use std::sync::Arc;

    const D: usize = 3;

    fn dense(rows: &[f32]) -> RowData {
        let rows = Mat::from_shape_vec((rows.len() / D, D), rows.to_vec());
        RowData::Dense(Arc::new(rows.expect("whole rows")))
    }

    /// Vertex, step and row of each line, oldest first, as one would write it down.
    #[derive(Default)]
    struct Plain(Vec<(u32, u64, Vec<f32>)>);

    impl Plain {
        fn purge(&mut self, now: u64, life: u64) -> u64 {
            let before = self.0.len();
            self.0.retain(|line| now - line.1 <= life);
            (before - self.0.len()) as u64
        }

        fn store(&mut self, now: u64, lines: usize, vertex: u32, row: &[f32], said: &mut Stored) {
            let known = self.0.iter().position(|line| line.0 == vertex);
            let count = match known {
                Some(k) => {
                    self.0.remove(k);
                    &mut said.renewed
                }
                None if lines == 0 => {
                    said.refused += 1;
                    return;
                }
                None if self.0.len() == lines => {
                    self.0.remove(0);
                    &mut said.evicted
                }
                None => &mut said.added,
            };
            *count += 1;
            self.0.push((vertex, now, row.to_vec()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(120))]

        #[test]
        fn it_is_a_list_in_the_order_of_age(
            few in 0usize..9, life in 0u64..4, threads in 1usize..4, all: bool,
            steps in prop::collection::vec(prop::collection::vec(0u32..12, 0..14), 1..12),
        ) {
            let par = Par::new(threads);
            let lines = if all { 12 } else { few };
            let (mut hec, mut plain) = (Hec::new(12, &dense(&[]), Room { lines, life, all }), Plain::default());
            for (now, vertices) in (0u64..).zip(steps) {
                prop_assert_eq!(hec.purge(now), plain.purge(now, life));
                let row = |k: usize| -> Vec<f32> { (0..D).map(|c| (now * 1000 + k as u64 * 10 + c as u64) as f32).collect() };
                let rows: Vec<f32> = (0..vertices.len()).flat_map(row).collect();
                let stored = hec.store(now, &vertices, &dense(&rows), &par);
                if all {
                    // Once more, without their rows.
                    hec.renew(now, &vertices);
                }
                let mut said = Stored::default();
                for (k, &v) in vertices.iter().enumerate() {
                    plain.store(now, lines, v, &row(k), &mut said);
                }
                for v in vertices.iter().filter(|_| all) {
                    let line = plain.0.iter().position(|line| line.0 == *v).expect("stored");
                    let line = plain.0.remove(line);
                    plain.0.push(line);
                }
                let order: Vec<(u32, u64)> = hec.in_order().map(|(_, v, s)| (v, s)).collect();
                let plainly: Vec<(u32, u64)> = plain.0.iter().map(|line| (line.0, line.1)).collect();
                prop_assert_eq!(order, plainly);
                prop_assert_eq!(stored, said);
                prop_assert_eq!(hec.len(), plain.0.len());
                for v in 0..12 {
                    let expected = plain.0.iter().find(|line| line.0 == v);
                    let got = hec.find(v).map(|line| {
                        let mut row = vec![0.0; D];
                        hec.load_to(&[line], &mut row, &par);
                        (v, hec.step(line), row)
                    });
                    prop_assert_eq!(got.as_ref(), expected);
                }
            }
        }
    }
}
