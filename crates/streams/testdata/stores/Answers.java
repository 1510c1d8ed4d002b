// What Kafka Streams 4.4's own stores answer to seeded scripts, for `state/tests/answers.rs`:
//   javac -cp "LIB/*" -d OUT Answers.java && java -cp "OUT:LIB/*" Answers DIR
// (LIB is where tests/java/run keeps the jars). A line is an operation, ` = `, and the answer.
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.function.Function;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.state.*;

public class Answers {
  static final Serde<String> S = Serdes.String();
  static final List<String> KEYS = List.of("a", "ab", "abc", "b");
  static final long RETENTION = 100_000, WINDOW = 10;

  // No key holds bytes as small as those of times: Java's ranges of keys leave some of those out.
  static String key(String name) { return name.equals("*") ? null : name; }
  static String val(String text) { return text.equals("-") ? null : text; }
  static String show(Object value) { return value == null ? "-" : value.toString(); }

  static String windowed(KeyValueIterator<Windowed<String>, String> it) {
    var out = new StringJoiner(" ");
    try (it) { while (it.hasNext()) { var e = it.next(); out.add(e.key.key() + "@" + e.key.window().start() + "/" + e.key.window().end() + ":" + e.value); } }
    return out.toString();
  }

  static String values(WindowStoreIterator<String> it) {
    var out = new StringJoiner(" ");
    try (it) { while (it.hasNext()) { var e = it.next(); out.add(e.key + ":" + e.value); } }
    return out.toString();
  }

  static String window(WindowStore<String, String> s, String[] w) {
    boolean ranged = w.length > 3 && !w[0].equals("put");
    long from = ranged ? Long.parseLong(w[w.length - 2]) : 0, to = ranged ? Long.parseLong(w[w.length - 1]) : 0;
    switch (w[0]) {
      case "put": s.put(key(w[1]), val(w[3]), Long.parseLong(w[2])); return "";
      case "get": return show(s.fetch(key(w[1]), Long.parseLong(w[2])));
      case "fetch": return values(s.fetch(key(w[1]), from, to));
      case "backward": return values(s.backwardFetch(key(w[1]), from, to));
      case "keys": return windowed(s.fetch(key(w[1]), key(w[2]), Instant.ofEpochMilli(from), Instant.ofEpochMilli(to)));
      case "backward-keys": return windowed(s.backwardFetch(key(w[1]), key(w[2]), Instant.ofEpochMilli(from), Instant.ofEpochMilli(to)));
      case "all": return windowed(s.all());
      case "backward-all": return windowed(s.backwardAll());
      default: throw new IllegalArgumentException(w[0]);
    }
  }

  static String session(SessionStore<String, String> s, String[] w) {
    long x = w.length > 2 ? Long.parseLong(w[w[0].equals("put") ? 2 : w.length - 2]) : 0, y = w.length > 2 ? Long.parseLong(w[w[0].equals("put") ? 3 : w.length - 1]) : 0;
    switch (w[0]) {
      case "put": s.put(new Windowed<>(key(w[1]), new SessionWindow(x, y)), val(w[4])); return "";
      case "remove": s.remove(new Windowed<>(key(w[1]), new SessionWindow(x, y))); return "";
      case "get": return show(s.fetchSession(key(w[1]), x, y));
      case "find": return windowed(s.findSessions(key(w[1]), x, y));
      case "backward": return windowed(s.backwardFindSessions(key(w[1]), x, y));
      case "keys": return windowed(s.findSessions(key(w[1]), key(w[2]), x, y));
      case "backward-keys": return windowed(s.backwardFindSessions(key(w[1]), key(w[2]), x, y));
      case "fetch": return windowed(s.fetch(key(w[1])));
      default: throw new IllegalArgumentException(w[0]);
    }
  }

  static String version(VersionedRecord<String> r) {
    return r == null ? "-" : r.value() + "@" + r.timestamp();
  }

  static String versioned(VersionedKeyValueStore<String, String> s, String[] w) {
    switch (w[0]) {
      case "put": { long r = s.put(key(w[1]), val(w[3]), Long.parseLong(w[2])); return r == -1 ? "latest" : r == Long.MIN_VALUE ? "not put" : "to " + r; }
      case "delete": return version(s.delete(key(w[1]), Long.parseLong(w[2])));
      case "get": return version(s.get(key(w[1])));
      case "as-of": return version(s.get(key(w[1]), Long.parseLong(w[2])));
      default: throw new IllegalArgumentException(w[0]);
    }
  }

  static <T extends StateStore> void run(Path file, StoreBuilder<T> builder, Function<Random, Function<long[], String>> script, java.util.function.BiFunction<T, String[], String> answer, int count, long seed) throws Exception {
    var answers = new ArrayList<String>();
    var topology = new Topology();
    topology.addSource("in", new StringDeserializer(), new StringDeserializer(), "in");
    topology.addProcessor("p", () -> new Processor<String, String, Void, Void>() {
      T store;
      public void init(ProcessorContext<Void, Void> ctx) { store = ctx.getStateStore("s"); }
      public void process(org.apache.kafka.streams.processor.api.Record<String, String> r) { answers.add(answer.apply(store, r.value().split(" "))); }
    }, "in");
    topology.addStateStore(builder, "p");
    var config = new Properties();
    config.put("application.id", "app");
    config.put("bootstrap.servers", "unused:1");
    config.put("state.dir", Files.createTempDirectory("answers").toString());
    var lines = new ArrayList<String>();
    try (var driver = new TopologyTestDriver(topology, config)) {
      var in = driver.createInputTopic("in", new StringSerializer(), new StringSerializer());
      var next = script.apply(new Random(seed));
      long[] time = {0};
      for (int i = 0; i < count; i++) {
        String op = next.apply(new long[] {i});
        in.pipeInput("k", op, time[0]++);
        double dropped = driver.metrics().entrySet().stream().filter(m -> m.getKey().name().equals("dropped-records-total")).mapToDouble(m -> ((Number) m.getValue().metricValue()).doubleValue()).sum();
        String said = answers.get(answers.size() - 1);
        lines.add(op + " = " + (op.startsWith("put") || op.startsWith("remove") ? (said.isEmpty() ? "" : said + ", ") + "dropped " + (long) dropped : said));
      }
    }
    Files.write(file, lines);
  }

