//! What carries bytes: non-blocking point-to-point messages between ranks, and nothing more.
//!
//! Collectives are built once, on top ([`super::Communicator`]), from these messages. So every
//! transport gives bit-identical sums, and the bytes of every pair of ranks are known exactly.

use crate::error::Result;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// A message: 32-bit words, reinterpreted by the communicator as floats or ids.
pub type Words = Vec<u32>;

/// The tag that no operation uses, for what transports say to each other.
pub(crate) const NOTICE_TAG: u16 = 0;

/// A posted message, until it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// How far a posted receive has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing of the message has been seen: the peer has not sent yet.
    Absent,
    /// The message is there and its data is moving.
    Moving,
    /// Complete; [`Transport::take`] gives it.
    Done,
}

/// The way out of a rank whose messages pass one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayOut {
    /// When all that was handed over has left, on the clock of [`crate::record::now_ns`].
    pub free_ns: u64,
    /// Words that pass in [`WayOut::PIECE_NS`], or [`WayOut::LEAST`]; the same on all ranks.
    pub piece: usize,
}

impl WayOut {
    /// How long one message may hold up others that could pass it.
    pub const PIECE_NS: u64 = 250_000;
    /// Words that are not worth cutting.
    pub const LEAST: usize = 1024;
}

/// A way to move words between ranks. Messages of one pair and tag arrive in the order sent.
pub trait Transport {
    /// This rank.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn size(&self) -> usize;

    /// Starts sending; the transport keeps the words until they have left.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the peer is gone.
    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()>;

    /// Starts sending words that came from another rank at `came_ns`, on the clock of
    /// [`crate::record::now_ns`]. A transport that models time sends them then, as a network card that hands
    /// on by itself; others send them now.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the peer is gone.
    fn post_on(&mut self, to: usize, tag: u16, words: Words, _came_ns: u64) -> Result<()> {
        self.post_send(to, tag, words)
    }

    /// Starts receiving exactly `len` words.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the peer is gone.
    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle>;

    /// Lets messages move, and says how far one receive has come.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when the peer is gone or sent another length than was agreed.
    fn poll(&mut self, handle: Handle) -> Result<Progress>;

    /// How messages wait for each other on their way out; none where the transport cannot know.
    fn way_out(&self) -> Option<WayOut> {
        None
    }

    /// When the data of a receive began to move and when it was complete (which may lie ahead), on
    /// the clock of [`crate::record::now_ns`]; none where the transport cannot know. Asked before
    /// the words are taken.
    fn travelled(&self, _handle: Handle) -> Option<Range<u64>> {
        None
    }

    /// Sleeps until there is news of some receive since the last poll, or a little longer than `at_most`;
    /// false where the transport cannot, and its caller rests as it likes.
    fn wait(&mut self, _at_most: Duration) -> bool {
        false
    }

    /// Takes the words of a receive that is [`Progress::Done`].
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when it is not.
    fn take(&mut self, handle: Handle) -> Result<Words>;

    /// Gives up a receive of which nothing has been seen.
    fn forget(&mut self, handle: Handle);

    /// Waits until every posted send has left.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when a peer is gone.
    fn drain(&mut self) -> Result<()>;

    /// Ends every rank of the world. May not return.
    fn abort(&mut self, code: i32);
}

/// A transport that several communicators use one after the other.
pub trait Settle: Transport {
    /// Throws away whatever has been sent and not received, posted and not finished, on every rank: the
    /// next communicator begins anew. Collective; it waits for ranks that still use the last one.
    ///
    /// # Errors
    /// [`crate::Error::Comm`] when a peer is gone.
    fn settle(&mut self) -> Result<()>;
}

/// One transport that its owner lends to one communicator after the other.
impl<T: Transport> Transport for Rc<RefCell<T>> {
    fn rank(&self) -> usize {
        self.borrow().rank()
    }
    fn size(&self) -> usize {
        self.borrow().size()
    }
    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
        self.borrow_mut().post_send(to, tag, words)
    }
    fn post_on(&mut self, to: usize, tag: u16, words: Words, came_ns: u64) -> Result<()> {
        self.borrow_mut().post_on(to, tag, words, came_ns)
    }
    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
        self.borrow_mut().post_recv(from, tag, len)
    }
    fn poll(&mut self, handle: Handle) -> Result<Progress> {
        self.borrow_mut().poll(handle)
    }
    fn way_out(&self) -> Option<WayOut> {
        self.borrow().way_out()
    }
    fn travelled(&self, handle: Handle) -> Option<Range<u64>> {
        self.borrow().travelled(handle)
    }
    fn wait(&mut self, at_most: Duration) -> bool {
        self.borrow_mut().wait(at_most)
    }
    fn take(&mut self, handle: Handle) -> Result<Words> {
        self.borrow_mut().take(handle)
    }
    fn forget(&mut self, handle: Handle) {
        self.borrow_mut().forget(handle);
    }
    fn drain(&mut self) -> Result<()> {
        self.borrow_mut().drain()
    }
    fn abort(&mut self, code: i32) {
        self.borrow_mut().abort(code);
    }
}
