//! Numbers of one run, as figures ask for them.
//!
//! Counts are means or sums over epochs, for strategies may skip some; times are medians over the epochs
//! behind the warm-up, but those of communication, which some epochs skip: they are means.

use polars::prelude::{AnyValue, DataFrame};

use crate::plot::{median, need, warmup, words};
use crate::run::Run;

impl Run {
    /// A column of a frame as numbers, a missing one as NaN.
    ///
    /// # Panics
    /// An unknown frame or column.
    pub fn values(&self, frame: &str, column: &str) -> Vec<f64> {
        column_of(&self.frame(frame), frame, column)
    }

    /// The sum of a column of a frame, over the whole run.
    ///
    /// # Panics
    /// An unknown frame or column.
    pub fn sum(&self, frame: &str, column: &str) -> f64 {
        let values = self.values(frame, column).into_iter();
        values.filter(|value| value.is_finite()).sum()
    }

    /// The same of an epoch, a mean over them.
    ///
    /// # Panics
    /// An unknown frame or column.
    pub fn an_epoch(&self, frame: &str, column: &str) -> f64 {
        self.sum(frame, column) / self.epoch_count() as f64
    }

    /// The median of a column of a frame with epochs, over its rows behind the warm-up: a rank's time.
    ///
    /// # Panics
    /// An unknown frame or column.
    pub fn typical(&self, frame: &str, column: &str) -> f64 {
        let first = warm_epochs(&self.epochs()).min(self.epoch_count() - 1);
        let rows = self.frame(frame);
        let epochs = column_of(&rows, frame, "epoch").into_iter();
        let rows = epochs.zip(column_of(&rows, frame, column));
        median(
            rows.filter(|(epoch, _)| *epoch >= first as f64)
                .map(|(_, value)| value),
        )
    }

    /// How many epochs it has.
    pub fn epoch_count(&self) -> usize {
        self.epochs().height()
    }

    /// A time of the `epochs` frame, ms, of the slowest rank: the median over the epochs behind the
    /// warm-up.
    ///
    /// # Panics
    /// An unknown column.
    pub fn epoch_ms(&self, column: &str) -> f64 {
        let epochs = self.epochs();
        let values = column_of(&epochs, "epochs", column);
        median(settled(values, &epochs))
    }

    /// What a rank was held up by others in an epoch, ms: transfer that nothing hid and waiting for it; of
    /// the slowest rank, the mean over the epochs behind the warm-up, for strategies skip some.
    pub fn communicate_ms(&self) -> f64 {
        let epochs = self.epochs();
        let of = |column: &str| column_of(&epochs, "epochs", column);
        let both = of("xfer_exposed_ms").into_iter().zip(of("wait_ms"));
        let each = settled(both.map(|(x, w)| x + w), &epochs);
        each.iter().sum::<f64>() / each.len() as f64
    }

    /// A count of the `ranks` frame for each rank in an epoch: the mean over the epochs.
    ///
    /// # Panics
    /// An unknown column.
    pub fn per_rank(&self, column: &str) -> Vec<f64> {
        self.by_rank(column, false, |values| {
            values.iter().sum::<f64>() / values.len() as f64
        })
    }

    /// A time of the `ranks` frame for each rank, ms: the median over the epochs behind the warm-up.
    ///
    /// # Panics
    /// An unknown column.
    pub fn per_rank_ms(&self, column: &str) -> Vec<f64> {
        self.by_rank(column, true, |values| median(values.iter().copied()))
    }

    fn by_rank(&self, column: &str, warm: bool, of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let ranks = self.ranks();
        let values = column_of(&ranks, "ranks", column);
        let rank = column_of(&ranks, "ranks", "rank");
        // Only `epochs` says which are warm-up.
        let first = match warm {
            true => warm_epochs(&self.epochs()).min(self.epoch_count() - 1),
            false => 0,
        };
        let epoch = column_of(&ranks, "ranks", "epoch");
        let mut each: Vec<Vec<f64>> = Vec::new();
        for ((rank, epoch), value) in rank.iter().zip(epoch).zip(values) {
            let rank = *rank as usize;
            each.resize_with(each.len().max(rank + 1), Vec::new);
            if epoch >= first as f64 {
                each[rank].push(value);
            }
        }
        each.iter().map(|values| of(values)).collect()
    }

    /// How uneven a count of the `ranks` frame is: the largest rank's over the mean; 1 is even.
    ///
    /// # Panics
    /// An unknown column.
    pub fn uneven(&self, column: &str) -> f64 {
        uneven(&self.per_rank(column))
    }

    /// Bytes of an epoch that fit a pair of words of the `comm` frame, all ranks together: such as
    /// `("op", "broadcast")` or `("direction", "forward")`.
    ///
    /// # Panics
    /// An unknown column.
    pub fn bytes_of(&self, (column, word): (&str, &str)) -> f64 {
        let comm = self.comm();
        let bytes = column_of(&comm, "comm", "bytes");
        let said = words(&comm, column)
            .unwrap_or_else(|| panic!("the comm frame has no column {column:?}"));
        let rows = bytes.iter().zip(said).filter(|(_, said)| said == word);
        rows.map(|(bytes, _)| bytes).sum::<f64>() / self.epoch_count() as f64
    }

