//! A strategy of stages, as layer pipelines are: each stage holds some layers, and its ranks are a group
//! that holds the rows of a halo cut; rows go to the next stage and their gradients back, point to point.
//! With a stage a rank it is a model in pieces.
//!
//! It equals `single`, so weights, dropout, gradients, optimisers and checkpoints of some layers are those
//! of the whole. Groups are out of step: a stage's exchanges and its weights' sums are under way while
//! another waits for rows. Cannot catch what only a schedule over chunks needs, which it does not have.

use super::*;
use crate::backend::Mat;
use crate::checkpoint::Snapshot;
use crate::comm::{Communicator, Label};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::head::Head;
use crate::model::{Flow, Grad, Input, Model, Optimiser, Weights};
use crate::partition::{LocalPart, Parts};
use crate::record::RankFacts;
use crate::strategy::full_graph::{OverBlock, input_of, shape_of};
use crate::strategy::halo::{self, Halo};
use crate::strategy::ordered::Ordered;
use crate::strategy::reduce::Reduction;
use crate::strategy::{Built, Knob, Rows, Strategy};
use crate::testing::world;
use kernels::par::split_rows;
use std::ops::Range;

/// The whole of it: `stages` groups of equally many ranks.
pub(crate) const ENTRY: Entry = Entry {
    name: "stages",
    summary: "layers by stage, rows by rank of a stage",
    knobs: &[Knob {
        name: "stages",
        default: "2",
        doc: "stages",
        check: |v| matches!(v, Value::Int(1..)),
    }],
    parts: |spec| Parts::of(spec.ranks / spec.knobs.count("stages")),
    exact: Exact::Always,
    resumes: true,
    build,
    ..Entry::BASE
};

/// One rank's training of some layers on some rows.
struct Stage {
    group: Communicator,
    /// The ranks with the same rows before and behind.
    before: Option<usize>,
    after: Option<usize>,
    aggregate: OverBlock<Halo>,
    model: Model,
    input: Input,
    /// The rows, which the last stage reports.
    rows: Rows,
    head: Head,
    reduction: Reduction,
    optimiser: Optimiser,
}

fn build(setup: Setup, cx: &mut Ctx) -> Result<Built> {
    let (me, stages) = (cx.rank(), cx.plan.spec.knobs.count("stages"));
    let places = cx.size() / stages;
    let (stage, place) = (me / places, me % places);
    let members: Vec<usize> = (stage * places..(stage + 1) * places).collect();
    let group = cx.comm.group(&members)?;
    let ordered = Ordered::of(&setup, cx);
    let part = LocalPart::new(&ordered.whole, &ordered.owner, place, places)?;
    let (own, remote) = (ordered.vertices(&part.own), ordered.vertices(&part.halo));
    let rows = Rows::of(&setup.data, &own);
    let shape = shape_of(&setup, cx);
    let (spec, backend) = (&cx.plan.spec, cx.backend.as_ref());
    let bounds = split_rows(Model::count(spec, shape), stages);
    let model = Model::of_layers(spec, backend, shape, bounds[stage]..bounds[stage + 1]);
    let optimiser = Optimiser::new(spec, &model, backend);
    let input = input_of(Arc::clone(&setup.data), cx, &own);
    let read = part.recv_counts();
    let halo = Halo::new(part.send, read, true);
    let aggregations = model.aggregations(input.is_sparse());
    let (sends, reads) = halo.counts();
    let mut predicted = halo::predict(&aggregations, &sends, reads);
    for ((_, _, dst), _) in &mut predicted {
        *dst = group.world_rank(*dst as usize) as u32;
    }
    let sources = [own, remote].concat();
    let last = stage + 1 == stages;
    let mut it = Stage {
        before: (stage > 0).then(|| me - places),
        after: (!last).then(|| me + places),
        aggregate: OverBlock::new(halo, part.block, part.n_interior, sources),
        reduction: Reduction::new(&model.weights, cx),
        head: Head::of(&rows, cx, model.layers())?,
        model,
        input,
        rows,
        optimiser,
        group,
    };
    predicted.extend(it.predict(cx)?);
    let none = Rows::of(&setup.data, &[]);
    Ok(Built {
        rows: if last { it.rows.clone() } else { none },
        facts: RankFacts {
            rank: me as u32,
            ..RankFacts::default()
        },
        strategy: Box::new(it),
        predicted,
        part: None,
    })
}

