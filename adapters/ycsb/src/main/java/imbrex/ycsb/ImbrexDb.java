package imbrex.ycsb;

import com.sun.jna.Pointer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeSet;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.Client;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.workloads.CoreWorkload;

/**
 * A binding of YCSB to our store: {@code -db imbrex.ycsb.ImbrexDb}.
 *
 * <p>A table is a keyspace, and a record is one value in it, in the format of `imbrex ycsb`: each
 * reads what the other has loaded. All clients of a process share one open store. README.md has the
 * properties.
 *
 * <pre>
 *   update of some fields    get, merge, put     under the lock of the key's stripe (J5)
 *   update of all fields     put                 the same lock: no other client's get and put surround it
 * </pre>
 */
public final class ImbrexDb extends DB {
  static final String DRIVE = "imbrex.drive";
  static final String FLASH = "imbrex.flash";
  static final String LIBRARY = "imbrex.library";
  static final String SYNC = "imbrex.sync";

  private static final String PREFIX = "imbrex.";
  private static final Set<String> KNOWN = Set.of(DRIVE, FLASH, LIBRARY, SYNC);

  /** Unknown properties that a client of this process has reported. */
  private static final Set<String> TOLD = ConcurrentHashMap.newKeySet();

  /** Offsets in an imbrex_entry. */
  private static final int ENTRY_KEY = 0;

  private static final int ENTRY_VALUE = 16;
  private static final int ENTRY_VALUE_LEN = 24;
  private static final int ENTRY_LEN = 32;

  private static final int KEY_LEN_USUAL = 256;
  private static final int VALUE_LEN_USUAL = 16 << 10;

  private SharedStore store;
  private boolean mayCreate;
  private byte sync;

  /** An update of this many fields replaces the whole record. */
  private int fieldCount;

  private final RecordFormat.Names names = new RecordFormat.Names();

  private NativeBuffer keyBuffer;
  private NativeBuffer valueBuffer;
  private NativeBuffer out;

  @Override
  public void init() throws DBException {
    Properties properties = getProperties();
    warnOfUnknown(properties);
    sync = (byte) (flag(properties, SYNC) ? 1 : 0);
    String drive = trimmed(properties, DRIVE);
    if (drive == null) {
      throw new DBException(
          "Imbrex: property " + DRIVE + " is missing: the path of a drive's image, which "
              + "`imbrex drive create` makes");
    }
    StoreLibrary.load(trimmed(properties, LIBRARY));
    keyBuffer = new NativeBuffer(KEY_LEN_USUAL);
    valueBuffer = new NativeBuffer(VALUE_LEN_USUAL);
    out = new NativeBuffer(ENTRY_LEN);
    mayCreate = !Boolean.parseBoolean(
        properties.getProperty(Client.DO_TRANSACTIONS_PROPERTY, "true"));
    fieldCount = Integer.parseInt(properties.getProperty(
        CoreWorkload.FIELD_COUNT_PROPERTY, CoreWorkload.FIELD_COUNT_PROPERTY_DEFAULT));
    String table = properties.getProperty(
        CoreWorkload.TABLENAME_PROPERTY, CoreWorkload.TABLENAME_PROPERTY_DEFAULT);
    try {
      store = SharedStore.open(drive, trimmed(properties, FLASH));
    } catch (StoreException e) {
      throw new DBException("Imbrex: " + e.getMessage(), e);
    }
    try {
      store.keyspace(table, mayCreate);
    } catch (StoreException e) {
      cleanup();
      throw new DBException(refusal(drive, table, mayCreate, e), e);
    }
  }

  /** Why there is no table to work on. */
  static String refusal(String drive, String table, boolean mayCreate, StoreException failure) {
    String shown = '"' + table + '"';
    if (failure.status() == StoreLibrary.NOT_FOUND && !mayCreate) {
      return "Imbrex: the drive " + drive + " has no table " + shown + "; load it first ("
          + failure.getMessage() + ")";
    }
    return "Imbrex: cannot open table " + shown + " of the drive " + drive + ": "
        + failure.getMessage();
  }

  private static void warnOfUnknown(Properties properties) {
    for (String key : new TreeSet<>(properties.stringPropertyNames())) {
      if (key.startsWith(PREFIX) && !KNOWN.contains(key) && TOLD.add(key)) {
        System.err.println("Warning: unknown property " + key);
      }
    }
  }

  /** The value of {@code key} without the blanks around it, which a property file keeps. */
  private static String trimmed(Properties properties, String key) {
    String value = properties.getProperty(key);
    return value == null ? null : value.trim();
  }

  /** Whether {@code key} is true. Any value but true and false is refused. */
  static boolean flag(Properties properties, String key) throws DBException {
    String value = trimmed(properties, key);
    if (value == null || value.equalsIgnoreCase("false")) {
      return false;
    }
    if (!value.equalsIgnoreCase("true")) {
      throw new DBException("Imbrex: " + key + "=" + value + ": expected true or false");
    }
    return true;
  }

  @Override
  public void cleanup() throws DBException {
    try {
      store.close();
    } catch (StoreException e) {
      throw new DBException("Imbrex: closing the store: " + e.getMessage(), e);
    }
  }

