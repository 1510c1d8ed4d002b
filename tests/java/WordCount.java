import java.time.Duration;
import java.util.*;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;

/**
 * WordCount BOOTSTRAP APPID IN OUT STATEDIR: the word count as a real Kafka Streams application of the streams group protocol, until it
 * is killed (a TERM closes it cleanly). It prints its describe text, then its state changes, to compare `run Groups` of it with ours.
 * Settings from the system property `set`: JAVA_OPTS="-Dset=num.stream.threads=2,commit.interval.ms=100".
 */
public class WordCount {
  static Topology topology(String in, String out) {
    StreamsBuilder b = new StreamsBuilder();
    b.stream(in, Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(v -> Arrays.stream(v.toLowerCase(Locale.ROOT).split("\\W+")).filter(w -> !w.isEmpty()).toList())
        .groupBy((k, w) -> w, Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.as("word-counts"))
        .toStream()
        .to(out, Produced.with(Serdes.String(), Serdes.Long()));
    return b.build();
  }

  public static void main(String[] a) throws Exception {
    if (a.length != 5) { System.err.println("WordCount BOOTSTRAP APPID IN OUT STATEDIR"); System.exit(2); }
    Properties p = new Properties();
    p.put("bootstrap.servers", a[0]);
    p.put("application.id", a[1]);
    p.put("state.dir", a[4]);
    p.put("group.protocol", "streams");
    p.put("auto.offset.reset", "earliest");
    p.put("default.key.serde", Serdes.StringSerde.class.getName());
    p.put("default.value.serde", Serdes.StringSerde.class.getName());
    for (String s : System.getProperty("set", "").split(",")) { int i = s.indexOf('='); if (i > 0) p.put(s.substring(0, i), s.substring(i + 1)); }
    Topology t = topology(a[2], a[3]);
    System.out.print(t.describe());
    KafkaStreams ks = new KafkaStreams(t, p);
    CountDownLatch ended = new CountDownLatch(1);
    ks.setStateListener((now, before) -> {
      System.out.println(before + " -> " + now);
      if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) ended.countDown();
    });
    ks.setUncaughtExceptionHandler(e -> { e.printStackTrace(); return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT; });
    Runtime.getRuntime().addShutdownHook(new Thread(() -> ks.close(Duration.ofSeconds(30))));
    ks.start();
    ended.await();
    // The hook may be what ended it: then this thread's exit must not wait for the hook.
    if (ks.state() == KafkaStreams.State.ERROR) Runtime.getRuntime().halt(1);
  }
}