fn label(layer: usize, direction: Direction) -> Label {
    Label {
        layer: layer as u16,
        direction,
    }
}

impl Stage {
    /// What leaves this rank beside halo rows: what crosses to other stages, and weight gradients.
    fn predict(&mut self, cx: &mut Ctx) -> Result<Vec<(PredictedLane, u64)>> {
        let Range { start, end } = self.model.held();
        let mut lanes = Vec::new();
        let ways = [
            (self.after, end, Direction::Forward),
            (self.before, start, Direction::Backward),
        ];
        for (peer, layer, direction) in ways {
            let Some(peer) = peer else { continue };
            let bytes = 4 * self.rows.ids.len() * self.model.crossing(layer)?.width();
            lanes.push(((layer as u16, direction, peer as u32), bytes as u64));
        }
        let reduction = &self.reduction;
        lanes.extend(cx.within(&mut self.group, |cx| reduction.predict(cx)));
        Ok(lanes)
    }

    /// Forward over the layers here, from the stage before and, but for the last, to the one behind.
    fn forward(&mut self, cx: &mut Ctx, train: bool) -> Result<(Flow, crate::model::Tape)> {
        let (held, n) = (self.model.held(), self.rows.ids.len());
        let direction = if train {
            Direction::Forward
        } else {
            Direction::Eval
        };
        let flow = match self.before {
            None if train => {
                let input = self.input.clone();
                self.model.drop_features(cx, input, &self.rows.ids).into()
            }
            None => self.input.clone().into(),
            Some(peer) => {
                let crossing = self.model.crossing(held.start)?;
                let len = n * crossing.width();
                let message = cx.comm.recv(label(held.start, direction), peer, len)?;
                crossing.unpack(cx, n, message)?
            }
        };
        let Stage {
            group,
            model,
            aggregate,
            rows,
            ..
        } = self;
        let (flow, tape) = cx.within(group, |cx| {
            model.forward_layers(cx, aggregate, held.clone(), flow, &rows.ids, train)
        })?;
        if let Some(peer) = self.after {
            let message = self.model.crossing(held.end)?.pack(cx, &flow)?;
            cx.comm
                .post_send(label(held.end, direction), peer, message)?;
        }
        Ok((flow, tape))
    }
}

impl Strategy for Stage {
    fn epoch(&mut self, cx: &mut Ctx) -> Result<f64> {
        self.reduction.begin(cx);
        cx.pass(Pass::Forward);
        let (flow, tape) = self.forward(cx, true)?;
        let (held, n) = (self.model.held(), self.rows.ids.len());
        let (loss, grad) = match self.after {
            Some(peer) => {
                let crossing = self.model.crossing(held.end)?;
                let len = n * crossing.width();
                let label = label(held.end, Direction::Backward);
                let message = cx.comm.recv(label, peer, len)?;
                (0.0, crossing.unpack_gradient(cx, n, message)?)
            }
            None => {
                let logits = flow.x.into_mat();
                let mut g = cx.backend.fresh(logits.nrows(), logits.ncols());
                let (rows, own) = (&self.rows, Weights::new());
                let (loss, _) = self.head.loss(cx, rows, &own, &logits, &mut g)?;
                (loss, Grad::from(g))
            }
        };
        let Stage {
            group,
            model,
            aggregate,
            rows,
            reduction,
            ..
        } = self;
        let back = cx.within(group, |cx| {
            let mut ready = |cx: &mut Ctx, layer, grads| reduction.ready(cx, layer, grads);
            let held = held.clone();
            model.backward_layers(cx, aggregate, held, tape, &rows.ids, grad, &mut ready)
        })?;
        if let (Some(peer), Some(back)) = (self.before, back) {
            let message = self.model.crossing(held.start)?.pack_gradient(cx, &back)?;
            let label = label(held.start, Direction::Backward);
            cx.comm.post_send(label, peer, message)?;
        }
        cx.pass(Pass::Optim);
        cx.within(&mut self.group, |cx| self.reduction.collect(cx))?;
        let weights = &mut self.model.weights;
        let gradients = self.reduction.gradients();
        self.optimiser.step(cx, weights, gradients);
        Ok(loss)
    }

