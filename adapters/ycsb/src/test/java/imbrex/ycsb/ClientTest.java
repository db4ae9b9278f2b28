package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** YCSB's own client, as published, in a process of its own with our workload. */
@Timeout(60)
final class ClientTest {
  private static String ycsb(String... properties) throws Exception {
    String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
    List<String> command = new ArrayList<>(List.of(
        java, "-cp", System.getProperty("java.class.path"), "site.ycsb.Client",
        "-db", StallingDb.class.getName(), "-p", "workload=" + ArrivalWorkload.class.getName(),
        "-p", "recordcount=1000"));
    for (String property : properties) {
      command.add("-p");
      command.add(property);
    }
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    try {
      process.getOutputStream().close();
      byte[] output = process.getInputStream().readAllBytes();
      assertTrue(process.waitFor(10, TimeUnit.SECONDS), "YCSB ends after its output");
      return new String(output, StandardCharsets.UTF_8);
    } finally {
      process.destroyForcibly();
    }
  }

  private static double figure(String output, String operation, String name) {
    Matcher line = Pattern.compile(
        "^\\[" + operation + "\\], " + Pattern.quote(name) + ", ([0-9.]+)", Pattern.MULTILINE)
        .matcher(output);
    assertTrue(line.find(), () -> "no [" + operation + "], " + name + " in\n" + output);
    return Double.parseDouble(line.group(1));
  }

  @Test
  void aStallCountsForAllOperationsThatItHeldUp() throws Exception {
    String output = ycsb(
        "arrivalgenerator=poisson", "arrivals.rate=1000", "operationcount=1000", "threadcount=2",
        "readproportion=1", "updateproportion=0", "measurement.interval=both");
    assertEquals(1000, figure(output, "READ", "Operations"));
    assertEquals(1000, figure(output, "Intended-READ", "Operations"));
    // Two clients see the stall. About three hundred operations arrive while it lasts.
    assertTrue(figure(output, "READ", "95thPercentileLatency(us)") < 100_000, output);
    assertTrue(figure(output, "Intended-READ", "95thPercentileLatency(us)") > 150_000, output);
    assertTrue(figure(output, "Intended-READ", "MaxLatency(us)") >= 290_000, output);
    assertTrue(output.contains("schedule "), output);
    assertFalse(output.contains("Warning"), output);
  }

  @Test
  void aLoadIsPacedAndARunIsStoppedInTheMiddleOfAGap() throws Exception {
    String load = ycsb(
        "arrivalgenerator=constant", "arrivals.rate=1000", "recordcount=200",
        "dotransactions=false", "measurement.interval=intended");
    assertEquals(200, figure(load, "INSERT", "Operations"));
    assertTrue(figure(load, "OVERALL", "RunTime(ms)") > 190, load);
    String stopped = ycsb(
        "arrivalgenerator=constant", "arrivals.rate=0.01", "operationcount=10", "threadcount=2",
        "readproportion=1", "updateproportion=0", "maxexecutiontime=5");
    assertEquals(1, figure(stopped, "READ", "Operations"));
    assertTrue(stopped.contains("Warning: without measurement.interval=both"), stopped);
  }

  @Test
  void aRefusalReachesTheUserAndNothingRuns() throws Exception {
    String output = ycsb("arrivalgenerator=selfsimilar", "ss.bias=2", "arrivals.rate=10",
        "operationcount=10");
    assertTrue(output.contains("WorkloadException: a bias of 2.0"), output);
    assertFalse(output.contains("[READ]"), output);
  }

  @Test
  void withoutArrivalsItIsTheCoreWorkload() throws Exception {
    String output = ycsb("operationcount=500", "target=10000");
    assertEquals(
        500,
        figure(output, "READ", "Operations") + figure(output, "UPDATE", "Operations"));
    assertFalse(output.contains("schedule "), output);
  }
}
