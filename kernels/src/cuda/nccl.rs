//! NCCL's communicators, through cudarc's bindings, loaded at run time.
//!
//! Not cudarc's own communicator, which can be aborted only by letting it go: one whose peer is gone blocks
//! its stream until [`Comm::abort`], which another thread calls.
//!
//! A pair's messages are matched in the order in which they are asked for: there are no tags.

mod build;
mod shim;

pub use self::build::built_with;
pub use self::shim::load_shim;

use super::stand_in::StandIn;
use super::{Error, Side};
use cudarc::nccl::{result, sys};
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The oldest version that can split a communicator: 2.18.
const LEAST: u32 = 21_800;

/// What ranks join by: one makes it and gives it to the others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id([u8; Id::BYTES]);

impl Id {
    /// Its size.
    pub const BYTES: usize = 128;

    /// A new one.
    ///
    /// # Errors
    /// As [`version`], or what NCCL says.
    pub fn new() -> Result<Id, Error> {
        version()?;
        let id = result::get_uniqueid().map_err(|e| failed("making an id", e.0))?;
        Ok(Id(id.internal.map(|c| c as u8)))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; Id::BYTES] {
        &self.0
    }

    /// One that another rank has made.
    pub fn from_bytes(bytes: [u8; Id::BYTES]) -> Id {
        Id(bytes)
    }
}

fn failed(op: &str, code: sys::ncclResult_t) -> Error {
    // SAFETY: the library was there for the call that failed; it returns a literal of its own.
    let text = unsafe { CStr::from_ptr(sys::ncclGetErrorString(code)) };
    Error::call(format!("NCCL, {op}"), text.to_string_lossy())
}

/// The version of the library, as 22304 for 2.23.4.
///
/// # Errors
/// [`Error::Missing`] without it, or where it is too old.
pub fn version() -> Result<u32, Error> {
    if StandIn::asked()?.is_some() {
        load_shim()?;
    }
    // SAFETY: loads NVIDIA's own library if there is one.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::Missing {
            what: "no NCCL found",
            reason: "libnccl.so cannot be loaded. Install it (the package nvidia-nccl-cu12 brings \
                     libnccl.so.2: make a link libnccl.so beside it) and put its folder into \
                     LD_LIBRARY_PATH, or let messages pass through the host with `transport = host`"
                .into(),
        });
    }
    let version = result::get_nccl_version().map_err(|e| failed("asking its version", e.0))?;
    let version = version as u32;
    if version < LEAST {
        let [least, got] = [LEAST, version].map(written);
        return Err(Error::Missing {
            what: "NCCL is too old",
            reason: format!("expected {least} or newer, got {got}"),
        });
    }
    Ok(version)
}

