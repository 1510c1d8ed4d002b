//! Classic groups: two consumers join, sync, rebalance, and go.

use std::sync::Arc;

use bytes::Bytes;
use kstreams_broker::{Broker, BrokerConfig, ManualClock};
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kstreams_protocol::messages::leave_group_request::MemberIdentity;
use kstreams_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kstreams_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kstreams_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, GroupId, HeartbeatRequest, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, SyncGroupRequest,
};

use crate::raw::{Raw, text, topic};

const SESSION_MS: i32 = 1000;

fn start(config: BrokerConfig) -> (Broker, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let builder = Broker::builder().in_memory().without_tcp().config(config);
    let broker = builder.clock(clock.clone()).start().unwrap();
    broker.create_topic("t", 1).unwrap();
    (broker, clock)
}

fn group() -> GroupId {
    GroupId(text("g"))
}

fn join_request(member: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"m"));
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(5000)
        .with_member_id(text(member))
        .with_group_instance_id(None)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// Joins for the first time: gets a member id, and joins with it.
fn first_join(raw: &mut Raw) -> String {
    let told = raw.call(9, &join_request(""));
    assert_eq!(told.error_code, ResponseError::MemberIdRequired.code());
    let id = told.member_id.to_string();
    raw.send(9, &join_request(&id));
    id
}

fn joined(raw: &mut Raw) -> JoinGroupResponse {
    raw.receive::<JoinGroupRequest>(9).expect("all have joined")
}

fn sync_request(member: &str, generation: i32, assigned: &[(&str, &str)]) -> SyncGroupRequest {
    let assignment = |(member, assignment): &(&str, &str)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(text(member))
            .with_assignment(Bytes::from((*assignment).to_owned()))
    };
    SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(text(member))
        .with_group_instance_id(None)
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text("range")))
        .with_assignments(assigned.iter().map(assignment).collect())
}

fn beat(raw: &mut Raw, member: &str, generation: i32) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(text(member))
        .with_group_instance_id(None);
    raw.call(4, &request).error_code
}

fn commit(raw: &mut Raw, member: &str, generation: i32) -> i16 {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(3);
    let topics =
        OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_group_instance_id(None)
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(generation)
        .with_topics(vec![topics]);
    raw.call(8, &request).topics[0].partitions[0].error_code
}

fn state(raw: &mut Raw) -> String {
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let group = raw.call(5, &request).groups.remove(0);
    format!("{} {}", group.group_state.as_str(), group.members.len())
}

/// Two members in a stable group: their connections and ids, the leader first.
fn two(broker: &Broker) -> [(Raw, String); 2] {
    let (mut one, mut two) = (Raw::memory(broker), Raw::memory(broker));
    let one_id = first_join(&mut one);
    assert_eq!(joined(&mut one).leader.as_str(), one_id);
    let two_id = first_join(&mut two);
    assert!(two.receive::<JoinGroupRequest>(9).is_none(), "waits for the other");
    assert_eq!(beat(&mut one, &one_id, 1), ResponseError::RebalanceInProgress.code());
    one.send(9, &join_request(&one_id));
    let response = joined(&mut one);
    assert_eq!((response.generation_id, response.members.len()), (2, 2));
    assert_eq!(joined(&mut two).members.len(), 0, "only the leader hears of members");
    two.send(5, &sync_request(&two_id, 2, &[]));
    assert!(two.receive::<SyncGroupRequest>(5).is_none(), "waits for the leader");
    let assigned = [(one_id.as_str(), "first"), (two_id.as_str(), "second")];
    let response = one.call(5, &sync_request(&one_id, 2, &assigned));
    assert_eq!(&response.assignment[..], b"first");
    let response = two.receive::<SyncGroupRequest>(5).expect("assigned");
    assert_eq!(&response.assignment[..], b"second");
    [(one, one_id), (two, two_id)]
}

