//! What ranks tell each other at an epoch's end, in one exchange, and what comes of it.

use crate::evaluation::Evaluation;
use crate::record::rows::MetricsRow;

/// What one rank tells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Told {
    /// When its epoch began.
    pub(super) start_ns: u64,
    /// Whether it was asked to stop.
    pub(super) stop: bool,
    /// Sum of the losses of its training vertices.
    pub(super) loss: f64,
    /// For training, validation and test rows what is right and of how much, as pairs.
    pub(super) counts: [f64; 6],
    /// Sum of the losses of its validation rows, and of how many terms.
    pub(super) val_loss: [f64; 2],
    /// Area under the ROC curve on the validation links, where there was an evaluation of them.
    pub(super) val_auc: Option<f64>,
    /// Bytes sent to each rank.
    pub(super) sent: Vec<u64>,
}

/// Numbers before the bytes.
const FIXED: usize = 12;

impl Told {
    /// What an evaluation found, and the rest.
    pub(super) fn new(start_ns: u64, stop: bool, loss: f64, found: &Evaluation) -> Told {
        Told {
            start_ns,
            stop,
            loss,
            counts: found.counts,
            val_loss: found.val_loss,
            val_auc: found.rankings[0].map(|r| r.auc),
            sent: Vec::new(),
        }
    }

    /// As numbers, which is what ranks agree on.
    pub(super) fn encode(&self) -> Vec<f64> {
        let mut words = vec![
            self.start_ns as f64,
            f64::from(u8::from(self.stop)),
            self.loss,
        ];
        words.extend(self.counts);
        words.extend(self.val_loss);
        words.push(self.val_auc.unwrap_or(f64::NAN));
        words.extend(self.sent.iter().map(|&bytes| bytes as f64));
        words
    }

    /// Out of what [`Told::encode`] made.
    pub(super) fn decode(words: &[f64]) -> Told {
        let (fixed, sent) = words
            .split_first_chunk::<FIXED>()
            .expect("every rank encodes as many");
        let &[start, stop, loss, a, b, c, d, e, f, sum, terms, auc] = fixed;
        Told {
            start_ns: start as u64,
            stop: stop > 0.0,
            loss,
            counts: [a, b, c, d, e, f],
            val_loss: [sum, terms],
            val_auc: Some(auc).filter(|auc| !auc.is_nan()),
            sent: sent.iter().map(|&bytes| bytes as u64).collect(),
        }
    }
}

/// What all ranks told, in rank order.
pub(super) struct All(pub(super) Vec<Told>);

impl All {
    /// Whether somebody was asked to stop.
    pub(super) fn stop(&self) -> bool {
        self.0.iter().any(|told| told.stop)
    }

    /// Whether the losses of all ranks are finite numbers.
    pub(super) fn is_finite(&self) -> bool {
        self.0.iter().all(|told| told.loss.is_finite())
    }

    /// By how much an epoch that began at `start_ns` began after the first.
    pub(super) fn late_ns(&self, start_ns: u64) -> u64 {
        let first = self.0.iter().map(|told| told.start_ns).min();
        start_ns.saturating_sub(first.unwrap_or(start_ns))
    }

    /// Bytes that were sent to a rank.
    pub(super) fn sent_to(&self, rank: usize) -> u64 {
        self.0.iter().map(|told| told.sent[rank]).sum()
    }

    /// What is right of training (0), validation (1) and test rows (2), where there are any.
    fn share(&self, k: usize) -> Option<f64> {
        let sum = |at: usize| self.0.iter().map(|told| told.counts[at]).sum::<f64>();
        let (right, of) = (sum(2 * k), sum(2 * k + 1));
        (of > 0.0).then(|| right / of)
    }

    /// The validation score, where there was an evaluation of one: rank 0's of links, so that all have the
    /// same bits.
    pub(super) fn score(&self) -> Option<f64> {
        let of_links = self.0.first().and_then(|told| told.val_auc);
        of_links.or_else(|| self.share(1))
    }

    /// The row of the `metrics` frame, without its epoch and times: `train_total` terms were trained on,
    /// and a vertex may have `several` classes.
    pub(super) fn metrics(
        &self,
        train_total: usize,
        several: bool,
        found: &Evaluation,
    ) -> MetricsRow {
        let sum = |of: &dyn Fn(&Told) -> f64| self.0.iter().map(of).sum::<f64>();
        let (val_loss, terms) = (sum(&|told| told.val_loss[0]), sum(&|told| told.val_loss[1]));
        let share = |of_several: bool, k: usize| {
            let asked = several == of_several;
            asked.then(|| self.share(k)).flatten()
        };
        let [val, test] = found.rankings;
        MetricsRow {
            epoch: 0,
            is_warmup: false,
            train_loss: sum(&|told| told.loss) / train_total.max(1) as f64,
            val_loss: (terms > 0.0).then(|| val_loss / terms),
            train_acc: share(false, 0),
            val_acc: share(false, 1),
            test_acc: share(false, 2),
            train_f1: share(true, 0),
            val_f1: share(true, 1),
            test_f1: share(true, 2),
            val_auc: val.map(|r| r.auc),
            test_auc: test.map(|r| r.auc),
            test_ap: test.map(|r| r.ap),
            test_mrr: test.map(|r| r.mrr),
            eval_ms: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(start_ns: u64, loss: f64, sent: [u64; 2]) -> Told {
        Told {
            start_ns,
            stop: start_ns == 7,
            loss,
            counts: [1.0, 2.0, 3.0, 4.0, 0.0, 0.0],
            val_loss: [0.5, 2.0],
            val_auc: None,
            sent: sent.into(),
        }
    }

    #[test]
    fn what_is_told_comes_back() {
        let mut one = told(123_456_789_012_345, 0.1 + 0.2, [5, 1 << 40]);
        assert_eq!(Told::decode(&one.encode()), one);
        one.val_auc = Some(0.75);
        assert_eq!(Told::decode(&one.encode()), one);
    }

    #[test]
    fn sums_are_over_all_ranks_and_scores_are_rank_0s() {
        let all = All(vec![told(9, 1.0, [0, 30]), told(7, 2.0, [40, 0])]);
        assert!(all.stop());
        assert_eq!((all.late_ns(9), all.late_ns(7)), (2, 0));
        assert_eq!((all.sent_to(0), all.sent_to(1)), (40, 30));
        let row = all.metrics(6, false, &Evaluation::default());
        assert_eq!((row.train_loss, row.val_loss), (0.5, Some(0.25)));
        assert_eq!(
            (row.val_acc, row.val_f1, row.test_acc),
            (Some(0.75), None, None)
        );
        assert_eq!(all.score(), Some(0.75));
        let mut links = told(9, 1.0, [0, 0]);
        links.val_auc = Some(0.9);
        assert_eq!(All(vec![links, told(7, 1.0, [0, 0])]).score(), Some(0.9));
    }
}
