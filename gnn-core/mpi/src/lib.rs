//! The MPI transport: one process a rank, words in `MPI_UINT32_T` messages.
//!
//! A crate of its own, so that only the worker binary links MPI. It is initialised once per
//! process and called from one thread (`MPI_THREAD_FUNNELED`).
//!
//! Receives are matched with `MPI_Improbe`: as long as it finds nothing, the peer has not sent;
//! from the match on, data is moving. That is how waiting and moving are told apart. It also tells
//! a message's length before it is received, which is compared with the length that was agreed.
//!
//! Messages above 2³⁰ words travel in pieces, since MPI counts are 32-bit.
#![allow(unsafe_code)] // the non-blocking C calls; each block names its facts

use gnn_core::comm::{Handle, Progress, Settle, Transport, Words};
use gnn_core::error::{Error, Result};
use mpi::environment::Universe;
use mpi::ffi;
use mpi::traits::Communicator as _;
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::raw::c_int;
use std::time::Duration;

/// Words in one MPI message at most.
const PIECE: usize = 1 << 30;

/// A send that MPI may still read from; the words stay until every piece has left.
struct Outgoing {
    _words: Words,
    requests: Vec<ffi::MPI_Request>,
}

/// A receive of `words.len()` words.
struct Incoming {
    from: usize,
    tag: u16,
    words: Words,
    /// Words whose piece has been matched.
    matched: usize,
    requests: Vec<ffi::MPI_Request>,
}

/// This process's rank in the MPI world.
pub struct MpiTransport {
    universe: Universe,
    rank: usize,
    size: usize,
    outgoing: VecDeque<Outgoing>,
    incoming: HashMap<Handle, Incoming>,
    next: u64,
    /// Messages of MPI that went to each rank, and that came from it.
    sent: Vec<u64>,
    matched: Vec<u64>,
}

fn broken(op: &str, peer: Option<usize>, reason: impl Into<String>) -> Error {
    Error::Comm {
        op: op.into(),
        peer: peer.map(|p| p as u32),
        reason: reason.into(),
    }
}

fn checked(op: &str, peer: usize, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(broken(op, Some(peer), format!("MPI error {code}")))
    }
}

/// Joins the MPI world.
///
/// # Errors
/// [`Error::Comm`] when MPI was initialised before or offers no threading at all.
pub fn init() -> Result<MpiTransport> {
    let (universe, _) =
        mpi::initialize_with_threading(mpi::Threading::Funneled).ok_or_else(|| {
            broken(
                "MPI_Init",
                None,
                "MPI was initialised before in this process",
            )
        })?;
    let world = universe.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    Ok(MpiTransport {
        universe,
        rank,
        size,
        outgoing: VecDeque::new(),
        incoming: HashMap::new(),
        next: 0,
        sent: vec![0; size],
        matched: vec![0; size],
    })
}

/// The MPI library's own description, first line.
pub fn library() -> String {
    mpi::environment::library_version()
        .map(|v| {
            v.lines()
                .next()
                .unwrap_or_default()
                .trim_end_matches('\0')
                .to_owned()
        })
        .unwrap_or_else(|_| "unknown MPI".into())
}

fn test_all(requests: &mut Vec<ffi::MPI_Request>, peer: usize) -> Result<bool> {
    while let Some(last) = requests.last_mut() {
        let mut done: c_int = 0;
        // SAFETY: `last` is a request that MPI_Isend or MPI_Imrecv filled in and that has not
        // completed (completed ones are popped below); ignoring the status is allowed.
        let code = unsafe { ffi::MPI_Test(last, &mut done, ffi::RSMPI_STATUS_IGNORE) };
        checked("MPI_Test", peer, code)?;
        if done == 0 {
            return Ok(false);
        }
        requests.pop();
    }
    Ok(true)
}

impl MpiTransport {
    fn reap(&mut self) -> Result<()> {
        for _ in 0..self.outgoing.len() {
            let Some(mut first) = self.outgoing.pop_front() else {
                break;
            };
            if !test_all(&mut first.requests, self.rank)? {
                self.outgoing.push_back(first);
            }
        }
        Ok(())
    }

