package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

final class TimerSlackTest {
  /** In a separate thread, because the runner's thread keeps its slack. */
  @Test
  @EnabledOnOs(OS.LINUX)
  void aThreadThatAsksHasAlmostNone() throws InterruptedException {
    int[] slackNs = new int[1];
    boolean[] isSet = new boolean[1];
    Thread thread = new Thread(() -> {
      isSet[0] = TimerSlack.least();
      slackNs[0] = TimerSlack.ns();
    });
    thread.start();
    thread.join();
    assertTrue(isSet[0]);
    assertEquals(1, slackNs[0]);
  }
}
