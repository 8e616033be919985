//! Messages between devices, on a stream beside the one that works.
//!
//! What is sent is what the device's stream had made when it was asked for; what comes may be used once
//! the [`Flight`] has landed, by whatever is asked of the device from then on. Nobody waits on the host.

use super::nccl::{Comm, Piece};
use super::ops::THREADS;
use super::{Arg, Buf, Device, Error, Launch, Mark, Side};
use std::ops::Range;
use std::sync::Arc;

/// A device's stream for messages.
pub struct Queue {
    device: Arc<Device>,
    side: Box<dyn Side>,
}

impl Queue {
    /// A stream of its own on `device`.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(device: &Arc<Device>) -> Result<Queue, Error> {
        Ok(Queue {
            side: device.side()?,
            device: Arc::clone(device),
        })
    }

    /// The stream.
    pub fn side(&self) -> &dyn Side {
        self.side.as_ref()
    }

    fn fresh(&self, floats: usize) -> Result<Arc<Buf<f32>>, Error> {
        self.device.try_fresh(floats).map(Arc::new)
    }

    /// What is asked for now is behind what the device was asked for. The beginning.
    fn begin(&self) -> Result<Mark, Error> {
        self.side.wait_for(&self.device.mark())?;
        self.side.mark()
    }

    fn flight(
        &self,
        begun: Mark,
        kept: Vec<Arc<Buf<f32>>>,
        came: Vec<Arc<Buf<f32>>>,
    ) -> Result<Flight, Error> {
        Ok(Flight {
            begun: Some(begun),
            ended: Some(self.side.mark()?),
            device: Arc::clone(&self.device),
            kept,
            came,
        })
    }

    /// Sends a buffer to each rank named, and receives as many floats as are named from each. Nobody writes
    /// what is sent before the flight has landed.
    ///
    /// # Errors
    /// What NCCL says.
    pub fn exchange(
        &self,
        comm: &Comm,
        sent: Vec<(usize, Arc<Buf<f32>>)>,
        received: &[(usize, usize)],
    ) -> Result<Flight, Error> {
        let room = received.iter().map(|&(_, count)| self.fresh(count));
        let came = room.collect::<Result<Vec<Arc<Buf<f32>>>, Error>>()?;
        let begun = self.begin()?;
        let out: Vec<Piece> = sent
            .iter()
            .map(|(peer, x)| piece(*peer, x, 0..x.len()))
            .collect();
        let into = received.iter().zip(&came);
        let into: Vec<Piece> = into.map(|(&(peer, n), x)| piece(peer, x, 0..n)).collect();
        // SAFETY: the buffers stay with the flight, which nobody else uses until it has landed.
        unsafe { comm.exchange(self.side(), &out, &into) }?;
        let kept = sent.into_iter().map(|(_, x)| x).collect();
        self.flight(begun, kept, came)
    }

    /// Gives the root's `x` to all; the others pass room for it. Nobody uses `x` before the flight has landed.
    ///
    /// # Errors
    /// What NCCL says.
    pub fn broadcast(&self, comm: &Comm, root: usize, x: Arc<Buf<f32>>) -> Result<Flight, Error> {
        let begun = self.begin()?;
        // SAFETY: as in `exchange`.
        unsafe { comm.broadcast(self.side(), root, x.at(0), x.len()) }?;
        self.flight(begun, Vec::new(), vec![x])
    }

    /// The sum over ranks of `x`, which is equally long on all, in the order of ranks. Each sums the part
    /// `bounds[rank]..bounds[rank + 1]` and gives it to the others. Nobody uses `x`, which becomes the sum,
    /// before the flight has landed.
    ///
    /// # Errors
    /// What NCCL says.
    ///
    /// # Panics
    /// When the bounds are not those of as many parts of `x` as there are ranks.
    pub fn sum(&self, comm: &Comm, x: Arc<Buf<f32>>, bounds: &[usize]) -> Result<Flight, Error> {
        let (me, ranks) = (comm.rank(), comm.ranks());
        assert_eq!(bounds.len(), ranks + 1, "sum: bounds of parts");
        assert_eq!(bounds.last(), Some(&x.len()), "sum: the last bound");
        let part = |rank: usize| bounds[rank]..bounds[rank + 1];
        let own = part(me);
        let others = || (0..ranks).filter(|&r| r != me);
        let room = (0..ranks).map(|r| self.fresh(if r == me { 0 } else { own.len() }));
        let theirs = room.collect::<Result<Vec<Arc<Buf<f32>>>, Error>>()?;
        let sum = self.fresh(own.len())?;
        let begun = self.begin()?;
        let some = |pieces: Vec<Piece>| -> Vec<Piece> {
            pieces.into_iter().filter(|piece| piece.count > 0).collect()
        };
        let out = others().map(|r| piece(r, &x, part(r))).collect();
        let into = others()
            .map(|r| piece(r, &theirs[r], 0..own.len()))
            .collect();
        // SAFETY: the buffers stay with the flight, which nobody else uses until it has landed.
        unsafe { comm.exchange(self.side(), &some(out), &some(into)) }?;
        let addend = |rank: usize| match rank == me {
            true => x.at(own.start),
            false => theirs[rank].at(0),
        };
        if !own.is_empty() {
            // SAFETY: as above; both have as many floats.
            unsafe { self.side.copy(addend(0), sum.at(0), 4 * own.len()) }?;
            for rank in 1..ranks {
                // SAFETY: as above.
                unsafe { self.add(addend(rank), sum.at(0), own.len()) }?;
            }
            // SAFETY: as above; what was there has been sent and added.
            unsafe { self.side.copy(sum.at(0), x.at(own.start), 4 * own.len()) }?;
        }
        let out = others().map(|r| piece(r, &sum, 0..own.len())).collect();
        let into = others().map(|r| piece(r, &x, part(r))).collect();
        // SAFETY: as above.
        unsafe { comm.exchange(self.side(), &some(out), &some(into)) }?;
        let mut kept = theirs;
        kept.push(sum);
        self.flight(begun, kept, vec![x])
    }

    /// The sum over ranks of `x`, which is equally long on all, in whatever order NCCL adds. Nobody uses `x`, which
    /// becomes the sum, before the flight has landed.
    ///
    /// # Errors
    /// What NCCL says.
    pub fn sum_in_any_order(&self, comm: &Comm, x: Arc<Buf<f32>>) -> Result<Flight, Error> {
        let begun = self.begin()?;
        if !x.is_empty() {
            // SAFETY: as in `exchange`.
            unsafe { comm.all_reduce(self.side(), x.at(0), x.len()) }?;
        }
        self.flight(begun, Vec::new(), vec![x])
    }

    /// `to += from`, `n` floats each.
    ///
    /// # Safety
    /// As [`Side::launch`].
    unsafe fn add(&self, from: u64, to: u64, n: usize) -> Result<(), Error> {
        let one = Arg::F32(1.0);
        let args = [one, Arg::U64(from), one, Arg::U64(to), Arg::U64(n as u64)];
        let blocks = u32::try_from(n.div_ceil(THREADS as usize));
        let launch = Launch {
            kernel: "axpby",
            grid: [blocks.expect("fewer blocks than 2³²"), 1, 1],
            threads: THREADS,
            args: &args,
        };
        // SAFETY: the caller's.
        unsafe { self.side.launch(launch) }
    }
}

