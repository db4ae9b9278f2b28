package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Properties;
import org.junit.jupiter.api.Test;
import site.ycsb.DBException;

/**
 * What is said without a library or a drive.
 *
 * <p>Not here: a store that works, which `cargo xtask ycsb` has built and tests YCSB with.
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
}
