//! The blocking forms of the communicator's operations: post and finish in one call.

use super::transport::Words;
use super::{Communicator, Label};
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
    pub fn all_to_all_v(
        &mut self,
        label: Label,
        send: Vec<Vec<f32>>,
        recv_len: &[usize],
    ) -> Result<Vec<Vec<f32>>> {
        let ticket = self.post_all_to_all_v(label, send, recv_len)?;
        self.finish(ticket)
    }

    /// Blocking [`Communicator::post_all_gather_v`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn all_gather_v(
        &mut self,
        label: Label,
        mine: Vec<f32>,
        lens: &[usize],
    ) -> Result<Vec<Vec<f32>>> {
        let ticket = self.post_all_gather_v(label, mine, lens)?;
        self.finish(ticket)
    }

    /// Blocking [`Communicator::post_broadcast`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn broadcast(
        &mut self,
        label: Label,
        root: usize,
        data: Vec<f32>,
        len: usize,
    ) -> Result<Vec<f32>> {
        let ticket = self.post_broadcast(label, root, data, len)?;
        self.finish(ticket).map(joined)
    }

    /// Blocking [`Communicator::post_all_reduce`].
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or sends another length.
    pub fn all_reduce(&mut self, label: Label, data: Vec<f32>) -> Result<Vec<f32>> {
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
    pub fn recv(&mut self, label: Label, from: usize, len: usize) -> Result<Vec<f32>> {
        let ticket = self.post_recv(label, from, len)?;
        self.finish(ticket).map(joined)
    }
}

/// What came, in one piece: as it is where it came from one rank.
fn joined(mut parts: Vec<Vec<f32>>) -> Vec<f32> {
    parts.retain(|part| !part.is_empty());
    match parts.len() {
        1 => parts.remove(0),
        _ => parts.concat(),
    }
}

fn split(x: f64) -> [u32; 2] {
    let bits = x.to_bits();
    [bits as u32, (bits >> 32) as u32]
}

fn join(words: &[u32]) -> f64 {
    f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32)
}
