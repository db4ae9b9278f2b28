package imbrex.ycsb;

import java.nio.file.Path;
import java.util.Properties;
import java.util.regex.Pattern;

/**
 * How arrivals are distributed over time, from properties; docs/arrivals.md has the table.
 *
 * <p>A value outside its range is refused here. A modulation that only the rate makes too large is
 * refused later, once the rate is known.
 */
final class ArrivalModel {
  static final String GENERATOR = "arrivalgenerator";
  static final String BIAS = "ss.bias";
  static final String MODULATION = "diurnal.modulation";
  static final String CYCLE_LEN = "diurnal.cyclelength";
  static final String DISTRIBUTION = "diurnal.distribution";
  static final String SHAPE = "diurnal.distribution.shape";
  static final String FILE = "recorded.file";

  private static final double RATE_PER_S_MAX = 1e9;
  private static final double COUNT_MAX = 0x1p53;
  private static final double CYCLE_LEN_S_MIN = 0.001;
  private static final double CYCLE_LEN_S_MAX = 3.2e9;
  private static final double SHAPE_MAX = 1000;

  /** Java alone would also take 0x1p3, 1d and NaN. */
  private static final Pattern DECIMAL =
      Pattern.compile("[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?");

  /** Makes the times of a model; {@code count} and {@code lenNs} follow from rate and end. */
  private interface Maker {
    ArrivalTimes make(double ratePerS, long count, long lenNs, Prng prng) throws ArrivalException;
  }

  private final Maker maker;
  private final boolean needsRate;

  private ArrivalModel(boolean needsRate, Maker maker) {
    this.needsRate = needsRate;
    this.maker = maker;
  }

  /** False if times are recorded: then rate and seed change nothing. */
  boolean needsRate() {
    return needsRate;
  }

  static ArrivalModel of(Properties properties) throws ArrivalException {
    String name = properties.getProperty(GENERATOR, "constant").trim();
    switch (name) {
      case "constant":
        return new ArrivalModel(true, (rate, count, len, prng) -> constant(rate));
      case "poisson":
        return new ArrivalModel(true, (rate, count, len, prng) -> poisson(rate, prng));
      case "selfsimilar":
      case "self similar": // The thesis' table has two words.
        double bias = number(properties, BIAS, 0.65);
        if (!(bias > 0.5 && bias < 1)) {
          throw new ArrivalException(
              "a bias of " + bias + "; it must lie between 0.5 (even) and 1 (all at one "
                  + "moment");
        }
        return new ArrivalModel(
            true, (rate, count, len, prng) -> new Cascade(bias, prng, len, count));
      case "diurnal":
        return diurnal(properties);
      case "recorded":
        long[] timesNs = RecordedFile.read(Path.of(needed(
            properties, "recorded", FILE, "the file of times").trim()));
        return new ArrivalModel(false, (rate, count, len, prng) -> recorded(timesNs));
      default:
        throw new ArrivalException(
            "no arrival model \"" + name + "\"; there are constant, poisson, selfsimilar, diurnal "
                + "and recorded");
    }
  }

  /** The arrivals of a run until {@code end}, in nanoseconds from its start. */
  ArrivalTimes series(double ratePerS, ArrivalEnd end, long seed) throws ArrivalException {
    if (!needsRate) {
      return new ArrivalSeries(maker.make(0, 0, 0, null), end);
    }
    if (!(ratePerS > 0 && ratePerS <= RATE_PER_S_MAX)) {
      throw new ArrivalException(
          "a rate of " + ratePerS + " operations a second; it must be more than 0 and at "
              + "most 1000000000, one per nanosecond");
    }
    // Step 10.
    double count;
    double lenNs;
    if (end.unit() == ArrivalEnd.Unit.OPERATIONS) {
      count = end.value();
      lenNs = Math.max(1, Math.floor(count * 1e9 / ratePerS + 0.5));
    } else {
      lenNs = end.value();
      count = Math.floor(ratePerS * lenNs / 1e9 + 0.5);
    }
    if (count > COUNT_MAX || lenNs > ArrivalTimes.LEN_NS_MAX) {
      throw new ArrivalException(
          "a series of " + count + " operations in " + lenNs / 1e9 + " seconds; at most "
              + (long) COUNT_MAX + " operations and " + ArrivalTimes.LEN_NS_MAX / 1_000_000_000
              + " seconds can be counted");
    }
    return new ArrivalSeries(
        maker.make(ratePerS, (long) count, (long) lenNs, Prng.ofRun(seed)), end);
  }

