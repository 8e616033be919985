//! The asynchronous push: letters with rows, and which step reads them.
//!
//! In every step that pushes, a rank sends each peer that reads its vertices one letter a layer, be it empty, and
//! reads those of `delay` steps before: what is applied does not depend on when letters arrive.
//!
//! # Paper
//! DistGNN-MB § 3.2.1, Algorithm 2: AlltoallAsync and comm_wait.

use crate::comm::{Address, Label, Letter, Mailbox, Post, Words, unreadable};
use crate::error::Result;
use crate::feed::RowData;
use crate::record::{Direction, now_ns};
use std::collections::HashMap;

/// A step of a run, and a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) epoch: u64,
    /// Counted over the run.
    pub(super) step: u64,
    pub(super) layer: usize,
}

/// Rows that a peer has pushed, by their place there.
pub(super) struct Pushed {
    /// Those that come.
    pub(super) vertices: Vec<u32>,
    pub(super) rows: RowData,
    /// Those that have come before.
    pub(super) known: Vec<u32>,
}

/// Marks a vertex whose row is in the letter.
const COMES: u32 = 1 << 31;

/// Sends and takes letters of pushed rows.
pub(super) struct Exchange {
    mailbox: Mailbox,
    /// Its number, the same on all ranks.
    number: u32,
    layers: usize,
    /// The ranks that push to this one, and whether each rank is pushed to.
    from: Vec<usize>,
    to: Vec<bool>,
    /// By peer that keeps what features it gets, a bit for each of this rank's vertices: whether it has them.
    has: Vec<Option<Vec<u64>>>,
    /// Time in which it waited for letters.
    waited_ns: u64,
    /// Letters that came before they were asked for, by request and sender.
    early: HashMap<(u32, usize), Words>,
}

/// In the place of a step and layer: what ranks tell each other before the first.
const BEFORE: u32 = u32::MAX;

impl Exchange {
    /// By `mailbox`, whose number is `number` on every rank, for a model of so many layers, with which this
    /// rank reads the rows `halo` of each other one, by their place there; and which of its own each of
    /// those reads; it `keeps` features or not. Collective.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when a peer is gone.
    pub(super) fn new(
        mailbox: Mailbox,
        (number, layers): (u32, usize),
        halo: Vec<Vec<u32>>,
        keeps: bool,
    ) -> Result<(Exchange, Vec<Vec<u32>>)> {
        let (me, ranks) = (mailbox.rank(), mailbox.size());
        let from = (0..ranks).filter(|&r| r != me && !halo[r].is_empty());
        let mut exchange = Exchange {
            from: from.collect(),
            mailbox,
            number,
            layers,
            to: vec![false; ranks],
            has: vec![None; ranks],
            waited_ns: 0,
            early: HashMap::new(),
        };
        let mut wanted = vec![Vec::new(); ranks];
        let others = || (0..ranks).filter(|&r| r != me);
        for (peer, mut rows) in halo.into_iter().enumerate().filter(|(r, _)| *r != me) {
            rows.push(u32::from(keeps));
            exchange.send(peer, (BEFORE, 0), Post::SETUP, rows)?;
        }
        for peer in others() {
            let mut rows = exchange.letter(BEFORE, peer)?;
            let keeps = rows
                .pop()
                .ok_or_else(|| unreadable(peer, "what it reads"))?
                == 1;
            let most = rows.iter().max().map_or(0, |&row| row as usize + 1);
            exchange.has[peer] = keeps.then(|| vec![0; most.div_ceil(64)]);
            wanted[peer] = rows;
            exchange.to[peer] = !wanted[peer].is_empty();
        }
        exchange.waited_ns = 0;
        Ok((exchange, wanted))
    }

    fn request(&self, at: At) -> u32 {
        // Letters are few steps apart, so that numbers may come round.
        ((at.step * self.layers as u64 + at.layer as u64) % u64::from(BEFORE)) as u32
    }