    /// Bytes of rows and of their gradients in an epoch, all ranks together: everything that travels but
    /// gradients of weights and what evaluations collect.
    pub fn row_bytes(&self) -> f64 {
        let all = self.sum("comm", "bytes") / self.epoch_count() as f64;
        all - self.bytes_of(("direction", "grad")) - self.bytes_of(("direction", "eval"))
    }

    /// Bytes that were sent, less those that a plan predicted, over the rows that have a prediction.
    pub fn unforeseen_bytes(&self) -> f64 {
        let (sent, seen) = (
            self.values("comm", "bytes"),
            self.values("comm", "predicted_bytes"),
        );
        let both = sent.iter().zip(seen).filter(|(_, seen)| seen.is_finite());
        both.map(|(sent, seen)| sent - seen).sum()
    }

    /// Bytes of rows that ranks keep over epochs, in the host's memory and on devices, in the last epoch;
    /// each rank's.
    pub fn cache_bytes(&self) -> Vec<f64> {
        let ranks = self.ranks();
        let of = |column: &str| column_of(&ranks, "ranks", column);
        let epochs = of("epoch");
        let last = epochs.iter().copied().fold(0.0, f64::max);
        let both = of("cache_bytes").into_iter().zip(of("dev_cache_bytes"));
        let rows = epochs.into_iter().zip(both);
        rows.filter(|(epoch, _)| *epoch == last)
            .map(|(_, (host, device))| host + device)
            .collect()
    }

    /// Vertices of the graph.
    pub fn vertices(&self) -> f64 {
        self.sum("partition", "nodes")
    }

    /// Test accuracy at the epoch of the best validation accuracy; NaN where it was not evaluated.
    pub fn accuracy(&self) -> f64 {
        let summary = self.summary();
        column_of(&summary, "runs", "test_acc")
            .first()
            .copied()
            .unwrap_or(f64::NAN)
    }

    /// Training losses, one an epoch.
    pub fn losses(&self) -> Vec<f64> {
        self.values("epochs", "train_loss")
    }

    /// How far the losses of two runs are apart, at most, relative to this one's.
    pub fn apart(&self, other: &Run) -> f64 {
        let (ours, theirs) = (self.losses(), other.losses());
        let gaps = ours.iter().zip(&theirs).map(|(a, b)| ((a - b) / a).abs());
        gaps.fold(0.0, f64::max)
    }

    /// Epochs in which a rank sent its rows of a layer, or, of no rank, in which anybody did; from the
    /// `stale` frame.
    ///
    /// # Panics
    /// When the strategy has no such frame.
    pub fn broadcasts(&self, rank: impl Into<Option<u32>>, layer: u32) -> Vec<f64> {
        let stale = self.stale();
        let of = |column: &str| column_of(&stale, "stale", column);
        let state = words(&stale, "state").expect("every stale frame has a state");
        let rows = of("epoch").into_iter().zip(of("rank"));
        let rows = rows.zip(of("layer").into_iter().zip(state));
        let rank = rank.into().map(f64::from);
        let sent = rows.filter(|((_, by), (at, state))| {
            rank.is_none_or(|rank| *by == rank) && *at == f64::from(layer) && state == "active"
        });
        let mut epochs: Vec<f64> = sent.map(|((epoch, _), _)| epoch).collect();
        epochs.sort_by(f64::total_cmp);
        epochs.dedup();
        epochs
    }
}

/// From each value to the next.
pub fn distances(values: &[f64]) -> Vec<f64> {
    values.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The largest of some values; NaN of none.
pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}

/// The smallest of some values; NaN of none.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(f64::NAN)
}

/// The largest value over their mean: 1 is even.
pub fn uneven(values: &[f64]) -> f64 {
    most(values) * values.len() as f64 / values.iter().sum::<f64>()
}

/// A column as numbers.
pub(super) fn column_of(frame: &DataFrame, name: &str, column: &str) -> Vec<f64> {
    match need(frame, name, column) {
        Ok(values) => values,
        Err(error) => panic!("{error}"),
    }
}

/// The cells of a row as words, for labels.
pub(crate) fn word(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::String(text) => (*text).to_owned(),
        AnyValue::StringOwned(text) => text.to_string(),
        AnyValue::Null => String::new(),
        other => other.to_string(),
    }
}

/// Values of the epochs behind the warm-up; of all, where everything is.
fn settled(values: impl IntoIterator<Item = f64>, epochs: &DataFrame) -> Vec<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let from = warm_epochs(epochs);
    match from < values.len() {
        true => values[from..].to_vec(),
        false => values,
    }
}

fn warm_epochs(epochs: &DataFrame) -> usize {
    warmup(epochs).iter().take_while(|warm| **warm).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_over_the_mean() {
        assert_eq!(uneven(&[1.0, 1.0]), 1.0);
        assert_eq!(uneven(&[3.0, 1.0]), 1.5);
    }
}