    /// Looks for the next piece of a receive and starts it. Returns whether one was found.
    fn match_piece(incoming: &mut Incoming) -> Result<bool> {
        let (mut found, mut count) = (0 as c_int, 0 as c_int);
        let mut message = MaybeUninit::<ffi::MPI_Message>::uninit();
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: all out-pointers are valid for the call; source and tag are a rank of the world
        // and a number below 2^15, which MPI promises to support.
        let code = unsafe {
            ffi::MPI_Improbe(
                incoming.from as c_int,
                c_int::from(incoming.tag),
                ffi::RSMPI_COMM_WORLD,
                &mut found,
                message.as_mut_ptr(),
                status.as_mut_ptr(),
            )
        };
        checked("MPI_Improbe", incoming.from, code)?;
        if found == 0 {
            return Ok(false);
        }
        // SAFETY: `found` says that MPI has written the status.
        let code = unsafe { ffi::MPI_Get_count(status.as_ptr(), ffi::RSMPI_UINT32_T, &mut count) };
        checked("MPI_Get_count", incoming.from, code)?;
        let open = incoming.words.len() - incoming.matched;
        if count as usize != open.min(PIECE) {
            let reason = format!("expected {} words, got {count}", open.min(PIECE));
            return Err(broken("receive", Some(incoming.from), reason));
        }
        let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
        // SAFETY: the buffer holds `count` words from `matched` on (compared just above). It lives
        // on the heap behind a Vec that is neither resized nor dropped while the request is open:
        // `Incoming` is only taken apart once `test_all` says so, and MPI is aborted or finalised
        // otherwise. `message` was written because `found` is set.
        let code = unsafe {
            ffi::MPI_Imrecv(
                incoming.words.as_mut_ptr().add(incoming.matched).cast(),
                count,
                ffi::RSMPI_UINT32_T,
                message.as_mut_ptr(),
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Imrecv", incoming.from, code)?;
        // SAFETY: MPI_Imrecv succeeded and so wrote the request.
        incoming.requests.push(unsafe { request.assume_init() });
        incoming.matched += count as usize;
        Ok(true)
    }
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
        self.reap()?;
        let mut requests = Vec::with_capacity(1);
        for piece in words.chunks(PIECE) {
            let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
            // SAFETY: `piece` is a slice of `words`, whose heap buffer is kept unmoved in
            // `outgoing` until the request has completed; the piece has at most 2^30 words.
            let code = unsafe {
                ffi::MPI_Isend(
                    piece.as_ptr().cast(),
                    piece.len() as c_int,
                    ffi::RSMPI_UINT32_T,
                    to as c_int,
                    c_int::from(tag),
                    ffi::RSMPI_COMM_WORLD,
                    request.as_mut_ptr(),
                )
            };
            checked("MPI_Isend", to, code)?;
            self.sent[to] += 1;
            // SAFETY: MPI_Isend succeeded and so wrote the request.
            requests.push(unsafe { request.assume_init() });
        }
        self.outgoing.push_back(Outgoing {
            _words: words,
            requests,
        });
        Ok(())
    }

    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
        let handle = Handle(self.next);
        self.next += 1;
        let words = vec![0; len];
        self.incoming.insert(
            handle,
            Incoming {
                from,
                tag,
                words,
                matched: 0,
                requests: Vec::new(),
            },
        );
        Ok(handle)
    }

    fn poll(&mut self, handle: Handle) -> Result<Progress> {
        self.reap()?;
        let incoming = self
            .incoming
            .get_mut(&handle)
            .ok_or_else(|| broken("poll", None, "the message was taken already"))?;
        while incoming.matched < incoming.words.len() {
            let from = incoming.from;
            if Self::match_piece(incoming)? {
                self.matched[from] += 1;
            } else {
                let moving = incoming.matched > 0;
                return Ok(if moving {
                    Progress::Moving
                } else {
                    Progress::Absent
                });
            }
        }
        let done = test_all(&mut incoming.requests, incoming.from)?;
        Ok(if done {
            Progress::Done
        } else {
            Progress::Moving
        })
    }

    fn take(&mut self, handle: Handle) -> Result<Words> {
        match self.incoming.remove(&handle) {
            Some(i) if i.matched == i.words.len() && i.requests.is_empty() => Ok(i.words),
            Some(open) => {
                let from = open.from;
                self.incoming.insert(handle, open);
                Err(broken("take", Some(from), "the message is not complete"))
            }
            None => Err(broken("take", None, "the message was taken already")),
        }
    }