    fn send(
        &self,
        peer: usize,
        (request, layer): (u32, u16),
        epoch: u64,
        words: Words,
    ) -> Result<()> {
        let label = Label {
            layer,
            direction: Direction::Push,
        };
        let to = Address {
            rank: peer,
            mailbox: self.number,
            request,
        };
        self.mailbox.send((label, epoch), to, words)
    }

    /// Whether `peer` reads any of this rank's vertices.
    pub(super) fn is_read_by(&self, peer: usize) -> bool {
        self.to[peer]
    }

    /// Time in which it waited for letters since the last call.
    pub(super) fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited_ns)
    }

    /// Those of `vertices`, this rank's by their place, whose features `peer` has not; it will have them.
    pub(super) fn new_features(&mut self, peer: usize, vertices: &[u32]) -> Vec<u32> {
        let Some(has) = &mut self.has[peer] else {
            return vertices.to_vec();
        };
        let mut new = |v: &u32| {
            let (word, bit) = (&mut has[*v as usize / 64], 1 << (v % 64));
            let new = *word & bit == 0;
            *word |= bit;
            new
        };
        vertices.iter().copied().filter(|v| new(v)).collect()
    }

    /// Sends `peer` the rows of `vertices`, this rank's by their place: `rows`, as [`RowData::pack`] writes them, has
    /// those of `new` ones, which are some of them in their order.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the rank is ending.
    pub(super) fn push(
        &self,
        (peer, at): (usize, At),
        vertices: &[u32],
        new: &[u32],
        mut rows: Words,
    ) -> Result<()> {
        // Rows come first, so that they are read where they are.
        let mut new = new.iter().peekable();
        rows.extend(vertices.iter().map(|v| match new.next_if_eq(&v) {
            Some(v) => v | COMES,
            None => *v,
        }));
        rows.push(vertices.len() as u32);
        self.send(peer, (self.request(at), at.layer as u16), at.epoch, rows)
    }

    /// The letter of `peer` for `request`: waits for it.
    fn letter(&mut self, request: u32, peer: usize) -> Result<Words> {
        loop {
            if let Some(words) = self.early.remove(&(request, peer)) {
                return Ok(words);
            }
            let Letter {
                from,
                request,
                words,
                ..
            } = self.mailbox.try_recv().map_or_else(
                || {
                    let start = now_ns();
                    let letter = self.mailbox.recv();
                    self.waited_ns += now_ns() - start;
                    letter
                },
                Ok,
            )?;
            self.early.insert((request, from), words);
        }
    }

    /// What every peer pushed at `at`, in the order of the ranks, rows like `like`: waits for what is on its way.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when a peer is gone, or a letter cannot be read.
    pub(super) fn take(&mut self, at: At, like: &RowData) -> Result<Vec<(usize, Pushed)>> {
        let request = self.request(at);
        let mut all = Vec::with_capacity(self.from.len());
        for k in 0..self.from.len() {
            let peer = self.from[k];
            let words = self.letter(request, peer)?;
            all.push((peer, read(peer, words, like)?));
        }
        Ok(all)
    }
}

