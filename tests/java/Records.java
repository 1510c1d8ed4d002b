import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.*;

/**
 * Raw records, byte by byte, as the Java clients write and read them; one JSON object a line, bytes in hex or null:
 * {"partition":0,"offset":5,"ts":1,"key":"6b","value":null,"headers":[["name","76"],["other",null]]}
 *   Records write BOOTSTRAP TOPIC CODEC < in.jsonl > out.jsonl : CODEC is none, gzip, snappy, lz4 or zstd; all lines land in as few
 *     batches as possible; without "partition" the default partitioner chooses; the answer has partition and offset
 *   Records read BOOTSTRAP TOPIC COUNT [TIMEOUTMS] > out.jsonl : the first COUNT records, partition after partition; fewer within the
 *     timeout (10000) ends with status 1
 * Further client settings: JAVA_OPTS="-Dset=isolation.level=read_committed,...".
 */
public class Records {
  static final ObjectMapper J = new ObjectMapper();

  static byte[] bytes(JsonNode n) { return n == null || n.isNull() ? null : HexFormat.of().parseHex(n.asText()); }
  static String hex(byte[] b) { return b == null ? null : HexFormat.of().formatHex(b); }

  static Properties settings(String bootstrap) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    for (String s : System.getProperty("set", "").split(",")) { int i = s.indexOf('='); if (i > 0) p.put(s.substring(0, i), s.substring(i + 1)); }
    return p;
  }

  static void write(String bootstrap, String topic, String codec, PrintStream out) throws Exception {
    Properties p = settings(bootstrap);
    p.put("compression.type", codec); p.putIfAbsent("linger.ms", "200"); p.putIfAbsent("batch.size", "1000000"); p.putIfAbsent("max.request.size", "10000000");
    List<JsonNode> lines = new ArrayList<>(); List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line; (line = in.readLine()) != null; ) {
        if (line.isBlank()) continue;
        JsonNode o = J.readTree(line); lines.add(o);
        ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(topic, o.hasNonNull("partition") ? o.get("partition").asInt() : null, o.hasNonNull("ts") ? o.get("ts").asLong() : null, bytes(o.get("key")), bytes(o.get("value")));
        for (JsonNode h : o.path("headers")) r.headers().add(h.get(0).asText(), bytes(h.get(1)));
        sent.add(producer.send(r));
      }
      producer.flush();
    }
    for (int i = 0; i < sent.size(); i++) { RecordMetadata m = sent.get(i).get(); out.println(J.writeValueAsString(((ObjectNode) lines.get(i)).put("partition", m.partition()).put("offset", m.offset()))); }
  }

  static boolean read(String bootstrap, String topic, int count, long timeout, PrintStream out) throws Exception {
    Properties p = settings(bootstrap);
    p.putIfAbsent("enable.auto.commit", "false"); p.putIfAbsent("auto.offset.reset", "earliest"); p.putIfAbsent("max.partition.fetch.bytes", "10000000");
    List<ConsumerRecord<byte[], byte[]>> got = new ArrayList<>();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> all = new ArrayList<>();
      for (PartitionInfo i : consumer.partitionsFor(topic)) all.add(new TopicPartition(topic, i.partition()));
      consumer.assign(all); consumer.seekToBeginning(all);
      long end = System.nanoTime() + timeout * 1_000_000;
      while (got.size() < count && System.nanoTime() < end) consumer.poll(Duration.ofMillis(100)).forEach(got::add);
    }
    got.sort(Comparator.comparingInt((ConsumerRecord<byte[], byte[]> r) -> r.partition()).thenComparingLong(ConsumerRecord::offset));
    for (ConsumerRecord<byte[], byte[]> r : got) {
      ObjectNode o = J.createObjectNode(); o.put("partition", r.partition()); o.put("offset", r.offset()); o.put("ts", r.timestamp()); o.put("key", hex(r.key())); o.put("value", hex(r.value()));
      ArrayNode hs = o.putArray("headers"); for (Header h : r.headers()) hs.addArray().add(h.key()).add(hex(h.value()));
      out.println(J.writeValueAsString(o));
    }
    if (got.size() < count) System.err.println(got.size() + " of " + count + " records within " + timeout + " ms");
    return got.size() >= count;
  }

  public static void main(String[] a) throws Exception {
    PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8"); boolean good = true;
    if (a.length == 4 && a[0].equals("write")) write(a[1], a[2], a[3], out);
    else if (a.length >= 4 && a[0].equals("read")) good = read(a[1], a[2], Integer.parseInt(a[3]), a.length > 4 ? Long.parseLong(a[4]) : 10_000, out);
    else { System.err.println("Records write BOOTSTRAP TOPIC CODEC | Records read BOOTSTRAP TOPIC COUNT [TIMEOUTMS]"); System.exit(2); }
    out.flush(); System.exit(good ? 0 : 1);
  }
}
