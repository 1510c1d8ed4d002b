//! ApiVersions (18), versions 0 to 4: what is served, and the cluster's features.
//!
//! Produce is advertised from version 0, as Kafka does for librdkafka, and served from 3.

use kstreams_protocol::ResponseError;
use kstreams_protocol::messages::api_versions_response::{
    ApiVersion, FinalizedFeatureKey, SupportedFeatureKey,
};
use kstreams_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};

use super::{Call, SERVED, str_bytes};
use crate::node::Node;

pub(super) const KEY: i16 = 18;

/// Features with their range and the level that is in force.
fn features(node: &Node) -> [(&'static str, i16, i16, i16); 4] {
    [
        ("group.version", 0, 1, 1),
        ("metadata.version", 7, 33, 33),
        ("streams.version", 0, 1, 1),
        ("transaction.version", 0, 2, node.config.transaction_version),
    ]
}

pub(super) fn handle(node: &mut Node, call: &Call, _: ApiVersionsRequest) -> ApiVersionsResponse {
    let features = features(node);
    let supported = features
        .iter()
        // Clients before version 4 take a lower bound of 0 for an error.
        .filter(|(_, min, _, _)| call.version >= 4 || *min > 0)
        .map(|(name, min, max, _)| {
            SupportedFeatureKey::default()
                .with_name(str_bytes(name))
                .with_min_version(*min)
                .with_max_version(*max)
        });
    let finalized = features.iter().map(|(name, _, _, level)| {
        FinalizedFeatureKey::default()
            .with_name(str_bytes(name))
            .with_min_version_level(*level)
            .with_max_version_level(*level)
    });
    let response = ApiVersionsResponse::default().with_api_keys(keys());
    if call.version < 3 {
        return response;
    }
    response
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(1)
}

/// The answer to a version that is not known, itself in version 0.
pub(super) fn unsupported() -> ApiVersionsResponse {
    let mut own = keys();
    own.retain(|key| key.api_key == KEY);
    ApiVersionsResponse::default()
        .with_error_code(ResponseError::UnsupportedVersion.code())
        .with_api_keys(own)
}

fn keys() -> Vec<ApiVersion> {
    let key = |served: &super::Served| {
        ApiVersion::default()
            .with_api_key(served.key)
            .with_min_version(served.min)
            .with_max_version(served.max)
    };
    SERVED.iter().map(key).collect()
}
