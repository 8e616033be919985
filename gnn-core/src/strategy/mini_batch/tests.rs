//! A step whose layers read more than the layer below made: a feed that appends rows, some of which depend on
//! what was made. Its backward is the adjoint of its
//! forward, and gradients of the whole step are central differences of its loss. Cannot catch: what
//! such a step does without a patch (`strategy/tests/sampled.rs` does).

mod mixing;

use super::laps::Laps;
use super::step::Step;
use super::{GradientSync, splice};
use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::feed::{Batch, Feed, Hops, Patch};
use crate::head::Head;
use crate::model::{AggregateFirst, Input, Model, ModelKind, Shape, Weights};
use crate::record::PredictedLane;
use crate::spec::{Knob, RunSpec, Value};
use crate::testing::world;
use mixing::{CLASSES, D, Mixing, SIZES, batch, hops, random};
use proptest::prelude::*;
use std::rc::Rc;

/// Keeps gradients, and leaves weights as they are.
#[derive(Default)]
struct Recorded {
    calls: Vec<String>,
    gradients: Vec<Weights>,
}

impl GradientSync for Recorded {
    fn predict(&self, _cx: &Ctx) -> Vec<(PredictedLane, u64)> {
        Vec::new()
    }

    fn begin(&mut self, _cx: &Ctx) {
        self.calls.push("begin".into());
    }

    fn add(&mut self, _cx: &Ctx, layer: usize, _grads: Weights) {
        self.calls.push(format!("add {layer}"));
    }

    fn ready(&mut self, _cx: &mut Ctx, layer: usize, grads: Weights) -> Result<()> {
        self.calls.push(format!("ready {layer}"));
        self.gradients.insert(0, grads);
        Ok(())
    }

    fn apply(&mut self, _cx: &mut Ctx, _weights: &mut [Weights]) -> Result<()> {
        self.calls.push("apply".into());
        Ok(())
    }

    fn gradients(&self) -> &[Weights] {
        &self.gradients
    }

    fn save(&mut self, _cx: &Ctx, _snapshot: &mut Snapshot) {}

    fn restore(&mut self, _cx: &Ctx, _snapshot: &mut Snapshot) -> Result<()> {
        Ok(())
    }
}

/// Loss of one step, and its gradients: of all tensors, then of the input.
fn step(
    cx: &mut Ctx,
    feed: &mut Mixing,
    (model, x): (&mut Model, &kernels::Mat),
) -> (f64, Vec<kernels::Mat>) {
    let batch = batch(cx, x.clone(), 7, feed.seed);
    let mut sync = Recorded::default();
    let of = Step {
        first: true,
        last: true,
        feed,
        model,
        head: &Head::Classes,
        sync: &mut sync,
        laps: &mut Laps::default(),
    };
    let loss = of.run(cx, batch).expect("runs");
    assert_eq!(sync.calls, ["begin", "ready 1", "ready 0", "apply"]);
    assert_eq!(feed.ended.pop(), Some(7));
    let learnt = feed.learnt.take().expect("the input is learnt");
    let all = sync.gradients().iter().flatten().chain([&learnt]);
    let all = all.map(|g| cx.backend.download(g)).collect();
    (loss, all)
}

fn with_model<T: Send>(
    kind: ModelKind,
    dropout: f64,
    f: impl Fn(&mut Ctx, Model) -> T + Sync,
) -> T {
    let pairs = [
        ("model", Value::Str(kind.name().into())),
        ("layers", Value::Int(2)),
        ("hidden", Value::Int(4)),
        ("dropout", Value::Float(dropout)),
        ("heads", Value::Int(2)),
        ("seed", Value::Int(3)),
    ];
    let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
    let shape = Shape {
        d_in: D,
        d_out: CLASSES,
        relations: 1,
        aggregate_first: AggregateFirst::Always,
    };
    let mut all = world(&spec, 1, |cx, _| {
        let mut model = Model::new(&spec, cx.backend.as_ref(), shape);
        model.input_gradient = true;
        f(cx, model)
    });
    all.remove(0)
}

