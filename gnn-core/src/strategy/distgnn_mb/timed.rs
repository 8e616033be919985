//! How fast a historical cache finds and moves rows, for benchmarks.

use super::hec::{Hec, Room};
use crate::feed::RowData;
use crate::rng::{self, Purpose};
use kernels::bench::{Clock, Spread};
use kernels::{Mat, Par};
use std::sync::Arc;

/// What is timed.
#[derive(Debug, Clone, Copy)]
pub struct CacheCase {
    /// Lines, all of which have a row, of a vertex each; there are twice as many vertices.
    pub lines: usize,
    /// Floats of a row.
    pub width: usize,
    /// Rows that are stored, and searched and read, in one step.
    pub rows: usize,
}

/// Milliseconds of a step.
#[derive(Debug, Clone, Copy)]
pub struct CacheTimes {
    /// HECStore, of eight steps' vertices in turn: half of a step's take the places of the oldest rows at
    /// first; when a step comes again, those that are still there are renewed.
    pub store: Spread,
    /// HECSearch and HECLoad, of vertices that are there, into a matrix.
    pub load: Spread,
}

impl CacheCase {
    /// Bytes that a step reads and writes, rows once each way.
    pub fn bytes(&self) -> usize {
        2 * 4 * self.rows * self.width
    }

    /// Bytes of the rows of all lines, and of a step.
    pub fn working_set(&self) -> usize {
        4 * (self.lines + self.rows) * self.width
    }

    /// Times both.
    ///
    /// # Panics
    /// When what is read is not what was stored, or a step has more rows than there are lines.
    pub fn time(&self, par: &Par, clock: Clock) -> CacheTimes {
        let CacheCase { lines, width, rows } = *self;
        assert!(rows <= lines, "cache: {rows} rows a step, {lines} lines");
        let drawn = |turn: u64, of: usize| -> Vec<u32> {
            // Every vertex once at most, in an order of its own each turn.
            let mut all: Vec<u32> = (0..of as u32).collect();
            rng::shuffle(rng::key(0, turn, Purpose::Shuffle, 0), &mut all);
            all
        };
        let of_vertex = |v: u32| v as f32;
        let matrix = |vertices: &[u32]| {
            let value = |(row, _): (usize, usize)| of_vertex(vertices[row]);
            RowData::Dense(Arc::new(Mat::from_shape_fn((vertices.len(), width), value)))
        };
        let room = Room {
            lines,
            life: u64::MAX,
            all: false,
        };
        let first: Vec<u32> = (0..lines as u32).collect();
        let filled = matrix(&first);
        let mut hec = Hec::new(2 * lines, &filled, room);
        hec.store(0, &first, &filled, par);
        drop(filled);

        let found: Vec<Vec<u32>> = (0..8).map(|turn| drawn(turn, lines)).collect();
        let mut out = vec![0f32; rows * width];
        let mut turn = 0;
        let mut asked: &[u32] = &[];
        let load = clock.time(|| {
            asked = &found[turn % found.len()][..rows];
            turn += 1;
            hec.begin_round();
            let lines: Vec<u32> = asked
                .iter()
                .enumerate()
                .map(|(k, &v)| {
                    if let Some(&next) = asked.get(k + 16) {
                        hec.prefetch(next);
                    }
                    hec.search(v).0.expect("every vertex has a line")
                })
                .collect();
            hec.load_to(&lines, &mut out, par);
        });
        let right = |(row, &v): (&[f32], &u32)| row.iter().all(|&x| x == of_vertex(v));
        assert!(
            out.chunks(width.max(1)).zip(asked).all(right),
            "cache: a row that was read is not the one that was stored"
        );

        let pushed: Vec<(Vec<u32>, RowData)> = (0..8u64)
            .map(|turn| {
                let mut vertices = drawn(100 + turn, 2 * lines);
                vertices.truncate(rows);
                let rows = matrix(&vertices);
                (vertices, rows)
            })
            .collect();
        let mut now = 0;
        let store = clock.time(|| {
            now += 1;
            let (vertices, rows) = &pushed[now as usize % pushed.len()];
            hec.store(now, vertices, rows, par);
        });
        let (vertices, _) = &pushed[now as usize % pushed.len()];
        let line = hec.find(vertices[rows - 1]).expect("stored last");
        assert_eq!(hec.step(line), now, "cache: the newest row is not the last");
        CacheTimes { store, load }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_cache_is_timed_and_right() {
        let case = CacheCase {
            lines: 50,
            width: 3,
            rows: 20,
        };
        let clock = Clock {
            warmup: 0,
            samples: 3,
            seconds: 0.0,
        };
        for threads in [1, 2] {
            let times = case.time(&Par::new(threads), clock);
            assert!(times.store.best > 0.0 && times.load.best > 0.0);
        }
        assert_eq!((case.bytes(), case.working_set()), (480, 840));
    }
}
