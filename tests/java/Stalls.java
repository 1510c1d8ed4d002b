import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

/**
 * Stalls BOOTSTRAP TOPIC PARTITIONS: writes a record to each partition, flushes, and so on until its standard input ends. Prints
 * `writing` once the first round is acknowledged, and at the end how
 * many rounds were acknowledged and the longest times between two of them, in ms, each with when it ended (ms since the epoch): what
 * a plain idempotent producer feels of brokers that go and come back. Settings from the system property `set`, as WordCount.
 */
public class Stalls {
  public static void main(String[] a) throws Exception {
    if (a.length != 3) { System.err.println("Stalls BOOTSTRAP TOPIC PARTITIONS"); System.exit(2); }
    int partitions = Integer.parseInt(a[2]);
    Properties p = new Properties();
    p.put("bootstrap.servers", a[0]);
    for (String s : System.getProperty("set", "").split(",")) { int i = s.indexOf('='); if (i > 0) p.put(s.substring(0, i), s.substring(i + 1)); }
    Thread input = new Thread(() -> { try { while (System.in.read() >= 0) {} } catch (java.io.IOException e) { } });
    input.setDaemon(true);
    input.start();
    List<long[]> gaps = new ArrayList<>();
    long rounds = 0, failed = 0;
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
      for (int i = 0; i < partitions; i++) producer.partitionsFor(a[1]);
      long last = System.nanoTime();
      while (input.isAlive()) {
        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < partitions; i++) sent.add(producer.send(new ProducerRecord<>(a[1], i, null, ("" + rounds).getBytes())));
        producer.flush();
        for (var f : sent) try { f.get(); } catch (java.util.concurrent.ExecutionException e) { failed++; System.err.println(e.getCause()); }
        long now = System.nanoTime();
        // The first one has the producer's id and connections to get: what is compared with begins after it.
        if (rounds == 0) System.out.println("writing");
        if (rounds > 0) gaps.add(new long[] {(now - last) / 1_000_000, System.currentTimeMillis()});
        gaps.sort((x, y) -> Long.compare(y[0], x[0]));
        if (gaps.size() > 8) gaps.remove(8);
        last = now;
        rounds++;
        Thread.sleep(5);
      }
    }
    StringJoiner list = new StringJoiner(",", "[", "]");
    for (long[] g : gaps) list.add("[" + g[0] + "," + g[1] + "]");
    System.out.println("{\"rounds\":" + rounds + ",\"failed\":" + failed + ",\"stalls\":" + list + "}");
  }
}
