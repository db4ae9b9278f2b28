package imbrex.ycsb;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;

/**
 * Gives the times of a series to client threads, in order.
 *
 * <pre>
 *   arrivals   a    b c         d
 *   client 1   |op a    ||op c  |            the first that is free takes the next one
 *   client 2        |op b |     |op d |
 * </pre>
 *
 * <p>An operation starts at its time or when a client is free, whichever is later; none is left out
 * because the store is slow. The series begins when the first client asks.
 *
 * <p>The schedule is kept if of the operations for which a client was free 99 % start at most 50 us
 * late. A client sleeps until shortly before the time and then spins; at most one of them spins,
 * unless all are told to.
 */
final class Schedule {
  /** What {@link #awaitNext} says when there is no next operation. */
  static final long NONE = Long.MIN_VALUE;

  static final long KEPT_WITHIN_NS = 50_000;

  /** To wake up and run again takes a sleeper so long, as a rule, if it asked for no slack. */
  private static final long SPIN_NS = 80_000;

  /** How long a client waits without looking whether it is to stop. */
  private static final long PARK_NS_MAX = 100_000_000;

  private final ArrivalTimes series;
  private final NanoClock clock;
  private final boolean allSpin;
  private final BooleanSupplier isStopped;

  private boolean hasBegun;
  private long beganNs;

  private final AtomicBoolean isSpinning = new AtomicBoolean();
  private final LongAdder waitedCount = new LongAdder();
  private final LongAdder lateCount = new LongAdder();
  private final LongAdder queuedCount = new LongAdder();

  Schedule(ArrivalTimes series, NanoClock clock, boolean allSpin, BooleanSupplier isStopped) {
    this.series = series;
    this.clock = clock;
    this.allSpin = allSpin;
    this.isStopped = isStopped;
  }

  /**
   * Waits for the next operation; the moment of the clock at which it should have started, or
   * {@link #NONE} at the end of the series or when the run was stopped.
   */
  long awaitNext() {
    long freeNs = clock.nowNs();
    long intendedNs = take();
    if (intendedNs == NONE) {
      return NONE;
    }
    if (intendedNs - freeNs <= 0) {
      if (isStopped.getAsBoolean()) {
        return NONE;
      }
      queuedCount.increment();
      return intendedNs;
    }
    if (!await(intendedNs)) {
      return NONE;
    }
    waitedCount.increment();
    if (clock.nowNs() - intendedNs > KEPT_WITHIN_NS) {
      lateCount.increment();
    }
    return intendedNs;
  }

  private synchronized long take() {
    long afterNs = series.nextNs();
    if (afterNs == ArrivalTimes.END) {
      return NONE;
    }
    if (!hasBegun) {
      hasBegun = true;
      beganNs = clock.nowNs();
    }
    long intendedNs = beganNs + afterNs;
    // YCSB understands 0 as no intended time at all.
    return intendedNs == 0 ? 1 : intendedNs;
  }

  /** False if the run was stopped before. */
  private boolean await(long atNs) {
    boolean spins = allSpin;
    try {
      while (true) {
        if (isStopped.getAsBoolean()) {
          return false;
        }
        long leftNs = atNs - clock.nowNs();
        if (leftNs <= 0) {
          return true;
        }
        if (!spins && leftNs <= SPIN_NS) {
          spins = isSpinning.compareAndSet(false, true);
        }
        if (spins) {
          Thread.onSpinWait();
        } else {
          clock.park(Math.min(leftNs <= SPIN_NS ? leftNs : leftNs - SPIN_NS, PARK_NS_MAX));
        }
      }
    } finally {
      if (spins && !allSpin) {
        isSpinning.set(false);
      }
    }
  }

  /** Whether the schedule was kept, and how many operations say so. */
  String report() {
    long waited = waitedCount.sum();
    long late = lateCount.sum();
    String verdict = late * 100 <= waited ? "kept" : "NOT kept";
    return String.format(
        "schedule %s: of %d operations for which a client was free %d started more than %d us "
            + "late; %d came while all clients were busy",
        verdict, waited, late, KEPT_WITHIN_NS / 1000, queuedCount.sum());
  }
}
