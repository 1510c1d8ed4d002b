import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

/** Writes the golden files beside it: `java -cp 'KAFKA-4.4.0-JARS/*' Golden.java DIR`. */
public class Golden {
    static Path dir;

    public static void main(String[] args) throws Exception {
        dir = Path.of(args[0]);
        batch("none", Compression.NONE);
        batch("gzip", Compression.gzip().build());
        batch("snappy", Compression.snappy().build());
        batch("lz4", Compression.lz4().build());
        batch("zstd", Compression.zstd().build());
        ByteBuffer marker = MemoryRecords.withEndTransactionMarker(7, 1000, 3, 77, (short) 4, new EndTransactionMarker(ControlRecordType.COMMIT, 9)).buffer();
        write("control.batch", marker);
        heartbeat();
        describe();
        topology();
    }

    static void batch(String name, Compression compression) throws IOException {
        MemoryRecordsBuilder b = new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, 40L, 0L, 77L, (short) 4, 9, name.equals("gzip"), false, 3, 1 << 20);
        for (int i = 0; i < 200; i++) {
            byte[] key = i % 7 == 0 ? null : ("key-" + i).getBytes();
            byte[] value = i % 11 == 0 ? null : ("value-" + "x".repeat(i * 3)).getBytes();
            Header[] headers = new Header[i % 3];
            for (int h = 0; h < headers.length; h++) headers[h] = new RecordHeader("h" + h, h == 1 ? null : ("hv" + i).getBytes());
            b.append(1_700_000_000_000L + (i * 37 % 100) - 50, key, value, headers);
        }
        write(name + ".batch", b.build().buffer());
    }

    static void write(String name, ByteBuffer buffer) throws IOException {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        Files.write(dir.resolve(name), bytes);
    }

    static void message(String name, ApiMessage message, int version) throws IOException {
        write(name + "-v" + version + ".message", MessageUtil.toByteBufferAccessor(message, (short) version).buffer());
    }

    static void heartbeat() throws IOException {
        var request = new StreamsGroupHeartbeatRequestData().setGroupId("group").setMemberId("member").setMemberEpoch(3).setEndpointInformationEpoch(4)
            .setInstanceId("instance").setRackId("rack").setRebalanceTimeoutMs(45000).setProcessId("process").setShutdownApplication(true)
            .setTopology(new StreamsGroupHeartbeatRequestData.Topology().setEpoch(5).setSubtopologies(List.of(new StreamsGroupHeartbeatRequestData.Subtopology().setSubtopologyId("0")
                .setSourceTopics(List.of("in")).setSourceTopicRegex(List.of("re.*")).setRepartitionSinkTopics(List.of("out-repartition"))
                .setStateChangelogTopics(List.of(new StreamsGroupHeartbeatRequestData.TopicInfo().setName("log").setReplicationFactor((short) -1).setTopicConfigs(List.of(new StreamsGroupHeartbeatRequestData.KeyValue().setKey("cleanup.policy").setValue("compact")))))
                .setRepartitionSourceTopics(List.of(new StreamsGroupHeartbeatRequestData.TopicInfo().setName("rep").setPartitions(6)))
                .setCopartitionGroups(List.of(new StreamsGroupHeartbeatRequestData.CopartitionGroup().setSourceTopics(List.of((short) 0)).setRepartitionSourceTopics(List.of((short) 0)))))))
            .setActiveTasks(List.of(new StreamsGroupHeartbeatRequestData.TaskIds().setSubtopologyId("0").setPartitions(List.of(0, 1, 2)))).setStandbyTasks(List.of()).setWarmupTasks(List.of())
            .setUserEndpoint(new StreamsGroupHeartbeatRequestData.Endpoint().setHost("host").setPort(65535)).setClientTags(List.of(new StreamsGroupHeartbeatRequestData.KeyValue().setKey("zone").setValue("a")))
            .setTaskOffsets(List.of(new StreamsGroupHeartbeatRequestData.TaskOffset().setSubtopologyId("0").setPartition(1).setOffset(1L << 40))).setTaskEndOffsets(List.of());
        var response = new StreamsGroupHeartbeatResponseData().setThrottleTimeMs(1).setErrorCode((short) 110).setErrorMessage("message").setMemberId("member").setMemberEpoch(7).setHeartbeatIntervalMs(5000)
            .setTaskOffsetIntervalMs(60000).setStatus(List.of(new StreamsGroupHeartbeatResponseData.Status().setStatusCode((byte) 1).setStatusDetail("detail")))
            .setActiveTasks(List.of(new StreamsGroupHeartbeatResponseData.TaskIds().setSubtopologyId("1").setPartitions(List.of(5)))).setStandbyTasks(List.of()).setWarmupTasks(List.of()).setEndpointInformationEpoch(8)
            .setPartitionsByUserEndpoint(List.of(new StreamsGroupHeartbeatResponseData.EndpointToPartitions().setUserEndpoint(new StreamsGroupHeartbeatResponseData.Endpoint().setHost("h").setPort(1))
                .setActivePartitions(List.of(new StreamsGroupHeartbeatResponseData.TopicPartition().setTopic("in").setPartitions(List.of(1)))).setStandbyPartitions(List.of())));
        for (int v = 0; v < 2; v++) {
            message("heartbeat-request", request, v);
            message("heartbeat-response", v == 0 ? response.setAcceptableRecoveryLagLegacy(10) : response.setAcceptableRecoveryLagLegacy(0).setAcceptableRecoveryLag(11).setTopologyDescriptionRequired(true), v);
        }
        message("heartbeat-request-empty", new StreamsGroupHeartbeatRequestData(), 1);
        message("heartbeat-response-empty", new StreamsGroupHeartbeatResponseData().setStatus(null), 1);
    }

    static void describe() throws IOException {
        var member = new StreamsGroupDescribeResponseData.Member().setMemberId("m").setMemberEpoch(2).setRackId("r").setClientId("c").setClientHost("h").setTopologyEpoch(1).setProcessId("p").setIsClassic(true)
            .setAssignment(new StreamsGroupDescribeResponseData.Assignment().setActiveTasks(List.of(new StreamsGroupDescribeResponseData.TaskIds().setSubtopologyId("0").setPartitions(List.of(3)))));
        var group = new StreamsGroupDescribeResponseData.DescribedGroup().setGroupId("g").setGroupState("Stable").setGroupEpoch(4).setAssignmentEpoch(5).setMembers(List.of(member))
            .setTopology(new StreamsGroupDescribeResponseData.Topology().setEpoch(1).setSubtopologies(List.of(new StreamsGroupDescribeResponseData.Subtopology().setSubtopologyId("0").setSourceTopics(List.of("in")))));
        message("describe-request", new StreamsGroupDescribeRequestData().setGroupIds(List.of("g", "h")).setIncludeAuthorizedOperations(true), 0);
        message("describe-response", new StreamsGroupDescribeResponseData().setGroups(List.of(group)), 0);
        message("describe-response", new StreamsGroupDescribeResponseData().setGroups(List.of(group.setAssignorName("sticky").setTopologyDescriptionStatus((byte) 1))), 1);
    }

    static void topology() throws IOException {
        var source = new StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionNode().setName("source").setNodeType((byte) 1).setSourceTopics(List.of("in")).setSuccessors(List.of("p"));
        var sink = new StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionNode().setName("p").setNodeType((byte) 3).setSinkTopic("out");
        var d = new StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescription().setSubtopologies(List.of(new StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionSubtopology().setSubtopologyId("0").setNodes(List.of(source, sink))))
            .setGlobalStores(List.of(new StreamsGroupTopologyDescriptionUpdateRequestData.TopologyDescriptionGlobalStore().setSource(source).setProcessor(sink)));
        message("topology-request", new StreamsGroupTopologyDescriptionUpdateRequestData().setGroupId("g").setMemberId("m").setTopologyEpoch(1).setTopologyDescription(d), 0);
        message("topology-response", new StreamsGroupTopologyDescriptionUpdateResponseData().setErrorCode((short) 135).setErrorMessage("no"), 0);
    }
}
