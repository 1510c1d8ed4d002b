//! One connection to a broker: versions first, then requests in flight, answered in order.
//!
//! ```text
//! open -> Negotiating (ApiVersions) -> Ready -> closed
//! ```
//! No I/O: it takes frames and gives frames. TLS sits below it, in the driver; SASL will be a state
//! between the two.

use crate::error::{ClientError, ErrorKind};
use crate::requests::{Api, Request, Response};
use crate::types::Now;
use bytes::Bytes;
use kstreams_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kstreams_protocol::protocol::{StrBytes, VersionRange};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Who waits for an answer; given back with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ticket {
    Versions,
    Metadata,
    Coordinator,
    Fetch { fetcher: usize, id: u64 },
    Produce { producer: u32, id: u64 },
    ProducerId { producer: u32 },
    Transaction { producer: u32 },
    Heartbeat,
    TopologyDescription,
    Assignment,
    Call { call: u64, part: u64 },
}

#[derive(Debug)]
struct InFlight {
    correlation_id: i32,
    api: Api,
    version: i16,
    ticket: Ticket,
    deadline: Now,
}

/// The machine of one open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    client_id: StrBytes,
    next_correlation_id: i32,
    versions: Option<BTreeMap<i16, VersionRange>>,
    /// Level of the feature `transaction.version`, behind the epoch of the cluster's features.
    transaction_version: (i64, i16),
    in_flight: VecDeque<InFlight>,
    out: VecDeque<Bytes>,
}

/// What a frame was.
#[derive(Debug)]
pub(crate) enum Received {
    /// The connection can be used now.
    Ready,
    /// The versions were asked for again, as the broker wished.
    Again,
    /// An answer.
    Answer(Ticket, Response),
}

impl Connection {
    /// A connection that was just opened.
    pub(crate) fn new(client_id: StrBytes, now: Now, timeout: Duration) -> Self {
        let mut connection = Self {
            client_id,
            next_correlation_id: 0,
            versions: None,
            transaction_version: (-1, 0),
            in_flight: VecDeque::new(),
            out: VecDeque::new(),
        };
        connection.ask_versions(Api::Versions.versions().max, now + timeout);
        connection
    }

