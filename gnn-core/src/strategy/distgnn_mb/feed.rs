//! Batches of a rank's own vertices, with what peers have pushed of theirs: Algorithm 2, step by step.
//!
//! ```text
//! begin_step k   k ≥ d: letters of step k − d are waited for; what is too old goes, what came is stored
//! next           neighbours are drawn here; edges to vertices of others that no cache has are dropped
//!                k < M − d: features that peers read leave
//! patch l        k < M − d: the rows that layer l reads, and peers do, leave; rows of the cache follow those below
//! unpatch l      the gradient of rows of the cache goes nowhere
//! ```

use super::caches::Caches;
use super::exchange::{At, Exchange};
use super::frames;
use super::readers::Readers;
use crate::backend::{Corner, Kept, Mat};
use crate::checkpoint::State;
use crate::comm::{Label, Words};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{Batch, ExactRows, Feed, Hops, Numbers, Patch, Prefetched, RowData};
use crate::model::Input;
use crate::record::{Direction, now_ns};
use kernels::Par;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the knobs say of pushes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pushes {
    /// Steps until a row is read.
    pub(super) delay: u64,
    /// Rows of a layer for one peer in one step, at most.
    pub(super) most: usize,
    /// Whether rows stay from epoch to epoch.
    pub(super) persistent: bool,
    /// Whether any leave at all.
    pub(super) any: bool,
}

/// The feed of a rank among others.
pub(super) struct Pushing {
    pub(super) batches: Prefetched,
    pub(super) caches: Arc<Mutex<Caches>>,
    pub(super) exchange: Exchange,
    pub(super) readers: Readers,
    /// Feature rows of this rank's vertices.
    pub(super) features: RowData,
    /// By layer, rows like those that it reads.
    pub(super) likes: Vec<RowData>,
    pub(super) numbers: Arc<Numbers>,
    pub(super) pushes: Pushes,
    pub(super) par: Par,
    /// The step at hand, of the epoch.
    pub(super) step: u64,
    /// Whether rows of the cache are compared with exact ones.
    pub(super) drift: bool,
    /// By layer, how far rows of the cache are from exact ones, where it was measured.
    pub(super) errors: Vec<Option<f64>>,
}

fn lock(caches: &Mutex<Caches>) -> MutexGuard<'_, Caches> {
    caches.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pushing {
    fn at(&self, cx: &Ctx, step: u64, layer: usize) -> At {
        At {
            epoch: cx.epoch,
            step: cx.epoch * self.batches.batches() + step,
            layer,
        }
    }

    /// What peers pushed at `at` is stored, as of now.
    fn store(&mut self, cx: &Ctx, at: At) -> Result<()> {
        let start = now_ns();
        let came = self.exchange.take(at, &self.likes[at.layer])?;
        let waited = self.exchange.take_waited();
        let label = Label {
            layer: at.layer as u16,
            direction: Direction::Push,
        };
        cx.waited(label, waited);
        let now = at.step + self.pushes.delay;
        let Pushing {
            caches,
            numbers,
            par,
            ..
        } = self;
        let mut caches = lock(caches);
        let of = &mut caches.layers[at.layer];
        cx.copies(|| {
            for (peer, mut pushed) in came {
                let first = numbers.first[peer];
                let vertices = pushed.vertices.iter_mut().chain(&mut pushed.known);
                vertices.for_each(|v| *v += first);
                let stored = of.hec.store(now, &pushed.vertices, &pushed.rows, par);
                of.counts.stored.add(stored);
                of.counts.stored.add(of.hec.renew(now, &pushed.known));
            }
        });
        of.counts.comm_ns += waited;
        of.counts.post_ns += (now_ns() - start).saturating_sub(waited);
        Ok(())
    }

    /// Sends peers what they read of what layer `layer` reads, `x` where those are no features.
    fn push(&mut self, cx: &Ctx, layer: usize, x: Option<&Mat>) -> Result<()> {
        if !self.pushes.any || self.step + self.pushes.delay >= self.batches.batches() {
            return Ok(());
        }
        let mut caches = lock(&self.caches);
        let of = &mut caches.layers[layer];
        if of.fixed {
            return Ok(());
        }
        let (start, at) = (now_ns(), self.at(cx, self.step, layer));
        let mut chosen = self.readers.map(&of.own);
        for (peer, places) in chosen.iter_mut().enumerate() {
            let all = places.len();
            let most = self.pushes.most;
            self.readers.sample((peer, at), &of.own, most, places);
            of.counts.pushed += places.len() as u64;
            of.counts.left_out += (all - places.len()) as u64;
        }
        for (peer, places) in chosen.into_iter().enumerate() {
            if !self.exchange.is_read_by(peer) {
                continue;
            }
            let vertices: Vec<u32> = places.iter().map(|&k| of.own[k as usize]).collect();
            let new = match x {
                None => self.exchange.new_features(peer, &vertices),
                Some(_) => vertices.clone(),
            };
            let words = match x {
                None => cx.copies(|| self.features.pack(&new)),
                Some(x) => {
                    let places = places.iter().map(|&k| of.places[k as usize]);
                    packed(cx, x, places.collect::<Vec<_>>().into())
                }
            };
            of.counts.letters += 1;
            of.counts.words += (words.len() + vertices.len() + 1) as u64;
            self.exchange.push((peer, at), &vertices, &new, words)?;
        }
        of.counts.pre_ns += now_ns() - start;
        Ok(())
    }
}

