package imbrex.ycsb;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** A store that does nothing, but stalls once, for all clients, at its hundredth operation. */
public final class StallingDb extends DB {
  static final int STALL_AT = 100;
  static final long STALL_NS = 300_000_000;

  private static final AtomicInteger OPERATIONS = new AtomicInteger();
  private static final Object LOCK = new Object();

  private static Status work() {
    synchronized (LOCK) {
      if (OPERATIONS.incrementAndGet() == STALL_AT) {
        long untilNs = System.nanoTime() + STALL_NS;
        for (long left = STALL_NS; left > 0; left = untilNs - System.nanoTime()) {
          LockSupport.parkNanos(left);
        }
      }
    }
    return Status.OK;
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return work();
  }

  @Override
  public Status scan(
      String table, String startKey, int count, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return work();
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return work();
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return work();
  }

  @Override
  public Status delete(String table, String key) {
    return work();
  }
}
