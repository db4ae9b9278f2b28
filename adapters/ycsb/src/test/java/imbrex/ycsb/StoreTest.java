package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.Vector;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import site.ycsb.ByteIterator;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * A store on a drive. `cargo xtask ycsb` builds the library, makes the drive and passes their paths;
 * without them these tests do not run.
 */
@Timeout(60)
@EnabledIfEnvironmentVariable(named = StoreTest.LIBRARY, matches = ".+")
final class StoreTest {
  static final String LIBRARY = "IMBREX_TEST_LIBRARY";
  static final String DRIVE = "IMBREX_TEST_DRIVE";

  private final List<ImbrexDb> open = new ArrayList<>();

  /** A client of a table, which a load may create. */
  private ImbrexDb client(String table, boolean isLoad) throws DBException {
    Properties properties = new Properties();
    properties.setProperty(ImbrexDb.LIBRARY, System.getenv(LIBRARY));
    properties.setProperty(ImbrexDb.DRIVE, System.getenv(DRIVE));
    properties.setProperty("table", table);
    properties.setProperty("fieldcount", "3");
    properties.setProperty("dotransactions", String.valueOf(!isLoad));
    ImbrexDb db = new ImbrexDb();
    db.setProperties(properties);
    db.init();
    open.add(db);
    return db;
  }

  @AfterEach
  void close() throws DBException {
    for (ImbrexDb db : open) {
      db.cleanup();
    }
  }

