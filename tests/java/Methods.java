import java.lang.reflect.*;
import java.util.*;
import java.util.stream.*;
/**
 * Methods CLASS...: every public method and constructor of these classes, one `Class.method(Type,Type)` a line, sorted. What
 * they inherit from other classes of Kafka belongs to them, what comes from Java itself (equals, hashCode, toString) does not.
 */
public class Methods {
  public static void main(String[] a) throws Exception {
    SortedSet<String> lines = new TreeSet<>();
    for (String name : a) {
      Class<?> c = Class.forName(name);
      for (Constructor<?> k : c.getConstructors()) if (!k.isSynthetic()) lines.add(line(c, "new", k));
      for (Method m : c.getMethods()) if (isKafkas(m)) lines.add(line(c, m.getName(), m));
    }
    lines.forEach(System.out::println);
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
    return named(c) + "." + name + "(" + Arrays.stream(e.getParameterTypes()).map(Methods::named).collect(Collectors.joining(",")) + ")";
  }

  /** `Outer.Inner`, without the package. */
  private static String named(Class<?> c) {
    if (c.isArray()) return named(c.getComponentType()) + "[]";
    return c.getDeclaringClass() == null ? c.getSimpleName() : named(c.getDeclaringClass()) + "." + c.getSimpleName();
  }
}
