//! A process that has no NCCL, nor anything that takes its place: what is said, and that nothing ends the process
//! (cudarc panics where a library is missing). Cannot catch anything on a machine that has it.

#![cfg(feature = "cuda")]

use kernels::cuda::Error;
use kernels::cuda::nccl::{Id, version};

#[test]
fn a_missing_library_is_an_error_that_says_what_to_do() {
    let Err(error) = version() else {
        eprintln!("skip: this machine has NCCL");
        return;
    };
    let Error::Missing { what, reason } = &error else {
        panic!("{error}");
    };
    assert!(what.contains("NCCL"), "{error}");
    if *what == "no NCCL found" {
        for words in ["libnccl.so", "LD_LIBRARY_PATH", "transport = host"] {
            assert!(reason.contains(words), "{error}");
        }
    }
    // Nobody who asks before a rank has joined is let in further.
    assert_eq!(Id::new().err(), Some(error));
}