/// The rows in a letter from `from`.
fn read(from: usize, mut words: Words, like: &RowData) -> Result<Pushed> {
    let bad = || unreadable(from, "pushed rows");
    let count = words.pop().ok_or_else(bad)? as usize;
    let rows = words.len().checked_sub(count).ok_or_else(bad)?;
    let all = words.split_off(rows);
    let (mut vertices, known): (Vec<u32>, Vec<u32>) = all.iter().partition(|v| **v & COMES != 0);
    vertices.iter_mut().for_each(|v| *v &= !COMES);
    Ok(Pushed {
        rows: like.unpack(from, vertices.len(), words)?,
        vertices,
        known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{RunSpec, Value};
    use crate::testing::world;
    use kernels::Mat;
    use std::sync::Arc;

    fn at(step: u64, layer: usize) -> At {
        let epoch = 1;
        At { epoch, step, layer }
    }

    /// Whoever is ahead, each step reads what peers sent for it, from those whose rows it reads.
    #[test]
    fn letters_are_read_in_the_step_they_are_for() {
        let pairs = [("strategy", Value::Str("distdgl".into()))];
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let like = RowData::Dense(Arc::new(Mat::zeros((0, 4))));
        let all = world(&spec, 3, |cx, _| {
            let (me, number) = (cx.rank(), 9);
            let post = cx
                .post
                .take()
                .expect("its strategy works in the background");
            // Rank 0 reads nothing of rank 2.
            let reads = |a: usize, b: usize| a != b && (a, b) != (0, 2);
            let halo = |a: usize, b: usize| match reads(a, b) {
                true => vec![a as u32, 7 + b as u32],
                false => Vec::new(),
            };
            let mailbox = post.open(number).expect("opens");
            let mine = (0..3).map(|r| halo(me, r)).collect();
            let (mut exchange, wanted) =
                Exchange::new(mailbox, (number, 2), mine, true).expect("all are there");
            assert_eq!(wanted, (0..3).map(|r| halo(r, me)).collect::<Vec<_>>());
            let of = |from: usize, step: u64, layer: usize| {
                let count = (from as u64 + step) as usize % 3;
                let rows = vec![(100 * from + 10 * step as usize + layer) as f32; 4 * count];
                ((0..count as u32).collect::<Vec<u32>>(), rows)
            };
            for step in 0..4 {
                for layer in 0..2 {
                    for peer in (0..3).filter(|&p| reads(p, me)) {
                        let (vertices, rows) = of(me, step, layer);
                        let rows = bytemuck::cast_slice(&rows).to_vec();
                        let to = (peer, at(step, layer));
                        let pushed = exchange.push(to, &vertices, &vertices, rows);
                        pushed.expect("sends");
                    }
                }
            }
            (0..4).all(|step| {
                (0..2).all(|layer| {
                    let got = exchange.take(at(step, layer), &like).expect("arrives");
                    let got = got.into_iter().map(|(peer, pushed)| match pushed.rows {
                        RowData::Dense(x) => {
                            let rows = x.iter().copied().collect::<Vec<f32>>();
                            (peer, (pushed.vertices, rows))
                        }
                        RowData::Sparse(_) => unreachable!("dense rows were sent"),
                    });
                    let peers = (0..3).filter(|&p| reads(me, p));
                    let expected = peers.map(|p| (p, of(p, step, layer)));
                    got.collect::<Vec<_>>() == expected.collect::<Vec<_>>()
                })
            })
        });
        assert_eq!(all, [true; 3]);
    }

    /// Of two vertices, one of which has come before, a row comes and a word.
    #[test]
    fn what_has_come_before_does_not_come_again() {
        let pairs = [("strategy", Value::Str("distdgl".into()))];
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let like = RowData::Dense(Arc::new(Mat::zeros((0, 2))));
        for keeps in [true, false] {
            let all = world(&spec, 2, |cx, _| {
                let post = cx
                    .post
                    .take()
                    .expect("its strategy works in the background");
                let (me, mailbox) = (cx.rank(), post.open(9).expect("opens"));
                let mut halo = vec![vec![3, 70]; 2];
                halo[me].clear();
                let made = Exchange::new(mailbox, (9, 1), halo, keeps);
                let (mut exchange, _) = made.expect("both are there");
                let mut came = Vec::new();
                for (step, vertices) in (0..).zip([[70].as_slice(), &[3, 70]]) {
                    let new = exchange.new_features(1 - me, vertices);
                    let rows = vec![0; 2 * new.len()];
                    let pushed = exchange.push((1 - me, at(step, 0)), vertices, &new, rows);
                    pushed.expect("sends");
                    let taken = exchange.take(at(step, 0), &like).expect("arrives");
                    came.extend(taken.into_iter().map(|(_, of)| (of.vertices, of.known)));
                }
                came
            });
            let expected = match keeps {
                true => [(vec![70], vec![]), (vec![3], vec![70])],
                false => [(vec![70], vec![]), (vec![3, 70], vec![])],
            };
            assert_eq!(all, [expected.to_vec(), expected.to_vec()]);
        }
    }
}
