//! Placeholder while the skeleton compiles.
fn main() {}
