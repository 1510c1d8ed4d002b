//! Benchmarks of kstreams beside librdkafka.
fn main() {}