/// Some rows of `x` as a letter begins, with room for a word a row behind them and one more.
fn packed(cx: &Ctx, x: &Mat, places: Kept<u32>) -> Words {
    let (n, d, b) = (places.len(), x.ncols(), cx.backend.as_ref());
    let mut rows = b.fresh(n + (n + 1).div_ceil(d.max(1)), d);
    b.copy_block(x, Corner::of(&places, 0), (n, d), &mut rows, Corner::at(0));
    let mut words: Words = bytemuck::cast_vec(cx.message(rows).floats());
    words.truncate(n * d);
    words
}

impl Feed for Pushing {
    fn batches(&self) -> u64 {
        self.batches.batches()
    }

    fn begin_step(&mut self, cx: &mut Ctx, step: u64) -> Result<()> {
        self.step = step;
        let (delay, now) = (self.pushes.delay, self.at(cx, step, 0).step);
        let open = step >= delay;
        let layers = {
            let mut caches = lock(&self.caches);
            caches.begin(now, open);
            for of in caches.layers.iter_mut().filter(|of| !of.fixed) {
                if step == 0 && !self.pushes.persistent {
                    of.hec.clear();
                }
                if open {
                    of.counts.expired += of.hec.purge(now);
                }
            }
            let moving = caches.layers.iter().map(|of| !of.fixed);
            moving.collect::<Vec<_>>()
        };
        if open && self.pushes.any {
            for layer in (0..layers.len()).filter(|&l| layers[l]) {
                let at = self.at(cx, step - delay, layer);
                self.store(cx, at)?;
            }
        }
        Ok(())
    }

    fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch> {
        let batch = self.batches.next(cx, step)?;
        self.push(cx, 0, None)?;
        Ok(batch)
    }

    fn patcher(&mut self) -> Option<&mut dyn Patch> {
        Some(self)
    }

    fn compares(&self) -> bool {
        self.drift
    }

    fn compare(&mut self, layer: usize, exact: &mut ExactRows<'_>) -> Result<()> {
        let caches = lock(&self.caches);
        let hec = &caches.layers[layer].hec;
        let (lines, numbers): (Vec<u32>, Vec<u32>) =
            hec.in_order().map(|(line, v, _)| (line, v)).unzip();
        let exact = exact(&numbers)?;
        let mut kept = kernels::Mat::zeros(exact.dim());
        let to = kept.as_slice_mut().expect("rows are side by side");
        hec.load_to(&lines, to, &self.par);
        let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
        let each = kept.iter().zip(exact.iter());
        let mut off = each.map(|(a, b)| f64::from(a - b));
        let (off, all) = (
            norm(&mut off),
            norm(&mut exact.iter().map(|&x| f64::from(x))),
        );
        self.errors.resize(caches.layers.len(), None);
        self.errors[layer] = (all > 0.0).then(|| off / all);
        Ok(())
    }

    fn save(&mut self, _cx: &mut Ctx, state: &mut State) -> Result<()> {
        if self.pushes.persistent {
            lock(&self.caches).save(state);
        }
        Ok(())
    }

    fn restore(&mut self, state: &mut State) -> Result<()> {
        if self.pushes.persistent {
            let likes = &self.likes;
            lock(&self.caches).restore(state, likes, &self.par)?;
        }
        Ok(())
    }

    fn close(&mut self, cx: &mut Ctx) {
        {
            let mut caches = lock(&self.caches);
            cx.caches(caches.bytes() as u64);
            frames::write(cx, &mut caches, &mut self.errors);
        }
        self.batches.close(cx);
    }
}

impl Patch for Pushing {
    fn patch(&mut self, cx: &mut Ctx, hops: &mut Hops, layer: usize, h: Input) -> Result<Input> {
        if layer == 0 {
            // Batches are made with the features that are there.
            return Ok(h);
        }
        let x = Rc::clone(h.dense().expect("layers make dense rows"));
        self.push(cx, layer, Some(&x))?;
        let mut caches = lock(&self.caches);
        let of = &mut caches.layers[layer];
        if of.lines.is_empty() {
            return Ok(h);
        }
        let start = now_ns();
        let b = cx.backend.as_ref();
        let cached = cx.copies(|| of.hec.load(&of.lines, &self.par));
        let RowData::Dense(cached) = cached else {
            unreachable!("layers make dense rows")
        };
        let read = match &mut hops.layers[layer].leaves {
            Some(leaves) => {
                leaves.rows = Some(cached);
                h
            }
            None => {
                let cached = b.share(&cached);
                Input::Dense(Rc::new(b.stacked(&[&x, &cached])))
            }
        };
        of.counts.post_ns += now_ns() - start;
        Ok(read)
    }

    fn unpatch(&mut self, cx: &mut Ctx, layer: usize, g: Mat) -> Result<Mat> {
        let below = lock(&self.caches).layers[layer].below;
        if layer == 0 || g.nrows() == below {
            return Ok(g);
        }
        Ok(cx.backend.rows(&g, 0..below))
    }
}