#[test]
fn two_members_share_a_group() {
    let (broker, _) = start(BrokerConfig::quick());
    let [(mut one, one_id), (mut two, two_id)] = two(&broker);
    assert_eq!(beat(&mut one, &one_id, 2), 0);
    assert_eq!(beat(&mut two, &two_id, 1), ResponseError::IllegalGeneration.code());
    assert_eq!(beat(&mut two, "other", 2), ResponseError::UnknownMemberId.code());
    assert_eq!(commit(&mut two, &two_id, 2), 0);
    assert_eq!(commit(&mut two, &two_id, 1), ResponseError::IllegalGeneration.code());
    assert_eq!(commit(&mut two, "", -1), ResponseError::UnknownMemberId.code());
    assert_eq!(broker.committed("g", "t", 0), Some(3));
    assert_eq!(state(&mut one), "Stable 2");
    let again = two.call(9, &join_request(&two_id));
    assert_eq!((again.error_code, again.generation_id), (0, 2), "nothing changed: no rebalance");
    let listed = one.call(5, &ListGroupsRequest::default()).groups;
    assert_eq!(
        (listed[0].group_type.as_str(), listed[0].protocol_type.as_str()),
        ("Classic", "consumer")
    );
}

#[test]
fn a_member_that_leaves_makes_the_others_join_again() {
    let (broker, _) = start(BrokerConfig::quick());
    let [(mut one, one_id), (mut two, two_id)] = two(&broker);
    let member =
        MemberIdentity::default().with_member_id(text(&one_id)).with_group_instance_id(None);
    let request = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]);
    assert_eq!(one.call(5, &request).members[0].error_code, 0);
    assert_eq!(beat(&mut two, &two_id, 2), ResponseError::RebalanceInProgress.code());
    two.send(9, &join_request(&two_id));
    let response = joined(&mut two);
    assert_eq!(response.leader.as_str(), two_id, "it leads now");
    assert_eq!(state(&mut one), "CompletingRebalance 1");
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(one.call(2, &delete).results[0].error_code, ResponseError::NonEmptyGroup.code());
}

#[test]
fn a_silent_member_is_removed_after_its_session() {
    let (broker, clock) = start(BrokerConfig::quick());
    let [(mut one, one_id), (_two, _)] = two(&broker);
    clock.advance(600);
    assert_eq!(beat(&mut one, &one_id, 2), 0);
    clock.advance(401);
    broker.tick();
    assert_eq!(beat(&mut one, &one_id, 2), ResponseError::RebalanceInProgress.code());
    one.send(9, &join_request(&one_id));
    assert_eq!(joined(&mut one).members.len(), 1);
    clock.advance(1001);
    broker.tick();
    assert_eq!(state(&mut one), "Empty 0");
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(one.call(2, &delete).results[0].error_code, 0);
    assert_eq!(state(&mut one), "Dead 0");
}

#[test]
fn the_first_members_wait_for_others() {
    let mut config = BrokerConfig::quick();
    config.group_initial_rebalance_delay_ms = 100;
    let (broker, clock) = start(config);
    let (mut one, mut two) = (Raw::memory(&broker), Raw::memory(&broker));
    first_join(&mut one);
    first_join(&mut two);
    clock.advance(99);
    broker.tick();
    assert!(one.receive::<JoinGroupRequest>(9).is_none());
    clock.advance(1);
    broker.tick();
    assert_eq!(joined(&mut one).generation_id, 1);
    assert_eq!(joined(&mut two).generation_id, 1);
}

#[test]
fn what_does_not_fit_the_group_is_refused() {
    let (broker, _) = start(BrokerConfig::quick());
    let [_, (mut two, _)] = two(&broker);
    let refused = |raw: &mut Raw, request: &JoinGroupRequest| raw.call(9, request).error_code;
    let mut other = join_request("");
    other.protocols[0].name = text("sticky");
    assert_eq!(refused(&mut two, &other), ResponseError::InconsistentGroupProtocol.code());
    let short = join_request("").with_session_timeout_ms(10);
    assert_eq!(refused(&mut two, &short), ResponseError::InvalidSessionTimeout.code());
    assert_eq!(refused(&mut two, &join_request("other")), ResponseError::UnknownMemberId.code());
}
