package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Schedules on a clock that moves only on request or when a thread sleeps. */
final class ScheduleTest {
  private static final class TestClock implements NanoClock {
    long nowNs;
    /** By how much a sleeper oversleeps. */
    long overNs;
    long parkNsMax;

    TestClock(long nowNs) {
      this.nowNs = nowNs;
    }

    /** Reading the clock takes a microsecond, so that a spin ends. */
    @Override
    public long nowNs() {
      return nowNs += 1_000;
    }

    @Override
    public void park(long ns) {
      parkNsMax = Math.max(parkNsMax, ns);
      nowNs += ns + overNs;
    }
  }

  private static ArrivalTimes every(long ns, int count) {
    long[] next = {0};
    return () -> next[0] < count ? ns * next[0]++ : ArrivalTimes.END;
  }

  @Test
  void lateOperationsFollowAtOnceAndKeepTheirTimes() {
    TestClock clock = new TestClock(5_000_000_000L);
    Schedule schedule = new Schedule(every(1_000_000, 5), clock, false, () -> false);
    long beganNs = schedule.awaitNext();
    clock.nowNs += 2_500_000;
    assertEquals(beganNs + 1_000_000, schedule.awaitNext());
    assertEquals(beganNs + 2_000_000, schedule.awaitNext());
    assertTrue(clock.nowNs < beganNs + 2_600_000, "neither waited");
    assertEquals(beganNs + 3_000_000, schedule.awaitNext());
    assertTrue(clock.nowNs >= beganNs + 3_000_000, "this one did");
    assertEquals(beganNs + 4_000_000, schedule.awaitNext());
    assertEquals(Schedule.NONE, schedule.awaitNext());
    assertTrue(schedule.report().startsWith("schedule kept: of 3 operations"), schedule.report());
    assertTrue(schedule.report().contains("; 2 came while"), schedule.report());
  }

  @Test
  void aScheduleThatIsNotKeptSaysSo() {
    TestClock clock = new TestClock(0);
    clock.overNs = 200_000;
    Schedule schedule = new Schedule(every(1_000_000, 50), clock, false, () -> false);
    while (schedule.awaitNext() != Schedule.NONE) {
      // Nothing to do: only the waiting is tested.
    }
    assertTrue(schedule.report().startsWith("schedule NOT kept"), schedule.report());
  }

  /** With sleeps that are late by chance: mostly a little, rarely a lot. */
  @Test
  void theWindowIsAsLongAsSleepsAreLate() {
    java.util.Random random = new java.util.Random(1);
    long lateNs = 0;
    int missed = 0;
    for (int at = 0; at < 20_000; at++) {
      boolean isRare = random.nextInt(100) == 0;
      long thisNs = isRare ? 200_000 : 20_000 + random.nextInt(60_000);
      if (at >= 10_000 && Schedule.windowNs(lateNs) < thisNs) {
        missed++;
      }
      lateNs = Schedule.learnedNs(lateNs, thisNs);
    }
    assertTrue(missed < 100, missed + " of 10,000 were later than the window");
    assertTrue(Schedule.windowNs(lateNs) < 260_000, lateNs + " ns");
    for (int at = 0; at < 10_000; at++) {
      lateNs = Schedule.learnedNs(lateNs, -1);
    }
    assertEquals(60_000, Schedule.windowNs(lateNs));
  }

  @Test
  void aStoppedRunEndsInTheMiddleOfALongGap() {
    AtomicBoolean isStopped = new AtomicBoolean();
    TestClock clock = new TestClock(0);
    Schedule schedule = new Schedule(every(3_600_000_000_000L, 3), clock, false, () -> {
      return isStopped.get() || clock.nowNs > 1_000_000_000;
    });
    schedule.awaitNext();
    assertEquals(Schedule.NONE, schedule.awaitNext());
    assertTrue(clock.nowNs < 1_200_000_000, "stopped within a tenth of a second");
    assertTrue(clock.parkNsMax <= 100_000_000, "no sleep was longer");
  }

  @Test
  void threadsShareOutEachTimeOnceAndInOrder() throws Exception {
    int count = 20_000;
    long[] next = {0};
    // Another thread may run between the check and the step.
    ArrivalTimes slow = () -> {
      long at = next[0];
      Thread.yield();
      next[0] = at + 1;
      return at < count ? at : ArrivalTimes.END;
    };
    Schedule schedule = new Schedule(slow, NanoClock.SYSTEM, false, () -> false);
    List<Thread> threads = new ArrayList<>();
    List<List<Long>> taken = new ArrayList<>();
    for (int client = 0; client < 4; client++) {
      List<Long> own = new ArrayList<>();
      taken.add(own);
      threads.add(new Thread(() -> {
        for (long at = schedule.awaitNext(); at != Schedule.NONE; at = schedule.awaitNext()) {
          own.add(at);
        }
      }));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    for (List<Long> own : taken) {
      assertEquals(own.stream().sorted().toList(), own, "a client's own times are in order");
    }
    List<Long> all = taken.stream().flatMap(List::stream).sorted().toList();
    assertEquals(count, all.size());
    assertEquals(count, all.stream().distinct().count());
    assertEquals(count - 1, all.get(count - 1) - all.get(0));
  }
}
