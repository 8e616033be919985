//! Who sees to it that no rank waits for ever for a device's messages: a thread that asks NCCL for errors
//! and aborts.

use super::broken;
use crate::error::Error;
use kernels::cuda::nccl::{Comm, Id};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two questions.
const EVERY: Duration = Duration::from_millis(20);

/// Ranks of this process by the id of their world: whether one of them has failed. NCCL tells others only
/// what happens to its connections.
static WORLDS: LazyLock<Mutex<HashMap<[u8; Id::BYTES], Weak<AtomicBool>>>> =
    LazyLock::new(Mutex::default);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a rank and its thread know.
struct Known {
    comms: Mutex<Vec<Weak<Comm>>>,
    failed: Mutex<Option<String>>,
    /// Nobody asks any more.
    over: AtomicBool,
    /// A rank of this process has failed.
    world: Arc<AtomicBool>,
}

impl Known {
    fn look(&self) {
        let mut comms = lock(&self.comms);
        comms.retain(|comm| comm.strong_count() > 0);
        let there: Vec<Arc<Comm>> = comms.iter().filter_map(Weak::upgrade).collect();
        drop(comms);
        let lost = self.world.load(Ordering::Acquire);
        let lost = lost.then(|| "another rank of this process has failed".to_owned());
        let told = || there.iter().find_map(|comm| comm.check().err());
        if let Some(reason) = lost.or_else(|| told().map(|e| e.to_string())) {
            lock(&self.failed).get_or_insert(reason);
            // What waits on a stream goes on, so that whoever waits for the stream hears of it.
            there.iter().for_each(|comm| comm.abort());
        }
    }
}

/// A rank's watch over its communicators, until it is gone.
pub(super) struct Watch {
    known: Arc<Known>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Of the world that joined by `id`.
    pub(super) fn over(id: Id) -> Watch {
        let mut worlds = lock(&WORLDS);
        worlds.retain(|_, world| world.strong_count() > 0);
        let world = worlds.get(id.bytes()).and_then(Weak::upgrade);
        let world = world.unwrap_or_default();
        worlds.insert(*id.bytes(), Arc::downgrade(&world));
        let known = Arc::new(Known {
            comms: Mutex::default(),
            failed: Mutex::default(),
            over: AtomicBool::new(false),
            world,
        });
        let own = Arc::clone(&known);
        let thread = std::thread::spawn(move || {
            while !own.over.load(Ordering::Acquire) {
                own.look();
                std::thread::park_timeout(EVERY);
            }
        });
        Watch {
            known,
            thread: Some(thread),
        }
    }

    /// From now on this one too.
    pub(super) fn add(&self, comm: &Arc<Comm>) {
        lock(&self.known.comms).push(Arc::downgrade(comm));
    }

    /// What went wrong.
    pub(super) fn failure(&self, op: &str) -> Option<Error> {
        let failed = lock(&self.known.failed);
        failed.as_ref().map(|reason| broken(op, reason))
    }

    /// Ends what this rank waits for, and what others of its process do.
    pub(super) fn abort(&self) {
        self.known.world.store(true, Ordering::Release);
        self.known.look();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.abort();
        }
        self.known.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does nothing that panics.
            let _ = thread.join();
        }
    }
}
