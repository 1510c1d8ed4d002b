//! Decoders against bytes that nobody sane would send. The functions in `decoders` are also the fuzz targets of this
//! crate (folder `fuzz`); here they get the same damaged bytes at every run.

mod decoders;
mod noise;

use noise::Noise;
use std::fs;
use std::path::Path;

/// Rounds for each function.
const ROUNDS: usize = 20_000;

/// The files of `testdata` that end so, as examples to damage.
fn testdata(end: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("testdata")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files.iter().map(|file| fs::read(file).expect("a file")).collect()
}

fn rounds(seed: u64, examples: &[Vec<u8>], run: impl Fn(&[u8])) {
    let mut noise = Noise(seed);
    for example in examples {
        run(example);
    }
    for _ in 0..ROUNDS {
        run(&noise.bytes(examples));
    }
}

#[test]
fn damaged_record_batches() {
    rounds(1, &testdata(".batch"), decoders::record_batches::run);
}

#[test]
fn damaged_compressed_records() {
    // A byte for the compression, one for the number of records, and what follows the header of a batch.
    let bodies = testdata(".batch").into_iter().map(|batch| {
        let compression = batch[22] & 7;
        [&[compression, 200], &batch[61..]].concat()
    });
    rounds(2, &bodies.collect::<Vec<_>>(), decoders::compressed_records::run);
}

#[test]
fn records_from_noise_survive_the_way_there_and_back() {
    rounds(3, &[(0..=255).cycle().take(600).collect()], decoders::records_there_and_back::run);
}

#[test]
fn damaged_streams_group_messages() {
    // A struct that is neither there (1) nor null (-1): the check of shapes and the decoder took it for different things.
    let neither =
        b"\x00\x01\x01\x01\x06\xff\x01\x00\x00\x01\x15\x00\x00\x00\x16\x00\x86\x01\x86\x00\
                    \x00\x00\x00\x00\x01\x09\x01\x00\x00\x00\x01\x00\x00";
    let mut examples = vec![neither.to_vec()];
    for message in testdata(".message") {
        for kind in 0..decoders::streams_group_messages::KINDS {
            examples.extend([0, 1].map(|version| [&[kind, version], &message[..]].concat()));
        }
    }
    rounds(4, &examples, decoders::streams_group_messages::run);
}

#[test]
fn damaged_messages() {
    let kinds = 0..decoders::messages::KINDS;
    let example = |kind| (0..200).map(|at| if at == 0 { kind } else { at % 3 }).collect();
    rounds(5, &kinds.map(example).collect::<Vec<_>>(), decoders::messages::run);
}
