//! A classic group: members join, a leader among them assigns, all sync. Java: `ClassicGroup`.
//!
//! ```text
//!   Empty --join--> PreparingRebalance --all joined--> CompletingRebalance --leader synced--> Stable
//!                        ^----- a member joins, leaves or dies ------|------------------------|
//! ```
//! Deviations: a static member that comes back always rebalances the group.

use std::collections::BTreeMap;

use bytes::Bytes;
use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::join_group_response::JoinGroupResponseMember;
use kstreams_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kstreams_protocol::messages::{
    JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use kstreams_protocol::protocol::StrBytes;

use crate::api::{Call, str_bytes};
use crate::config::BrokerConfig;

mod rebalance;

/// Where a group is in its rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ClassicState {
    /// No members.
    #[default]
    Empty,
    /// Waits for its members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    /// All have their assignment.
    Stable,
}

/// A member of a classic group.
#[derive(Debug, Default)]
pub(crate) struct ClassicMember {
    pub(crate) instance_id: Option<StrBytes>,
    pub(crate) client_id: StrBytes,
    pub(crate) host: String,
    session_timeout_ms: i64,
    rebalance_timeout_ms: i64,
    protocols: Vec<(StrBytes, Bytes)>,
    pub(crate) assignment: Bytes,
    session_until: i64,
    joining: Option<Call>,
    syncing: Option<Call>,
}

/// A classic group.
#[derive(Debug, Default)]
pub(crate) struct ClassicGroup {
    pub(crate) state: ClassicState,
    pub(crate) generation: i32,
    pub(crate) protocol_type: StrBytes,
    pub(crate) protocol: Option<StrBytes>,
    leader: Option<String>,
    pub(crate) members: BTreeMap<String, ClassicMember>,
    /// Member ids that were given out and have not joined yet, and until when they may, ms.
    pending: BTreeMap<String, i64>,
    /// When the phase ends at the latest, ms.
    phase_until: Option<i64>,
    /// The first members wait until the end of the phase for others.
    initial: bool,
}

/// An answer to a request that waited.
#[derive(Debug)]
pub(crate) enum Waited {
    Join(Call, JoinGroupResponse),
    Sync(Call, SyncGroupResponse),
}

impl ClassicState {
    /// Kafka's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

impl ClassicMember {
    pub(crate) fn metadata(&self, protocol: Option<&StrBytes>) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| Some(name) == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }

    fn is_waiting(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }
}

/// The answer to a join that is refused.
pub(crate) fn refused_join(
    version: i16,
    member_id: &str,
    error: ResponseError,
) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(-1)
        .with_protocol_name((version < 7).then(StrBytes::new))
        .with_member_id(str_bytes(member_id))
}

/// The answer to a sync that is refused.
pub(crate) fn refused_sync(error: ResponseError) -> SyncGroupResponse {
    SyncGroupResponse::default().with_error_code(error.code())
}

