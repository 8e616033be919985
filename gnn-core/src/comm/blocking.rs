//! The blocking forms of the communicator's operations: post and finish in one call.

use super::transport::Words;
use super::{Communicator, Label, Message, Payload};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::record::Direction;

impl Communicator {
    /// Gives a few double-precision numbers of every rank to every rank, outside epoch time.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn agree(&mut self, mine: &[f64]) -> Result<Vec<Vec<f64>>> {
        let words: Words = mine.iter().flat_map(|x| split(*x)).collect();
        let label = Label {
            layer: 0,
            direction: Direction::Eval,
        };
        let lens = vec![words.len(); self.size()];
        let ticket = self.post_all_gather_v(label, bytemuck::cast_vec(words), &lens)?;
        let parts = self.finish(ticket)?;
        Ok(parts
            .iter()
            .map(|p| bytemuck::cast_slice(p).chunks(2).map(join).collect())
            .collect())
    }

    /// Blocking [`Communicator::post_all_to_all_v`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn all_to_all_v<P: Payload>(
        &mut self,
        label: Label,
        send: Vec<P>,
        recv_len: &[usize],
    ) -> Result<Vec<P>> {
        let ticket = self.post_all_to_all_v(label, send, recv_len)?;
        self.finish(ticket)
    }

    /// Blocking [`Communicator::post_all_gather_v`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn all_gather_v<P: Payload>(
        &mut self,
        label: Label,
        mine: P,
        lens: &[usize],
    ) -> Result<Vec<P>> {
        let ticket = self.post_all_gather_v(label, mine, lens)?;
        self.finish(ticket)
    }

    /// Blocking [`Communicator::post_broadcast`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn broadcast<P: Payload>(
        &mut self,
        label: Label,
        root: usize,
        data: P,
        len: usize,
    ) -> Result<P> {
        let ticket = self.post_broadcast(label, root, data, len)?;
        self.finish(ticket).map(joined)
    }

    /// Blocking [`Communicator::post_all_reduce`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn all_reduce<P: Payload>(&mut self, label: Label, data: P) -> Result<P> {
        let ticket = self.post_all_reduce(label, data)?;
        self.finish(ticket).map(joined)
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn barrier(&mut self, label: Label) -> Result<()> {
        let ticket = self.post_barrier(label)?;
        self.finish(ticket).map(drop)
    }

    /// Blocking [`Communicator::post_recv`].
    ///
    /// # Errors
    /// [`Error::Comm`] when the peer is gone or sends another length.
    pub fn recv<P: Payload>(&mut self, label: Label, from: usize, len: usize) -> Result<P> {
        let ticket = self.post_recv::<P>(label, from, len)?;
        self.finish(ticket).map(joined)
    }
}

/// What came, in one piece: as it is where it came from one rank.
fn joined<P: Payload>(parts: Vec<P>) -> P {
    let mut parts: Vec<Message> = parts.into_iter().map(P::into).collect();
    parts.retain(|part| !part.is_empty());
    P::came(match parts.len() {
        1 => parts.remove(0),
        _ => Message::joined(parts),
    })
}

fn split(x: f64) -> [u32; 2] {
    let bits = x.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

fn join(words: &[u32]) -> f64 {
    f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32)
}
