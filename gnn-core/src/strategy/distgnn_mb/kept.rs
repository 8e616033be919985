//! Caches that stay from epoch to epoch, in checkpoints: vertices, steps and rows of all lines, the oldest first.

use super::caches::Caches;
use crate::checkpoint::State;
use crate::error::Result;
use crate::feed::RowData;
use kernels::{Mat, Par};
use std::sync::Arc;

/// Words as a tensor, which has 24 bits a number: halves of 16.
fn put_words(state: &mut State, name: String, words: &[u32]) {
    let half = |(k, h): (usize, usize)| (words[k] >> (16 * h) & 0xffff) as f32;
    state.put_host(name, Mat::from_shape_fn((words.len(), 2), half));
}

fn take_words(state: &mut State, name: &str) -> Result<Vec<u32>> {
    let halves = state.take(name)?;
    let word = |row: ndarray::ArrayView1<'_, f32>| {
        let half = |k: usize| row.get(k).map_or(0, |&x| x as u32);
        half(0) | half(1) << 16
    };
    Ok(halves.rows().into_iter().map(word).collect())
}

impl Caches {
    /// Adds what moves to `state`.
    pub(super) fn save(&self, state: &mut State) {
        let par = Par::new(1);
        for (layer, of) in self.layers.iter().enumerate().filter(|(_, of)| !of.fixed) {
            let (mut lines, mut vertices, mut steps) = (Vec::new(), Vec::new(), Vec::new());
            for (line, vertex, step) in of.hec.in_order() {
                lines.push(line);
                vertices.push(vertex);
                steps.extend([step as u32, (step >> 32) as u32]);
            }
            put_words(state, format!("hec/{layer}/vertices"), &vertices);
            put_words(state, format!("hec/{layer}/steps"), &steps);
            let name = format!("hec/{layer}/rows");
            match of.hec.load(&lines, &par) {
                RowData::Dense(rows) => state.put_host(name, Arc::unwrap_or_clone(rows)),
                rows @ RowData::Sparse(_) => {
                    let all: Vec<u32> = (0..lines.len() as u32).collect();
                    put_words(state, name, &rows.pack(&all));
                }
            }
        }
    }

    /// Takes it back; rows are like `likes`, by layer.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when something is missing, [`crate::Error::Comm`] for rows that cannot be read.
    pub(super) fn restore(
        &mut self,
        state: &mut State,
        likes: &[RowData],
        par: &Par,
    ) -> Result<()> {
        let layers = self.layers.iter_mut().zip(likes).enumerate();
        for (layer, (of, like)) in layers.filter(|(_, (of, _))| !of.fixed) {
            let vertices = take_words(state, &format!("hec/{layer}/vertices"))?;
            let steps = take_words(state, &format!("hec/{layer}/steps"))?;
            let step = |k: usize| u64::from(steps[2 * k]) | u64::from(steps[2 * k + 1]) << 32;
            let (name, n) = (format!("hec/{layer}/rows"), vertices.len());
            let rows = match like {
                RowData::Dense(like) => {
                    RowData::Dense(Arc::new(state.take_like(&name, (n, like.ncols()))?))
                }
                RowData::Sparse(_) => like.unpack(0, n, take_words(state, &name)?)?,
            };
            of.hec.clear();
            // One step's rows after the other's.
            let mut first = 0;
            while first < n {
                let now = step(first);
                let end = (first..n).find(|&k| step(k) != now).unwrap_or(n);
                let places: Vec<(u32, u32)> = (first..end).map(|k| (0, k as u32)).collect();
                let some = rows.pick(&[&rows], &places, par);
                of.hec.store(now, &vertices[first..end], &some, par);
                first = end;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::caches::{LayerCache, Miss};
    use super::super::hec::{Hec, Room};
    use super::*;
    use kernels::CsrBuf;

    /// Dense rows and sparse ones, of steps beyond 32 bits, whose order says who goes first.
    #[test]
    fn what_is_kept_comes_back_in_its_order() {
        let dense = Mat::from_shape_fn((3, 2), |(r, c)| 0.1 + (2 * r + c) as f32);
        let sparse = CsrBuf {
            indptr: vec![0, 2, 2, 3],
            indices: vec![0, 70_000, 5],
            weights: Some(vec![0.1, -2.5e-9, 7.0]),
            n_cols: 80_000,
        };
        let rows = [
            RowData::Sparse(Arc::new(sparse)),
            RowData::Dense(Arc::new(dense)),
        ];
        let likes = rows.clone().map(|rows| rows.none());
        let (par, late) = (Par::new(1), 3 << 33);
        let empty = || {
            let room = Room {
                lines: 8,
                life: 2,
                all: false,
            };
            let layers = likes.iter().map(|like| Hec::new(100_000, like, room));
            let layers = layers.map(|hec| LayerCache::new(hec, false)).collect();
            Caches::new(0..1, Miss::Fetch, layers)
        };
        let (mut before, mut after, mut state) = (empty(), empty(), State::default());
        for (of, rows) in before.layers.iter_mut().zip(&rows) {
            of.hec.store(late, &[90_001, 4, 70_003], rows, &par);
            of.hec
                .store(late + 1, &[4], &rows.pick(&[rows], &[(0, 2)], &par), &par);
        }
        before.save(&mut state);
        after
            .restore(&mut state, &likes, &par)
            .expect("all is there");
        for (a, b) in before.layers.iter().zip(&after.layers) {
            let said = |of: &LayerCache| {
                let lines = of.hec.in_order();
                let (lines, said): (Vec<u32>, Vec<(u32, u64)>) =
                    lines.map(|(line, v, step)| (line, (v, step))).unzip();
                let all: Vec<u32> = (0..lines.len() as u32).collect();
                (said, of.hec.load(&lines, &par).pack(&all))
            };
            assert_eq!(said(a), said(b));
            assert_eq!(said(b).0[2], (4, late + 1));
        }
    }
}
