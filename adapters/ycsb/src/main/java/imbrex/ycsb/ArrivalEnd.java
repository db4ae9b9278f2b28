package imbrex.ycsb;

/** When a series ends: after a number of operations, or before the first one at or after a time. */
record ArrivalEnd(Unit unit, long value) {
  enum Unit {
    OPERATIONS,
    NANOSECONDS
  }

  static ArrivalEnd afterOperations(long count) {
    return new ArrivalEnd(Unit.OPERATIONS, count);
  }

  static ArrivalEnd atNs(long ns) {
    return new ArrivalEnd(Unit.NANOSECONDS, ns);
  }
}
