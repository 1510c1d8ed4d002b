//! The likeliest mistakes do not compile, and the compiler says what to do: `tests/mistakes`, each with its message.
//!
//! After a change of the messages, `TRYBUILD=overwrite cargo test -p kstreams --test it compile_fail` writes them anew.

#[test]
fn mistakes_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
