//! What ranks give each other: floats in this process's memory, or on its device.

use kernels::cuda::Buf;
use std::marker::PhantomData;
use std::sync::Arc;

/// Floats on their way between ranks, or between two steps of one.
#[derive(Debug)]
pub enum Message {
    /// In this process's memory.
    Host(Vec<f32>),
    /// On its device.
    Device(Arc<Buf<f32>>),
}

impl Default for Message {
    fn default() -> Message {
        Message::Host(Vec::new())
    }
}

impl From<Vec<f32>> for Message {
    fn from(floats: Vec<f32>) -> Message {
        Message::Host(floats)
    }
}

impl From<Buf<f32>> for Message {
    fn from(floats: Buf<f32>) -> Message {
        Message::Device(Arc::new(floats))
    }
}

impl Message {
    /// How many floats.
    pub fn len(&self) -> usize {
        match self {
            Message::Host(floats) => floats.len(),
            Message::Device(floats) => floats.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The floats, in this process's memory; those of a device are waited for.
    pub fn floats(self) -> Vec<f32> {
        match self {
            Message::Host(floats) => floats,
            Message::Device(floats) => floats.download(),
        }
    }

    /// One message of all floats of `parts`, which are in one memory.
    pub(crate) fn joined(parts: Vec<Message>) -> Message {
        let all = parts.iter().map(Message::len).sum();
        let on_device = parts.iter().find_map(|part| match part {
            Message::Device(floats) => Some(Arc::clone(floats.device())),
            Message::Host(_) => None,
        });
        if let Some(device) = on_device {
            let mut joined = device.fresh(all);
            let mut at = 0;
            for part in parts {
                let n = part.len();
                match part {
                    Message::Device(floats) => joined.copy_from(at, &floats, 0, n),
                    Message::Host(floats) => joined.copy_from(at, &device.upload(&floats), 0, n),
                }
                at += n;
            }
            return joined.into();
        }
        let mut parts = parts.into_iter().map(Message::floats);
        let mut joined = parts.next().unwrap_or_default();
        joined.reserve_exact(all - joined.len());
        parts.for_each(|part| joined.extend_from_slice(&part));
        joined.into()
    }

    /// Parts of these lengths, one behind the other. The first keeps the memory where that is the host's.
    ///
    /// # Panics
    /// When they are not all of it.
    pub(crate) fn cut(self, lens: &[usize]) -> Vec<Message> {
        assert_eq!(lens.iter().sum::<usize>(), self.len(), "parts of a message");
        match self {
            Message::Host(mut floats) => {
                let mut parts: Vec<Message> = Vec::with_capacity(lens.len());
                for &len in lens.iter().skip(1).rev() {
                    parts.push(floats.split_off(floats.len() - len).into());
                }
                parts.push(floats.into());
                parts.reverse();
                parts.truncate(lens.len());
                parts
            }
            Message::Device(floats) => {
                let mut at = 0;
                let part = |&len: &usize| {
                    let mut part = floats.device().fresh(len);
                    part.copy_from(0, &floats, at, len);
                    at += len;
                    part.into()
                };
                lens.iter().map(part).collect()
            }
        }
    }
}

/// What can be given to other ranks. Both ends of an operation name the same kind.
pub trait Payload: Into<Message> + From<Vec<f32>> {
    /// Whether they stay on the device where ranks have a way between devices: rows of matrices do, numbers
    /// that a rank computes with by itself do not.
    const STAYS: bool;

    /// What came.
    fn came(message: Message) -> Self;
}

impl Payload for Vec<f32> {
    const STAYS: bool = false;

    fn came(message: Message) -> Vec<f32> {
        message.floats()
    }
}

impl Payload for Message {
    const STAYS: bool = true;

    fn came(message: Message) -> Message {
        message
    }
}

/// A posted operation that somebody must finish, on whichever communicator of its rank.
#[must_use = "a posted operation must be finished on every rank"]
#[derive(Debug)]
pub struct Ticket<P = Message> {
    pub(super) at: Place,
    payload: PhantomData<P>,
}

/// Where a posted operation is kept.
#[derive(Debug)]
pub(super) enum Place {
    /// Number of what is posted on the wire.
    Wire(usize),
    /// Number of what flies between devices.
    Lane(usize),
}

impl<P> Ticket<P> {
    pub(super) fn of(at: Place) -> Ticket<P> {
        Ticket {
            at,
            payload: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_is_cut_again_and_the_first_keeps_its_memory() {
        let parts: Vec<Vec<f32>> = vec![vec![1.0, 2.0], Vec::new(), vec![3.0]];
        let lens: Vec<usize> = parts.iter().map(Vec::len).collect();
        let joined = Message::joined(parts.iter().cloned().map(Message::from).collect());
        let Message::Host(floats) = &joined else {
            panic!("on the host")
        };
        assert_eq!(floats, &[1.0, 2.0, 3.0]);
        let at = floats.as_ptr();
        let cut: Vec<Vec<f32>> = joined.cut(&lens).into_iter().map(Message::floats).collect();
        assert_eq!((cut[0].as_ptr(), &cut), (at, &parts));
        assert!(Message::joined(Vec::new()).cut(&[]).is_empty());
        let Some(shim) = crate::testing::shim() else {
            return;
        };
        let up = |part: &Vec<f32>| Message::from(shim.upload(part));
        let joined = Message::joined(parts.iter().map(up).collect());
        assert!(matches!(joined, Message::Device(_)));
        let cut: Vec<Vec<f32>> = joined.cut(&lens).into_iter().map(Message::floats).collect();
        assert_eq!(cut, parts);
    }
}
