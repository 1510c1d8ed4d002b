//! Kafka's rules, each with the answers of Kafka 4.4: fencing, states, markers, offsets, timeouts.

use kstreams_broker::BrokerConfig;

use super::script::{Stage, check};

#[test]
fn a_transaction_of_version_1() {
    check(
        "topic a 2 = NONE
        init t = P0/0
        add t P0/0 a-0 = NONE
        produce1 t P0/0 0 a-0 x y = 0
        state t = Ongoing P0/0 a-0
        read a-0 = 0 records, stable 0 of 2
        log a-0 = P0/0 x y
        end1 t P0/0 commit = NONE
        state t = CompleteCommit P0/0
        log a-0 = P0/0 x y, P0/0 Commit
        read a-0 = 3 records, stable 3 of 3
        end1 t P0/0 commit = NONE
        end1 t P0/0 abort = INVALID_TXN_STATE
        add t P0/0 a-0 a-1 = NONE, NONE
        produce1 t P0/0 2 a-0 z = 3
        produce1 t P0/0 0 a-1 z = 0
        end1 t P0/0 abort = NONE
        end1 t P0/0 abort = NONE
        end1 t P0/0 commit = INVALID_TXN_STATE
        log a-0 = P0/0 x y, P0/0 Commit, P0/0 z, P0/0 Abort
        read a-0 = P0 aborted from 3, 5 records, stable 5 of 5",
    );
}

#[test]
fn who_may_not_write_with_version_1() {
    check(
        "topic a 2 = NONE
        init t = P0/0
        produce1 t P0/0 0 a-0 z = INVALID_TXN_STATE
        add t P0/1 a-0 = PRODUCER_FENCED
        add u P0/0 a-0 = INVALID_PRODUCER_ID_MAPPING
        end1 t P0/1 commit = PRODUCER_FENCED
        end1 u P0/0 commit = INVALID_PRODUCER_ID_MAPPING
        end1 t P0/0 commit = INVALID_TXN_STATE
        end1 t P0/0 abort = INVALID_TXN_STATE
        add t 4242/0 a-0 = INVALID_PRODUCER_ID_MAPPING
        add t P0/0 nope-0 a-0 = OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION
        produce1 - P0/0 0 a-0 x = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        produce1 u P0/0 0 a-0 x = INVALID_PRODUCER_ID_MAPPING
        add t P0/0 a-0 = NONE
        produce1 t P0/0 0 a-0 x = 0
        produce1 t P0/0 2 a-0 x = OUT_OF_ORDER_SEQUENCE_NUMBER
        produce1 t P0/0 1 a-0 x = 1
        produce1 t P0/0 1 a-0 x = 1
        plain P0/0 2 a-0 x = INVALID_TXN_STATE
        produce1 t P0/0 0 a-1 z = INVALID_TXN_STATE
        init t = P0/2
        state t = Empty P0/2
        log a-0 = P0/0 x, P0/0 x, P0/1 Abort
        produce1 t P0/0 2 a-0 x = INVALID_PRODUCER_EPOCH
        add t P0/0 a-0 = PRODUCER_FENCED
        group t P0/0 g = PRODUCER_FENCED
        end1 t P0/0 commit = PRODUCER_FENCED",
    );
}

#[test]
fn a_transaction_of_version_2() {
    check(
        "topic a 2 = NONE
        init t = P0/0
        end2 t P0/0 commit = INVALID_TXN_STATE
        state t = Empty P0/0
        end2 t P0/0 abort = P0/1
        end2 t P0/0 abort = P0/1
        end2 t P0/1 abort = P0/2
        produce2 t P0/2 0 a-0 x y = 0
        state t = Ongoing P0/2 a-0
        produce2 t P0/2 0 a-1 z = 0
        end2 t P0/2 commit = P0/3
        end2 t P0/2 commit = P0/3
        end2 t P0/2 abort = INVALID_TXN_STATE
        end2 t P0/3 commit = INVALID_TXN_STATE
        state t = CompleteCommit P0/3
        log a-0 = P0/2 x y, P0/3 Commit
        produce2 t P0/2 2 a-0 late = INVALID_PRODUCER_EPOCH
        produce2 t P0/3 1 a-0 q = OUT_OF_ORDER_SEQUENCE_NUMBER
        produce2 t P0/3 0 a-0 q = 3
        end2 t P0/2 commit = PRODUCER_FENCED
        end2 t P0/3 abort = P0/4
        log a-0 = P0/2 x y, P0/3 Commit, P0/3 q, P0/4 Abort
        read a-0 = P0 aborted from 3, 5 records, stable 5 of 5
        end2 t P0/4 abort = P0/5
        end2 t P0/4 abort = P0/5
        produce2 t P0/4 0 a-0 q = INVALID_PRODUCER_EPOCH
        produce2 t P0/5 0 a-0 q = 5
        init t = P0/7
        state t = Empty P0/7
        log a-0 = P0/2 x y, P0/3 Commit, P0/3 q, P0/4 Abort, P0/5 q, P0/6 Abort
        end2 t P0/5 commit = PRODUCER_FENCED
        end2 t P0/6 abort = PRODUCER_FENCED
        produce2 t P0/5 1 a-0 q = INVALID_PRODUCER_EPOCH
        init t P0/5 = PRODUCER_FENCED
        init t P0/8 = PRODUCER_FENCED",
    );
}

