//! Training on real data, compared with published figures.
//!
//! Runs only where the data is found (`HALOBOOK_DATA`, or `shared/data` beside the checkout), and
//! says so where it is not; the slow ones only with `HALOBOOK_SOAK=1`.

mod cora;
mod historical;
mod models;
mod partition;
mod proof;
mod runs;
mod sancus;
