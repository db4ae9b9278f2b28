package imbrex.ycsb;

/**
 * A time that gaps are added to, whole nanoseconds and the part of one kept apart: a part counts as
 * much after a year as at the start (step 13).
 */
final class Moment {
  private long wholeNs;
  private double partNs;

  /** Goes on by a gap; the whole nanoseconds then, or the end past the longest series. */
  long advance(double gapNs) {
    double wholeGapNs = Math.floor(gapNs);
    partNs = partNs + (gapNs - wholeGapNs);
    if (partNs >= 1) {
      partNs -= 1;
      wholeGapNs += 1;
    }
    // Also false for a gap that is no number.
    if (!(wholeGapNs < ArrivalTimes.LEN_NS_MAX)) {
      wholeNs = ArrivalTimes.LEN_NS_MAX;
    } else {
      wholeNs = Math.min(wholeNs + (long) wholeGapNs, ArrivalTimes.LEN_NS_MAX);
    }
    return wholeNs < ArrivalTimes.LEN_NS_MAX ? wholeNs : ArrivalTimes.END;
  }
}
