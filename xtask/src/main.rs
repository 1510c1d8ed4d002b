//! Setup, test, bench, tidy.
fn main() {}
