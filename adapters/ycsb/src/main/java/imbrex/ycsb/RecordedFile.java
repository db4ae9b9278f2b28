package imbrex.ycsb;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.GZIPInputStream;

/**
 * A recorded series: a file with one time per line, plain or compressed with gzip; see
 * docs/arrivals.md.
 *
 * <p>Not here: zstd, for which Java has no reader.
 */
final class RecordedFile {
  /** The first lines that name the unit, and how many decimals make whole nanoseconds. */
  private static final Map<String, Integer> DECIMAL_COUNTS =
      Map.of("time_ns", 0, "time_us", 3, "time_ms", 6, "time_s", 9);

  private static final Pattern TIME = Pattern.compile("([0-9]+)(?:\\.([0-9]*))?");
  private static final int LINE_LEN_MAX = 256;
  private static final int GOT_LEN_MAX = 60;
  private static final byte[] GZIP = {0x1f, (byte) 0x8b};
  /** U+FEFF in UTF-8, as ISO 8859-1 reads it; some programs write it in front of text. */
  private static final String BYTE_ORDER_MARK = "\u00ef\u00bb\u00bf";

  private static final byte[] ZSTD = {0x28, (byte) 0xb5, 0x2f, (byte) 0xfd};

  private final Path path;
  private long[] timesNs = new long[1024];
  private int count;

  private RecordedFile(Path path) {
    this.path = path;
  }

  /** The times of a file, counted from its first operation. */
  static long[] read(Path path) throws ArrivalException {
    RecordedFile file = new RecordedFile(path);
    try (InputStream lines = new BufferedInputStream(file.unpacked(), 1 << 16)) {
      file.readAll(lines);
    } catch (IOException e) {
      throw new ArrivalException("arrivals " + path + ": " + e, e);
    }
    if (file.count == 0) {
      throw new ArrivalException("arrivals " + path + ": no time in it; expected one per line");
    }
    long firstNs = file.timesNs[0];
    return Arrays.stream(file.timesNs, 0, file.count).map(at -> at - firstNs).toArray();
  }

  private InputStream unpacked() throws IOException, ArrivalException {
    InputStream bytes = new BufferedInputStream(Files.newInputStream(path), 1 << 16);
    bytes.mark(ZSTD.length);
    byte[] head = bytes.readNBytes(ZSTD.length);
    bytes.reset();
    if (Arrays.equals(head, ZSTD)) {
      bytes.close();
      throw new ArrivalException(
          "arrivals " + path + ": packed with zstd, which is not read here; unpack it first");
    }
    boolean isGzip = head.length >= 2 && Arrays.equals(head, 0, 2, GZIP, 0, 2);
    return isGzip ? new GZIPInputStream(bytes, 1 << 16) : bytes;
  }

  /**
   * The next line without its end, LF or CR LF; null at the end. {@code BufferedReader.readLine}
   * would end a line at any CR.
   */
  private static String nextLine(InputStream bytes) throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    int next = bytes.read();
    if (next < 0) {
      return null;
    }
    while (next >= 0 && next != '\n') {
      line.write(next);
      next = bytes.read();
    }
    String text = line.toString(StandardCharsets.ISO_8859_1);
    boolean hasCr = next == '\n' && text.endsWith("\r");
    return hasCr ? text.substring(0, text.length() - 1) : text;
  }

  private void readAll(InputStream lines) throws IOException, ArrivalException {
    int decimalCount = 0;
    long number = 0;
    for (String line = nextLine(lines); line != null; line = nextLine(lines)) {
      number += 1;
      if (number == 1 && line.startsWith(BYTE_ORDER_MARK)) {
        line = line.substring(BYTE_ORDER_MARK.length());
      }
      String text = line.strip();
      String where = "arrivals " + path + ", line " + number + ": ";
      if (line.length() > LINE_LEN_MAX) {
        throw new ArrivalException(
            where + "expected a line of at most " + LINE_LEN_MAX + " bytes, got " + shown(text));
      }
      if (number == 1 && DECIMAL_COUNTS.containsKey(text)) {
        decimalCount = DECIMAL_COUNTS.get(text);
        continue;
      }
      add(text, decimalCount, where);
    }
  }

  private void add(String text, int decimalCount, String where) throws ArrivalException {
    if (text.isEmpty()) {
      throw new ArrivalException(
          where + "the series has a gap; expected a time, got an empty line");
    }
    long atNs = nanoseconds(text, decimalCount);
    if (atNs < 0) {
      throw new ArrivalException(
          where + "expected a time below 2^62 ns, digits and at most one point, got "
              + shown(text));
    }
    if (count > 0 && atNs < timesNs[count - 1]) {
      throw new ArrivalException(
          where + "time goes back from " + timesNs[count - 1] + " ns to " + atNs
              + " ns; sort the file first");
    }
    if (count == timesNs.length) {
      timesNs = Arrays.copyOf(timesNs, count * 2);
    }
    timesNs[count] = atNs;
    count += 1;
  }

  private static String shown(String text) {
    return '"' + text.substring(0, Math.min(text.length(), GOT_LEN_MAX)) + '"';
  }

  /** Digits below a nanosecond are cut off. Negative if the text is not a time. */
  private static long nanoseconds(String text, int decimalCount) {
    Matcher time = TIME.matcher(text);
    if (!time.matches()) {
      return -1;
    }
    String fraction = time.group(2) == null ? "" : time.group(2);
    String padded = fraction + "0".repeat(Math.max(0, decimalCount - fraction.length()));
    try {
      long ns = Long.parseLong(time.group(1) + padded.substring(0, decimalCount));
      return ns < ArrivalTimes.LEN_NS_MAX ? ns : -1;
    } catch (NumberFormatException tooLong) {
      return -1;
    }
  }
}
