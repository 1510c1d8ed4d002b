//! The rules, as tables. A new rule is a new line here; an exception stands here too, with its reason.

/// Lines of code a file, without blank lines, comments and test modules: above `FILE_SOFT` a warning.
pub(super) const FILE_SOFT: usize = 400;
pub(super) const FILE_HARD: usize = 800;

/// Lines of code a function, from `fn` to its last brace; test code is free.
pub(super) const FUNCTION_HARD: usize = 70;

/// Functions that may be longer: file, name, reason.
pub(super) const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[(
    "limit/src/main.rs",
    "main",
    "a yardstick: one loop that hides nothing and whose speed no refactoring may move",
)];

/// Macros that must not stay in the code.
pub(super) const MACROS: &[(&str, &str)] = &[
    ("todo", "build the real thing, or leave it out"),
    ("unimplemented", "build the real thing, or leave it out"),
    ("dbg", "a trace for an afternoon: `tracing` stays"),
];

/// Names of files and types that say nothing about their role.
pub(super) const EMPTY_FILE_NAMES: &[&str] =
    &["utils", "util", "common", "helpers", "helper", "misc"];
pub(super) const EMPTY_TYPE_ENDS: &[&str] = &["Impl", "Utils", "Helper"];

/// What no file of the repository may hold: the machine or the mirror of one developer. The words are cut in two so
/// that this file does not hold them either.
pub(super) const WORDS: &[(&str, &str)] = &[
    (concat!("index.", "crates.io"), "name the crate, not a registry's host"),
    (concat!("static.", "crates.io"), "name the crate, not a registry's host"),
    (concat!("repo1.", "maven.org"), "say Maven Central"),
    (concat!("repo.", "maven.apache.org"), "say Maven Central"),
    (concat!("deb.", "debian.org"), "name the package"),
    (concat!("arti", "factory"), "a mirror belongs into the user's own settings"),
];

/// Folders of one machine, at the beginning of an absolute path.
pub(super) const MACHINE_FOLDERS: &[&str] = &["work", "root", "home", "Users"];

/// The only place that Cargo.lock may name.
pub(super) const LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// One rule of the layers: code in `within` (but not in `except`) never uses `never`.
pub(super) struct Layer {
    /// Files or folders; a file is also its own folder (`src/task` holds `src/task.rs`).
    pub(super) within: &'static [&'static str],
    pub(super) except: &'static [&'static str],
    /// Paths as a `use` writes them; what lies below a path is meant too.
    pub(super) never: &'static [&'static str],
    pub(super) why: &'static str,
}

/// Names of a place that is forbidden which do no harm anywhere.
pub(super) const HARMLESS: &[&str] = &["std::any::type_name", "std::any::type_name_of_val"];

const STREAMS: &str = "crates/streams/src";

/// The order of the layers, outermost first: dsl, topology, task and operators, state, with runtime around task.
pub(super) const LAYERS: &[Layer] = &[
    Layer {
        within: &[STREAMS],
        except: &[
            "crates/streams/src/dsl",
            "crates/streams/src/testing",
            "crates/streams/src/prelude",
            "crates/streams/src/lib",
            // A page of documentation, no code.
            "crates/streams/src/from_java",
        ],
        never: &["crate::dsl"],
        why: "the DSL is the outermost layer: nothing inside knows it",
    },
    Layer {
        within: &["crates/streams/src/dsl"],
        except: &["crates/streams/src/dsl/plan/lower"],
        never: &["crate::topology::builder", "crate::topology::TopologyBuilder"],
        why: "only dsl/plan/lower.rs turns a plan into a topology",
    },
    Layer {
        within: &["crates/streams/src/operators"],
        except: &[],
        never: &[
            "crate::task",
            "crate::runtime",
            "crate::assignment",
            "kstreams_client",
            "std::fs",
            "std::net",
        ],
        why: "an operator sees processor, state, topology and record: it cannot do I/O, read a clock or start a thread",
    },
    Layer {
        within: &["crates/streams/src/state/engine", "crates/streams/src/state/layout"],
        except: &[],
        never: &[
            "serde",
            "crate::serde",
            "crate::dsl",
            "crate::operators",
            "crate::task",
            "crate::runtime",
        ],
        why: "engines and layouts know bytes only",
    },
    Layer {
        within: &["crates/streams/src/state"],
        except: &[],
        never: &["crate::operators", "crate::task", "crate::runtime"],
        why: "a store serves whoever holds it and knows nobody above it",
    },
    Layer {
        within: &["crates/streams/src/task"],
        except: &[],
        never: &["crate::runtime", "crate::dsl"],
        why: "a task is driven by the runtime, never the other way round",
    },
    Layer {
        within: &["crates/streams/src/assignment", "crates/streams/src/dsl/windows"],
        except: &[],
        never: &[
            "crate::runtime",
            "crate::task",
            "kstreams_client",
            "std::fs",
            "std::net",
            "std::time::Instant",
        ],
        why: "pure functions: no I/O, no clock",
    },
    Layer {
        within: &[STREAMS],
        // The payload of a panic in user code comes as `Any`: the task's edge reads it.
        except: &["crates/streams/src/topology/erased", "crates/streams/src/task/stream_task"],
        never: &["std::any"],
        why: "types are erased in topology/erased.rs only",
    },
    Layer {
        within: &[STREAMS, "crates/client/src"],
        except: &["crates/streams/src/runtime", "crates/client/src/driver"],
        never: &["std::thread"],
        why: "only the runtime and the client's driver own threads",
    },
];