  private static ArrivalTimes constant(double ratePerS) {
    long[] next = {0};
    return () -> {
      double atNs = next[0] * 1e9 / ratePerS;
      next[0] += 1;
      return atNs < ArrivalTimes.LEN_NS_MAX ? (long) Math.floor(atNs) : ArrivalTimes.END;
    };
  }

  private static ArrivalTimes poisson(double ratePerS, Prng prng) {
    Gaps gaps = Gaps.exponential();
    double meanNs = 1e9 / ratePerS;
    Moment moment = new Moment();
    return () -> moment.advance(gaps.draw(prng) * meanNs);
  }

  private static ArrivalTimes recorded(long[] timesNs) {
    int[] next = {0};
    return () -> next[0] < timesNs.length ? timesNs[next[0]++] : ArrivalTimes.END;
  }

  private static ArrivalModel diurnal(Properties properties) throws ArrivalException {
    needed(properties, "diurnal", MODULATION, "operations a second above and below the mean");
    double modulation = number(properties, MODULATION, 0);
    if (!(modulation >= 0 && modulation <= RATE_PER_S_MAX)) {
      throw new ArrivalException(
          "a modulation of " + modulation + " operations a second; it must be at least 0 and less "
              + "than the rate");
    }
    double cycleLenS = number(properties, CYCLE_LEN, 15) * 60;
    if (!(cycleLenS >= CYCLE_LEN_S_MIN && cycleLenS <= CYCLE_LEN_S_MAX)) {
      throw new ArrivalException(
          "a cycle of " + cycleLenS + " seconds; it must last between 0.001 seconds and "
              + "a century");
    }
    Gaps gaps = gaps(properties);
    return new ArrivalModel(true, (rate, count, len, prng) -> {
      if (modulation >= rate) {
        throw new ArrivalException(
            "a modulation of " + modulation + " operations a second around a mean of " + rate
                + "; it must be less than the mean");
      }
      return new Diurnal(rate, modulation, cycleLenS, gaps, prng);
    });
  }

  private static Gaps gaps(Properties properties) throws ArrivalException {
    String name = properties.getProperty(DISTRIBUTION, "pareto").trim();
    switch (name) {
      case "constant":
        return Gaps.constant();
      case "uniform":
        return Gaps.uniform();
      case "exponential":
        return Gaps.exponential();
      case "pareto":
        double shape = number(properties, SHAPE, 1.5);
        if (!(shape > 1 && shape <= SHAPE_MAX)) {
          throw new ArrivalException(
              "a Pareto shape of " + shape + "; at 1 and below the mean gap is infinite and there "
                  + "is no rate: more than 1, and at most 1000");
        }
        return Gaps.pareto(shape);
      default:
        throw new ArrivalException(
            "no distribution of gaps \"" + name + "\"; there are constant, uniform, exponential "
                + "and pareto");
    }
  }

  private static String needed(Properties properties, String model, String key, String what)
      throws ArrivalException {
    String value = properties.getProperty(key);
    if (value == null) {
      throw new ArrivalException(model + " arrivals need the property " + key + ": " + what);
    }
    return value;
  }

  /** The value of {@code key}, or {@code otherwise} if it is not set. */
  static double number(Properties properties, String key, double otherwise)
      throws ArrivalException {
    String text = properties.getProperty(key);
    if (text == null) {
      return otherwise;
    }
    double number =
        DECIMAL.matcher(text.trim()).matches() ? Double.parseDouble(text.trim()) : Double.NaN;
    if (!Double.isFinite(number)) {
      throw new ArrivalException(
          "property " + key + ": expected a number, got \"" + text + "\"");
    }
    return number;
  }
}
