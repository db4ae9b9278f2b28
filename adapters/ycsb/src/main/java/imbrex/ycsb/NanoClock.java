package imbrex.ycsb;

import java.util.concurrent.locks.LockSupport;

/** The clock with which YCSB measures; tests have their own. */
interface NanoClock {
  long nowNs();

  /** Sleeps for about this long; it may be shorter or longer. */
  void park(long ns);

  /** Lets other threads with work run. */
  default void yieldProcessor() {
    Thread.yield();
  }

  /** {@code System.nanoTime()}. */
  NanoClock SYSTEM = new NanoClock() {
    @Override
    public long nowNs() {
      return System.nanoTime();
    }

    @Override
    public void park(long ns) {
      LockSupport.parkNanos(ns);
    }
  };
}
