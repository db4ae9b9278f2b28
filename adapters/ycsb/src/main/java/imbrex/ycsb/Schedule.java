package imbrex.ycsb;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;

/**
 * Gives the times of a series to client threads, in order.
 *
 * <pre>
 *   arrivals   a    b c         d
 *   client 1   |op a    ||op c  |            the first free client takes the next one
 *   client 2        |op b |     |op d |
 * </pre>
 *
 * <p>An operation starts at its time or when a client is free, whichever is later. None is skipped
 * because the store is slow. The series begins when the first client asks.
 *
 * <p>The schedule is kept if 99 % of the operations for which a client was free start at most 50 us
 * late. A client sleeps until shortly before the time, then polls the clock. Between two polls it
 * yields its processor to other threads, unless clients are set to spin. The margin is learned from
 * how late sleeps have been, as in {@code crates/clockwork/src/punctual.rs}, so that both runners
 * start their operations alike.
 */
final class Schedule {
  /** What {@link #awaitNext} returns when there is no next operation. */
  static final long NONE = Long.MIN_VALUE;

  static final long KEPT_WITHIN_NS = 50_000;

  /** How long before its time a client stops sleeping, at least and at most. */
  private static final long WINDOW_NS_MIN = 60_000;

  private static final long WINDOW_NS_MAX = 500_000;

  /** The window grows by no more than this at a time: one late sleep proves little. */
  private static final long GROWTH_NS_MAX = 50_000;

  /** The part by which it shrinks. */
  private static final long SHRINKS_BY = 800;

  /** How long a client waits without checking whether to stop. */
  private static final long PARK_NS_MAX = 100_000_000;

  private final ArrivalTimes series;
  private final NanoClock clock;
  private final boolean allSpin;
  private final BooleanSupplier isStopped;

  private boolean hasBegun;
  private long beganNs;

  /** How late sleeps have been. A change that two clients make at once may be lost. */
  private final AtomicLong sleepsLateNs = new AtomicLong();

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
   * Waits for the next operation. Returns the time at which it should have started, or {@link
   * #NONE} at the end of the series or when the run was stopped.
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
    // YCSB takes 0 to mean that there is no intended time.
    return intendedNs == 0 ? 1 : intendedNs;
  }

  /** False if the run was stopped before. */
  private boolean await(long atNs) {
    while (true) {
      if (isStopped.getAsBoolean()) {
        return false;
      }
      long leftNs = atNs - clock.nowNs();
      if (leftNs <= 0) {
        return true;
      }
      long asleepNs = Math.min(leftNs - windowNs(sleepsLateNs.get()), PARK_NS_MAX);
      if (allSpin) {
        Thread.onSpinWait();
      } else if (asleepNs <= 0) {
        clock.yieldProcessor();
      } else {
        long wakeNs = clock.nowNs() + asleepNs;
        clock.park(asleepNs);
        sleepsLateNs.set(learnedNs(sleepsLateNs.get(), clock.nowNs() - wakeNs));
      }
    }
  }

  /** How long before its time a client stops sleeping, if sleeps have been this late. */
  static long windowNs(long lateNs) {
    // A quarter more, for the rare late sleep.
    return Math.min(Math.max(lateNs + lateNs / 4, WINDOW_NS_MIN), WINDOW_NS_MAX);
  }

  /** How late sleeps have been, including one more. A sleep that was too short was not late. */
  static long learnedNs(long knownNs, long lateNs) {
    if (lateNs < knownNs) {
      return knownNs - knownNs / SHRINKS_BY;
    }
    return knownNs + Math.min((lateNs - knownNs) / 2, GROWTH_NS_MAX);
  }

  /** Whether the schedule was kept, and for how many operations. */
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
