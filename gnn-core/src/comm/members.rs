//! Who is in a communicator.

use super::transport::Transport;

/// Some ranks of the world, and which of them this one is.
#[derive(Debug)]
pub(super) struct Members {
    /// Their names in the world, by rank.
    world: Vec<usize>,
    me: usize,
}

impl Members {
    /// All ranks of a transport.
    pub(super) fn world_of(transport: &dyn Transport) -> Members {
        Members {
            world: (0..transport.size()).collect(),
            me: transport.rank(),
        }
    }

    /// Those of these that `ranks` names, in that order; none if it names one twice, one that is not there,
    /// or not this one.
    pub(super) fn some(&self, ranks: &[usize]) -> Option<Members> {
        let me = ranks.iter().position(|&r| r == self.me)?;
        let once = |(k, r): (usize, &usize)| *r < self.len() && !ranks[..k].contains(r);
        ranks.iter().enumerate().all(once).then(|| Members {
            world: ranks.iter().map(|&r| self.world[r]).collect(),
            me,
        })
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.world.len()
    }

    /// This one.
    pub(super) fn me(&self) -> usize {
        self.me
    }

    /// The name of one of them in the world.
    pub(super) fn world(&self, rank: usize) -> usize {
        self.world[rank]
    }
}