#[test]
fn who_gets_an_epoch() {
    check(
        "init t = P0/0
        init t P0/0 = P0/1
        init t P0/0 = P0/1
        init t P0/1 = P0/2
        init t = P0/3
        init t P0/2 = PRODUCER_FENCED
        init t P0/1 = PRODUCER_FENCED
        init u P0/7 = P1/0
        init v 0ms = INVALID_TRANSACTION_TIMEOUT
        init v 900000ms = P2/0
        init v 900001ms = INVALID_TRANSACTION_TIMEOUT
        init t 4242/3 = PRODUCER_FENCED
        state t = Empty P0/3
        state nope = TRANSACTIONAL_ID_NOT_FOUND",
    );
}

#[test]
fn a_producer_comes_back_to_its_open_transaction() {
    check(
        "topic a 1 = NONE
        init t = P0/0
        produce2 t P0/0 0 a-0 x = 0
        init t P0/0 = P0/1
        state t = Empty P0/1
        log a-0 = P0/0 x, P0/1 Abort
        add t P0/0 a-0 = PRODUCER_FENCED
        produce2 t P0/1 0 a-0 x = 2",
    );
}

#[test]
fn sequences_of_producers_that_a_partition_does_not_know() {
    check(
        "topic a 4 = NONE
        plain new:P0 7 a-0 x = 0
        plain P0/0 8 a-0 y = 1
        plain P0/0 8 a-0 y = 1
        plain P0/0 10 a-0 y = OUT_OF_ORDER_SEQUENCE_NUMBER
        plain P0/1 1 a-0 y = OUT_OF_ORDER_SEQUENCE_NUMBER
        plain P0/1 0 a-0 y = 2
        plain P0/0 9 a-0 y = INVALID_PRODUCER_EPOCH
        init t = P1/0
        add t P1/0 a-0 a-1 = NONE, NONE
        produce1 t P1/0 5 a-0 z = 3
        produce2 t P1/0 5 a-2 z = OUT_OF_ORDER_SEQUENCE_NUMBER
        produce2 t P1/0 0 a-2 z = 0
        produce2 t P1/0 1 a-2 z = 1
        end2 t P1/0 commit = P1/1
        log a-0 = P0/0 x, P0/0 y, P0/1 y, P1/0 z, P1/1 Commit
        log a-1 = P1/1 Commit
        log a-2 = P1/0 z, P1/0 z, P1/1 Commit
        produce2 t P1/1 3 a-1 z = OUT_OF_ORDER_SEQUENCE_NUMBER
        produce2 t P1/1 0 a-1 z = 1",
    );
}

#[test]
fn offsets_of_version_1() {
    check(
        "topic a 2 = NONE
        init t = P0/0
        offsets1 t P0/0 g a-0=5 = TRANSACTION_ABORTABLE
        group t P0/0 g = NONE
        state t = Ongoing P0/0
        fetched g a-0 = 0:-1
        offsets1 t P0/0 g a-0=5 = NONE
        offsets1 t P0/0 g nope-0=5 = UNKNOWN_TOPIC_OR_PARTITION
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g a-0 = 0:-1
        fetched g = nothing
        fetched g a-1 = 1:-1
        offsets1 t P0/0 g a-0=6 = NONE
        end1 t P0/0 commit = NONE
        fetched g a-0 = 0:6m
        fetched g = 0:6m
        group t P0/0 g = NONE
        offsets1 t P0/0 g a-0=9 = NONE
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g a-0 = 0:6m
        fetched g = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g = 0:6m
        commit g a-0=7 = NONE
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g a-0 = 0:7
        end1 t P0/0 commit = NONE
        fetched g a-0 = 0:7
        group t P0/0 g = NONE
        offsets1 t P0/0 g a-0=10 = NONE
        end1 t P0/0 abort = NONE
        fetched g a-0 = 0:7
        group t P0/1 g = PRODUCER_FENCED
        offsets1 t P0/1 g a-0=10 = INVALID_PRODUCER_EPOCH
        offsets1 t P0/0 g a-0=10 = TRANSACTION_ABORTABLE
        offsets1 u P0/0 g a-0=10 = INVALID_PRODUCER_ID_MAPPING
        group t P0/0 g = NONE
        offsets1 t P0/0 g@member:3 a-0=10 = UNKNOWN_MEMBER_ID
        offsets1 t P0/0 g@member:-1 a-0=10 = NONE
        offsets1 t P0/0 g@:3 a-0=10 = UNKNOWN_MEMBER_ID
        state t = Ongoing P0/0
        end1 t P0/0 abort = NONE",
    );
}

