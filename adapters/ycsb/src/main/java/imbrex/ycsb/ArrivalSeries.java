package imbrex.ycsb;

/** The times of a model, up to an end (steps 10 and 11). */
final class ArrivalSeries implements ArrivalTimes {
  private final ArrivalTimes times;
  private long leftCount;
  private final long endNs;

  ArrivalSeries(ArrivalTimes times, ArrivalEnd end) {
    boolean isCount = end.unit() == ArrivalEnd.Unit.OPERATIONS;
    this.times = times;
    leftCount = isCount ? end.value() : Long.MAX_VALUE;
    endNs = isCount ? LEN_NS_MAX : Math.min(end.value(), LEN_NS_MAX);
  }

  @Override
  public long nextNs() {
    if (leftCount == 0) {
      return END;
    }
    leftCount -= 1;
    long atNs = times.nextNs();
    if (atNs == END || atNs >= endNs) {
      leftCount = 0;
      return END;
    }
    return atNs;
  }
}
