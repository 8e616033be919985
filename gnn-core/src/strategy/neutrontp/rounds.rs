//! The strategy at its seams: one aggregation at a time (naive), or all rounds in one go (decoupled).

use super::attention::{Attention, Made};
use super::chunks::Way;
use super::schedule::{Held, Schedule, Step};
use super::traffic::Traffic;
use crate::backend::{Dropout, Kept, Mat};
use crate::comm::Label;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::graph::Block;
use crate::model::{
    Aggregate, At, Flow, Grad, Round, RoundSite, Rounds, Saved, Weights, coefficients,
};
use crate::record::Direction;
use std::rc::Rc;

/// Feature slices of the whole graph on every rank.
pub(super) struct TensorParallel {
    /// The whole graph.
    pub(super) block: Block,
    /// The vertex that each of its rows is.
    pub(super) ids: Kept<u32>,
    /// Over in-edges.
    pub(super) forward: Way,
    /// Over out-edges.
    pub(super) backward: Way,
    pub(super) schedule: Schedule,
    pub(super) traffic: Traffic,
    /// For models whose coefficients are made before propagation.
    pub(super) attention: Option<Attention>,
}

fn label(at: At) -> Label {
    Label {
        layer: at.layer as u16,
        direction: at.direction,
    }
}

/// First and last of the rounds.
fn ends(rounds: &[RoundSite<'_>]) -> (Label, Label) {
    (label(rounds[0].at), label(rounds[rounds.len() - 1].at))
}

/// Rows that a vertex has before the first round.
fn group(rounds: &[RoundSite<'_>]) -> usize {
    match rounds[0].round {
        Round::Relations { count, .. } => count,
        _ => 1,
    }
}

impl TensorParallel {
    /// What a round drops of the coefficients.
    fn drop(&self, site: &RoundSite<'_>) -> Option<Dropout<'_>> {
        let ids = &self.ids;
        match (site.round, site.key) {
            (Round::Attention { dropout: p, .. }, Some(key)) => Some(Dropout { key, ids, p }),
            _ => None,
        }
    }

    /// The number of each edge in each round: the heads' average, after the round's own dropout.
    fn values(&self, cx: &Ctx, rounds: &[RoundSite<'_>], made: Option<&Made>) -> Vec<Rc<Mat>> {
        let Some(made) = made else { return Vec::new() };
        let a = self.block.edges();
        let mean = |drop| Rc::new(coefficients::mean(cx, a, &made.all, drop));
        let mut whole = None;
        let of_round = |site: &RoundSite<'_>| match self.drop(site) {
            None => Rc::clone(whole.get_or_insert_with(|| mean(None))),
            dropped => mean(dropped),
        };
        rounds.iter().map(of_round).collect()
    }

    /// What a round does, over in-edges or `back` along them.
    fn step<'a>(&'a self, round: Round, values: Option<&'a Mat>, back: bool) -> Result<Step<'a>> {
        let way = usize::from(back);
        let cuts = &[&self.forward, &self.backward][way].cuts;
        let plain = Step {
            cuts: cuts.first().map_or(&[][..], Vec::as_slice),
            ..Step::plain([self.block.edges(), self.block.edges_t()][way])
        };
        Ok(match round {
            Round::Sum { own, others, .. } => Step {
                own,
                others,
                ..plain
            },
            Round::Attention { .. } => Step { values, ..plain },
            Round::Relations { count, last } => {
                let both = if last {
                    self.block.by_relation()?
                } else {
                    self.block.within_relations()?
                };
                // The last round adds relations up; its way back starts from one row a vertex.
                let group = if last && !back { 1 } else { count };
                // Relations on their own come before their sum, where there are both.
                let cuts = if last { cuts.last() } else { cuts.first() };
                Step {
                    group,
                    cuts: cuts.map_or(&[][..], Vec::as_slice),
                    ..Step::plain(&both[way])
                }
            }
        })
    }
}

impl Aggregate for TensorParallel {
    fn aggregate(&mut self, cx: &mut Ctx, at: At, x: &Mat) -> Result<Mat> {
        let (a, way) = if at.direction == Direction::Backward {
            (self.block.edges_t(), &self.backward)
        } else {
            (self.block.edges(), &self.forward)
        };
        self.traffic.predict(cx, at.direction);
        let step = Step {
            cuts: way.cuts.first().map_or(&[][..], Vec::as_slice),
            ..Step::plain(a)
        };
        let (labels, steps) = ((label(at), label(at)), [step]);
        let done = &mut |_: &mut Ctx, _, _: Held<'_>| Ok(());
        self.schedule
            .run(cx, labels, way, Held::Lent(x), &steps, done)
    }

    fn rounds(&mut self) -> Option<&mut dyn Rounds> {
        Some(self)
    }
}

impl Rounds for TensorParallel {
    fn forward(
        &mut self,
        cx: &mut Ctx,
        rounds: &[RoundSite<'_>],
        flow: Flow,
    ) -> Result<(Mat, Saved)> {
        self.traffic.predict(cx, rounds[0].at.direction);
        let (group, labels) = (group(rounds), ends(rounds));
        let x = flow.x.into_mat();
        let (n, d) = x.dim();
        let x = Rc::new(x.reshape(n * group, d / group));
        let made = match &self.attention {
            Some(attention) => Some(attention.forward(cx, labels.0, &x, rounds[0].w)?),
            None => None,
        };
        let values = self.values(cx, rounds, made.as_ref());
        let step = |(l, site): (usize, &RoundSite<'_>)| {
            self.step(site.round, values.get(l).map(Rc::as_ref), false)
        };
        let steps = rounds.iter().enumerate().map(step);
        let steps: Vec<Step<'_>> = steps.collect::<Result<_>>()?;
        let learns = |site: &RoundSite<'_>| match site.round {
            Round::Sum { learns, .. } => learns,
            Round::Attention { .. } => true,
            Round::Relations { .. } => false,
        };
        let trains = rounds[0].at.direction != Direction::Eval;
        let keep = trains && rounds.iter().any(learns);
        let mut saved = Saved::default();
        if let Some(made) = made.filter(|_| trains) {
            saved.more.push(Rc::clone(&x));
            saved.more.extend(made.into_list());
        }
        let mut done = |_: &mut Ctx, _, read: Held<'_>| {
            if let Held::Shared(read) = read
                && keep
            {
                saved.more.push(read);
            }
            Ok(())
        };
        let from = Held::Shared(x);
        let mut y = self
            .schedule
            .run(cx, labels, &self.forward, from, &steps, &mut done)?;
        if let Some(own) = flow.h0 {
            cx.backend.axpby(1.0, &own, 1.0, &mut y);
        }
        Ok((y, saved))
    }

    fn backward(
        &mut self,
        cx: &mut Ctx,
        rounds: &[RoundSite<'_>],
        saved: Saved,
        g: Mat,
    ) -> Result<(Grad, Vec<Weights>)> {
        let (group, (first, last)) = (group(rounds), ends(rounds));
        let mut kept = saved.more.into_iter();
        let attention = self.attention.as_ref().map(|attention| {
            let z = kept.next().expect("forward kept the rows");
            (attention, z, Made::from_list(&mut kept))
        });
        let made = attention.as_ref().map(|(_, _, made)| made);
        let t_of = made.map(|_| self.block.t_of()).transpose()?;
        let values = self.values(cx, rounds, made);
        let back = |values: &Rc<Mat>| t_of.map(|t_of| coefficients::transposed(cx, values, t_of));
        let values: Vec<Option<Mat>> = values.iter().map(back).collect();
        let step = |(l, site): (usize, &RoundSite<'_>)| {
            self.step(site.round, values.get(l).and_then(Option::as_ref), true)
        };
        let steps = rounds.iter().enumerate().rev().map(step);
        let steps: Vec<Step<'_>> = steps.collect::<Result<_>>()?;
        // Inputs of the rounds; the last round's is asked for first.
        let mut inputs: Vec<Rc<Mat>> = kept.collect();
        let mut weights: Vec<Weights> = rounds.iter().map(|_| Weights::new()).collect();
        let mut dalpha: Option<Mat> = None;
        let this = &*self;
        let own = matches!(rounds[0].round, Round::Relations { .. });
        let h0 = own.then(|| cx.backend.copy(&g));
        let mut done = |cx: &mut Ctx, k: usize, g: Held<'_>| {
            let l = rounds.len() - 1 - k;
            match rounds[l].round {
                Round::Sum { learns: true, .. } => {
                    let x = inputs.pop().expect("forward kept every round's");
                    let mut of_own = cx.backend.fresh(1, 1);
                    cx.backend.dot(&g, &x, &mut of_own);
                    weights[l] = vec![of_own];
                }
                Round::Attention { heads, .. } => {
                    let x = inputs.pop().expect("forward kept every round's");
                    let a = this.block.edges();
                    let mut dots = cx.backend.fresh(1, a.n_edges());
                    cx.backend.edge_dots(a, &g, &x, &mut dots);
                    let sum = dalpha.get_or_insert_with(|| cx.backend.zeros(a.n_edges(), heads));
                    coefficients::add_gradient(cx, a, &dots, this.drop(&rounds[l]), sum);
                }
                _ => {}
            }
            Ok(())
        };
        let from = Held::Shared(Rc::new(g));
        let labels = (last, first);
        let gx = self
            .schedule
            .run(cx, labels, &self.backward, from, &steps, &mut done)?;
        let (rows, d) = gx.dim();
        let mut gx = gx.reshape(rows / group, d * group);
        if let Some((attention, z, made)) = attention {
            let dalpha = dalpha.expect("every round added its part");
            let from = (&*z, rounds[0].w);
            weights[0] = attention.backward(cx, first, &made, from, dalpha, &mut gx)?;
        }
        let mut grad = Grad::from(gx);
        grad.h0 = h0;
        Ok((grad, weights))
    }
}