#[test]
fn offsets_of_version_2() {
    check(
        "topic a 2 = NONE
        init t = P0/0
        offsets2 t P0/0 g a-0=5 = NONE
        state t = Ongoing P0/0
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        offsets2 t P0/1 g a-0=5 = INVALID_PRODUCER_EPOCH
        end2 t P0/0 commit = P0/1
        fetched g a-0 = 0:5m
        offsets2 t P0/0 g a-0=6 = INVALID_PRODUCER_EPOCH
        offsets2 t P0/1 g a-0=6 = NONE
        init t = P0/3
        fetched g a-0 = 0:5m
        offsets2 t P0/1 g a-0=6 = INVALID_PRODUCER_EPOCH
        offsets2 t P0/3 g@member:3 a-0=10 = UNKNOWN_MEMBER_ID
        state t = Ongoing P0/3
        offsets2 t P0/3 h@member:3 a-0=10 = ILLEGAL_GENERATION
        end2 t P0/3 abort = P0/4
        init u = P1/0
        offsets2 t P0/4 g a-0=20 = NONE
        offsets2 u P1/0 g a-0=30 = NONE
        end2 u P1/0 commit = P1/1
        fetched g a-0 = 0:-1 UNSTABLE_OFFSET_COMMIT
        fetched-any g a-0 = 0:30m
        end2 t P0/4 commit = P0/5
        fetched g a-0 = 0:30m
        produce2 t P0/5 0 a-0 x = 0
        offsets2 t P0/5 g a-0=21 = NONE
        end2 t P0/5 abort = P0/6
        fetched g a-0 = 0:30m",
    );
}

#[test]
fn what_takes_too_long_is_aborted() {
    check(
        "topic a 1 = NONE
        init t 1500ms = P0/0
        produce2 t P0/0 0 a-0 x = 0
        offsets2 t P0/0 g a-0=21 = NONE
        until t CompleteAbort = CompleteAbort P0/1
        log a-0 = P0/0 x, P0/1 Abort
        fetched g a-0 = 0:-1
        produce2 t P0/0 1 a-0 x = INVALID_PRODUCER_EPOCH
        end1 t P0/0 commit = PRODUCER_FENCED
        end2 t P0/0 commit = INVALID_TXN_STATE
        offsets2 t P0/0 g a-0=21 = INVALID_PRODUCER_EPOCH
        init t P0/0 = P0/1
        init t P0/1 = P0/2
        init t P0/1 = P0/2
        state t = Empty P0/2",
    );
}

/// What Kafka 4.4 answers with `transaction.version=1`.
#[test]
fn who_comes_back_when_the_cluster_has_version_1() {
    let script = "topic a 1 = NONE
        init t 1500ms = P0/0
        add t P0/0 a-0 = NONE
        produce1 t P0/0 0 a-0 x = 0
        until t CompleteAbort = CompleteAbort P0/1
        log a-0 = P0/0 x, P0/1 Abort
        produce1 t P0/0 1 a-0 x = INVALID_PRODUCER_EPOCH
        end1 t P0/0 commit = PRODUCER_FENCED
        end1 t P0/0 abort = PRODUCER_FENCED
        add t P0/0 a-0 = PRODUCER_FENCED
        init t P0/0 = PRODUCER_FENCED
        init t P0/1 = P0/2
        init t P0/1 = P0/2
        state t = Empty P0/2
        add t P0/2 a-0 = NONE
        produce1 t P0/2 0 a-0 x = 2
        init t = P0/4
        state t = Empty P0/4
        init t P0/2 = PRODUCER_FENCED
        log a-0 = P0/0 x, P0/1 Abort, P0/2 x, P0/3 Abort";
    let mut config = BrokerConfig::quick();
    config.transaction_version = 1;
    Stage::embedded(config).must(script);
}

#[test]
fn compaction_takes_aborted_records_for_none() {
    let mut stage = Stage::embedded(BrokerConfig::quick());
    let config = [("cleanup.policy", "compact")];
    stage.broker().create_topic_with("a", 1, &config).unwrap();
    stage.must(
        "init t = P0/0
        produce2 t P0/0 0 a-0 one two = 0
        end2 t P0/0 commit = P0/1
        produce2 t P0/1 0 a-0 void = 3
        end2 t P0/1 abort = P0/2
        produce2 t P0/2 0 a-0 open = 5",
    );
    stage.broker().compact("a").unwrap();
    stage.must(
        "log a-0 = P0/0 two, P0/1 Commit, P0/2 Abort, P0/2 open
        read a-0 = P0 aborted from 3, 3 records, stable 5 of 6
        end2 t P0/2 commit = P0/3",
    );
    stage.broker().compact("a").unwrap();
    stage.must("log a-0 = P0/1 Commit, P0/2 Abort, P0/2 open");
}
