//! Positions of groups, from outside.

use crate::support::*;
use kstreams_client::{CommittedOffset, ErrorKind, TopicPartition};
use std::collections::BTreeMap;

#[test]
fn positions_are_committed_and_fetched() {
    let mut client = client();
    let topic = topic(&mut client, 2);
    let group = unique("offsets");
    let [first, second] = [0, 1].map(|p| TopicPartition::new(topic.clone(), p));
    let offset = CommittedOffset { offset: 5, leader_epoch: Some(0), metadata: "note".to_owned() };
    let results = done(client.commit_group_offsets(&group, one(first.clone(), offset.clone())));
    results[&first].as_ref().unwrap();
    let found = done(client.group_offsets(&group, vec![first.clone(), second.clone()]));
    assert_eq!(found[&first].as_ref().unwrap(), &Some(offset.clone()));
    assert_eq!(found[&second].as_ref().unwrap(), &None);
    let all = done(client.group_offsets(&group, Vec::new()));
    let all: BTreeMap<_, _> = all.into_iter().filter(|(key, _)| key.partition >= 0).collect();
    assert_eq!(all.len(), 1);
    assert_eq!(all[&first].as_ref().unwrap(), &Some(offset));
    let name = kstreams_client::Topic::from(group.as_str());
    done(client.delete_groups(vec![name.clone()])).remove(&name).unwrap().unwrap();
    let gone = done(client.group_offsets(&group, vec![first.clone()]));
    assert_eq!(gone[&first].as_ref().unwrap(), &None);
}

#[test]
fn without_a_group_nothing_is_committed() {
    let mut client = client();
    let error = client.commit_offsets(BTreeMap::new()).wait(LONG).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
