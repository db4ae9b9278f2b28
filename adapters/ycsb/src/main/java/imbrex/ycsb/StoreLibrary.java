package imbrex.ycsb;

import com.sun.jna.Library;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import java.util.Map;
import site.ycsb.DBException;

/**
 * The part of the C API (crates/capi/include/imbrex.h) that concerns stores, called through JNA.
 *
 * <p>Pointers and sizes are Java longs, which cost JNA nothing, so the process must be 64-bit. A C
 * bool is a byte.
 */
final class StoreLibrary {
  static final int OK = 0;
  static final int NOT_FOUND = 1;
  static final int INVALID = 6;
  static final int CORRUPT = 10;

  private static final String NAME = "imbrex_capi";
  private static String loadedFrom;

  private StoreLibrary() {}

  static native int imbrex_store_open(
      String imagePath, String flashPath, String layout, long out);

  static native int imbrex_store_close(long store);

  static native int imbrex_keyspace_open(long store, String name, byte create, long out);

  static native int imbrex_keyspace_close(long keyspace);

  static native int imbrex_put(
      long keyspace, long key, long keyLen, long value, long valueLen, byte sync);

  static native int imbrex_delete(long keyspace, long key, long keyLen, byte sync);

  static native int imbrex_get(
      long keyspace, long key, long keyLen, long buffer, long len, long outLen);

  static native int imbrex_cursor_open(long keyspace, long out);

  static native int imbrex_cursor_seek(long cursor, long key, long keyLen, long outEntry);

  static native int imbrex_cursor_next(long cursor, long outEntry);

  static native int imbrex_cursor_close(long cursor);

  static native String imbrex_last_error();

  /** Loads the library, once. {@code path} is null if the system or JNA should find it. */
  static synchronized void load(String path) throws DBException {
    String what = path == null ? NAME : path;
    if (what.equals(loadedFrom)) {
      return;
    }
    if (Native.POINTER_SIZE != Long.BYTES) {
      throw new DBException("Imbrex: this Java has 32 bits; use one of 64");
    }
    try {
      Map<String, Object> options = Map.of(Library.OPTION_STRING_ENCODING, "UTF-8");
      Native.register(StoreLibrary.class, NativeLibrary.getInstance(what, options));
      loadedFrom = what;
    } catch (UnsatisfiedLinkError e) {
      String where = path == null ? "no property " + ImbrexDb.LIBRARY + " names it" : path;
      String why = String.valueOf(e.getMessage()).lines().findFirst().orElse("");
      throw new DBException(
          "Imbrex: cannot load the library " + NAME + " (" + where + "): " + why
              + "; build it with `cargo build --release -p imbrex-capi` and say -p "
              + ImbrexDb.LIBRARY + "=target/release/lib" + NAME + ".so",
          e);
    }
  }

  /** Throws unless the status is success. Call it in the thread that made the call. */
  static void check(int status) throws StoreException {
    if (status != OK) {
      throw new StoreException(status, imbrex_last_error());
    }
  }
}
