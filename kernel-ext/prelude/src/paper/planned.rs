//! What a request would send, hold and take.

use polars::prelude::DataFrame;

use super::numbers::{column_of, most};
use crate::display::Bundle;
use crate::plot::words;
use crate::show::Show;

/// A plan: a row for each rank and item, as `%plan -o` binds it. Nothing was trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned(pub(super) DataFrame);

impl Planned {
    /// The frame.
    pub fn frame(&self) -> &DataFrame {
        &self.0
    }

    /// An item of each rank that has it: `epoch_bytes`, `memory`, `epoch_time` and whatever else
    /// `halobook plan --help` lists.
    pub fn per_rank(&self, item: &str) -> Vec<f64> {
        let items = words(&self.0, "item").unwrap_or_default().into_iter();
        let rows = items.zip(column_of(&self.0, "plan", "value"));
        rows.filter(|(name, _)| name == item)
            .map(|(_, value)| value)
            .collect()
    }

    /// The sum of an item over all ranks, such as bytes that are sent.
    pub fn total(&self, item: &str) -> f64 {
        self.per_rank(item).iter().sum()
    }

    /// The largest rank's, such as memory; NaN where no rank has it.
    pub fn most(&self, item: &str) -> f64 {
        most(&self.per_rank(item))
    }
}

impl Show for Planned {
    fn bundle(&self) -> Bundle {
        self.0.bundle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::df;

    #[test]
    fn an_item_is_of_the_ranks_that_have_it() {
        let frame = df!(
            "rank" => [Some(0u32), Some(1), Some(0), None],
            "item" => ["memory", "memory", "epoch_bytes", "epoch_time"],
            "value" => [3.0, 5.0, 7.0, 2.5],
        );
        let planned = Planned(frame.expect("columns of one length"));
        assert_eq!(planned.per_rank("memory"), [3.0, 5.0]);
        assert_eq!(planned.total("memory"), 8.0);
        assert_eq!(planned.most("memory"), 5.0);
        assert_eq!(planned.total("epoch_bytes"), 7.0);
        assert_eq!(planned.total("bubble"), 0.0);
        assert!(planned.most("bubble").is_nan());
    }
}
