//! What the unit tests of several modules share: worlds of threads, small random data sets.

#[path = "../data/src/testing.rs"]
mod made;

pub(crate) use made::{random_dataset, with_relations};

use crate::backend::{Backend, Cpu, Metered};
use crate::comm::{ThreadTransport, Transport, behind_link, with_hub};
use crate::ctx::Ctx;
use crate::plan::Plan;
use crate::record::frame::{FrameRow, Value};
use crate::record::{Direction, Meter, PredictedLane};
use crate::spec::RunSpec;
use crate::strategy::{Built, find};
use kernels::Mat;
use kernels::cuda::{Device, Shim};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Runs `f` on every rank of an in-process world and returns the results in rank order.
pub(crate) fn world<T: Send>(
    spec: &RunSpec,
    ranks: usize,
    f: impl Fn(&mut Ctx, &Meter) -> T + Sync,
) -> Vec<T> {
    let cpu = |meter| Box::new(Metered::new(Cpu::new(1), meter)) as Box<dyn Backend>;
    world_on(spec, ranks, cpu, f)
}

/// [`world`], each rank on a device of its own that `open` makes.
pub(crate) fn world_on<T: Send>(
    spec: &RunSpec,
    ranks: usize,
    open: impl Fn(Rc<Meter>) -> Box<dyn Backend> + Sync,
    f: impl Fn(&mut Ctx, &Meter) -> T + Sync,
) -> Vec<T> {
    let plan = Arc::new(Plan::in_threads(spec.clone()));
    std::thread::scope(|scope| {
        let ranks: Vec<_> = ThreadTransport::world(ranks)
            .into_iter()
            .map(|transport| {
                let (plan, f, open) = (Arc::clone(&plan), &f, &open);
                scope.spawn(move || {
                    let on = |transport: Box<dyn Transport>, post| {
                        let meter = Rc::new(Meter::new(None));
                        let backend = open(Rc::clone(&meter));
                        let mut cx = Ctx::new(plan.clone(), transport, backend, Rc::clone(&meter));
                        cx.post = post;
                        let ordered = find(&plan.spec.strategy)
                            .map_or(true, |entry| entry.sums_in_order(&plan.spec));
                        cx.connect(ordered).expect("all ranks connect");
                        f(&mut cx, &meter)
                    };
                    let transport = behind_link(plan.spec.link, Box::new(transport));
                    let entry = find(&plan.spec.strategy);
                    if !entry.is_ok_and(|e| e.background) {
                        return on(transport, None);
                    }
                    let worker = |port, post| Ok(on(Box::new(port), Some(post)));
                    with_hub(transport, "rank".into(), worker).expect("the hub takes leave")
                })
            })
            .collect();
        ranks
            .into_iter()
            .map(|r| r.join().expect("a rank panicked"))
            .collect()
    })
}

/// Whether `HALOBOOK_REQUIRE` lists `what`.
pub(crate) fn required(what: &str) -> bool {
    let all = std::env::var("HALOBOOK_REQUIRE").unwrap_or_default();
    all.split(',').any(|word| word.trim() == what)
}

/// The host shim, which executes CUDA's kernels, as a device of its own; none where there is no C++
/// compiler.
pub(crate) fn shim() -> Option<Arc<Device>> {
    match Shim::open(false) {
        Ok(shim) => Some(Device::new(Box::new(shim))),
        Err(e @ kernels::cuda::Error::Missing { .. }) => {
            assert!(!required("nvrtc"), "{e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A matrix of numbers between −1 and 1.
pub(crate) fn matrix(rows: usize, cols: usize, seed: u64) -> Mat {
    let at = |r: usize, c: usize| crate::rng::uniform_f32(seed, (r * cols + c) as u64);
    Mat::from_shape_fn((rows, cols), |(r, c)| at(r, c) * 2.0 - 1.0)
}

/// Bytes that a rank sent by lane since the last call, without letters: what those carry depends on what
/// is drawn.
pub(crate) fn bytes_sent(meter: &Meter) -> BTreeMap<PredictedLane, u64> {
    let mut lanes = BTreeMap::new();
    let letters = [Direction::Sample, Direction::Pull, Direction::Push];
    let sent = meter.take_traffic().into_iter();
    for ((layer, direction, _, dst), t) in sent.filter(|(lane, _)| !letters.contains(&lane.1)) {
        *lanes.entry((layer, direction, dst)).or_default() += t.bytes;
    }
    lanes
}

/// What was predicted of the epoch just run: what never changes, and what the strategy said.
pub(crate) fn bytes_predicted(built: &Built, meter: &Meter) -> BTreeMap<PredictedLane, u64> {
    let mut lanes = meter.take_predicted();
    for &(lane, bytes) in &built.predicted {
        *lanes.entry(lane).or_default() += bytes;
    }
    lanes.retain(|_, bytes| *bytes > 0);
    lanes
}

/// A row of a strategy's own frame, with the epoch and the rank that the context added.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Of<R> {
    pub(crate) epoch: u32,
    pub(crate) rank: u32,
    #[serde(flatten)]
    row: R,
}

impl<R> std::ops::Deref for Of<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.row
    }
}

/// The rows of one frame, out of all that were noted.
pub(crate) fn rows_of<R: FrameRow + DeserializeOwned>(noted: &[Value]) -> Vec<Of<R>> {
    let of_frame = noted.iter().filter(|row| row["frame"] == R::FRAME.name);
    let read = |row: &Value| serde_json::from_value(row.clone()).expect("a row of that frame");
    of_frame.map(read).collect()
}
