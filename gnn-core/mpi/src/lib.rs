//! Placeholder while the skeleton compiles.
