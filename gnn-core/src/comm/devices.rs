//! What a communicator has to do with devices: how messages of rows come to stay there.

use super::communicator::Communicator;
use super::lane::{Lane, Manner};
use crate::error::{Error, Result};
use crate::record::{Direction, Label};
use kernels::cuda::Device;
use kernels::cuda::nccl::Id;
use std::rc::Rc;
use std::sync::Arc;

/// What messages before the first layer are called.
const SETUP: Label = Label {
    layer: 0,
    direction: Direction::Eval,
};

fn made() -> Result<Id> {
    Id::new().map_err(|e| Error::Comm {
        op: "NCCL".into(),
        peer: None,
        reason: e.to_string(),
    })
}

fn words_of(id: &Id) -> Vec<f32> {
    let word = |bytes: &[u8]| f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    id.bytes().chunks(4).map(word).collect()
}

fn id_of(words: &[f32]) -> Id {
    let mut bytes = [0; Id::BYTES];
    for (to, word) in bytes.chunks_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    Id::from_bytes(bytes)
}

impl Communicator {
    /// From now on messages of rows stay on `device`, which is this rank's own, and go from there to the
    /// other ranks' devices by NCCL. Sums are in the order of ranks where they are to be `ordered`, else in
    /// NCCL's own. Collective.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone, or NCCL refuses.
    pub fn between_devices(&mut self, device: &Arc<Device>, ordered: bool) -> Result<()> {
        let words = match self.rank() {
            0 => words_of(&made()?),
            _ => Vec::new(),
        };
        let words = self.broadcast(SETUP, 0, words, Id::BYTES / 4)?;
        let meter = Rc::clone(&self.wire().meter);
        let manner = Manner {
            at_once: self.wire().at_once,
            ordered,
        };
        let lane = Lane::join(device, meter, self.members(), id_of(&words), manner)?;
        self.set_lane(Some(lane));
        Ok(())
    }

    /// From now on rows that one rank sends to one other ([`Communicator::post_send`]) stay on devices too,
    /// for the pairs `(from, to)` that are named; those of others pass through the host. All ranks name the
    /// same, in one order. Nothing without a way between devices. Collective.
    ///
    /// # Errors
    /// As [`Communicator::between_devices`].
    pub fn lines(&mut self, pairs: &[(usize, usize)]) -> Result<()> {
        let Some(mut lane) = self.set_lane(None) else {
            return Ok(());
        };
        let me = self.rank();
        // One after the other, on both ends in this order: to join waits for the other end.
        for &(from, to) in pairs {
            if from == to || (from != me && to != me) || lane.has_line(from, to) {
                continue;
            }
            let id = match from == me {
                true => {
                    let id = made()?;
                    self.post_send(SETUP, to, words_of(&id))?;
                    id
                }
                false => id_of(&self.recv::<Vec<f32>>(SETUP, from, Id::BYTES / 4)?),
            };
            lane.line(me, (from, to), id)?;
        }
        self.set_lane(Some(lane));
        Ok(())
    }

    /// Whether messages of rows stay on the device.
    pub fn is_between_devices(&self) -> bool {
        self.lane().is_some()
    }

    /// From now on everything passes through the host. Collective.
    pub(crate) fn leave_devices(&mut self) {
        self.set_lane(None);
    }

    /// Tells the meter what is known of messages between devices once the device has settled.
    ///
    /// # Errors
    /// [`Error::Comm`] when a peer is gone.
    pub fn settle_devices(&self) -> Result<()> {
        self.lane().map_or(Ok(()), Lane::settle)
    }
}