/// The largest distance of gradients from central differences, relative to the largest difference.
fn off(cx: &mut Ctx, feed: &mut Mixing, model: &mut Model) -> f64 {
    const STEP: f32 = 4e-3;
    let mut x = random(SIZES[0][1], D, feed.seed ^ 9);
    let (_, gradients) = step(cx, feed, (model, &x));
    let tensors: Vec<(usize, usize)> = model
        .weights
        .iter()
        .enumerate()
        .flat_map(|(l, of)| (0..of.len()).map(move |t| (l, t)))
        .collect();
    let total = SIZES[1][0] as f64;
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    let mut differ = |got: f32, [above, below]: [f64; 2]| {
        let want = (above - below) / (2.0 * f64::from(STEP)) / total;
        worst = worst.max((f64::from(got) - want).abs());
        largest = largest.max(want.abs());
    };
    for (&(l, t), g) in tensors.iter().zip(&gradients) {
        let at = cx.backend.download(&model.weights[l][t]);
        for (i, &got) in g.iter().enumerate() {
            let losses = [STEP, -STEP].map(|by| {
                let mut moved = at.clone();
                moved.as_slice_mut().expect("contiguous")[i] += by;
                model.weights[l][t] = cx.backend.upload(moved);
                step(cx, feed, (model, &x)).0
            });
            differ(got, losses);
        }
        model.weights[l][t] = cx.backend.upload(at);
    }
    let of_input = gradients.last().expect("the input's");
    for (i, &got) in of_input.iter().enumerate() {
        let losses = [STEP, -STEP].map(|by| {
            let flat = x.as_slice_mut().expect("contiguous");
            let before = flat[i];
            flat[i] = before + by;
            let loss = step(cx, feed, (model, &x)).0;
            x.as_slice_mut().expect("contiguous")[i] = before;
            loss
        });
        differ(got, losses);
    }
    worst / largest
}

#[test]
fn gradients_of_a_patched_step_are_differences_of_its_loss() {
    for kind in [ModelKind::Gcn, ModelKind::Sage, ModelKind::Gat] {
        for dropout in [0.0, 0.3] {
            with_model(kind, dropout, |cx, mut model| {
                let mut feed = Mixing::new(7);
                let right = off(cx, &mut feed, &mut model);
                feed.complete = false;
                let wrong = off(cx, &mut feed, &mut model);
                let what = format!("{kind} with dropout {dropout}: {right}, incomplete {wrong}");
                assert!(right < 0.01, "{what}");
                // The check would see a backward that forgets what was appended.
                assert!(wrong > 0.02, "{what}");
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn unpatch_is_the_adjoint_of_patch(seed in 0u64..1000, d in 1usize..8) {
        with_model(ModelKind::Gcn, 0.0, |cx, _| {
            for (layer, &[_, below, leaves]) in SIZES.iter().enumerate() {
                let mut patch = Mixing::new(seed);
                let made = |cx: &mut Ctx, patch: &mut Mixing, h: kernels::Mat| {
                    let (mut hops, h) = (hops(seed), Rc::new(cx.backend.upload(h)));
                    let read = patch.patch(cx, &mut hops, layer, Input::Dense(h)).expect("patches");
                    let read = cx.backend.download(read.dense().expect("dense"));
                    assert_eq!(read.nrows(), below + leaves);
                    read
                };
                let h = random(below, d, seed ^ 3);
                let read = made(cx, &mut patch, h.clone());
                let nothing = made(cx, &mut patch, kernels::Mat::zeros(h.dim()));
                let g = random(read.nrows(), d, seed ^ 4);
                let uploaded = cx.backend.upload(g.clone());
                let back = patch.unpatch(cx, layer, uploaded).expect("unpatches");
                let back = cx.backend.take(back);
                let dot = |a: &kernels::Mat, b: &kernels::Mat| -> f64 {
                    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
                };
                let (forward, backward) = (dot(&(&read - &nothing), &g), dot(&h, &back));
                assert!((forward - backward).abs() < 1e-3, "{forward} {backward}");
            }
        });
    }
}

/// A patch that leaves a column without its row is refused before the layer runs.
#[test]
fn every_column_has_a_row() {
    struct Forgets;
    impl Patch for Forgets {
        fn patch(&mut self, _: &mut Ctx, _: &mut Hops, _: usize, h: Input) -> Result<Input> {
            Ok(h)
        }
        fn unpatch(&mut self, _: &mut Ctx, _: usize, g: Mat) -> Result<Mat> {
            Ok(g)
        }
    }
    impl Feed for Forgets {
        fn batches(&self) -> u64 {
            1
        }
        fn next(&mut self, cx: &mut Ctx, step: u64) -> Result<Batch> {
            Ok(batch(cx, random(SIZES[0][1], D, 1), step, 1))
        }
        fn patcher(&mut self) -> Option<&mut dyn Patch> {
            Some(self)
        }
    }
    with_model(ModelKind::Gcn, 0.0, |cx, mut model| {
        let mut feed = Forgets;
        let batch = feed.next(cx, 0).expect("made");
        let step = Step {
            first: true,
            last: true,
            feed: &mut feed,
            model: &mut model,
            head: &Head::Classes,
            sync: &mut Recorded::default(),
            laps: &mut Laps::default(),
        };
        let e = step.run(cx, batch).expect_err("leaves have no rows");
        assert!(e.to_string().contains("what layer 0 reads"), "{e}");
    });
}

#[test]
fn blocks_of_knobs_become_one_list() {
    const ALL: [Knob; 6] = splice(&[&super::CACHE, &super::NEIGHBOURS]);
    let names = ALL.map(|knob| knob.name);
    assert_eq!(
        names,
        ["cache", "cache_by", "fanout", "batch", "replace", "bias"]
    );
}
