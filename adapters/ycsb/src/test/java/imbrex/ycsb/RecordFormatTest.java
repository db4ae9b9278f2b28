package imbrex.ycsb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import imbrex.ycsb.RecordFormat.Names;
import imbrex.ycsb.RecordFormat.RecordException;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.SortedMap;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/** Records as values: the bytes of the golden test are those of crates/workload. */
final class RecordFormatTest {
  private static SortedMap<String, byte[]> sample() {
    SortedMap<String, byte[]> record = RecordFormat.newRecord();
    record.put("field10", bytes("ten"));
    record.put("field0", bytes("zero"));
    record.put("field1", bytes(""));
    return record;
  }

  private static SortedMap<String, byte[]> decode(byte[] value) throws RecordException {
    return RecordFormat.decode(value, new Names());
  }

  private static byte[] bytes(String latin) {
    return latin.getBytes(StandardCharsets.ISO_8859_1);
  }

  private static String refusal(byte[] value) {
    return assertThrows(RecordException.class, () -> decode(value))
        .getMessage();
  }

  @Test
  void goldenBytes() throws Exception {
    ByteArrayOutputStream want = new ByteArrayOutputStream();
    want.write(new byte[] {1, 0, 0, 0, 3, 0, 0, 0});
    want.write(bytes("\6\0\0\0\4\0\0\0field0zero"));
    want.write(bytes("\6\0\0\0\0\0\0\0field1"));
    want.write(bytes("\7\0\0\0\3\0\0\0field10ten"));
    byte[] got = RecordFormat.encode(sample());
    assertArrayEquals(want.toByteArray(), got);
    assertArrayEquals(got, RecordFormat.encode(decode(got)));
    byte[] empty = RecordFormat.encode(RecordFormat.newRecord());
    assertArrayEquals(new byte[] {1, 0, 0, 0, 0, 0, 0, 0}, empty);
  }

  @Test
  void namesAreInTheOrderOfTheirBytes() throws Exception {
    // In UTF-16 the second one, a surrogate pair, sorts before the last one.
    List<String> names = List.of("\u00e9", "\uffee", "\ud83d\ude00");
    SortedMap<String, byte[]> record = RecordFormat.newRecord();
    names.forEach(name -> record.put(name, bytes("x")));
    assertEquals(names, List.copyOf(record.keySet()));
    byte[] value = RecordFormat.encode(record);
    assertEquals(names, List.copyOf(decode(value).keySet()));
  }

  @Test
  void whatIsNoRecordIsRefused() {
    byte[] valid = RecordFormat.encode(sample());
    for (int len = 0; len < valid.length; len++) {
      refusal(Arrays.copyOf(valid, len));
    }
    assertEquals("1 bytes after the last field", refusal(Arrays.copyOf(valid, valid.length + 1)));
    assertEquals("format version 2, expected 1", refusal(damaged(valid, 0, 2)));
    assertEquals("reserved bytes are not zero", refusal(damaged(valid, 2, 1)));
    assertEquals(
        "the name of field 0 is not UTF-8, or not after the one before",
        refusal(damaged(valid, 16, 0xff)));
    assertEquals(
        "the name of field 1 is not UTF-8, or not after the one before",
        refusal(damaged(valid, 21, '9')));
    assertEquals(
        "the value ends at byte " + valid.length + ", inside of a name",
        refusal(damaged(valid, 11, 0x80)));
  }

  private static byte[] damaged(byte[] valid, int at, int value) {
    byte[] bytes = valid.clone();
    bytes[at] = (byte) value;
    return bytes;
  }

  private static SortedMap<String, byte[]> named(String... names) {
    SortedMap<String, byte[]> record = RecordFormat.newRecord();
    for (String name : names) {
      record.put(name, bytes("x"));
    }
    return record;
  }

  @Test
  void namesOfAnEarlierRecordAreThoseOfThisOneOnlyWhereTheyAreTheSame() throws Exception {
    Names names = new Names();
    String[] many = new String[40];
    Arrays.setAll(many, i -> String.format("name%02d", i));
    for (SortedMap<String, byte[]> record : List.of(
        sample(), named("field0", "field2", "field3", "field4"), named(many), sample(), named(),
        named("field0", "field1", "field10", "field2"), named(many))) {
      byte[] value = RecordFormat.encode(record);
      assertArrayEquals(value, RecordFormat.encode(RecordFormat.decode(value, names)));
    }
    byte[] value = RecordFormat.encode(named(many));
    String first = RecordFormat.decode(value, names).firstKey();
    assertSame(first, RecordFormat.decode(value, names).firstKey(), "it is made once");
    // The second name is known, but after a different first name.
    byte[] disorder = RecordFormat.encode(named(many));
    disorder[8 + 8] = 'o';
    assertThrows(RecordException.class, () -> RecordFormat.decode(disorder, names));
  }

  @Test
  void contentsOfTheSameLengthAreOverwrittenInPlace() throws Exception {
    SortedMap<String, byte[]> changed = RecordFormat.newRecord();
    changed.put("field0", bytes("null"));
    changed.put("field10", bytes("two"));
    SortedMap<String, byte[]> expected = sample();
    expected.putAll(changed);
    byte[] value = RecordFormat.encode(sample());
    assertTrue(RecordFormat.overwrite(value, new Names(), changed));
    assertArrayEquals(RecordFormat.encode(expected), value);
    for (String longerOrNew : List.of("field1", "field2")) {
      SortedMap<String, byte[]> more = RecordFormat.newRecord();
      more.put("field10", bytes("TEN"));
      more.put(longerOrNew, bytes("x"));
      byte[] before = RecordFormat.encode(sample());
      assertFalse(RecordFormat.overwrite(before, new Names(), more), longerOrNew);
      assertArrayEquals(bytes("TEN"), decode(before).get("field10"));
    }
    byte[] damaged = Arrays.copyOf(value, value.length + 1);
    assertThrows(RecordException.class, () -> RecordFormat.overwrite(damaged, new Names(), changed));
  }

  @Test
  void garbageIsToldOrMeansItself() {
    SplittableRandom random = new SplittableRandom(4);
    byte[] valid = RecordFormat.encode(sample());
    for (int round = 0; round < 20_000; round++) {
      byte[] bytes = Arrays.copyOf(valid, round % 2 == 0 ? random.nextInt(valid.length + 1)
          : valid.length);
      for (int flips = random.nextInt(4); flips > 0 && bytes.length > 0; flips--) {
        bytes[random.nextInt(bytes.length)] ^= (byte) (1 << random.nextInt(8));
      }
      try {
        assertArrayEquals(bytes, RecordFormat.encode(decode(bytes)));
      } catch (RecordException refused) {
        // Most of them are like this.
      }
    }
  }
}