    fn ask_versions(&mut self, version: i16, deadline: Now) {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("kstreams"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        // Its fields are short: it can always be written.
        if self.put(&request.into(), version, Ticket::Versions, deadline).is_err() {
            tracing::error!("the request for API versions cannot be written");
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.versions.is_some()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The version to speak with this broker.
    pub(crate) fn version(&self, api: Api) -> Result<i16, ClientError> {
        let ours = api.versions();
        let theirs = self.versions.as_ref().and_then(|versions| versions.get(&api.key()));
        match theirs {
            Some(theirs) if !ours.intersect(theirs).is_empty() => Ok(ours.intersect(theirs).max),
            Some(theirs) => {
                let message = format!(
                    "the broker speaks versions {} to {} of {api:?}, this client {} to {}",
                    theirs.min, theirs.max, ours.min, ours.max
                );
                Err(ClientError::new(ErrorKind::Unsupported, message))
            }
            None => {
                let message =
                    format!("the broker does not know {api:?} requests (key {})", api.key());
                Err(ClientError::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// What the broker said of `transaction.version`: the epoch of the cluster's features, which
    /// tells what is newer, and the level.
    pub(crate) fn transaction_version(&self) -> (i64, i16) {
        self.transaction_version
    }

    /// Queues a request, in a version up to `limit`.
    pub(crate) fn send(
        &mut self,
        request: &Request,
        limit: i16,
        ticket: Ticket,
        deadline: Now,
    ) -> Result<(), ClientError> {
        let version = self.version(request.api())?.min(limit);
        self.put(request, version, ticket, deadline)
    }

    fn put(
        &mut self,
        request: &Request,
        version: i16,
        ticket: Ticket,
        deadline: Now,
    ) -> Result<(), ClientError> {
        let correlation_id = self.next_correlation_id;
        self.out.push_back(request.encode(version, correlation_id, &self.client_id)?);
        self.next_correlation_id = correlation_id.wrapping_add(1) & i32::MAX;
        let api = request.api();
        self.in_flight.push_back(InFlight { correlation_id, api, version, ticket, deadline });
        Ok(())
    }

    /// Takes the bytes that are to be written next.
    pub(crate) fn take_out(&mut self) -> Option<Bytes> {
        self.out.pop_front()
    }

    /// Puts bytes back that could not be written.
    pub(crate) fn put_back(&mut self, rest: Bytes) {
        self.out.push_front(rest);
    }

    /// Takes one frame without its length. An error means that nothing more can be trusted: close.
    pub(crate) fn receive(&mut self, frame: Bytes, now: Now) -> Result<Received, ClientError> {
        let corrupt = |message: String| ClientError::new(ErrorKind::Corrupt, message);
        let Some(head) = frame.first_chunk::<4>() else {
            return Err(corrupt("an answer is shorter than its header".to_owned()));
        };
        let correlation_id = i32::from_be_bytes(*head);
        let asked =
            self.in_flight.pop_front().ok_or_else(|| corrupt("an answer to nothing".into()))?;
        if asked.correlation_id != correlation_id {
            let message =
                format!("answer {correlation_id} came for request {}", asked.correlation_id);
            self.in_flight.push_front(asked);
            return Err(corrupt(message));
        }
        if asked.ticket == Ticket::Versions {
            return self.negotiate(&asked, frame, now);
        }
        match asked.api.decode(asked.version, frame) {
            Ok(response) => Ok(Received::Answer(asked.ticket, response)),
            Err(error) => {
                self.in_flight.push_front(asked);
                Err(error)
            }
        }
    }

    fn negotiate(
        &mut self,
        asked: &InFlight,
        frame: Bytes,
        now: Now,
    ) -> Result<Received, ClientError> {
        // A broker that does not know our version answers in version 0, with error 35 and the
        // versions it knows.
        let code = frame.get(4..6).map_or(0, |code| i16::from_be_bytes([code[0], code[1]]));
        if code == 35 && asked.version > 0 {
            let versions = match Api::Versions.decode(0, frame) {
                Ok(Response::Versions(response)) => ranges(&response),
                _ => BTreeMap::new(),
            };
            let known = versions.get(&Api::Versions.key()).map_or(0, |range| range.max);
            self.ask_versions(known.clamp(0, asked.version - 1), asked.deadline.max(now));
            return Ok(Received::Again);
        }
        let Response::Versions(response) = Api::Versions.decode(asked.version, frame)? else {
            return Err(ClientError::new(ErrorKind::Corrupt, "another answer than asked for"));
        };
        if response.error_code != 0 {
            return Err(ClientError::broker(response.error_code, "API versions", None));
        }
        let level = response.finalized_features.iter().find(|f| &*f.name == "transaction.version");
        self.transaction_version =
            (response.finalized_features_epoch, level.map_or(0, |found| found.max_version_level));
        self.versions = Some(ranges(&response));
        Ok(Received::Ready)
    }

    /// Whether a request waits for too long.
    pub(crate) fn overdue(&self, now: Now) -> Option<Api> {
        self.in_flight.iter().find(|request| request.deadline <= now).map(|request| request.api)
    }

    pub(crate) fn deadline(&self) -> Option<Now> {
        self.in_flight.iter().map(|request| request.deadline).min()
    }

    /// The requests that were not answered, when the connection ends.
    pub(crate) fn unanswered(self) -> impl Iterator<Item = Ticket> {
        self.in_flight.into_iter().map(|request| request.ticket).filter(|t| *t != Ticket::Versions)
    }
}

fn ranges(response: &ApiVersionsResponse) -> BTreeMap<i16, VersionRange> {
    let range = |min, max| VersionRange { min, max };
    response
        .api_keys
        .iter()
        .map(|api| (api.api_key, range(api.min_version, api.max_version)))
        .collect()
}

#[cfg(test)]
mod tests;
