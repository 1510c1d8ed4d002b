//! Several repartition topics below one operator that changes the key, with nothing in between that changes key or value, take the
//! same records: one topic right below that operator does for all.
//!
//! A merge below several such operators counts as one of them.

use super::super::node::{Changes, PlanId, PlanKind};
use super::{Layout, Plan};
use std::collections::BTreeMap;

pub(super) fn rewrite(plan: &Plan, layout: &mut Layout) {
    for (changer, topics) in mergeable(plan) {
        let Some(&first) = topics.first() else { continue };
        let PlanKind::Repartition(one) = &plan.nodes[first.0].kind else { continue };
        // The nodes that hang on the changer and shall hang on the one topic.
        let moved: Vec<PlanId> = topics
            .iter()
            .flat_map(|&topic| match child_on_the_way(plan, topic, changer) {
                Some(child) if child != topic => vec![child],
                _ => children(plan, topic),
            })
            .collect();
        for &topic in &topics {
            layout.bridge(topic);
        }
        layout.parents[first.0] = vec![changer];
        for id in moved {
            for parent in layout.parents[id.0].iter_mut().filter(|parent| **parent == changer) {
                *parent = first;
            }
        }
        let place = layout.order.iter().position(|&id| id == changer).map_or(0, |place| place + 1);
        layout.order.insert(place, first);
        let kind = PlanKind::Repartition(Box::new(one.named_after_topic()));
        layout.replaced.insert(first, (format!("{}-source", one.topic_name), kind));
    }
}

fn children(plan: &Plan, id: PlanId) -> Vec<PlanId> {
    let nodes = plan.nodes.iter().enumerate();
    nodes.filter(|(_, node)| node.parents.contains(&id)).map(|(place, _)| PlanId(place)).collect()
}

/// The operators that change the key, each with the topics that it alone makes necessary, in the order of the topics.
fn mergeable(plan: &Plan) -> BTreeMap<PlanId, Vec<PlanId>> {
    let mut topics: BTreeMap<PlanId, Vec<PlanId>> = BTreeMap::new();
    for (place, node) in plan.nodes.iter().enumerate() {
        let PlanKind::Repartition(repartition) = &node.kind else { continue };
        let changer = nearest(plan, PlanId(place), |changes| {
            matches!(changes, Changes::Key | Changes::Value)
        });
        if let Some(changer) = changer
            && repartition.is_optimizable
            && plan.nodes[changer.0].changes == Changes::Key
        {
            topics.entry(changer).or_default().push(PlanId(place));
        }
    }
    through_merges(plan, topics)
}

/// Topics below a merge belong to the merge, not to the operators above it.
fn through_merges(
    plan: &Plan,
    mut topics: BTreeMap<PlanId, Vec<PlanId>>,
) -> BTreeMap<PlanId, Vec<PlanId>> {
    let is_merge = |place: &usize| plan.nodes[*place].changes == Changes::Merge;
    for merge in (0..plan.nodes.len()).filter(is_merge).map(PlanId) {
        let above: Vec<PlanId> = topics
            .iter()
            .filter(|(changer, topics)| {
                is_above(plan, **changer, merge)
                    && topics.iter().all(|&topic| is_above(plan, merge, topic))
            })
            .map(|(&changer, _)| changer)
            .collect();
        let mut below: Vec<PlanId> =
            above.iter().filter_map(|changer| topics.remove(changer)).flatten().collect();
        below.sort_unstable();
        below.dedup();
        if !below.is_empty() {
            topics.insert(merge, below);
        }
    }
    topics
}

/// The nearest node above, first parents first, that changes what is asked for.
fn nearest(plan: &Plan, from: PlanId, wanted: impl Fn(Changes) -> bool + Copy) -> Option<PlanId> {
    plan.nodes[from.0].parents.iter().find_map(|&parent| {
        if wanted(plan.nodes[parent.0].changes) {
            return Some(parent);
        }
        nearest(plan, parent, wanted)
    })
}

fn is_above(plan: &Plan, above: PlanId, below: PlanId) -> bool {
    plan.nodes[below.0]
        .parents
        .iter()
        .any(|&parent| parent == above || is_above(plan, above, parent))
}

/// The child of `above` on the way down to `below`.
fn child_on_the_way(plan: &Plan, below: PlanId, above: PlanId) -> Option<PlanId> {
    let parents = &plan.nodes[below.0].parents;
    if parents.contains(&above) {
        return Some(below);
    }
    parents.iter().find_map(|&parent| child_on_the_way(plan, parent, above))
}