impl ClassicGroup {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.pending.is_empty()
    }

    /// Handles a join. `new_id` makes a member id of the client's.
    pub(crate) fn join(
        &mut self,
        call: &Call,
        request: &JoinGroupRequest,
        config: &BrokerConfig,
        (new_id, now): (&str, i64),
        waited: &mut Vec<Waited>,
    ) {
        let mut refuse = |id: &str, error| {
            waited.push(Waited::Join(call.clone(), refused_join(call.version, id, error)));
        };
        let allowed = config.group_min_session_timeout_ms..=config.group_max_session_timeout_ms;
        if !allowed.contains(&request.session_timeout_ms) {
            return refuse(&request.member_id, ResponseError::InvalidSessionTimeout);
        }
        if !self.supports(request) {
            return refuse(&request.member_id, ResponseError::InconsistentGroupProtocol);
        }
        let session = i64::from(request.session_timeout_ms);
        let mut id = request.member_id.to_string();
        if id.is_empty() {
            id = new_id.to_owned();
            if call.version >= 4 && request.group_instance_id.is_none() {
                self.pending.insert(id.clone(), now + session);
                return refuse(&id, ResponseError::MemberIdRequired);
            }
            self.replace_static(request.group_instance_id.as_ref(), waited);
        } else if self.pending.remove(&id).is_none() && !self.members.contains_key(&id) {
            return refuse(&id, ResponseError::UnknownMemberId);
        }
        let protocols: Vec<(StrBytes, Bytes)> =
            request.protocols.iter().map(|p| (p.name.clone(), p.metadata.clone())).collect();
        let known = self.members.get(&id);
        let changed = known.is_none_or(|member| member.protocols != protocols);
        let leads = self.leader.as_deref() == Some(id.as_str());
        let stays = match self.state {
            ClassicState::Stable => !changed && !leads,
            ClassicState::CompletingRebalance => !changed,
            _ => false,
        };
        if self.members.is_empty() {
            self.protocol_type = request.protocol_type.clone();
        }
        let is_new = !self.members.contains_key(&id);
        let member = self.members.entry(id.clone()).or_default();
        member.instance_id.clone_from(&request.group_instance_id);
        member.client_id = call.client_id.clone();
        member.host = call.peer.to_string();
        member.session_timeout_ms = session;
        member.rebalance_timeout_ms = match request.rebalance_timeout_ms {
            -1 => session,
            timeout => i64::from(timeout),
        };
        member.protocols = protocols;
        member.session_until = now + session;
        if stays {
            let response = self.join_response(call.version, &id);
            waited.push(Waited::Join(call.clone(), response));
            return;
        }
        member.joining = Some(call.clone());
        self.prepare(config, is_new, now, waited);
        self.complete_join_if_all(now, waited);
    }

    fn supports(&self, request: &JoinGroupRequest) -> bool {
        if request.protocol_type.is_empty() || request.protocols.is_empty() {
            return false;
        }
        let others: Vec<&ClassicMember> = self
            .members
            .iter()
            .filter(|(id, _)| id.as_str() != request.member_id.as_str())
            .map(|(_, member)| member)
            .collect();
        others.is_empty()
            || (self.protocol_type == request.protocol_type
                && request.protocols.iter().any(|protocol| {
                    others
                        .iter()
                        .all(|m| m.protocols.iter().any(|(name, _)| *name == protocol.name))
                }))
    }

    fn replace_static(&mut self, instance: Option<&StrBytes>, waited: &mut Vec<Waited>) {
        let known = self
            .members
            .iter()
            .find(|(_, m)| instance.is_some() && m.instance_id.as_ref() == instance);
        let Some(id) = known.map(|(id, _)| id.clone()) else { return };
        let Some(mut old) = self.members.remove(&id) else { return };
        if let Some(call) = old.joining.take() {
            let response = refused_join(call.version, &id, ResponseError::FencedInstanceId);
            waited.push(Waited::Join(call, response));
        }
        if let Some(call) = old.syncing.take() {
            waited.push(Waited::Sync(call, refused_sync(ResponseError::FencedInstanceId)));
        }
        if self.leader.as_deref() == Some(&id) {
            self.leader = None;
        }
    }

    fn join_response(&self, version: i16, id: &str) -> JoinGroupResponse {
        let leader = self.leader.clone().unwrap_or_default();
        let member = |(id, member): (&String, &ClassicMember)| {
            JoinGroupResponseMember::default()
                .with_member_id(str_bytes(id))
                .with_group_instance_id(member.instance_id.clone())
                .with_metadata(member.metadata(self.protocol.as_ref()))
        };
        let members =
            if leader == id { self.members.iter().map(member).collect() } else { Vec::new() };
        let response = JoinGroupResponse::default()
            .with_generation_id(self.generation)
            .with_protocol_name(self.protocol.clone())
            .with_leader(str_bytes(&leader))
            .with_member_id(str_bytes(id))
            .with_members(members);
        if version < 7 {
            return response;
        }
        response.with_protocol_type(Some(self.protocol_type.clone()))
    }

    /// Handles a sync.
    pub(crate) fn sync(
        &mut self,
        call: &Call,
        request: &SyncGroupRequest,
        now: i64,
        waited: &mut Vec<Waited>,
    ) {
        let other = |asked: &Option<StrBytes>, own: Option<&StrBytes>| {
            asked.as_ref().is_some_and(|asked| Some(asked) != own)
        };
        let checked = self
            .check_member(
                &request.member_id,
                request.group_instance_id.as_ref(),
                request.generation_id,
            )
            .and_then(|()| {
                if other(&request.protocol_type, Some(&self.protocol_type))
                    || other(&request.protocol_name, self.protocol.as_ref())
                {
                    return Err(ResponseError::InconsistentGroupProtocol);
                }
                match self.state {
                    ClassicState::Empty => Err(ResponseError::UnknownMemberId),
                    ClassicState::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
                    ClassicState::CompletingRebalance | ClassicState::Stable => Ok(()),
                }
            });
        if let Err(error) = checked {
            waited.push(Waited::Sync(call.clone(), refused_sync(error)));
            return;
        }
        let Some(member) = self.members.get_mut(request.member_id.as_str()) else { return };
        member.session_until = now + member.session_timeout_ms;
        if self.state == ClassicState::Stable {
            let response = self.sync_response(&request.member_id);
            waited.push(Waited::Sync(call.clone(), response));
            return;
        }
        member.syncing = Some(call.clone());
        if self.leader.as_deref() == Some(request.member_id.as_str()) {
            self.take_assignment(&request.assignments, waited);
        }
    }

    fn take_assignment(
        &mut self,
        assignments: &[SyncGroupRequestAssignment],
        waited: &mut Vec<Waited>,
    ) {
        for assigned in assignments {
            if let Some(member) = self.members.get_mut(assigned.member_id.as_str()) {
                member.assignment = assigned.assignment.clone();
            }
        }
        (self.state, self.phase_until) = (ClassicState::Stable, None);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(call) = self.members.get_mut(&id).and_then(|m| m.syncing.take()) else {
                continue;
            };
            let response = self.sync_response(&id);
            waited.push(Waited::Sync(call, response));
        }
    }

    fn sync_response(&self, id: &str) -> SyncGroupResponse {
        let assignment = self.members.get(id).map(|member| member.assignment.clone());
        SyncGroupResponse::default()
            .with_protocol_type(Some(self.protocol_type.clone()))
            .with_protocol_name(self.protocol.clone())
            .with_assignment(assignment.unwrap_or_default())
    }

    pub(crate) fn heartbeat(
        &mut self,
        id: &str,
        instance: Option<&StrBytes>,
        generation: i32,
        now: i64,
    ) -> Result<(), ResponseError> {
        self.check_member(id, instance, generation)?;
        if let Some(member) = self.members.get_mut(id) {
            member.session_until = now + member.session_timeout_ms;
        }
        match self.state {
            ClassicState::Empty => Err(ResponseError::UnknownMemberId),
            ClassicState::PreparingRebalance => Err(ResponseError::RebalanceInProgress),
            ClassicState::CompletingRebalance | ClassicState::Stable => Ok(()),
        }
    }

    /// Takes a member out, by its id or as the static member that it is.
    pub(crate) fn leave(
        &mut self,
        id: &str,
        instance: Option<&StrBytes>,
        (config, now): (&BrokerConfig, i64),
        waited: &mut Vec<Waited>,
    ) -> Result<(), ResponseError> {
        if self.pending.remove(id).is_some() {
            self.complete_join_if_all(now, waited);
            return Ok(());
        }
        let of_instance = self
            .members
            .iter()
            .find(|(_, m)| instance.is_some() && m.instance_id.as_ref() == instance)
            .map(|(id, _)| id.clone());
        let id = match (instance, of_instance) {
            (Some(_), Some(known)) if id.is_empty() || id == known => known,
            (Some(_), Some(_)) => return Err(ResponseError::FencedInstanceId),
            _ => id.to_owned(),
        };
        if !self.members.contains_key(&id) {
            return Err(ResponseError::UnknownMemberId);
        }
        self.remove(&id, config, now, waited);
        Ok(())
    }

    fn remove(&mut self, id: &str, config: &BrokerConfig, now: i64, waited: &mut Vec<Waited>) {
        let Some(mut member) = self.members.remove(id) else { return };
        let error = ResponseError::UnknownMemberId;
        if let Some(call) = member.joining.take() {
            let response = refused_join(call.version, id, error);
            waited.push(Waited::Join(call, response));
        }
        if let Some(call) = member.syncing.take() {
            waited.push(Waited::Sync(call, refused_sync(error)));
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = None;
        }
        if self.state != ClassicState::PreparingRebalance {
            self.prepare(config, false, now, waited);
        }
        self.complete_join_if_all(now, waited);
    }

    /// Whether a member may commit offsets; a generation of -1 may only when there are no members.
    pub(crate) fn check_commit(
        &self,
        id: &str,
        instance: Option<&StrBytes>,
        generation: i32,
        transactional: bool,
    ) -> Result<(), ResponseError> {
        if generation < 0 && self.members.is_empty() {
            return Ok(());
        }
        if transactional && generation < 0 && id.is_empty() && instance.is_none() {
            return Ok(());
        }
        self.check_member(id, instance, generation)?;
        if self.state == ClassicState::CompletingRebalance && !transactional {
            return Err(ResponseError::RebalanceInProgress);
        }
        Ok(())
    }

    fn check_member(
        &self,
        id: &str,
        instance: Option<&StrBytes>,
        generation: i32,
    ) -> Result<(), ResponseError> {
        let of_instance = self
            .members
            .iter()
            .find(|(_, m)| instance.is_some() && m.instance_id.as_ref() == instance);
        if of_instance.is_some_and(|(known, _)| known != id) {
            return Err(ResponseError::FencedInstanceId);
        }
        if !self.members.contains_key(id) {
            return Err(ResponseError::UnknownMemberId);
        }
        if generation != self.generation {
            return Err(ResponseError::IllegalGeneration);
        }
        Ok(())
    }
}
