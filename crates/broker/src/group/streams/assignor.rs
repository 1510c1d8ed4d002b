//! The sticky assignor: every member gets as many tasks as any other, give or take one, and keeps
//! what it has where that allows it. Java: `StickyTaskAssignor`, whose choices among equals differ.

use std::collections::{BTreeMap, BTreeSet};

use super::super::tasks::{TaskId, Tasks};

/// A member as the assignor sees it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidate {
    pub(crate) process: String,
    /// What it was to own by the last assignment.
    pub(crate) before: Tasks,
    /// Tasks of which it has state on disk, with the sum of their offsets.
    pub(crate) has_state: BTreeMap<TaskId, i64>,
}

/// Gives all tasks to the members: `stateful` and `stateless` ones are balanced each for itself.
pub(crate) fn assign(
    members: &BTreeMap<String, Candidate>,
    stateful: &[TaskId],
    stateless: &[TaskId],
    standby_replicas: usize,
) -> BTreeMap<String, Tasks> {
    let mut plan = Plan::new(members);
    if members.is_empty() {
        return plan.assigned;
    }
    plan.place_active(stateful);
    plan.place_active(stateless);
    for _ in 0..standby_replicas {
        plan.place_standbys(stateful);
    }
    plan.assigned
}

struct Plan<'a> {
    members: &'a BTreeMap<String, Candidate>,
    assigned: BTreeMap<String, Tasks>,
    /// Members of each process.
    processes: BTreeMap<&'a str, Vec<&'a str>>,
    active: usize,
}

