//! Bytes of batches, and of the matrices of a step and of an evaluation, out of expected sizes.
//!
//! A backend on the host keeps buffers that are idle, so what matters is not what exists at once but which
//! buffers were ever made: calls are walked through in their order, and buffers taken as the pool does.

use crate::feed::{Expected, Pieces, Wants};

/// Expected sizes of a batch, with what else its bytes depend on.
pub(in crate::strategy) struct Sizes<'a> {
    pub(in crate::strategy) expected: &'a Expected,
    /// Of the features, of what each layer but the last makes, and of the last one's output.
    pub(in crate::strategy) widths: &'a [usize],
    pub(in crate::strategy) wants: Wants,
    pub(in crate::strategy) fetched: f64,
    /// Where features can lie: here, kept, fetched.
    pub(in crate::strategy) places: usize,
}

impl Sizes<'_> {
    /// Bytes of one batch.
    pub(in crate::strategy) fn batch(&self) -> f64 {
        let Expected {
            rows,
            columns,
            edges,
            ..
        } = self.expected;
        let row = 4.0 * self.widths[0] as f64;
        let layer = |l: usize| {
            let (r, c, m) = (rows[l], columns[l], edges[l]);
            if l > 0 {
                return 8.0 * r + 12.0 * c + 16.0 * m;
            }
            if self.wants.in_place {
                let own = if self.wants.own { row * r } else { 0.0 };
                return 8.0 * (self.places as f64 * r + m) + row * self.fetched + own;
            }
            8.0 * r + 12.0 * c + 16.0 * m + row * c
        };
        let seeds = rows.last().copied().unwrap_or(0.0);
        (0..self.wants.layers).map(layer).sum::<f64>() + 13.0 * seeds
    }

    /// Bytes of all batches that exist at once while one is trained on, and while none is.
    pub(in crate::strategy) fn batches(&self, ahead: usize, workers: usize) -> (usize, usize) {
        let (r, m) = (self.expected.rows[0], self.expected.edges[0]);
        let row = 4.0 * self.widths[0] as f64;
        // The first hop before it is taken apart, and the words in which vertices were numbered.
        let mut making = 8.0 * (r + m) + 4.0 * (r + m);
        if self.places > 1 {
            // What owners drew before it was stitched, and rows on their way from here.
            making += 8.0 * (r + m) + row * self.fetched;
        }
        let making = workers as f64 * making;
        let waiting = match ahead {
            0 => 0.0,
            _ => ahead as f64 * self.batch() + making,
        };
        let trained = (ahead + 1) as f64 * self.batch() + making;
        (trained as usize, waiting as usize)
    }

    fn rows(&self, l: usize) -> usize {
        self.expected.rows[l] as usize
    }

    fn columns(&self, l: usize) -> usize {
        self.expected.columns[l] as usize
    }

    /// The matrices of one step, in the order of its calls.
    pub(in crate::strategy) fn step(&self, pool: &mut IdleBuffers, drops: bool) {
        let (layers, w, reads_own) = (self.wants.layers, self.widths, self.wants.own);
        let mut kept = Vec::with_capacity(layers);
        let mut x = match drops {
            true => pool.fresh(self.columns(0) * w[0]),
            false => 0,
        };
        for l in 0..layers {
            let (r, first_rows) = (self.rows(l), l > 0 || !self.wants.in_place);
            let mean = pool.fresh(r * w[l]);
            let own = if reads_own && first_rows { r * w[l] } else { 0 };
            let own = pool.fresh(own);
            let y = pool.fresh(r * w[l + 1]);
            pool.free(own);
            kept.push((x, mean));
            x = y;
        }
        let mut g = pool.fresh(self.rows(layers - 1) * w[layers]);
        pool.free(x);
        for l in (0..layers).rev() {
            let (x, mean) = kept[l];
            let (r, c) = (self.rows(l), self.columns(l));
            let first_rows = reads_own && (l > 0 || !self.wants.in_place);
            let own = pool.fresh(if first_rows { r * w[l] } else { 0 });
            pool.free(mean);
            if l > 0 {
                let gax = pool.fresh(r * w[l]);
                if !reads_own {
                    pool.free(g);
                }
                let gx = pool.fresh(c * w[l]);
                pool.free(gax);
                if reads_own {
                    let term = pool.fresh(r * w[l]);
                    pool.free(term);
                    pool.free(g);
                }
                g = gx;
            } else {
                pool.free(g);
            }
            pool.free(own);
            pool.free(x);
        }
    }

    /// The matrices of an evaluation of `own` vertices in pieces, and what is fetched for it.
    pub(in crate::strategy) fn evaluation(
        &self,
        pool: &mut IdleBuffers,
        own: usize,
        pieces: &Pieces,
    ) {
        let (w, most) = (self.widths, pieces.most);
        let whole = most.rows == own;
        let mut x = 0;
        for l in 0..self.wants.layers {
            let kept = pool.adopt(pieces.kept.len() * w[l]);
            let out = pool.fresh(if whole { 0 } else { own * w[l + 1] });
            // Edges by where their sources lie and before, rows that were fetched and their messages, and
            // the piece's own.
            let copies = if self.places > 1 { 2 } else { 1 };
            let edges = copies * (most.rows + 2 * most.edges);
            let rows = 2 * most.fetched + if self.wants.own { most.rows } else { 0 };
            let piece = pool.adopt(edges + rows * w[l]);
            let mean = pool.fresh(most.rows * w[l]);
            let y = pool.fresh(most.rows * w[l + 1]);
            pool.free(mean);
            pool.leave(piece);
            pool.leave(kept);
            pool.leave(x);
            x = match whole {
                true => y,
                false => {
                    pool.free(y);
                    out
                }
            };
        }
        pool.leave(x);
    }
}

/// The buffers of a backend on the host, which come back to a pool: only their numbers of elements.
#[derive(Default)]
pub(in crate::strategy) struct IdleBuffers {
    idle: Vec<usize>,
    held: usize,
    pub(in crate::strategy) most: usize,
}

impl IdleBuffers {
    /// The buffer that is taken for so many elements.
    fn fresh(&mut self, len: usize) -> usize {
        let enough = |&(_, &b): &(usize, &usize)| b >= len && b / 2 <= len;
        let kept = self.idle.iter().enumerate().filter(enough);
        let kept = kept.min_by_key(|(_, b)| **b).map(|(k, _)| k);
        match kept {
            Some(k) => self.idle.swap_remove(k),
            None => {
                // One that is a little too small is let go.
                let short = |&b: &usize| b < len && b >= len - len / 8;
                if let Some(k) = self.idle.iter().position(short) {
                    let gone = self.idle.swap_remove(k);
                    self.leave(gone);
                }
                self.adopt(len)
            }
        }
    }

    /// A buffer that comes from elsewhere.
    fn adopt(&mut self, len: usize) -> usize {
        self.held += len;
        self.most = self.most.max(self.held);
        len
    }

    fn free(&mut self, buffer: usize) {
        if buffer > 0 {
            self.idle.push(buffer);
        }
    }

    /// A buffer leaves for good.
    fn leave(&mut self, buffer: usize) {
        self.held -= buffer;
    }
}
