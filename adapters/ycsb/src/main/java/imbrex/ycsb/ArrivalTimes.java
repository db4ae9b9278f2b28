package imbrex.ycsb;

/** Times in nanoseconds from 0, one by one, that never decrease. */
interface ArrivalTimes {
  /** What {@link #nextNs} returns when there are no more. */
  long END = -1;

  /** No time is at or after this one (step 11). */
  long LEN_NS_MAX = 1L << 62;

  /** The next time, or {@link #END} forever after the last one. */
  long nextNs();
}
