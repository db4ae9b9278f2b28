package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which properties and files define a series, and the errors for the others. */
final class ArrivalWorkloadTest {
  @TempDir Path dir;

  private static Properties properties(String assignments) {
    Properties properties = new Properties();
    properties.setProperty("operationcount", "100");
    for (String assignment : assignments.split(" ")) {
      String[] parts = assignment.split("=", 2);
      properties.setProperty(parts[0], parts[1]);
    }
    return properties;
  }

  private static String refusal(String assignments) {
    Properties properties = properties(assignments);
    return assertThrows(ArrivalException.class, () -> ArrivalWorkload.series(properties))
        .getMessage();
  }

  private static long[] times(String assignments) throws ArrivalException {
    ArrivalTimes series = ArrivalWorkload.series(properties(assignments));
    long[] times = new long[100];
    int count = 0;
    for (long at = series.nextNs(); at != ArrivalTimes.END; at = series.nextNs()) {
      times[count] = at;
      count += 1;
    }
    return Arrays.copyOf(times, count);
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "arrivalgenerator=pareto arrivals.rate=10 | no arrival model \"pareto\"",
      "arrivalgenerator=poisson | arrivals need the property arrivals.rate",
      "arrivalgenerator=poisson arrivals.rate=0 | a rate of 0.0",
      "arrivalgenerator=poisson arrivals.rate=1e10 | a rate of 1.0E10",
      "arrivalgenerator=poisson arrivals.rate=fast | property arrivals.rate: expected a number",
      "arrivalgenerator=poisson arrivals.rate=NaN | property arrivals.rate: expected a number",
      "arrivalgenerator=poisson arrivals.rate=1e-300 | a series of 100.0 operations",
      "arrivalgenerator=poisson arrivals.rate=10 target=10 | say arrivals.rate instead",
      "arrivalgenerator=poisson arrivals.rate=10 operationcount=0 | property operationcount",
      "arrivalgenerator=poisson arrivals.rate=10 dotransactions=false | property recordcount",
      "arrivalgenerator=poisson arrivals.rate=10 arrivals.seed=-1 | property arrivals.seed",
      "arrivalgenerator=selfsimilar arrivals.rate=10 ss.bias=0.5 | a bias of 0.5",
      "arrivalgenerator=selfsimilar arrivals.rate=10 ss.bias=1 | a bias of 1.0",
      "arrivalgenerator=diurnal arrivals.rate=10 | need the property diurnal.modulation",
      "arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=-1 | a modulation of -1.0",
      "arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=10 | around a mean of 10.0",
      "arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=9 diurnal.cyclelength=0 "
          + "| a cycle of 0.0 seconds",
      "arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=9 "
          + "diurnal.distribution.shape=1 | the mean gap is infinite",
      "arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=9 "
          + "diurnal.distribution=zipfian | no distribution of gaps \"zipfian\"",
      "arrivalgenerator=recorded | need the property recorded.file",
      "arrivalgenerator=recorded recorded.file=nowhere/times | nowhere/times",
  })
  void impossiblePropertiesAreRefused(String assignments, String what) {
    String refusal = refusal(assignments);
    assertTrue(refusal.contains(what), refusal);
  }

  @Test
  void defaultsAreThoseOfTheThesis() throws Exception {
    assertEquals(
        Arrays.toString(times("arrivalgenerator=selfsimilar ss.bias=0.65 arrivals.rate=10 "
            + "arrivals.seed=1")),
        Arrays.toString(times("arrivalgenerator=selfsimilar arrivals.rate=10")));
    assertEquals(
        Arrays.toString(times("arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=9 "
            + "diurnal.cyclelength=15 diurnal.distribution=pareto diurnal.distribution.shape=1.5")),
        Arrays.toString(times("arrivalgenerator=diurnal arrivals.rate=10 diurnal.modulation=9")));
  }

  @Test
  void aLoadHasAnArrivalForEachInsert() throws Exception {
    String load = "arrivalgenerator=poisson arrivals.rate=10 dotransactions=false recordcount=30";
    assertEquals(30, times(load).length);
    assertEquals(20, times(load + " insertcount=20").length);
  }

  @Test
  void whatIsMeantForUsAndUnknownIsWarnedOf() {
    assertEquals(
        List.of("unknown property diurnal.cycle", "unknown property ss.bais"),
        ArrivalWorkload.warnings(properties(
            "arrivalgenerator=poisson measurement.interval=both ss.bais=0.7 diurnal.cycle=1 "
                + "redis.host=localhost")));
    List<String> closed = ArrivalWorkload.warnings(properties("recordcount=1"));
    assertEquals(List.of(), closed, "a closed loop needs no intended times");
    assertEquals(
        List.of("without arrivalgenerator these properties change nothing: arrivals.rate, ss.bias"),
        ArrivalWorkload.warnings(properties("ss.bias=0.7 arrivals.rate=100")));
    List<String> open = ArrivalWorkload.warnings(properties("arrivalgenerator=poisson"));
    assertEquals(1, open.size());
    assertTrue(open.get(0).contains("measurement.interval=both"), open.get(0));
  }

  private String recorded(String text) throws IOException {
    Path file = dir.resolve("times");
    Files.writeString(file, text);
    return "arrivalgenerator=recorded recorded.file=" + file;
  }

  @Test
  void aRecordedSeriesCountsFromItsFirstOperation() throws Exception {
    assertEquals("[0, 0, 1500]", Arrays.toString(times(recorded("time_us\n7\n7\n8.5000009\n"))));
    assertEquals("[0, 5]", Arrays.toString(times(recorded("10\r\n15.9"))));
    assertEquals("[0, 1]", Arrays.toString(times(recorded("\ufeff1\n2\n"))));
    assertEquals("[0, 1]", Arrays.toString(times(recorded("time_s\n1.\n1.000000001\n"))));
    Path packed = dir.resolve("times.gz");
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(bytes)) {
      gzip.write("time_ms\n1\n3\n".getBytes(StandardCharsets.US_ASCII));
    }
    Files.write(packed, bytes.toByteArray());
    assertEquals(
        "[0, 2000000]",
        Arrays.toString(times("arrivalgenerator=recorded recorded.file=" + packed)));
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "'' | no time in it",
      "'time_ns\n' | no time in it",
      "'1\n\n2\n' | line 2: the series has a gap",
      "'5\n4\n' | line 2: time goes back from 5 ns to 4 ns",
      "'1\ntime_ns\n' | line 2: expected a time",
      "'1\n2\r3\n4\n' | line 2: expected a time",
      "'1.2.3\n' | line 1: expected a time",
      "'-1\n' | line 1: expected a time",
      "'.5\n' | line 1: expected a time",
      "'4611686018427387904\n' | line 1: expected a time",
      "'99999999999999999999\n' | line 1: expected a time",
  })
  void aFileThatIsNoSeriesIsRefused(String text, String what) throws Exception {
    String refusal = refusal(recorded(text == null ? "" : text));
    assertTrue(refusal.contains(what), refusal);
  }

  @Test
  void aLineHasAnEnd() throws Exception {
    String longest = "1." + "0".repeat(254);
    assertEquals("[0, 1]", Arrays.toString(times(recorded(longest + "\r\n2\n"))));
    String refusal = refusal(recorded(longest + "0\n2\n"));
    assertTrue(refusal.contains("line 1: expected a line of at most 256 bytes"), refusal);
  }

  @Test
  void aFilePackedWithZstdIsRefused() throws Exception {
    Path file = dir.resolve("times.zst");
    Files.write(file, new byte[] {0x28, (byte) 0xb5, 0x2f, (byte) 0xfd, 0});
    String refusal = refusal("arrivalgenerator=recorded recorded.file=" + file);
    assertTrue(refusal.contains("packed with zstd"), refusal);
  }
}
