//! Ranks and messages.
//!
//! A [`Transport`] moves words between two ranks; the [`Communicator`] builds the collectives on
//! it, meters every byte and every blocked nanosecond, and is all that a strategy sees.

mod blocking;
mod communicator;
mod operation;
mod threads;
mod transport;

pub use communicator::{Communicator, Label, Ticket};
pub use threads::ThreadTransport;
pub use transport::{Handle, Progress, Transport, Words};

#[cfg(test)]
mod tests;
