//! What goes wrong on purpose: a script of faults, each for the next requests of a kind.

use std::collections::VecDeque;

use kstreams_protocol::ResponseError;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultAction {
    /// The connection is closed; the request is not handled.
    CutBefore,
    /// The request is handled, then the connection is closed in place of the answer.
    CutAfter,
    /// The request is handled; its answer never comes, and the connection takes no other.
    Drop,
    /// The request is handled; its answer comes so many milliseconds later. One that waits anyway (a
    /// long poll, a join) is not delayed further.
    Delay(u32),
    /// The request is not handled and is answered with this error wherever its answer has room for
    /// one. For Produce, Fetch, ListOffsets, FindCoordinator, OffsetCommit, OffsetFetch,
    /// InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit, JoinGroup,
    /// SyncGroup, Heartbeat and StreamsGroupHeartbeat.
    Error(ResponseError),
}

/// A fault for requests to come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Fault {
    api_key: Option<i16>,
    action: FaultAction,
    skip: u32,
    times: u32,
}

impl Fault {
    /// Does `action` to the next request of this kind (Kafka's number of it: 0 is Produce).
    pub fn on(api_key: i16, action: FaultAction) -> Self {
        Self { api_key: Some(api_key), action, skip: 0, times: 1 }
    }

    /// Does `action` to the next request, whatever it is.
    pub fn on_any(action: FaultAction) -> Self {
        Self { api_key: None, action, skip: 0, times: 1 }
    }

    /// Lets so many requests pass first.
    pub fn after(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Happens to so many requests, one after the other.
    pub fn times(mut self, requests: u32) -> Self {
        self.times = requests;
        self
    }
}

/// The faults that have not happened yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    script: VecDeque<Fault>,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.script.push_back(fault);
    }

    pub(crate) fn clear(&mut self) {
        self.script.clear();
    }

    /// What happens to a request of this kind.
    pub(crate) fn next(&mut self, api_key: i16) -> Option<FaultAction> {
        let mut happens = None;
        for fault in &mut self.script {
            if fault.api_key.is_some_and(|key| key != api_key) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 && happens.is_none() {
                fault.times -= 1;
                happens = Some(fault.action);
            }
        }
        self.script.retain(|fault| fault.times > 0);
        happens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_followed() {
        let mut faults = Faults::default();
        faults.add(Fault::on(0, FaultAction::CutBefore).after(1).times(2));
        faults.add(Fault::on_any(FaultAction::Drop));
        let happens: Vec<_> = [1, 0, 0, 0, 0].iter().map(|key| faults.next(*key)).collect();
        let cut = Some(FaultAction::CutBefore);
        assert_eq!(happens, [Some(FaultAction::Drop), None, cut, cut, None]);
    }
}
