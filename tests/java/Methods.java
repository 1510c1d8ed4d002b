import java.io.File;
import java.lang.reflect.*;
import java.net.URI;
import java.util.*;
import java.util.jar.*;
import java.util.stream.*;
/**
 * Methods CLASS...: every public method and constructor of these classes, one `Class.method(Type,Type)` a line, sorted. What
 * they inherit from other classes of Kafka belongs to them, what comes from Java itself (equals, hashCode, toString) does not.
 *
 * Methods --classes PACKAGE...: the public classes of these packages, in Kafka Streams and in its test utilities.
 */
public class Methods {
  public static void main(String[] a) throws Exception {
    SortedSet<String> lines = new TreeSet<>();
    if (a.length > 0 && a[0].equals("--classes")) {
      Set<String> packages = new HashSet<>(Arrays.asList(a).subList(1, a.length));
      for (String jar : List.of("org.apache.kafka.streams.KafkaStreams", "org.apache.kafka.streams.TopologyTestDriver")) addClasses(jar, packages, lines);
      a = new String[0];
    }
    for (String name : a) {
      Class<?> c = Class.forName(name);
      for (Constructor<?> k : c.getConstructors()) if (!k.isSynthetic()) lines.add(line(c, "new", k));
      for (Method m : c.getMethods()) if (isKafkas(m)) lines.add(line(c, m.getName(), m));
    }
    lines.forEach(System.out::println);
  }

  /** The public classes of some packages in the archive that a class is from. */
  private static void addClasses(String of, Set<String> packages, SortedSet<String> names) throws Exception {
    URI archive = Class.forName(of).getProtectionDomain().getCodeSource().getLocation().toURI();
    try (JarFile jar = new JarFile(new File(archive))) {
      for (JarEntry entry : Collections.list(jar.entries())) {
        if (!entry.getName().endsWith(".class")) continue;
        String name = entry.getName().substring(0, entry.getName().length() - 6).replace('/', '.');
        if (!name.contains(".") || !packages.contains(name.substring(0, name.lastIndexOf('.')))) continue;
        if (isPublic(Class.forName(name, false, Methods.class.getClassLoader()))) names.add(name);
      }
    }
  }

  private static boolean isPublic(Class<?> c) {
    if (c.isAnonymousClass() || c.isLocalClass() || !Modifier.isPublic(c.getModifiers())) return false;
    return c.getDeclaringClass() == null || isPublic(c.getDeclaringClass());
  }

  private static boolean isKafkas(Method m) {
    if (m.isSynthetic() || !m.getDeclaringClass().getName().startsWith("org.apache.kafka.")) return false;
    try {
      Object.class.getMethod(m.getName(), m.getParameterTypes());
      return false;
    } catch (NoSuchMethodException e) {
      return true;
    }
  }

  private static String line(Class<?> c, String name, Executable e) {
    String part = c.getPackageName().endsWith(".api") ? "api." : "";
    return part + named(c) + "." + name + "(" + Arrays.stream(e.getParameterTypes()).map(Methods::named).collect(Collectors.joining(",")) + ")";
  }

  /** `Outer.Inner`, without the package. */
  private static String named(Class<?> c) {
    if (c.isArray()) return named(c.getComponentType()) + "[]";
    return c.getDeclaringClass() == null ? c.getSimpleName() : named(c.getDeclaringClass()) + "." + c.getSimpleName();
  }
}