impl<'a> Plan<'a> {
    fn new(members: &'a BTreeMap<String, Candidate>) -> Self {
        let mut processes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, member) in members {
            processes.entry(&member.process).or_default().push(id);
        }
        let assigned = members.keys().map(|id| (id.clone(), Tasks::default())).collect();
        Self { members, assigned, processes, active: 0 }
    }

    fn load(&self, member: &str) -> usize {
        self.assigned.get(member).map_or(0, |tasks| tasks.active.len() + tasks.standby.len())
    }

    fn give(&mut self, member: &str, task: TaskId) {
        if let Some(tasks) = self.assigned.get_mut(member) {
            tasks.active.insert(task);
        }
    }

    fn place_active(&mut self, tasks: &[TaskId]) {
        self.active += tasks.len();
        let floor = self.active / self.members.len();
        // So many members have one more than the others.
        let mut extra = self.active % self.members.len();
        extra = extra
            .saturating_sub(self.members.keys().filter(|member| self.load(member) > floor).count());
        let mut left: BTreeSet<&TaskId> = tasks.iter().collect();
        // Those that own it stay; then those that have its state, the newest first.
        let owners = |member: &Candidate, task: &TaskId| member.before.active.contains(task);
        let standbys = |member: &Candidate, task: &TaskId| {
            member.before.standby.contains(task) || member.before.warmup.contains(task)
        };
        let on_disk = |member: &Candidate, task: &TaskId| member.has_state.contains_key(task);
        for keeps in [&owners as &dyn Fn(&Candidate, &TaskId) -> bool, &standbys, &on_disk] {
            for task in tasks {
                if !left.contains(task) {
                    continue;
                }
                let may = |id: &&String| {
                    let load = self.load(id);
                    load < floor || (load == floor && extra > 0)
                };
                let mut keepers: Vec<(&String, &Candidate)> =
                    self.members.iter().filter(|(_, member)| keeps(member, task)).collect();
                let state = |member: &Candidate| member.has_state.get(task).copied().unwrap_or(0);
                keepers.sort_by_key(|(id, member)| (-state(member), self.load(id)));
                if let Some((id, _)) = keepers.into_iter().find(|(id, _)| may(id)) {
                    extra -= usize::from(self.load(id) == floor);
                    left.remove(task);
                    self.give(id, task.clone());
                }
            }
        }
        for task in left {
            if let Some(member) = self.least_loaded(|_| true) {
                self.give(&member, task.clone());
            }
        }
    }

    /// Of the least loaded process that may have the task, the least loaded member.
    fn least_loaded(&self, may: impl Fn(&str) -> bool) -> Option<String> {
        let members = self.members.iter().filter(|(_, member)| may(&member.process));
        let process_load = |process: &str| {
            let of = self.processes.get(process).map_or(&[][..], Vec::as_slice);
            let tasks: usize = of.iter().map(|member| self.load(member)).sum();
            // Tasks a member, in thousandths: processes differ in size.
            tasks * 1000 / of.len().max(1)
        };
        members
            .min_by_key(|(id, member)| (self.load(id), process_load(&member.process)))
            .map(|(id, _)| id.clone())
    }

    /// Gives each task one more standby, in a process that has nothing of it yet.
    fn place_standbys(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            let holds = |process: &str| {
                let members = self.processes.get(process).into_iter().flatten();
                members
                    .filter_map(|member| self.assigned.get(*member))
                    .any(|tasks| tasks.active.contains(task) || tasks.standby.contains(task))
            };
            let had = |member: &Candidate| {
                member.before.standby.contains(task)
                    || member.before.active.contains(task)
                    || member.has_state.contains_key(task)
            };
            let total: usize = self.members.keys().map(|member| self.load(member)).sum();
            let ceiling = total / self.members.len() + 1;
            let kept = self.members.iter().find(|(id, member)| {
                had(member) && !holds(&member.process) && self.load(id) <= ceiling
            });
            let chosen = match kept {
                Some((id, _)) => Some(id.clone()),
                None => self.least_loaded(|process| !holds(process)),
            };
            if let Some(tasks) = chosen.and_then(|id| self.assigned.get_mut(&id)) {
                tasks.standby.insert(task.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks(subtopology: &str, count: i32) -> Vec<TaskId> {
        (0..count).map(|partition| (subtopology.to_owned(), partition)).collect()
    }

    fn members(names: &[(&str, &str)]) -> BTreeMap<String, Candidate> {
        let one = |(id, process): &(&str, &str)| {
            let member = Candidate { process: (*process).to_owned(), ..Candidate::default() };
            ((*id).to_owned(), member)
        };
        names.iter().map(one).collect()
    }

    fn keep(members: &mut BTreeMap<String, Candidate>, assigned: &BTreeMap<String, Tasks>) {
        for (id, member) in members {
            member.before = assigned.get(id).cloned().unwrap_or_default();
        }
    }

    fn active(assigned: &BTreeMap<String, Tasks>) -> Vec<usize> {
        assigned.values().map(|tasks| tasks.active.len()).collect()
    }

    #[test]
    fn tasks_are_shared_evenly() {
        let assigned =
            assign(&members(&[("a", "1"), ("b", "1"), ("c", "2")]), &tasks("0", 8), &[], 0);
        let mut sizes = active(&assigned);
        sizes.sort_unstable();
        assert_eq!(sizes, [2, 3, 3]);
    }

    #[test]
    fn a_member_that_comes_takes_only_its_share() {
        let mut all = members(&[("a", "1"), ("b", "2")]);
        let before = assign(&all, &tasks("0", 8), &[], 0);
        all.extend(members(&[("c", "3")]));
        keep(&mut all, &before);
        let after = assign(&all, &tasks("0", 8), &[], 0);
        for id in ["a", "b"] {
            assert!(before[id].contains_all(&after[id]), "{id} gets nothing new");
        }
        assert_eq!(active(&after), [3, 3, 2]);
    }

    #[test]
    fn the_others_take_over_from_one_that_goes_and_keep_theirs() {
        let mut all = members(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let before = assign(&all, &tasks("0", 9), &tasks("1", 3), 0);
        all.remove("b");
        keep(&mut all, &before);
        let after = assign(&all, &tasks("0", 9), &tasks("1", 3), 0);
        for id in ["a", "c"] {
            assert!(after[id].contains_all(&before[id]), "{id} keeps all");
        }
        assert_eq!(active(&after), [6, 6]);
    }

    #[test]
    fn stateful_tasks_are_balanced_for_themselves() {
        let assigned =
            assign(&members(&[("a", "1"), ("b", "2")]), &tasks("0", 4), &tasks("1", 4), 0);
        for tasks in assigned.values() {
            assert_eq!(tasks.active.iter().filter(|(id, _)| id == "0").count(), 2);
            assert_eq!(tasks.active.len(), 4);
        }
    }

    #[test]
    fn standbys_are_in_another_process() {
        let assigned =
            assign(&members(&[("a", "1"), ("b", "1"), ("c", "2")]), &tasks("0", 6), &[], 1);
        let standbys: usize = assigned.values().map(|tasks| tasks.standby.len()).sum();
        assert_eq!(standbys, 6);
        let of = |ids: &[&str]| {
            let mut all = Tasks::default();
            for id in ids {
                all.active.extend(assigned[*id].active.clone());
                all.standby.extend(assigned[*id].standby.clone());
            }
            all
        };
        for process in [of(&["a", "b"]), of(&["c"])] {
            assert!(process.active.is_disjoint(&process.standby));
        }
    }

    #[test]
    fn state_on_disk_attracts_its_task() {
        let mut all = members(&[("a", "1"), ("b", "2")]);
        for (id, partition) in [("a", 1), ("b", 0)] {
            let member = all.get_mut(id).unwrap();
            member.has_state.insert(("0".to_owned(), partition), 100);
        }
        let assigned = assign(&all, &tasks("0", 2), &[], 0);
        assert!(assigned["a"].active.contains(&("0".to_owned(), 1)));
    }
}
