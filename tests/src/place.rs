//! Who runs beside whom: tests of kernels do, as libtest starts them, but for those that hold a kernel to a time.
//! With others beside it, that would measure this machine's cores.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

static PLACES: RwLock<()> = RwLock::new(());

/// A place among the kernels of this program, held while there is one.
pub(crate) struct Place {
    _beside: Option<RwLockReadGuard<'static, ()>>,
    _alone: Option<RwLockWriteGuard<'static, ()>>,
}

impl Place {
    /// Beside others.
    pub(crate) fn beside() -> Place {
        Place {
            _beside: Some(PLACES.read().unwrap_or_else(PoisonError::into_inner)),
            _alone: None,
        }
    }

    /// With no other.
    pub(crate) fn alone() -> Place {
        Place {
            _beside: None,
            _alone: Some(PLACES.write().unwrap_or_else(PoisonError::into_inner)),
        }
    }
}
