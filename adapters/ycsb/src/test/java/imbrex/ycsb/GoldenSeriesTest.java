package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Series from Java and from Rust are equal: both read the same golden files. */
final class GoldenSeriesTest {
  private static final Path GOLDEN = Path.of("../../crates/workload/testdata/arrivals");
  private static final String DIVIDER = "----\n";

  static List<Path> golden() throws IOException {
    try (Stream<Path> files = Files.list(GOLDEN)) {
      List<Path> sorted = files.filter(f -> f.toString().endsWith(".txt")).sorted().toList();
      assertTrue(sorted.size() >= 14, "golden series went missing: " + sorted);
      return sorted;
    }
  }

  @ParameterizedTest
  @MethodSource("golden")
  void seriesIsEqual(Path file) throws Exception {
    String text = Files.readString(file);
    int divider = text.indexOf(DIVIDER);
    Properties properties = new Properties();
    properties.load(new StringReader(text.substring(0, divider)));
    List<String> lines = text.substring(divider + DIVIDER.length()).lines().toList();

    ArrivalTimes series = series(properties);
    long count = 0;
    long lastNs = 0;
    int line = 0;
    for (long atNs = series.nextNs(); atNs != ArrivalTimes.END; atNs = series.nextNs()) {
      assertTrue(lastNs <= atNs, "operation " + count + " goes back to " + atNs);
      if (lines.get(line).startsWith(count + " ") && line < lines.size() - 1) {
        assertEquals(lines.get(line), count + " " + atNs);
        line += 1;
      }
      lastNs = atNs;
      count += 1;
    }
    assertEquals(lines.size() - 1, line, "lines that no operation came to");
    assertEquals(lines.get(line), count + " operations");
    assertEquals(ArrivalTimes.END, series.nextNs(), "an ended series stays ended");
  }

  private static ArrivalTimes series(Properties properties) throws ArrivalException {
    String operations = properties.getProperty("operations");
    ArrivalEnd end = operations != null
        ? ArrivalEnd.afterOperations(Long.parseLong(operations))
        : ArrivalEnd.atNs(Long.parseLong(properties.getProperty("duration_ns")));
    long seed = Long.parseUnsignedLong(properties.getProperty("seed"));
    double rate = Double.parseDouble(properties.getProperty("rate"));
    return ArrivalModel.of(properties).series(rate, end, seed);
  }
}
