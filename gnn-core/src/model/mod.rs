//! Models: a stack of message-passing layers, each with a hand-written exact backward pass.
//!
//! A layer is an *aggregate* on a block and an *update* on rows ([`Layer`]). It reaches other
//! vertices only through an [`Aggregate`], so no model knows any strategy, and strategies know no
//! more of a model than [`Facts`] and [`Model::aggregations`]. A rank may hold some of the layers only;
//! what passes to those of another is a [`Crossing`].

mod attention;
mod batch_facts;
pub(crate) mod coefficients;
mod crossing;
mod decoupled;
mod decoupled_gat;
mod decoupled_rgcn;
mod dense;
mod gat;
mod gcn;
mod gcnii;
mod gin;
mod input;
mod kind;
mod layer;
mod memory;
mod norm;
mod optimiser;
mod owed;
mod patched;
mod product;
mod range;
mod resgcn;
mod rgcn;
mod rgcn_sums;
mod sage;
mod seam;
mod site;
mod stack;
mod work;

pub use crate::spec::ModelKind;
pub use crossing::Crossing;
pub use input::{Input, SparseInput};
pub use kind::{AggregateFirst, Shape};
pub use layer::{
    After, Beside, Facts, Flow, Grad, Init, Layer, Round, Saved, Tensor, Weights, Widths,
};
pub use memory::Memory;
pub use optimiser::Optimiser;
pub use owed::Owed;
pub use seam::{Aggregate, At, Edges, Neighbours, RoundSite, Rounds};
pub(crate) use seam::{in_pieces, with_room};
pub use site::Site;
pub(crate) use stack::dropout_key;
pub use stack::{Aggregation, Model, Ready, Tape};
pub use work::{LayerWork, work_of};

#[cfg(test)]
mod goldens;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
