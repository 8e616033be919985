//! Messages between ranks, of any serialisable value.

use gnn_core::comm::{Communicator, Label};
use gnn_core::error::{Error, Result};
use gnn_core::record::Direction;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;

const LABEL: Label = Label {
    layer: 0,
    direction: Direction::Eval,
};

/// A rank's way to the others. Collectives are called by every rank, in the same order.
pub struct Comm {
    inner: Communicator,
    /// What this rank sent to itself.
    own: VecDeque<Vec<f32>>,
}

impl Comm {
    pub(super) fn new(inner: Communicator) -> Comm {
        Comm {
            inner,
            own: VecDeque::new(),
        }
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.inner.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.inner.size()
    }

    fn check(&self, rank: usize) -> Result<()> {
        if rank < self.size() {
            return Ok(());
        }
        Err(Error::Comm {
            op: "p2p".into(),
            peer: Some(rank as u32),
            reason: format!("there are {} ranks, numbered from 0", self.size()),
        })
    }

    /// Sends a value to a rank; does not wait for it to be received.
    ///
    /// # Errors
    /// [`Error::Comm`] for a rank that does not exist, and when it is gone.
    pub fn send<T: Serialize>(&mut self, to: usize, value: T) -> Result<()> {
        self.check(to)?;
        let message = packed(&value)?;
        if to == self.rank() {
            self.own.push_back(message);
            return Ok(());
        }
        let len = vec![f32::from_bits(message.len() as u32)];
        self.inner.post_send(LABEL, to, len)?;
        self.inner.post_send(LABEL, to, message)
    }

    /// Waits for the next value from a rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when the rank does not exist or is gone, or when the value is of another type.
    pub fn recv<T: DeserializeOwned>(&mut self, from: usize) -> Result<T> {
        self.check(from)?;
        if from == self.rank() {
            let message = self.own.pop_front().ok_or_else(|| Error::Comm {
                op: "p2p".into(),
                peer: Some(from as u32),
                reason: "this rank has not sent itself anything".into(),
            })?;
            return unpacked(from, &message);
        }
        let len = self.inner.recv::<Vec<f32>>(LABEL, from, 1)?;
        let len = len.first().map_or(0, |x| x.to_bits() as usize);
        let message: Vec<f32> = self.inner.recv(LABEL, from, len)?;
        unpacked(from, &message)
    }

    /// Waits until every rank has come here.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn barrier(&mut self) -> Result<()> {
        self.inner.barrier(LABEL)
    }

    /// The elementwise sum of every rank's numbers, of one length on every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or has another length.
    pub fn all_reduce(&mut self, x: &[f32]) -> Result<Vec<f32>> {
        self.inner.all_reduce(LABEL, x.to_vec())
    }

    /// The sum of a number of every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn sum(&mut self, x: f64) -> Result<f64> {
        Ok(self.inner.agree(&[x])?.concat().iter().sum())
    }

    /// The largest of a number of every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn max(&mut self, x: f64) -> Result<f64> {
        let all = self.inner.agree(&[x])?.concat();
        Ok(all.into_iter().fold(f64::NEG_INFINITY, f64::max))
    }

    /// Every rank's value, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone or has a value of another type.
    pub fn all_gather<T: Serialize + DeserializeOwned>(&mut self, value: T) -> Result<Vec<T>> {
        let message = packed(&value)?;
        let lens = self.inner.agree(&[message.len() as f64])?.concat();
        let lens: Vec<usize> = lens.into_iter().map(|n| n as usize).collect();
        let all = self.inner.all_gather_v(LABEL, message, &lens)?;
        let from = all.iter().enumerate();
        from.map(|(rank, message)| unpacked(rank, message))
            .collect()
    }

    /// The value of rank `root`, on every rank.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone, there is no such rank, or the value is of another type.
    pub fn broadcast<T: Serialize + DeserializeOwned>(
        &mut self,
        root: usize,
        value: T,
    ) -> Result<T> {
        self.check(root)?;
        let message = packed(&value)?;
        let lens = self.inner.agree(&[message.len() as f64])?.concat();
        let mine = if root == self.rank() {
            message
        } else {
            Vec::new()
        };
        let message = self
            .inner
            .broadcast(LABEL, root, mine, lens[root] as usize)?;
        unpacked(root, &message)
    }

    /// The communicator that strategies use: messages of floats, posted and finished.
    pub fn raw(&mut self) -> &mut Communicator {
        &mut self.inner
    }
}

/// A value as words: its length in bytes, then its JSON.
fn packed<T: Serialize>(value: &T) -> Result<Vec<f32>> {
    let bytes = serde_json::to_vec(value).map_err(|error| Error::Comm {
        op: "send".into(),
        peer: None,
        reason: format!("the value cannot be sent: {error}"),
    })?;
    let word = |four: &[u8]| {
        let mut word = [0; 4];
        word[..four.len()].copy_from_slice(four);
        f32::from_bits(u32::from_le_bytes(word))
    };
    let head = f32::from_bits(bytes.len() as u32);
    Ok([head]
        .into_iter()
        .chain(bytes.chunks(4).map(word))
        .collect())
}

fn unpacked<T: DeserializeOwned>(from: usize, message: &[f32]) -> Result<T> {
    let (head, words) = message.split_first().unwrap_or((&0.0, &[]));
    let mut bytes: Vec<u8> = words
        .iter()
        .flat_map(|x| x.to_bits().to_le_bytes())
        .collect();
    bytes.truncate(head.to_bits() as usize);
    serde_json::from_slice(&bytes).map_err(|error| Error::Comm {
        op: "receive".into(),
        peer: Some(from as u32),
        reason: format!("the value is no {}: {error}", std::any::type_name::<T>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_being_words() {
        for text in ["", "a", "four", "fives", "ü–"] {
            let message = packed(&(text, 7u8)).expect("packs");
            let back: (String, u8) = unpacked(0, &message).expect("the same type");
            assert_eq!(back, (text.to_owned(), 7));
        }
        let message = packed(&"text").expect("packs");
        let error = unpacked::<usize>(3, &message).unwrap_err().to_string();
        assert!(error.contains("usize"), "{error}");
    }
}
