//! A device that has no memory left: what was to be there, as an error.

use crate::error::Error;
use kernels::cuda;
use std::any::Any;
use std::panic::panic_any;

/// What a rank panics with.
struct Lack {
    item: String,
    cause: cuda::Error,
}

/// Ends the rank for want of memory for `item`, or because the device failed.
pub(super) fn end(cause: cuda::Error, item: impl FnOnce() -> String) -> ! {
    match cause {
        cuda::Error::Memory { .. } => panic_any(Lack {
            item: item(),
            cause,
        }),
        cause => panic!("{cause}"),
    }
}

/// The error that a rank ended with, where it panicked for want of a device's memory.
pub fn lack_of_memory(payload: &(dyn Any + Send)) -> Option<Error> {
    let (item, cause) = match payload.downcast_ref::<Lack>() {
        Some(lack) => (lack.item.as_str(), &lack.cause),
        None => ("a buffer", payload.downcast_ref::<cuda::Error>()?),
    };
    let &cuda::Error::Memory { asked, free, limit } = cause else {
        return None;
    };
    Some(Error::Budget {
        of: "device",
        item: item.into(),
        asked: asked as u64,
        free: free as u64,
        budget: limit as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Backend, Cuda};
    use kernels::cuda::{Device, Shim};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_does_not_fit_is_named_with_what_is_free() {
        if crate::testing::shim().is_none() {
            return;
        }
        let shim = Shim::open(false).expect("there a line above");
        let cuda = Cuda::new(Device::new(Box::new(shim.of_memory(1000))));
        let held = cuda.fresh(10, 20);
        let said = |f: &dyn Fn()| {
            let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("too large");
            lack_of_memory(payload.as_ref()).map(|error| error.to_string())
        };
        let matrix = said(&|| drop(cuda.fresh(30, 7)));
        let expected =
            "a matrix of 30 × 7: asked for 840 bytes of the device, 200 of 1000 are free";
        assert_eq!(matrix.as_deref(), Some(expected));
        let list = said(&|| drop(cuda.memory().expect("a device").upload(&[0u32; 51])));
        let expected = "a buffer: asked for 204 bytes of the device, 200 of 1000 are free";
        assert_eq!(list.as_deref(), Some(expected));
        assert_eq!(said(&|| panic!("something else")), None);
        drop(held);
        cuda.fresh(30, 7);
    }
}
