package imbrex.ycsb;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import site.ycsb.Client;
import site.ycsb.DB;
import site.ycsb.WorkloadException;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * YCSB's core workload in an open loop: {@code workload=imbrex.ycsb.ArrivalWorkload}.
 *
 * <p>With {@code arrivalgenerator} operations start at the times of its series, and YCSB's intended
 * latencies count from these times; README.md has all properties. Without it this is CoreWorkload.
 */
public final class ArrivalWorkload extends CoreWorkload {
  static final String RATE = "arrivals.rate";
  static final String SEED = "arrivals.seed";

  private static final Set<String> KNOWN = Set.of(
      ArrivalModel.GENERATOR, ArrivalModel.BIAS, ArrivalModel.MODULATION, ArrivalModel.CYCLE_LEN,
      ArrivalModel.DISTRIBUTION, ArrivalModel.SHAPE, ArrivalModel.FILE, RATE, SEED);

  /** Properties with these prefixes are meant for this class. */
  private static final List<String> PREFIXES =
      List.of("arrival", "ss.", "diurnal.", "recorded.");

  private final Measurements measurements = Measurements.getMeasurements();

  /** None in a closed loop. */
  private Schedule schedule;

  @Override
  public void init(Properties properties) throws WorkloadException {
    for (String warning : warnings(properties)) {
      System.err.println("Warning: " + warning);
    }
    if (properties.getProperty(ArrivalModel.GENERATOR) != null) {
      try {
        boolean allSpin = Boolean.parseBoolean(properties.getProperty("spin.sleep", "false"));
        schedule =
            new Schedule(series(properties), NanoClock.SYSTEM, allSpin, this::isStopRequested);
      } catch (ArrivalException e) {
        throw new WorkloadException(e.getMessage(), e);
      }
    }
    super.init(properties);
  }

  /** In the client's own thread. */
  @Override
  public Object initThread(Properties properties, int number, int count) throws WorkloadException {
    if (schedule != null) {
      // Without it clients are late, and the schedule's report shows that.
      TimerSlack.least();
    }
    return super.initThread(properties, number, count);
  }

  @Override
  public boolean doInsert(DB db, Object threadState) {
    return isDue() && super.doInsert(db, threadState);
  }

  @Override
  public boolean doTransaction(DB db, Object threadState) {
    return isDue() && super.doTransaction(db, threadState);
  }

  /** Waits until the next operation is due, and passes its time to YCSB; false at the end. */
  private boolean isDue() {
    if (schedule == null) {
      return true;
    }
    long intendedNs = schedule.awaitNext();
    if (intendedNs == Schedule.NONE) {
      return false;
    }
    measurements.setIntendedStartTimeNs(intendedNs);
    return true;
  }

  @Override
  public void cleanup() throws WorkloadException {
    super.cleanup();
    if (schedule != null) {
      System.err.println(schedule.report());
    }
  }

  /** Prints a problem that does not end the run. */
  static List<String> warnings(Properties properties) {
    List<String> warnings = new ArrayList<>();
    for (String key : new TreeSet<>(properties.stringPropertyNames())) {
      if (!KNOWN.contains(key) && PREFIXES.stream().anyMatch(key::startsWith)) {
        warnings.add("unknown property " + key);
      }
    }
    boolean isOpen = properties.getProperty(ArrivalModel.GENERATOR) != null;
    Set<String> idle = new TreeSet<>(properties.stringPropertyNames());
    idle.retainAll(KNOWN);
    if (!isOpen && !idle.isEmpty()) {
      warnings.add(
          "without " + ArrivalModel.GENERATOR + " these properties change nothing: "
              + String.join(", ", idle));
    }
    if (isOpen && properties.getProperty(Measurements.MEASUREMENT_INTERVAL, "op").equals("op")) {
      warnings.add(
          "without " + Measurements.MEASUREMENT_INTERVAL + "=both (or intended) YCSB leaves out of "
              + "latencies how long operations waited");
    }
    return warnings;
  }

  /** The series that the properties describe. */
  static ArrivalTimes series(Properties properties) throws ArrivalException {
    if (!properties.getProperty(Client.TARGET_PROPERTY, "0").trim().equals("0")) {
      throw new ArrivalException(
          "with property " + Client.TARGET_PROPERTY + " every client of YCSB waits for ticks of "
              + "its own and arrivals come late; say " + RATE + " instead");
    }
    ArrivalModel model = ArrivalModel.of(properties);
    double ratePerS = ArrivalModel.number(properties, RATE, Double.NaN);
    if (model.needsRate() && Double.isNaN(ratePerS)) {
      throw new ArrivalException(
          "arrivals need the property " + RATE + ": operations a second of all clients together");
    }
    return model.series(
        ratePerS, ArrivalEnd.afterOperations(operationCount(properties)), seed(properties));
  }

  /** How many operations YCSB's client will ask for, of all threads together. */
  private static long operationCount(Properties properties) throws ArrivalException {
    boolean isRun = Boolean.parseBoolean(
        properties.getProperty(Client.DO_TRANSACTIONS_PROPERTY, "true"));
    String key = Client.OPERATION_COUNT_PROPERTY;
    if (!isRun) {
      boolean hasCount = properties.containsKey(Client.INSERT_COUNT_PROPERTY);
      key = hasCount ? Client.INSERT_COUNT_PROPERTY : Client.RECORD_COUNT_PROPERTY;
    }
    double count = ArrivalModel.number(properties, key, 0);
    if (!(count >= 1 && count == Math.floor(count))) {
      throw new ArrivalException(
          "arrivals need the property " + key + ", 1 or more: YCSB starts no client without it");
    }
    return (long) count;
  }

  private static long seed(Properties properties) throws ArrivalException {
    String text = properties.getProperty(SEED, "1");
    try {
      return Long.parseUnsignedLong(text.trim());
    } catch (NumberFormatException e) {
      throw new ArrivalException(
          "property " + SEED + ": expected a whole number from 0 to 2^64 - 1, got \"" + text + "\"",
          e);
    }
  }
}