  @Override
  public Status read(
      String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    return done("read", key, () -> {
      byte[] value = get(store.keyspace(table, mayCreate), key);
      if (value == null) {
        return Status.NOT_FOUND;
      }
      decode(value, fields, result);
      return Status.OK;
    });
  }

  @Override
  public Status scan(
      String table, String startKey, int recordCount, Set<String> fields,
      Vector<HashMap<String, ByteIterator>> result) {
    return done("scan from", startKey, () -> {
      StoreLibrary.check(
          StoreLibrary.imbrex_cursor_open(store.keyspace(table, mayCreate), out.address()));
      long cursor = out.getLong(0);
      try {
        long keyLen = setKey(startKey);
        StoreLibrary.check(StoreLibrary.imbrex_cursor_seek(
            cursor, keyBuffer.address(), keyLen, out.address()));
        while (result.size() < recordCount && out.getLong(ENTRY_KEY) != 0) {
          byte[] value = new byte[Math.toIntExact(out.getLong(ENTRY_VALUE_LEN))];
          new Pointer(out.getLong(ENTRY_VALUE)).read(0, value, 0, value.length);
          HashMap<String, ByteIterator> record = new HashMap<>();
          decode(value, fields, record);
          result.add(record);
          if (result.size() < recordCount) {
            StoreLibrary.check(StoreLibrary.imbrex_cursor_next(cursor, out.address()));
          }
        }
      } finally {
        StoreLibrary.imbrex_cursor_close(cursor);
      }
      return Status.OK;
    });
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return done("insert", key, () -> {
      put(store.keyspace(table, mayCreate), key, RecordFormat.encode(record(values)));
      return Status.OK;
    });
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    return done("update", key, () -> {
      long keyspace = store.keyspace(table, mayCreate);
      SortedMap<String, byte[]> changed = record(values);
      synchronized (store.stripe(key)) {
        if (changed.size() >= fieldCount) {
          put(keyspace, key, RecordFormat.encode(changed));
          return Status.OK;
        }
        byte[] value = get(keyspace, key);
        if (value == null) {
          return Status.NOT_FOUND;
        }
        // If fields keep their length, the value can be changed in place.
        if (!RecordFormat.overwrite(value, names, changed)) {
          SortedMap<String, byte[]> merged = RecordFormat.decode(value, names);
          merged.putAll(changed);
          value = RecordFormat.encode(merged);
        }
        put(keyspace, key, value);
      }
      return Status.OK;
    });
  }

  @Override
  public Status delete(String table, String key) {
    return done("delete", key, () -> {
      long keyLen = setKey(key);
      StoreLibrary.check(StoreLibrary.imbrex_delete(
          store.keyspace(table, mayCreate), keyBuffer.address(), keyLen, sync));
      return Status.OK;
    });
  }

  /** An operation on the store. */
  private interface Operation {
    Status run() throws StoreException, RecordFormat.RecordException;
  }

  /** The YCSB status of an operation. The very first failure is printed in full. */
  private Status done(String what, String key, Operation operation) {
    try {
      return operation.run();
    } catch (StoreException e) {
      tell(what, key, e);
      return e.isRefusal() ? Status.ERROR : Status.SERVICE_UNAVAILABLE;
    } catch (RecordFormat.RecordException | IllegalArgumentException e) {
      tell(what, key, e);
      return Status.ERROR;
    }
  }

  private void tell(String what, String key, Exception failure) {
    if (store.isFirstFailure()) {
      String shown = key.length() <= 64 ? key : key.substring(0, 64) + "...";
      System.err.println("Imbrex: " + what + " " + shown + ": " + failure.getMessage()
          + " (later failures are only counted)");
    }
  }

  /** Adds the wanted fields of a value to {@code result}; null selects all. */
  private void decode(byte[] value, Set<String> wanted, Map<String, ByteIterator> result)
      throws RecordFormat.RecordException {
    RecordFormat.decode(value, names, (name, at, len) -> {
      if (wanted == null || wanted.contains(name)) {
        result.put(name, new ByteArrayByteIterator(value, at, len));
      }
    });
  }

  private static SortedMap<String, byte[]> record(Map<String, ByteIterator> values) {
    SortedMap<String, byte[]> record = RecordFormat.newRecord();
    values.forEach((name, value) -> record.put(name, value.toArray()));
    return record;
  }

  /** Copies a key to native memory and returns its length. */
  private long setKey(String key) {
    byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
    keyBuffer.set(bytes);
    return bytes.length;
  }

  private void put(long keyspace, String key, byte[] value) throws StoreException {
    long keyLen = setKey(key);
    valueBuffer.set(value);
    StoreLibrary.check(StoreLibrary.imbrex_put(
        keyspace, keyBuffer.address(), keyLen, valueBuffer.address(), value.length, sync));
  }

  /** The value of a key; null if it has none. */
  private byte[] get(long keyspace, String key) throws StoreException {
    long keyLen = setKey(key);
    while (true) {
      int status = StoreLibrary.imbrex_get(
          keyspace, keyBuffer.address(), keyLen, valueBuffer.address(), valueBuffer.len(),
          out.address());
      if (status == StoreLibrary.NOT_FOUND) {
        return null;
      }
      StoreLibrary.check(status);
      int len = Math.toIntExact(out.getLong(0));
      if (len <= valueBuffer.len()) {
        return valueBuffer.get(len);
      }
      valueBuffer.reserve(len);
    }
  }
}