fn piece(peer: usize, x: &Buf<f32>, of: Range<usize>) -> Piece {
    assert!(of.end <= x.len(), "messages: floats {of:?} of {}", x.len());
    Piece {
        peer,
        at: x.at(of.start),
        count: of.len(),
    }
}

/// What came, and when it began and ended.
pub type Landed = (Vec<Arc<Buf<f32>>>, [Mark; 2]);

/// Messages on their way, and the memory that they need.
pub struct Flight {
    /// Both there until it has landed.
    begun: Option<Mark>,
    ended: Option<Mark>,
    device: Arc<Device>,
    kept: Vec<Arc<Buf<f32>>>,
    came: Vec<Arc<Buf<f32>>>,
}

impl Flight {
    /// Whether all has come and left, without waiting.
    ///
    /// # Errors
    /// When the device failed.
    pub fn is_done(&self) -> Result<bool, Error> {
        self.ended
            .as_ref()
            .map_or(Ok(true), |end| self.device.is_done(end))
    }

    /// Lets the device go on behind it: what came, and when it began and ended.
    ///
    /// # Errors
    /// When the device failed.
    pub fn land(mut self) -> Result<Landed, Error> {
        let marks = self.begun.take().zip(self.ended.take());
        let (begun, ended) = marks.ok_or_else(|| Error::call("messages", "landed before"))?;
        self.device.try_wait_for(&ended)?;
        self.kept.clear();
        Ok((std::mem::take(&mut self.came), [begun, ended]))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // The memory is somebody else's then. An error here is one that the next call reports.
            let _ = self.device.try_wait_for(&ended);
        }
    }
}
