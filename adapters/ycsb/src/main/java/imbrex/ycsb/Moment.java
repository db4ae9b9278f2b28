package imbrex.ycsb;

/**
 * A time to which gaps are added. Whole nanoseconds and fractions are kept apart, so a fraction
 * counts as much after a year as at the start (step 13).
 */
final class Moment {
  private long wholeNs;
  private double partNs;

  /** Adds a gap. Returns whole nanoseconds, or the end if past the longest series. */
  long advance(double gapNs) {
    double wholeGapNs = Math.floor(gapNs);
    partNs = partNs + (gapNs - wholeGapNs);
    if (partNs >= 1) {
      partNs -= 1;
      wholeGapNs += 1;
    }
    // Also false for a gap that is not a number.
    if (!(wholeGapNs < ArrivalTimes.LEN_NS_MAX)) {
      wholeNs = ArrivalTimes.LEN_NS_MAX;
    } else {
      wholeNs = Math.min(wholeNs + (long) wholeGapNs, ArrivalTimes.LEN_NS_MAX);
    }
    return wholeNs < ArrivalTimes.LEN_NS_MAX ? wholeNs : ArrivalTimes.END;
  }
}
