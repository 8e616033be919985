//! The `stale` frame of strategies that use rows again which travelled in an earlier epoch.

use crate::frame;
use crate::record::frame::words;
use crate::record::{Direction, labels};
use serde::Deserialize;

labels! {
    /// The column `state`: what became of a rank's rows.
    Freshness {
        /// They were sent; historical rows, that this epoch's are the next version.
        Active => "active",
        /// They were not sent: their readers used what they had.
        Stale => "stale",
        /// Features, which never change: sent once.
        Input => "input",
    }
}

words!(Freshness);

frame! {
    /// What became of one rank's rows for one reader, in one layer and direction of one epoch, under
    /// a strategy that reuses old ones. The rank is the rows' owner.
    #[derive(Debug, Clone, PartialEq, Deserialize)]
    StaleRow in "stale" {
        /// Layer, from 0.
        layer: u16,
        /// Activations or their gradients.
        direction: Direction,
        /// Rank that reads them.
        peer: u32,
        /// Whether they were sent.
        state: Freshness,
        /// Age of the rows that the reader used, a mean over them; 0 for this epoch's.
        age_mean_epochs: f64,
        /// Age of the oldest.
        age_max_epochs: u32,
        /// Rows used that were not sent in this epoch.
        rows_reused: u64,
        /// Bytes of rows sent to the reader, by their owner or by a rank that hands them on.
        bytes_sent: u64,
        /// Bytes of rows that were not, because it had them.
        bytes_saved: u64,
        /// Bytes that told it which of the two it would be.
        bytes_agreed: u64,
        /// L2 norm of the difference between the rows and those sent last, where it is measured.
        drift_l2: Option<f64>,
        /// The same over the L2 norm of the rows.
        drift_rel: Option<f64>,
    }
}
