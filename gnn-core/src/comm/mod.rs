//! Ranks and messages.
//!
//! A [`Transport`] moves words between two ranks; the [`Communicator`] builds the collectives on
//! it, meters every byte and every blocked nanosecond, and is all that a strategy sees. Some of the ranks
//! make a [`Communicator::group`], which is one more.
//!
//! A strategy with work in the background has a hub beside it, through which threads exchange letters,
//! in pieces where messages leave one after the other.

mod blocking;
mod communicator;
mod covered;
mod devices;
mod group;
mod hub;
mod lane;
mod link;
mod mail;
mod members;
mod message;
mod operation;
mod outgoing;
mod port;
mod route;
mod skew;
mod sum;
mod tags;
mod threads;
mod transport;
mod wait;
mod wire;

pub use crate::record::{Label, Skew};
pub use crate::spec::Link;
pub use communicator::{Communicator, GIVEN_UP};
pub(crate) use hub::with_hub;
pub(crate) use link::{behind_link, same_clock};
pub use mail::{Address, Letter, MailLane, Mailbox, Outbox, Post, unreadable};
pub use message::{Message, Payload, Ticket};
pub use outgoing::Precedence;
pub use threads::ThreadTransport;
pub(crate) use transport::NOTICE_TAG;
pub use transport::{Handle, Progress, Settle, Transport, WayOut, Words};
pub(crate) use wait::sleep_exactly;

#[cfg(test)]
mod tests;
