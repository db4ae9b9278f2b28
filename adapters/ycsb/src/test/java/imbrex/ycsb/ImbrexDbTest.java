package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import site.ycsb.DBException;

/**
 * Errors without a library or a drive.
 *
 * <p>Not here: a working store, which `cargo xtask ycsb` builds, and with which it tests YCSB.
 */
final class ImbrexDbTest {
  private static String refusal(String... properties) {
    ImbrexDb db = new ImbrexDb();
    Properties all = new Properties();
    for (String property : properties) {
      all.setProperty(property.split("=")[0], property.split("=")[1]);
    }
    db.setProperties(all);
    return assertThrows(DBException.class, db::init).getMessage();
  }

  @Test
  void whatIsMissingIsNamedAndWhatToDo() {
    String noDrive = refusal("imbrex.library=/nowhere/lib.so");
    assertTrue(noDrive.contains("property imbrex.drive is missing"), noDrive);
    assertTrue(noDrive.contains("imbrex drive create"), noDrive);
    String noLibrary = refusal("imbrex.drive=/nowhere/drive", "imbrex.library=/nowhere/lib.so");
    assertTrue(noLibrary.contains("cannot load the library imbrex_capi (/nowhere/lib.so)"),
        noLibrary);
    assertTrue(noLibrary.contains("cargo build --release -p imbrex-capi"), noLibrary);
  }

  @Test
  void whetherWritesAreDurableIsNeverGuessed() throws DBException {
    for (String value : new String[] {"true", "true ", "TRUE"}) {
      assertTrue(sync(value), value);
    }
    for (String value : new String[] {"false", " False"}) {
      assertEquals(false, sync(value), value);
    }
    String refusal = refusal("imbrex.drive=/nowhere/drive", "imbrex.sync=1");
    assertEquals("Imbrex: imbrex.sync=1: expected true or false", refusal);
  }

  private static boolean sync(String value) throws DBException {
    Properties properties = new Properties();
    properties.setProperty(ImbrexDb.SYNC, value);
    return ImbrexDb.flag(properties, ImbrexDb.SYNC);
  }

  @Test
  void anUnknownPropertyIsToldOnceForAllClients() {
    PrintStream before = System.err;
    ByteArrayOutputStream told = new ByteArrayOutputStream();
    System.setErr(new PrintStream(told, true, StandardCharsets.UTF_8));
    try {
      for (int client = 0; client < 2; client++) {
        refusal("imbrex.snyc=true", "imbrex.sync=true", "redis.host=localhost");
      }
    } finally {
      System.setErr(before);
    }
    assertEquals(
        "Warning: unknown property imbrex.snyc",
        told.toString(StandardCharsets.UTF_8).strip());
  }

  @Test
  void onlyATableThatIsNotThereIsToBeLoaded() {
    StoreException missing = new StoreException(StoreLibrary.NOT_FOUND, "no keyspace t");
    assertEquals(
        "Imbrex: the drive d has no table \"t\"; load it first (no keyspace t)",
        ImbrexDb.refusal("d", "t", false, missing));
    StoreException damaged = new StoreException(StoreLibrary.CORRUPT, "rotten");
    assertEquals(
        "Imbrex: cannot open table \"t\" of the drive d: rotten",
        ImbrexDb.refusal("d", "t", false, damaged));
    assertEquals(
        "Imbrex: cannot open table \"t\" of the drive d: no keyspace t",
        ImbrexDb.refusal("d", "t", true, missing));
  }
}
