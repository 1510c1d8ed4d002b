//! What a broker finds of transactions when it comes back.

use std::fs::{self, OpenOptions};
use std::path::Path;

use kstreams_protocol::batch::batches;

use super::script::Stage;
use crate::directory::{directory, log_files};

const OPEN: &str = "topic a 2 = NONE
    init t 5000ms = P0/0
    produce2 t P0/0 0 a-0 before = 0
    offsets2 t P0/0 g a-0=5 = NONE
    end2 t P0/0 commit = P0/1
    produce2 t P0/1 0 a-0 x y = 2
    produce2 t P0/1 0 a-1 z = 0
    offsets2 t P0/1 g a-0=7 = NONE";

#[test]
fn an_open_transaction_goes_on() {
    let path = directory("open-transaction");
    let mut stage = Stage::in_directory(&path);
    stage.must(OPEN);
    let mut stage = stage.go_on(&path);
    stage.must(
        "state t = Ongoing P0/1 a-0 a-1
        read a-0 = 2 records, stable 2 of 4
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g a-0 = 0:5m
        produce2 t P0/1 0 a-0 x y = 2
        produce2 t P0/1 2 a-0 more = 4
        end2 t P0/1 commit = P0/2
        fetched g a-0 = 0:7m",
    );
    let mut stage = stage.go_on(&path);
    stage.must(
        "state t = CompleteCommit P0/2
        end2 t P0/1 commit = P0/2
        log a-0 = P0/0 before, P0/1 Commit, P0/1 x y, P0/1 more, P0/2 Commit
        read a-0 = 6 records, stable 6 of 6
        read a-1 = 2 records, stable 2 of 2
        fetched g a-0 = 0:7m
        produce2 t P0/2 0 a-0 next = 6
        offsets2 t P0/2 g a-0=8 = NONE",
    );
    // One that nobody goes on with is given up.
    let mut stage = stage.go_on(&path);
    stage.must(
        "init u 100ms = P1/0
        until t CompleteAbort = CompleteAbort P0/3
        read a-0 = P0 aborted from 6, 8 records, stable 8 of 8
        fetched g a-0 = 0:7m",
    );
    let mut stage = stage.go_on(&path);
    stage.must(
        "read a-0 = P0 aborted from 6, 8 records, stable 8 of 8
        init t = P0/4",
    );
}

/// Takes the last entries of a log of batches away, `from` says where they begin.
fn cut(file: &Path, entries: usize) {
    let bytes = bytes::Bytes::from(fs::read(file).unwrap());
    let sizes: Vec<usize> = batches(&bytes).map(|batch| batch.unwrap().bytes().len()).collect();
    let kept: usize = sizes[..sizes.len() - entries].iter().sum();
    OpenOptions::new().write(true).open(file).unwrap().set_len(kept as u64).unwrap();
}

#[test]
fn a_decided_transaction_is_completed() {
    // The journal's last entries: decided, offset committed, offset no longer pending, completed.
    for lost in 1..=3 {
        let path = directory(&format!("decided-{lost}"));
        let mut stage = Stage::in_directory(&path);
        stage.must(OPEN);
        stage.must("end2 t P0/1 commit = P0/2");
        drop(stage);
        cut(&path.join("journal.log"), lost);
        // The markers are written first: the one of a-0 was not.
        let files = log_files(&path);
        let largest = files.iter().max_by_key(|file| fs::metadata(file).unwrap().len()).unwrap();
        if lost == 3 {
            cut(largest, 1);
        }
        let mut stage = Stage::in_directory(&path);
        let stable = if lost == 3 { 5 } else { 6 };
        stage.must("init u = P0/0\ninit w = P1/0");
        stage.must(&format!(
            "fetched g a-0 = 0:7m
            read a-0 = {stable} records, stable {stable} of {stable}
            produce2 u P0/0 0 a-0 more = {stable}"
        ));
    }
}
