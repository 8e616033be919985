//! The prelude hides no name that every Rust program has: a cell that names nothing of it is compiled
//! without it, and must mean the same.
//!
//! Can catch: a new name that is also one of the standard prelude's (this file does not compile then).
//! Cannot catch: a trait's method that is also a type's own.

mod both {
    #[allow(ambiguous_glob_reexports)]
    pub use halobook::prelude::*;
    pub use std::prelude::rust_2024::*;
}

use both::{AsMut, AsRef, Box, Clone, Copy, Default, DoubleEndedIterator, Drop, Eq, Err};
use both::{ExactSizeIterator, Extend, Fn, FnMut, FnOnce, From, FromIterator, Future, Into};
use both::{IntoFuture, IntoIterator, Iterator, None, Ok, Option, Ord, PartialEq, PartialOrd};
use both::{Result, Send, Sized, Some, String, Sync, ToOwned, ToString, TryFrom, TryInto, Unpin};
use both::{Vec, align_of, drop, size_of};

#[test]
fn names_of_the_standard_prelude_are_its_own() {
    fn same<T: Clone + Copy + Default + Drop2 + Send + Sync + Sized + Unpin>() {}
    trait Drop2 {}
    impl Drop2 for u8 {}
    same::<u8>();
    let all: Result<Option<Vec<Box<String>>>, ()> = Ok(Some(Vec::new()));
    assert!(all.is_ok_and(|all| all.is_some()));
    assert_eq!(size_of::<u8>() + align_of::<u8>(), 2);
    drop((Err::<(), ()>(()), None::<()>));
}