    fn forget(&mut self, handle: Handle) {
        // MPI does not know of a receive before its first piece is matched.
        if self.incoming.get(&handle).is_some_and(|i| i.matched == 0) {
            self.incoming.remove(&handle);
        }
    }

    fn drain(&mut self) -> Result<()> {
        while !self.outgoing.is_empty() {
            self.reap()?;
            std::thread::yield_now();
        }
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        self.universe.world().abort(code);
    }
}

/// How long a rank sleeps that has nothing to do but wait for the others.
const PAUSE: Duration = Duration::from_micros(100);

impl MpiTransport {
    /// How many messages of MPI every rank has sent to this one so far. Returns when every rank has asked.
    fn sent_to_me(&self) -> Result<Vec<u64>> {
        let mut theirs = vec![0u64; self.size];
        let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
        // SAFETY: both buffers hold one number for each rank of the world and outlive the request, which
        // the loop below sees completed.
        let code = unsafe {
            ffi::MPI_Ialltoall(
                self.sent.as_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                theirs.as_mut_ptr().cast(),
                1,
                ffi::RSMPI_UINT64_T,
                ffi::RSMPI_COMM_WORLD,
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Ialltoall", self.rank, code)?;
        // SAFETY: MPI_Ialltoall succeeded and so wrote the request.
        let mut requests = vec![unsafe { request.assume_init() }];
        while !test_all(&mut requests, self.rank)? {
            std::thread::sleep(PAUSE);
        }
        Ok(theirs)
    }

    /// Receives one message of a rank that nobody waits for, if there is one, and throws it away.
    fn throw_away(&mut self, from: usize) -> Result<bool> {
        let (mut found, mut count) = (0 as c_int, 0 as c_int);
        let mut message = MaybeUninit::<ffi::MPI_Message>::uninit();
        let mut status = MaybeUninit::<ffi::MPI_Status>::uninit();
        // SAFETY: all out-pointers are valid for the call; the source is a rank of the world.
        let code = unsafe {
            ffi::MPI_Improbe(
                from as c_int,
                ffi::RSMPI_ANY_TAG,
                ffi::RSMPI_COMM_WORLD,
                &mut found,
                message.as_mut_ptr(),
                status.as_mut_ptr(),
            )
        };
        checked("MPI_Improbe", from, code)?;
        if found == 0 {
            return Ok(false);
        }
        // SAFETY: `found` says that MPI has written the status.
        let code = unsafe { ffi::MPI_Get_count(status.as_ptr(), ffi::RSMPI_UINT32_T, &mut count) };
        checked("MPI_Get_count", from, code)?;
        let mut words: Words = vec![0; usize::try_from(count).unwrap_or(0)];
        let mut request = MaybeUninit::<ffi::MPI_Request>::uninit();
        // SAFETY: the buffer holds `count` words and outlives the request, which the loop below sees
        // completed; `message` was written because `found` is set.
        let code = unsafe {
            ffi::MPI_Imrecv(
                words.as_mut_ptr().cast(),
                count,
                ffi::RSMPI_UINT32_T,
                message.as_mut_ptr(),
                request.as_mut_ptr(),
            )
        };
        checked("MPI_Imrecv", from, code)?;
        // SAFETY: MPI_Imrecv succeeded and so wrote the request.
        let mut requests = vec![unsafe { request.assume_init() }];
        while !test_all(&mut requests, from)? {
            std::thread::yield_now();
        }
        self.matched[from] += 1;
        Ok(true)
    }
}

impl Settle for MpiTransport {
    fn settle(&mut self) -> Result<()> {
        for (_, mut incoming) in std::mem::take(&mut self.incoming) {
            // MPI writes into the buffer of what it has matched.
            while !test_all(&mut incoming.requests, incoming.from)? {
                std::thread::yield_now();
            }
        }
        let theirs = self.sent_to_me()?;
        for (from, sent) in theirs.into_iter().enumerate() {
            while self.matched[from] < sent {
                if !self.throw_away(from)? {
                    std::thread::sleep(PAUSE);
                }
            }
        }
        self.drain()
    }
}

impl Drop for MpiTransport {
    fn drop(&mut self) {
        // Open requests mean that this rank failed: finalising would wait for peers that may never
        // answer, and buffers that MPI still writes to would be freed.
        if !self.incoming.is_empty() || !self.outgoing.is_empty() || std::thread::panicking() {
            self.universe.world().abort(1);
        }
    }
}
