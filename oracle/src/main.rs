//! The oracle runner.
fn main() {}
