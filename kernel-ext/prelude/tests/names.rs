//! The prelude hides no name that every Rust program has: a cell that names nothing of it is compiled
//! without it, and must mean the same.
//!
//! Can catch: a new name that is also one of the standard prelude's (this file does not compile then).
//! Cannot catch: a trait's method that is also a type's own.

mod both {
    #[allow(ambiguous_glob_reexports, unused_imports)]
    pub use halobook::prelude::*;
    pub use std::prelude::rust_2024::*;
}

// That each of these can be named at all is the point.
#[allow(unused_imports)]
mod named {
    use super::both::{
        AsMut, AsRef, Box, Clone, Copy, Default, DoubleEndedIterator, Drop, Eq, Err,
    };
    use super::both::{ExactSizeIterator, Extend, Fn, FnMut, FnOnce, From, FromIterator, Future};
    use super::both::{Into, IntoFuture, IntoIterator, Iterator, None, Ok, Option, Ord, PartialEq};
    use super::both::{PartialOrd, Result, Send, Sized, Some, String, Sync, ToOwned, ToString};
    use super::both::{TryFrom, TryInto, Unpin, Vec, align_of, drop, size_of};
}

#[test]
fn names_of_the_standard_prelude_are_its_own() {
    use both::{None, Ok, Option, Result, Vec};
    let all: Result<Option<Vec<u8>>, ()> = Ok(Some(Vec::new()));
    assert!(all.is_ok_and(|all| all.is_some()));
    assert_eq!(None::<u8>.into_iter().count(), 0);
}