    fn logits(&mut self, cx: &mut Ctx) -> Result<kernels::Mat> {
        let (flow, _) = self.forward(cx, false)?;
        Ok(match self.after {
            None => cx.backend.take(flow.x.into_mat()),
            Some(_) => kernels::Mat::zeros((0, 0)),
        })
    }

    fn gradients(&self) -> Vec<&Mat> {
        self.reduction.gradients().iter().flatten().collect()
    }

    fn save(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.save(backend, &mut snapshot.own);
        self.optimiser.save(backend, &mut snapshot.own);
        Ok(())
    }

    fn restore(&mut self, cx: &mut Ctx, snapshot: &mut Snapshot) -> Result<()> {
        let backend = cx.backend.as_ref();
        self.model.restore(backend, &mut snapshot.own)?;
        self.optimiser.restore(backend, &mut snapshot.own)
    }
}

/// A request of stages.
fn staged(model: ModelKind, layers: usize, stages: usize, more: &[(&str, &str)]) -> RunSpec {
    let mut pairs = spec(&ENTRY, model, layers, 5).to_pairs();
    pairs.push(("stages".into(), Value::Int(stages as i64)));
    let more = more
        .iter()
        .map(|(k, v)| ((*k).to_owned(), Value::from_word(v)));
    pairs.extend(more);
    RunSpec::from_pairs_in(&[ENTRY], pairs).expect("valid pairs")
}

/// Trains in stages of so many ranks, and asserts that it equals `single` and sends what is predicted.
fn equals_single(spec: RunSpec, data: &Arc<Dataset>, places: usize) -> [Vec<Trained>; 2] {
    let single = &STRATEGIES[0];
    let stages = spec.knobs.count("stages");
    let ranks = stages * places;
    let what = format!("{} in {stages} stages of {places}", spec.model);
    let alone = RunSpec {
        strategy: "single".into(),
        knobs: Default::default(),
        ..spec.clone()
    };
    let expected = train(single, &alone, data, None, 1);
    let owner = random_owner(data.n(), places, false, 3);
    let mut got = train(
        &ENTRY,
        &RunSpec {
            ranks,
            ..spec.clone()
        },
        data,
        Some(owner),
        ranks,
    );
    got.iter().for_each(|rank| rank.assert_predicted(&what));
    // A stage has the gradients of its own layers, which follow those of the stages before.
    let mut before = 0;
    for stage in got.chunks_mut(places) {
        let own = stage[0].gradients.len();
        for rank in stage {
            let own = std::mem::take(&mut rank.gradients);
            rank.gradients = [vec![Vec::new(); before], own].concat();
        }
        before += own;
    }
    assert_eq!(
        before,
        expected[0].gradients.len(),
        "{what}: every layer has a stage"
    );
    assert_same(&what, spec.model, &expected[0], &got);
    [expected, got]
}

fn data_for(model: ModelKind) -> Arc<Dataset> {
    let data = random_dataset(45, 160, 6, 3, false, 5);
    Arc::new(match model {
        ModelKind::Rgcn => with_relations(data, 3, 2),
        _ => data,
    })
}

#[test]
fn a_model_in_two_halves_equals_the_whole() {
    for &model in ModelKind::ALL {
        for layers in [2, 3] {
            let [whole, halves] = equals_single(staged(model, layers, 2, &[]), &data_for(model), 1);
            // Forward, nothing is computed in another order.
            let (whole, halves) = (whole[0].losses[0], halves[1].losses[0]);
            assert_eq!(
                whole.to_bits(),
                halves.to_bits(),
                "{model} of {layers} layers"
            );
        }
    }
}

#[test]
fn a_decoupled_model_can_be_cut_between_its_rounds_unless_they_share_coefficients() {
    for model in [
        ModelKind::Gcn,
        ModelKind::Sage,
        ModelKind::Gin,
        ModelKind::Rgcn,
    ] {
        for stages in [2, 3] {
            let spec = staged(model, 2, stages, &[("decoupled", "true")]);
            equals_single(spec, &data_for(model), 1);
        }
    }
    let gat = |stages| staged(ModelKind::Gat, 2, stages, &[("decoupled", "true")]);
    equals_single(gat(2), &data_for(ModelKind::Gat), 1);
    let data = data_for(ModelKind::Gat);
    let refused = world(&gat(4), 4, |cx, _| {
        let built = build(Setup::of(Arc::clone(&data), None), cx);
        built.err().map(|e| e.to_string())
    });
    let text = refused.into_iter().flatten().next().expect("refused");
    assert!(
        text.contains("a decoupled gat cut before layer 3"),
        "{text}"
    );
}

