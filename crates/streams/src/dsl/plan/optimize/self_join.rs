//! A stream that is joined with itself needs one store and one join node.

use super::{Layout, Plan};

pub(super) fn rewrite(plan: &Plan, layout: &mut Layout) {
    for join in &plan.self_joins {
        let [this, other] = join.windowed.map(|id| layout.parents[id.0].clone());
        if this != other {
            continue;
        }
        layout.remove(join.windowed[1]);
        for id in join.joins {
            layout.remove(id);
        }
        layout.parents[join.merge.0] = vec![join.windowed[0]];
        let name = plan.nodes[join.merge.0].name.clone();
        layout.replaced.insert(join.merge, (name, join.kind.clone()));
    }
}
