//! DescribeCluster (60), versions 0 to 2: the one broker. Operations are never filled in.

use kstreams_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kstreams_protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};

use super::{Call, str_bytes};
use crate::node::Node;

pub(super) fn handle(
    node: &mut Node,
    _: &Call,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let (host, port) = node.endpoint();
    let broker = DescribeClusterBroker::default()
        .with_broker_id(node.config.node_id.into())
        .with_host(str_bytes(&host))
        .with_port(i32::from(port));
    DescribeClusterResponse::default()
        .with_cluster_id(str_bytes(&node.cluster_id))
        .with_controller_id(node.config.node_id.into())
        .with_endpoint_type(request.endpoint_type)
        .with_brokers(vec![broker])
}
