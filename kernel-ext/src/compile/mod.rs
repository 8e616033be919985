//! Cells that are compiled by themselves: strategies, which become programs, and what every rank runs.
//!
//! The text of such a cell is a source file whose first line, the magic's, imports what the cell sees; so
//! the compiler speaks of the cell's own lines. Behind the last line stands what the magic adds.

pub mod ranks;
mod rustc;
mod shape;
mod strategy;

pub use strategy::{Source, compile};