  private static Map<String, ByteIterator> fields(String... namesAndValues) {
    Map<String, ByteIterator> fields = new HashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      fields.put(namesAndValues[i], new StringByteIterator(namesAndValues[i + 1]));
    }
    return fields;
  }

  private static Map<String, String> texts(Map<String, ByteIterator> fields) {
    Map<String, String> texts = new TreeMap<>();
    fields.forEach((name, value) -> texts.put(name, value.toString()));
    return texts;
  }

  private static Map<String, String> read(ImbrexDb db, String table, String key) {
    Map<String, ByteIterator> result = new HashMap<>();
    assertEquals(Status.OK, db.read(table, key, null, result));
    return texts(result);
  }

  @Test
  void everyOperationDoesWhatItSays() throws DBException {
    ImbrexDb db = client("fruit", true);
    Map<String, ByteIterator> result = new HashMap<>();
    assertEquals(Status.NOT_FOUND, db.read("fruit", "apple", null, result));
    assertEquals(Status.NOT_FOUND, db.update("fruit", "apple", fields("a", "1")));
    assertEquals(Status.OK, db.insert("fruit", "apple", fields("a", "1", "b", "2", "c", "3")));
    assertEquals(Status.OK, db.update("fruit", "apple", fields("b", "two")));
    assertEquals(Map.of("a", "1", "b", "two", "c", "3"), read(db, "fruit", "apple"));
    assertEquals(Status.OK, db.update("fruit", "apple", fields("b", "TWO", "c", "4")));
    assertEquals(Map.of("a", "1", "b", "TWO", "c", "4"), read(db, "fruit", "apple"));
    assertEquals(Status.OK, db.update("fruit", "apple", fields("b", "two", "d", "5")));
    assertEquals(Map.of("a", "1", "b", "two", "c", "4", "d", "5"), read(db, "fruit", "apple"));
    assertEquals(Status.OK, db.read("fruit", "apple", Set.of("b", "z"), result));
    assertEquals(Map.of("b", "two"), texts(result));
    assertEquals(Status.OK, db.update("fruit", "apple", fields("x", "7", "y", "8", "z", "9")));
    assertEquals(Map.of("x", "7", "y", "8", "z", "9"), read(db, "fruit", "apple"));
    assertEquals(Status.OK, db.delete("fruit", "apple"));
    assertEquals(Status.NOT_FOUND, db.read("fruit", "apple", null, new HashMap<>()));
    assertEquals(Status.OK, db.delete("fruit", "apple"));
    assertEquals(Status.ERROR, db.insert("fruit", "k".repeat(65_537), fields("a", "1")));
    assertEquals(Status.OK, db.insert("fruit", "k".repeat(65_536), fields("a", "1")));
    assertEquals(Map.of("a", "1"), read(db, "fruit", "k".repeat(65_536)));
    String huge = "v".repeat(3_000_000);
    assertEquals(Status.OK, db.insert("fruit", "melon", fields("a", huge)));
    assertEquals(Map.of("a", huge), read(db, "fruit", "melon"));
  }

  @Test
  void scansAreInOrderAndEndWithTheTable() throws DBException {
    ImbrexDb db = client("numbers", true);
    for (int i = 0; i < 100; i++) {
      String key = String.format("%02d", i);
      assertEquals(Status.OK, db.insert("numbers", key, fields("n", key, "m", "0")));
    }
    Vector<HashMap<String, ByteIterator>> result = new Vector<>();
    assertEquals(Status.OK, db.scan("numbers", "5", 3, Set.of("n"), result));
    assertEquals(
        List.of(Map.of("n", "50"), Map.of("n", "51"), Map.of("n", "52")),
        result.stream().map(StoreTest::texts).toList());
    result.clear();
    assertEquals(Status.OK, db.scan("numbers", "98", 10, null, result));
    assertEquals(2, result.size());
    result.clear();
    assertEquals(Status.OK, db.scan("numbers", "x", 10, null, result));
    assertEquals(0, result.size());
  }

  @Test
  void clientsShareAStoreAndUpdateOneRecordAtOnce() throws Exception {
    ImbrexDb first = client("shared", true);
    assertEquals(Status.OK, first.insert("shared", "one", fields("a", "0", "b", "0", "c", "0")));
    Thread[] threads = new Thread[3];
    Status[] failed = new Status[threads.length];
    for (int i = 0; i < threads.length; i++) {
      int at = i;
      ImbrexDb db = client("shared", false);
      threads[i] = new Thread(() -> {
        for (int count = 1; count <= 2000; count++) {
          String name = String.valueOf((char) ('a' + at));
          Status status = db.update("shared", "one", fields(name, String.valueOf(count)));
          if (!status.isOk()) {
            failed[at] = status;
          }
        }
      });
      threads[i].start();
    }
    for (int i = 0; i < threads.length; i++) {
      threads[i].join();
      assertEquals(null, failed[i]);
    }
    Map<String, String> last = Map.of("a", "2000", "b", "2000", "c", "2000");
    assertEquals(last, read(first, "shared", "one"), "J5");
  }

  /** Between another client's get and put of the record, such an update was once lost entirely. */
  @Test
  void anUpdateOfAllFieldsFallsIntoNoOther() throws Exception {
    ImbrexDb whole = client("whole", true);
    assertEquals(Status.OK, whole.insert("whole", "one", fields("a", "0", "b", "0", "c", "0")));
    ImbrexDb part = client("whole", false);
    AtomicBoolean isOver = new AtomicBoolean();
    AtomicInteger partCount = new AtomicInteger();
    Thread thread = new Thread(() -> {
      while (!isOver.get()) {
        part.update("whole", "one", fields("a", "part"));
        partCount.incrementAndGet();
      }
    });
    thread.start();
    try {
      for (int count = 1; count <= 200; count++) {
        String value = String.valueOf(count);
        Map<String, ByteIterator> all = fields("a", value, "b", value, "c", value);
        assertEquals(Status.OK, whole.update("whole", "one", all));
        // The concurrent update has finished.
        for (int seen = partCount.get(); partCount.get() == seen;) {
          Thread.yield();
        }
        assertEquals(value, read(whole, "whole", "one").get("b"), "J5");
      }
    } finally {
      isOver.set(true);
      thread.join();
    }
  }

  @Test
  void aStoreClosedByItsLastClientOpensAgain() throws DBException {
    ImbrexDb db = client("again", true);
    assertEquals(Status.OK, db.insert("again", "key", fields("a", "1")));
    close();
    open.clear();
    assertEquals(Map.of("a", "1"), read(client("again", false), "again", "key"));
    String noTable = assertThrows(DBException.class, () -> client("none", false)).getMessage();
    assertTrue(noTable.contains("no table \"none\"; load it first"), noTable);
  }
}
