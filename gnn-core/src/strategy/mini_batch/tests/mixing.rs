//! Two layers of random edges, and a feed that appends rows for their leaves.

use crate::backend::{Kept, Mat};
use crate::ctx::Ctx;
use crate::dataset::Rows;
use crate::error::Result;
use crate::feed::{Batch, Feed, Hops, LayerBlock, Patch};
use crate::graph::Block;
use crate::model::Input;
use crate::rng;
use std::rc::Rc;

pub(super) const D: usize = 5;
pub(super) const CLASSES: usize = 3;

/// By layer: rows, then columns that the layer below makes, then leaves.
pub(super) const SIZES: [[usize; 3]; 2] = [[6, 9, 3], [4, 6, 4]];

fn ids(from: u32, n: usize) -> Vec<u32> {
    (from..from + n as u32).collect()
}

/// A layer with three to five edges a row, some of them to leaves.
fn layer([rows, solid, leaves]: [usize; 3], seed: u64) -> LayerBlock {
    let columns = solid + leaves;
    let (mut indptr, mut indices) = (vec![0u64], Vec::new());
    for r in 0..rows {
        let degree = 3 + rng::below(seed, r as u64, 3);
        for k in 0..degree {
            indices.push(rng::below(seed ^ 1, 10 * r as u64 + k, columns as u64) as u32);
        }
        indptr.push(indices.len() as u64);
    }
    let weight = |e: usize| 0.2 + rng::uniform_f32(seed ^ 2, e as u64);
    let weights = (0..indices.len()).map(weight).collect();
    let block = Block::brief(rows, columns, indptr, indices, Some(weights)).expect("valid");
    LayerBlock {
        block: Some(block),
        rows: ids(100, rows).into(),
        columns: [ids(100, solid), ids(500, leaves)].concat().into(),
        leaves: None,
    }
}

pub(super) fn hops(seed: u64) -> Hops {
    Hops {
        inputs: ids(100, SIZES[0][1]).into(),
        layers: vec![layer(SIZES[0], seed), layer(SIZES[1], seed ^ 77)],
    }
}

pub(super) fn random(rows: usize, cols: usize, seed: u64) -> kernels::Mat {
    kernels::Mat::from_shape_fn((rows, cols), |(r, c)| {
        rng::normal(seed, (r * cols + c) as u64)
    })
}

/// Appends a sum of the rows below and a constant for each leaf.
pub(super) struct Mixing {
    pub(super) seed: u64,
    /// What is appended beside the sums.
    constant: f32,
    /// Whether the sums are led back; a backward without them is wrong.
    pub(super) complete: bool,
    pub(super) learnt: Option<Mat>,
    pub(super) ended: Vec<u64>,
}

impl Mixing {
    pub(super) fn new(seed: u64) -> Mixing {
        Mixing {
            seed,
            constant: 0.5,
            complete: true,
            learnt: None,
            ended: Vec::new(),
        }
    }

    /// How rows of leaves come of those below: `[leaves, rows below]`.
    fn sums(&self, layer: usize) -> kernels::Mat {
        let [_, solid, leaves] = SIZES[layer];
        random(leaves, solid, self.seed ^ layer as u64) * 0.4
    }
}

impl Patch for Mixing {
    fn patch(&mut self, cx: &mut Ctx, _hops: &mut Hops, layer: usize, h: Input) -> Result<Input> {
        let h = cx.backend.download(h.dense().expect("dense rows"));
        let more = self.sums(layer).dot(&h) + self.constant;
        let all = ndarray::concatenate(ndarray::Axis(0), &[h.view(), more.view()]);
        let all = cx.backend.upload(all.expect("as many columns"));
        Ok(Input::Dense(Rc::new(all)))
    }

    fn unpatch(&mut self, cx: &mut Ctx, layer: usize, g: Mat) -> Result<Mat> {
        let (g, solid) = (cx.backend.take(g), SIZES[layer][1]);
        let mut back = g.slice(ndarray::s![..solid, ..]).to_owned();
        if self.complete {
            back += &self.sums(layer).t().dot(&g.slice(ndarray::s![solid.., ..]));
        }
        Ok(cx.backend.upload(back.as_standard_layout().into_owned()))
    }
}

impl Feed for Mixing {
    fn batches(&self) -> u64 {
        1
    }

    fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch> {
        let x = random(SIZES[0][1], D, self.seed ^ 9);
        Ok(batch(cx, x, step, self.seed))
    }

    fn patcher(&mut self) -> Option<&mut dyn Patch> {
        Some(self)
    }

    fn end_step(&mut self, _cx: &mut Ctx, step: u64) -> Result<()> {
        assert!(self.learnt.is_some(), "the input's gradient comes first");
        self.ended.push(step);
        Ok(())
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, _cx: &mut Ctx, _step: u64, gradient: Mat) -> Result<()> {
        self.learnt = Some(gradient);
        Ok(())
    }
}

pub(super) fn batch(cx: &Ctx, x: kernels::Mat, step: u64, seed: u64) -> Batch {
    let seeds = SIZES[1][0];
    Batch {
        step,
        input: Input::Dense(Rc::new(cx.backend.upload(x))),
        hops: hops(seed),
        rows: Rows {
            ids: ids(100, seeds).into(),
            labels: (0..seeds as i32)
                .map(|k| k % CLASSES as i32)
                .collect::<Vec<_>>()
                .into(),
            train: vec![true; seeds].into(),
            val: Kept::default(),
            test: Kept::default(),
            train_total: seeds,
            multi_labels: None,
            links: None,
        },
        pairs: None,
    }
}