#[test]
fn stages_of_several_ranks_are_out_of_step_and_equal_single() {
    for &model in ModelKind::ALL {
        equals_single(staged(model, 3, 2, &[]), &data_for(model), 2);
    }
    // Three stages; one thing at a time; behind a link.
    for (stages, more) in [
        (3, &[][..]),
        (2, &[("sync", "true")]),
        (2, &[("link", "1gbit,20us")]),
    ] {
        let spec = staged(ModelKind::Gcnii, 4, stages, more);
        equals_single(spec, &data_for(ModelKind::Gcnii), 2);
    }
}

/// The volume of a pipeline: rows of the hidden width forward and back over every boundary, twice that for
/// a model with an initial residual.
#[test]
fn what_crosses_is_rows_of_the_hidden_width_and_the_residual() {
    let n = 45;
    for (model, per_row) in [
        (ModelKind::Gcn, 5),
        (ModelKind::Sage, 5),
        (ModelKind::Gcnii, 10),
    ] {
        for stages in [2, 3] {
            let [_, ranks] = equals_single(staged(model, 4, stages, &[]), &data_for(model), 1);
            for epoch in 0..EPOCHS as usize {
                let sent = ranks.iter().flat_map(|rank| &rank.sent[epoch]);
                let bytes: u64 = sent.map(|(_, bytes)| bytes).sum();
                assert_eq!(
                    bytes,
                    (2 * (stages - 1) * n * per_row * 4) as u64,
                    "{model}"
                );
            }
        }
    }
}

/// Chunks' gradients are added before they travel: a layer's sum is in the order of chunks, then of ranks.
#[test]
fn gradients_of_chunks_are_added_before_they_are_reduced() {
    let weights = |cx: &Ctx| {
        vec![
            vec![cx.backend.zeros(2, 3), cx.backend.zeros(1, 3)],
            Vec::new(),
        ]
    };
    let of = |cx: &Ctx, rank: usize, chunk: usize| -> Weights {
        let value =
            |t: usize, r: usize, c: usize| ((rank * 7 + chunk * 3 + t + r) * (c + 1)) as f32 * 0.37;
        let tensor =
            |t: usize, rows| kernels::Mat::from_shape_fn((rows, 3), |(r, c)| value(t, r, c));
        vec![
            cx.backend.upload(tensor(0, 2)),
            cx.backend.upload(tensor(1, 1)),
        ]
    };
    let sum = |mut all: Vec<kernels::Mat>| {
        let first = all.remove(0);
        all.iter().fold(first, |sum, x| sum + x)
    };
    for ranks in [1, 3] {
        let all = world(&RunSpec::default(), ranks, |cx, meter| {
            let mut reduction = Reduction::new(&weights(cx), cx);
            let mut steps = Vec::new();
            for _ in 0..2 {
                reduction.begin(cx);
                meter.take_traffic();
                for chunk in 0..2 {
                    let grads = of(cx, cx.rank(), chunk);
                    reduction.add(cx, 0, grads);
                }
                let grads = of(cx, cx.rank(), 2);
                reduction.ready(cx, 0, grads).expect("posts");
                reduction.collect(cx).expect("arrives");
                let sent: u64 = bytes_sent(meter).values().sum();
                let predicted: u64 = reduction.predict(cx).iter().map(|lane| lane.1).sum();
                assert_eq!(sent, predicted);
                let host = |g: &Mat| cx.backend.download(g);
                steps.push(
                    reduction.gradients()[0]
                        .iter()
                        .map(host)
                        .collect::<Vec<_>>(),
                );
            }
            let chunks = |rank: usize, t: usize| {
                let of_chunk = |k| cx.backend.download(&of(cx, rank, k)[t]);
                sum((0..3).map(of_chunk).collect())
            };
            let expected = |t: usize| sum((0..ranks).map(|r| chunks(r, t)).collect());
            assert_eq!(steps[0], vec![expected(0), expected(1)]);
            assert_eq!(steps[0], steps[1], "nothing is left of the step before");
        });
        assert_eq!(all.len(), ranks);
    }
}
