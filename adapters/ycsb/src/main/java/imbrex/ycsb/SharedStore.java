package imbrex.ycsb;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The store of a drive, shared by all clients of this process: the first one opens it, the last one
 * closes it.
 *
 * <p>Invariants
 *
 * <ul>
 *   <li>J4: handles are closed when no client is left that could use them.
 *   <li>J5: if two clients update different fields of one record at once, both updates survive.
 * </ul>
 */
final class SharedStore {
  /** Far more than there are clients, so that two rarely share one. */
  private static final int STRIPE_COUNT = 1024;

  private static final Map<String, SharedStore> OPEN = new ConcurrentHashMap<>();

  /** Its key in {@link #OPEN}. */
  private final String drives;
  private final long handle;
  private final Map<String, Long> keyspaces = new ConcurrentHashMap<>();
  private final Object[] stripes = new Object[STRIPE_COUNT];
  private int clientCount;
  private boolean hasFailed;

  private SharedStore(String drives, String drive, String flash) throws StoreException {
    NativeBuffer out = new NativeBuffer(Long.BYTES);
    StoreLibrary.check(StoreLibrary.imbrex_store_open(drive, flash, null, out.address()));
    this.drives = drives;
    handle = out.getLong(0);
    for (int i = 0; i < STRIPE_COUNT; i++) {
      stripes[i] = new Object();
    }
  }

  /**
   * The store on the drive at that path, for one more client. {@code flash} is the path of its flash
   * drive, null for none.
   */
  static SharedStore open(String drive, String flash) throws StoreException {
    synchronized (OPEN) {
      String drives = drive + '\0' + flash;
      SharedStore store = OPEN.get(drives);
      if (store == null) {
        store = new SharedStore(drives, drive, flash);
        OPEN.put(drives, store);
      }
      store.clientCount += 1;
      return store;
    }
  }

  /** Releases one client's use of the store. */
  void close() throws StoreException {
    synchronized (OPEN) {
      clientCount -= 1;
      if (clientCount > 0) {
        return;
      }
      OPEN.remove(drives);
      for (long keyspace : keyspaces.values()) {
        StoreLibrary.imbrex_keyspace_close(keyspace);
      }
      StoreLibrary.check(StoreLibrary.imbrex_store_close(handle));
    }
  }

  /** The keyspace of a table, created if allowed. */
  long keyspace(String table, boolean create) throws StoreException {
    Long known = keyspaces.get(table);
    if (known != null) {
      return known;
    }
    synchronized (keyspaces) {
      known = keyspaces.get(table);
      if (known == null) {
        NativeBuffer out = new NativeBuffer(Long.BYTES);
        byte mayCreate = (byte) (create ? 1 : 0);
        StoreLibrary.check(
            StoreLibrary.imbrex_keyspace_open(handle, table, mayCreate, out.address()));
        known = out.getLong(0);
        keyspaces.put(table, known);
      }
      return known;
    }
  }

  /** The lock for changing a part of that record (J5). */
  Object stripe(String key) {
    return stripes[Math.floorMod(key.hashCode(), STRIPE_COUNT)];
  }

  /** Whether this is the first failure, which is printed. YCSB only counts the others. */
  synchronized boolean isFirstFailure() {
    boolean isFirst = !hasFailed;
    hasFailed = true;
    return isFirst;
  }
}