  static String any(Random r) { return KEYS.get(r.nextInt(KEYS.size())); }
  static String anyOrAll(Random r) { return r.nextInt(4) == 0 ? "*" : any(r); }

  /// Times around a time that grows, some of them too late.
  static Function<Random, Function<long[], String>> windows(boolean duplicates) {
    return r -> {
      long[] now = {0};
      return step -> {
        now[0] += r.nextInt(r.nextInt(20) == 0 ? 70_000 : 4_000);
        long at = Math.max(0, now[0] - r.nextInt(r.nextInt(3) == 0 ? 260_000 : 20_000));
        long from = Math.max(0, now[0] - r.nextInt(200_000)), to = from + r.nextInt(120_000);
        switch (r.nextInt(20)) {
          case 0: return "get " + any(r) + " " + at / 1000 * 1000;
          case 1: return "fetch " + any(r) + " " + from + " " + to;
          case 2: return "backward " + any(r) + " " + from + " " + to;
          case 3: return "keys " + anyOrAll(r) + " " + anyOrAll(r) + " " + from + " " + to;
          case 4: return "backward-keys " + anyOrAll(r) + " " + anyOrAll(r) + " " + from + " " + to;
          case 5: return "all";
          case 6: return "backward-all";
          case 7: case 8: if (!duplicates) return "put " + any(r) + " " + at / 1000 * 1000 + " -";
          default: return "put " + any(r) + " " + at / 1000 * 1000 + " " + step[0];
        }
      };
    };
  }

  static Function<Random, Function<long[], String>> sessions() {
    return r -> {
      long[] now = {0};
      var put = new ArrayList<String>();
      return step -> {
        now[0] += r.nextInt(r.nextInt(20) == 0 ? 70_000 : 4_000);
        long end = Math.max(0, now[0] - r.nextInt(r.nextInt(3) == 0 ? 260_000 : 20_000)) / 1000 * 1000, start = Math.max(0, end - r.nextInt(20) * 1000);
        long from = Math.max(0, now[0] - r.nextInt(200_000)), to = from + r.nextInt(40_000);
        String known = put.isEmpty() ? "a 0 0" : put.get(Math.max(0, put.size() - 1 - r.nextInt(12)));
        switch (r.nextInt(20)) {
          case 0: return "get " + known;
          case 1: return "find " + any(r) + " " + from + " " + to;
          case 2: return "backward " + any(r) + " " + from + " " + to;
          case 3: return "keys " + anyOrAll(r) + " " + anyOrAll(r) + " " + from + " " + to;
          case 4: return "backward-keys " + anyOrAll(r) + " " + anyOrAll(r) + " " + from + " " + to;
          case 5: return "fetch " + any(r);
          case 6: case 7: return "remove " + known;
          case 8: return "put " + known + " -";
          default: { String row = any(r) + " " + start + " " + end; put.add(row); return "put " + row + " " + step[0]; }
        }
      };
    };
  }

  static Function<Random, Function<long[], String>> versions() {
    return r -> {
      long[] now = {0};
      return step -> {
        now[0] += r.nextInt(r.nextInt(30) == 0 ? 900 : 40);
        long at = Math.max(0, now[0] - r.nextInt(r.nextInt(4) == 0 ? 1_500 : 300)) / 5 * 5;
        switch (r.nextInt(16)) {
          case 0: return "get " + any(r);
          case 1: case 2: case 3: return "as-of " + any(r) + " " + at;
          case 4: return "delete " + any(r) + " " + at;
          case 5: case 6: return "put " + any(r) + " " + at + " -";
          default: return "put " + any(r) + " " + at + " " + step[0];
        }
      };
    };
  }

  public static void main(String[] args) throws Exception {
    var dir = Path.of(args[0]);
    Duration retention = Duration.ofMillis(RETENTION), size = Duration.ofMillis(WINDOW);
    for (boolean duplicates : new boolean[] {false, true}) {
      String kind = duplicates ? "duplicates" : "window";
      run(dir.resolve(kind + "-disk.txt"), Stores.windowStoreBuilder(Stores.persistentWindowStore("s", retention, size, duplicates), S, S), windows(duplicates), Answers::window, 400, 1);
      run(dir.resolve(kind + "-memory.txt"), Stores.windowStoreBuilder(Stores.inMemoryWindowStore("s", retention, size, duplicates), S, S), windows(duplicates), Answers::window, 400, 2);
    }
    run(dir.resolve("session-disk.txt"), Stores.sessionStoreBuilder(Stores.persistentSessionStore("s", retention), S, S), sessions(), Answers::session, 400, 3);
    run(dir.resolve("session-memory.txt"), Stores.sessionStoreBuilder(Stores.inMemorySessionStore("s", retention), S, S), sessions(), Answers::session, 400, 4);
    run(dir.resolve("versioned.txt"), Stores.versionedKeyValueStoreBuilder(Stores.persistentVersionedKeyValueStore("s", Duration.ofMillis(1000), Duration.ofMillis(100)), S, S), versions(), Answers::versioned, 1000, 5);
  }
}
