//! A modelled link between ranks, so that one machine can be studied as if it were a slow network.
//!
//! # Model
//! Every rank has a port that sends and one that receives, each of the link's rate, both at once.
//! A message of `b` bytes occupies the sender's port for `b / rate`, after the messages it sent
//! before; its head is at the receiver one latency after it left; there it occupies the receiving
//! port for `b / rate`, after the messages whose heads came before. Alone on the way it needs
//! `latency + b / rate`. Weights of headers and protocols are zero, and so is what a rank keeps.
//!
//! Messages are real; the receiver only does not see one before its modelled arrival. A transport
//! that is slower than the model stays as slow as it is.
//!
//! A collective is the messages that [`super::Communicator`] makes of it, each with a latency of its own.
//! What a rank hands on, a segment of a broadcast, leaves when it has arrived and the port is free, however late
//! the rank looks: as by NCCL's own threads or a network card, not by an MPI library that is not called.
//! # Clock
//! Departures are stamped with the machine's monotonic clock, which all processes of a host share.
//! Ranks on several hosts are refused ([`same_clock`]).

mod ports;
mod transport;

pub(super) use transport::clock_id;
pub(crate) use transport::same_clock;

use super::Transport;
use transport::Linked;

use crate::spec::Link;

/// A transport behind the link of a request, if it has one.
pub(crate) fn behind_link(link: Option<Link>, transport: Box<dyn Transport>) -> Box<dyn Transport> {
    match link {
        Some(link) => Box::new(Linked::new(transport, link)),
        None => transport,
    }
}

#[cfg(test)]
mod tests;