/// A version as people write it.
pub fn written(version: u32) -> String {
    let (major, rest) = match version < 10_000 {
        true => (version / 1000, version % 1000),
        false => (version / 10_000, version % 10_000),
    };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// NCCL's own handle.
#[derive(Clone, Copy)]
struct Handle(sys::ncclComm_t);
// SAFETY: NCCL's communicators may be used by any thread, one at a time, which the lock sees to.
unsafe impl Send for Handle {}

/// A part of a message on the device.
pub(super) struct Piece {
    pub(super) peer: usize,
    pub(super) at: u64,
    /// Floats.
    pub(super) count: usize,
}

/// A rank's end of a communicator.
pub struct Comm {
    /// None once it was aborted.
    handle: Mutex<Option<Handle>>,
    rank: usize,
    ranks: usize,
}

impl Comm {
    /// Joins, on the device of `side`; returns when all ranks have.
    ///
    /// # Errors
    /// As [`version`], or what NCCL says.
    pub fn join(side: &dyn Side, id: Id, rank: usize, ranks: usize) -> Result<Comm, Error> {
        // On another machine than the id was made on, perhaps.
        version()?;
        side.here()?;
        let id = sys::ncclUniqueId {
            internal: id.0.map(|b| b as std::ffi::c_char),
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the out-pointer is valid for the call.
        let joined =
            unsafe { result::comm_init_rank(&mut handle, ranks as c_int, id, rank as c_int) };
        joined.map_err(|e| failed("joining", e.0))?;
        Ok(Comm::of(handle, rank, ranks))
    }

    fn of(handle: sys::ncclComm_t, rank: usize, ranks: usize) -> Comm {
        Comm {
            handle: Mutex::new(Some(Handle(handle))),
            rank,
            ranks,
        }
    }

    /// One of the ranks `members`, in this order, of which this rank is one; others pass none and get
    /// none. All ranks call it.
    ///
    /// # Errors
    /// What NCCL says.
    pub fn split(&self, side: &dyn Side, members: Option<&[usize]>) -> Result<Option<Comm>, Error> {
        // Not a color of any group.
        const NONE: c_int = -1;
        side.here()?;
        let (color, key) = match members {
            // The smallest rank of a group names it.
            Some(members) => (
                members.iter().min().map_or(NONE, |&r| r as c_int),
                members.iter().position(|&r| r == self.rank).unwrap_or(0) as c_int,
            ),
            None => (NONE, 0),
        };
        let mut made = std::ptr::null_mut();
        let handle = self.held();
        let parent = alive(&handle)?;
        // SAFETY: the communicator is there, as nobody aborts it while the lock is held.
        let done =
            unsafe { sys::ncclCommSplit(parent, color, key, &mut made, std::ptr::null_mut()) };
        done.result().map_err(|e| failed("splitting", e.0))?;
        Ok(members.map(|members| Comm::of(made, key as usize, members.len())))
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    fn held(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends and receives, all at once, in the order of `side`.
    ///
    /// # Errors
    /// What NCCL says.
    /// # Safety
    /// The pieces are memory of the side's device that stays until it is done, and is written by nobody
    /// (those sent) or used by nobody (those received).
    pub(super) unsafe fn exchange(
        &self,
        side: &dyn Side,
        sent: &[Piece],
        received: &[Piece],
    ) -> Result<(), Error> {
        side.here()?;
        let handle = self.held();
        let (comm, stream) = (alive(&handle)?, side.stream().cast());
        let float = sys::ncclDataType_t::ncclFloat32;
        result::group_start().map_err(|e| failed("beginning a group", e.0))?;
        let mut done = Ok(());
        for piece in sent {
            let (from, peer) = (piece.at as *const c_void, piece.peer as c_int);
            // SAFETY: the caller's.
            let asked = unsafe { result::send(from, piece.count, float, peer, comm, stream) };
            done = done.and(asked.map(drop).map_err(|e| failed("sending", e.0)));
        }
        for piece in received {
            let (to, peer) = (piece.at as *mut c_void, piece.peer as c_int);
            // SAFETY: the caller's.
            let asked = unsafe { result::recv(to, piece.count, float, peer, comm, stream) };
            done = done.and(asked.map(drop).map_err(|e| failed("receiving", e.0)));
        }
        // A group that was begun is ended, whatever was refused in it.
        let ended = result::group_end().map_err(|e| failed("ending a group", e.0));
        done.and(ended.map(drop))
    }

    /// Gives the root's floats to all.
    ///
    /// # Errors
    /// What NCCL says.
    /// # Safety
    /// As [`Comm::exchange`]; the root's are sent, the others' received.
    pub(super) unsafe fn broadcast(
        &self,
        side: &dyn Side,
        root: usize,
        at: u64,
        count: usize,
    ) -> Result<(), Error> {
        side.here()?;
        let handle = self.held();
        let (comm, stream) = (alive(&handle)?, side.stream().cast());
        let float = sys::ncclDataType_t::ncclFloat32;
        let (from, to) = (at as *const c_void, at as *mut c_void);
        // SAFETY: the caller's; in place, as NCCL allows.
        let asked =
            unsafe { result::broadcast(from, to, count, float, root as c_int, comm, stream) };
        asked.map(drop).map_err(|e| failed("broadcasting", e.0))
    }

    /// The sum of all ranks' floats, in NCCL's own order.
    ///
    /// # Errors
    /// What NCCL says.
    /// # Safety
    /// As [`Comm::exchange`]; they are sent and received.
    pub(super) unsafe fn all_reduce(
        &self,
        side: &dyn Side,
        at: u64,
        count: usize,
    ) -> Result<(), Error> {
        side.here()?;
        let handle = self.held();
        let (comm, stream) = (alive(&handle)?, side.stream().cast());
        let (float, sum) = (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclSum);
        let (from, to) = (at as *const c_void, at as *mut c_void);
        // SAFETY: the caller's; in place, as NCCL allows.
        let asked = unsafe { result::all_reduce(from, to, count, float, sum, comm, stream) };
        asked.map(drop).map_err(|e| failed("adding up", e.0))
    }

    /// Whether something went wrong that no call has said.
    ///
    /// # Errors
    /// What it was.
    pub fn check(&self) -> Result<(), Error> {
        let handle = self.held();
        let comm = alive(&handle)?;
        let mut code = sys::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator is there, and the out-pointer valid for the call.
        let asked = unsafe { sys::ncclCommGetAsyncError(comm, &mut code) };
        asked
            .result()
            .map_err(|e| failed("asking for errors", e.0))?;
        code.result().map(drop).map_err(|e| failed("messages", e.0))
    }

    /// Leaves it in peace, when nothing is under way.
    ///
    /// # Errors
    /// What NCCL says.
    pub fn leave(self) -> Result<(), Error> {
        let Some(Handle(comm)) = self.held().take() else {
            return Ok(());
        };
        // SAFETY: nobody uses the communicator from now on.
        let left = unsafe { result::comm_destroy(comm) };
        left.map(drop).map_err(|e| failed("leaving", e.0))
    }

    /// Ends it wherever it is: what waits on its stream goes on, and what it would have received is
    /// unspecified. Whoever uses it afterwards is told so.
    pub fn abort(&self) {
        if let Some(Handle(comm)) = self.held().take() {
            // SAFETY: nobody uses the communicator from now on.
            let _ = unsafe { result::comm_abort(comm) };
        }
    }
}

fn alive(handle: &Option<Handle>) -> Result<sys::ncclComm_t, Error> {
    let aborted = || Error::call("NCCL", "the communicator was aborted");
    handle.map(|Handle(comm)| comm).ok_or_else(aborted)
}

impl Drop for Comm {
    fn drop(&mut self) {
        // Whoever leaves in peace has said so.
        self.abort();
    }
}
