package imbrex.ycsb;

/**
 * A rate that follows a sine, with gaps of any distribution (steps 20 to 23).
 *
 * <p>A gap is a number of operations. It lasts until the slices of the cycle have had room for that
 * many, so a long gap includes the rates of all the time that it spans.
 */
final class Diurnal implements ArrivalTimes {
  private static final int SLICE_COUNT = 1024;
  private static final int QUARTER = SLICE_COUNT / 4;
  private static final double PI = 3.141592653589793;

  private final Gaps gaps;
  private final Prng prng;
  private final Moment moment = new Moment();

  /** Operations per nanosecond, by slice. */
  private final double[] rates = new double[SLICE_COUNT];

  private final double sliceLenNs;
  private final double cycleLenNs;
  private final double operationsPerCycle;
  private int slice;
  private double leftNs;

  Diurnal(double ratePerS, double modulationPerS, double cycleLenS, Gaps gaps, Prng prng) {
    this.gaps = gaps;
    this.prng = prng;
    cycleLenNs = cycleLenS * 1e9;
    sliceLenNs = cycleLenNs / SLICE_COUNT;
    operationsPerCycle = ratePerS * cycleLenS;
    leftNs = sliceLenNs;
    for (int k = 0; k < SLICE_COUNT; k++) {
      rates[k] = (ratePerS + modulationPerS * sine(k)) / 1e9;
    }
  }

  /** The sine in the middle of a slice. */
  private static double sine(int slice) {
    int within = slice % QUARTER;
    int rising = slice / QUARTER % 2 == 0 ? within : QUARTER - 1 - within;
    double sine = Elementary.sin((rising + 0.5) * PI / (SLICE_COUNT / 2));
    return slice < SLICE_COUNT / 2 ? sine : -sine;
  }

  @Override
  public long nextNs() {
    return moment.advance(pass(gaps.draw(prng)));
  }

  /** How long it takes until there was room for this many operations. */
  private double pass(double operations) {
    double gapNs = 0;
    if (operations >= operationsPerCycle) {
      double cycles = Math.floor(operations / operationsPerCycle);
      operations -= cycles * operationsPerCycle;
      gapNs = cycles * cycleLenNs;
      if (gapNs >= LEN_NS_MAX) {
        // The series ends here. Over many cycles rounding may leave more operations than slices
        // will ever have room for.
        return gapNs;
      }
    }
    double room = rates[slice] * leftNs;
    while (operations >= room) {
      operations -= room;
      gapNs += leftNs;
      slice = (slice + 1) % SLICE_COUNT;
      leftNs = sliceLenNs;
      room = rates[slice] * leftNs;
    }
    double restNs = operations / rates[slice];
    leftNs = Math.max(leftNs - restNs, 0);
    return gapNs + restNs;
  }
}
