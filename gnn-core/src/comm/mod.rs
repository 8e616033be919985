//! Ranks and messages.
//!
//! A [`Transport`] moves words between two ranks; the [`Communicator`] builds the collectives on
//! it, meters every byte and every blocked nanosecond, and is all that a strategy sees.

mod blocking;
mod communicator;
mod link;
mod operation;
mod threads;
mod transport;

pub use communicator::{Communicator, Label, Ticket};
pub use link::Link;
pub(crate) use link::{Linked, same_clock};
pub use threads::ThreadTransport;
pub(crate) use transport::NOTICE_TAG;
pub use transport::{Handle, Progress, Transport, Words};

#[cfg(test)]
mod tests;
