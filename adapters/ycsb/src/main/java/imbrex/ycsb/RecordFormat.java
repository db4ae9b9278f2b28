package imbrex.ycsb;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;

/** The format of a record as a value of the store: docs/formats/ycsb_record.md. */
final class RecordFormat {
  private static final byte FORMAT_VERSION = 1;
  private static final int RESERVED = 1;
  private static final int FIELD_COUNT = RESERVED + 3;
  private static final int FIELDS = FIELD_COUNT + 4;
  private static final int LENGTHS = 4 + 4;

  private RecordFormat() {}

  /** Names and values, in the order of the names' bytes, which is not that of Java's strings. */
  static SortedMap<String, byte[]> newRecord() {
    return new TreeMap<>(RecordFormat::compare);
  }

  private static int compare(String one, String other) {
    int len = Math.min(one.length(), other.length());
    for (int i = 0; i < len; i++) {
      char a = one.charAt(i);
      char b = other.charAt(i);
      if (a != b) {
        // A surrogate is half of a character that sorts after all characters of one unit.
        boolean isPast = Character.isSurrogate(a);
        return isPast == Character.isSurrogate(b) ? a - b : isPast ? 1 : -1;
      }
    }
    return one.length() - other.length();
  }

  static byte[] encode(SortedMap<String, byte[]> record) {
    byte[][] names = new byte[record.size()][];
    long len = FIELDS;
    int count = 0;
    for (SortedMap.Entry<String, byte[]> field : record.entrySet()) {
      names[count] = field.getKey().getBytes(StandardCharsets.UTF_8);
      len += LENGTHS + names[count].length + (long) field.getValue().length;
      count += 1;
    }
    if (len > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("a record of " + len + " bytes: expected less than 2 GiB");
    }
    ByteBuffer bytes = ByteBuffer.allocate((int) len).order(ByteOrder.LITTLE_ENDIAN);
    bytes.put(FORMAT_VERSION).position(FIELD_COUNT).putInt(count);
    int at = 0;
    for (byte[] value : record.values()) {
      bytes.putInt(names[at].length).putInt(value.length).put(names[at]).put(value);
      at += 1;
    }
    return bytes.array();
  }

  /** Takes the fields of a record, one by one. */
  interface Fields {
    /** A field and where its content lies in the value. */
    void add(String name, int at, int len);
  }

  /**
   * The names of the record read last, for one thread. Records of a table have the same names, so
   * the next one need not decode and compare them again.
   */
  static final class Names {
    private static final int COUNT_USUAL = 16;

    private byte[][] bytes = new byte[COUNT_USUAL][];
    private String[] texts = new String[COUNT_USUAL];
    private int count;

    /**
     * The name at an offset of {@code value}, that of the {@code field}th field. Null if it is not
     * text, or not after the name before it, for which this was called first.
     */
    private String of(int field, byte[] value, int at, int len) {
      if (field < count
          && Arrays.equals(bytes[field], 0, bytes[field].length, value, at, at + len)) {
        return texts[field];
      }
      String text = name(value, at, len);
      if (text == null || field > 0 && compare(texts[field - 1], text) >= 0) {
        return null;
      }
      if (field == texts.length) {
        bytes = Arrays.copyOf(bytes, field * 2);
        texts = Arrays.copyOf(texts, field * 2);
      }
      bytes[field] = Arrays.copyOfRange(value, at, at + len);
      texts[field] = text;
      // The next names are only known to come after another name.
      count = field + 1;
      return text;
    }
  }

  /** Passes the fields of {@code value} to {@code fields}, in order. Checks all of it. */
  static void decode(byte[] value, Names names, Fields fields) throws RecordException {
    ByteBuffer bytes = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
    need(bytes, FIELDS, "the header");
    byte version = bytes.get();
    if (version != FORMAT_VERSION) {
      throw new RecordException(
          "format version " + (version & 0xff) + ", expected " + FORMAT_VERSION);
    }
    if ((bytes.get() | bytes.get() | bytes.get()) != 0) {
      throw new RecordException("reserved bytes are not zero");
    }
    int fieldCount = bytes.getInt();
    for (int field = 0; field != fieldCount; field++) {
      need(bytes, LENGTHS, "the lengths of a field");
      int nameLen = bytes.getInt();
      int valueLen = bytes.getInt();
      need(bytes, nameLen, "a name");
      String name = names.of(field, value, bytes.position(), nameLen);
      if (name == null) {
        throw new RecordException(
            "the name of field " + Integer.toUnsignedString(field)
                + " is not UTF-8, or not after the one before");
      }
      bytes.position(bytes.position() + nameLen);
      need(bytes, valueLen, "a value");
      fields.add(name, bytes.position(), valueLen);
      bytes.position(bytes.position() + valueLen);
    }
    if (bytes.hasRemaining()) {
      throw new RecordException(bytes.remaining() + " bytes after the last field");
    }
  }

  /** All fields of {@code value}. */
  static SortedMap<String, byte[]> decode(byte[] value, Names names) throws RecordException {
    SortedMap<String, byte[]> record = newRecord();
    decode(
        value, names,
        (name, at, len) -> record.put(name, Arrays.copyOfRange(value, at, at + len)));
    return record;
  }

  /**
   * Writes new contents over those of {@code value}, which is checked, if the lengths agree. False if
   * a field is new or has another length; the other fields are changed even then.
   */
  static boolean overwrite(byte[] value, Names names, Map<String, byte[]> changed)
      throws RecordException {
    int[] placed = {0};
    decode(value, names, (name, at, len) -> {
      byte[] content = changed.get(name);
      if (content != null && content.length == len) {
        System.arraycopy(content, 0, value, at, len);
        placed[0] += 1;
      }
    });
    return placed[0] == changed.size();
  }

  private static void need(ByteBuffer bytes, int len, String what) throws RecordException {
    if (len < 0 || bytes.remaining() < len) {
      throw new RecordException("the value ends at byte " + bytes.limit() + ", inside of " + what);
    }
  }

  /** The name at an offset; null if it is not text. */
  private static String name(byte[] value, int at, int len) {
    int ascii = at;
    while (ascii < at + len && value[ascii] >= 0) {
      ascii += 1;
    }
    if (ascii == at + len) {
      return new String(value, at, len, StandardCharsets.ISO_8859_1);
    }
    try {
      ByteBuffer text = ByteBuffer.wrap(value, at, len);
      return StandardCharsets.UTF_8.newDecoder().decode(text).toString();
    } catch (CharacterCodingException e) {
      return null;
    }
  }

  /** A value that is not a valid record; the message says why. */
  static final class RecordException extends Exception {
    private static final long serialVersionUID = 1L;

    RecordException(String message) {
      super(message);
    }
  }
}
