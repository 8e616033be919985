//! What a strategy's weights are worth: its logits, or its scores of links, against what is known.

use crate::ctx::Ctx;
use crate::dataset::{Pair, Rows};
use crate::error::Result;
use crate::head::{Ranking, cross_entropy, micro_f1, ranking};
use crate::strategy::Strategy;
use kernels::Par;
use kernels::bce::sigmoid_bce;

/// What an evaluation of one rank's rows found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Evaluation {
    /// For training, validation and test rows what is right and of how much, as pairs; sums over
    /// ranks are divided. Accuracy counts vertices, F1 classes of vertices.
    pub counts: [f64; 6],
    /// Sum of the losses of the validation rows, and of how many terms; sums over ranks are divided.
    pub val_loss: [f64; 2],
    /// Rankings of the validation and the test links, the same on every rank.
    pub rankings: [Option<Ranking>; 2],
}

/// Evaluates the strategy's current weights. Collective.
///
/// # Errors
/// Whatever the strategy meets.
pub fn evaluate(cx: &mut Ctx, strategy: &mut dyn Strategy, rows: &Rows) -> Result<Evaluation> {
    let mut out = Evaluation::default();
    if let Some(links) = &rows.links {
        let lists = [&links.val, &links.val_neg, &links.test, &links.test_neg];
        let all = lists.iter().flat_map(|l| l.iter().copied()).collect();
        let scores = strategy.scores(cx, all)?;
        let mut rest = &scores[..];
        let mut next = |list: &Vec<Pair>| {
            let (first, others) = rest.split_at(list.len());
            rest = others;
            first
        };
        let [val, val_neg, test, test_neg] = lists.map(&mut next);
        out.rankings = [ranking(val, val_neg), ranking(test, test_neg)];
        return Ok(out);
    }
    let logits = strategy.logits(cx)?;
    for (k, mask) in [&rows.train, &rows.val, &rows.test].into_iter().enumerate() {
        let (right, all) = match &rows.multi_labels {
            Some(labels) => micro_f1(&logits, labels, mask),
            None => kernels::loss::accuracy(&logits, &rows.labels, mask),
        };
        out.counts[2 * k] = right as f64;
        out.counts[2 * k + 1] = all as f64;
    }
    out.val_loss = match &rows.multi_labels {
        Some(labels) => {
            let mut unused = kernels::Mat::zeros(logits.dim());
            let terms = rows.val.iter().filter(|&&v| v).count() * logits.ncols();
            let par = Par::new(1);
            let loss = sigmoid_bce(&par, &logits, labels, &rows.val, 0.0, &mut unused);
            [loss, terms as f64]
        }
        None => {
            let loss = cross_entropy(&logits, &rows.labels, &rows.val);
            [loss, out.counts[3]]
        }
    };
    cx.backend.give_back(logits);
    Ok(out)
}
