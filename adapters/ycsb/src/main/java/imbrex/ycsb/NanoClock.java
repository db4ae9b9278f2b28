package imbrex.ycsb;

import java.util.concurrent.locks.LockSupport;

/** The clock that YCSB measures with; tests have their own. */
interface NanoClock {
  long nowNs();

  /** Sleeps for about so long; it may be shorter or longer. */
  void park(long ns);

  /** Lets others run that have work. */
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
