//! Example programs of kstreams: see the `examples` targets.
