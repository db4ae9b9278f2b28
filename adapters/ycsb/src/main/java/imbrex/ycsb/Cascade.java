package imbrex.ycsb;

import java.util.ArrayDeque;

/**
 * Self-similar arrivals by the b-model: one half of any interval gets the share {@code bias} of the
 * interval's operations (steps 15 to 19).
 *
 * <p>Source: Wang and others, ICDE 2002.
 */
final class Cascade implements ArrivalTimes {
  /** A shorter interval is not halved: its operations are evenly spaced. */
  private static final long EVEN_LEN_NS_MAX = 1000;

  private static final long LOWER_53_BITS = (1L << 53) - 1;
  private static final double TWO_TO_53 = 0x1p53;

  private record Interval(long startNs, long lenNs, long count) {}

  private final double bias;
  private final Prng prng;
  private final ArrayDeque<Interval> stack = new ArrayDeque<>();

  /** The interval whose operations are evenly spaced, and how many of them were returned. */
  private Interval even = new Interval(0, 0, 0);

  private long evenGiven;

  Cascade(double bias, Prng prng, long lenNs, long count) {
    this.bias = bias;
    this.prng = prng;
    stack.push(new Interval(0, lenNs, count));
  }

  @Override
  public long nextNs() {
    while (evenGiven == even.count) {
      if (stack.isEmpty()) {
        return END;
      }
      Interval top = stack.pop();
      if (top.count == 1) {
        return top.startNs + prng.below(top.lenNs);
      }
      if (top.count > 0 && top.lenNs <= EVEN_LEN_NS_MAX) {
        even = top;
        evenGiven = 0;
      } else if (top.count > 0) {
        halve(top);
      }
    }
    // At most 2^53 times 1000: no sign is lost.
    long atNs = even.startNs + evenGiven * even.lenNs / even.count;
    evenGiven += 1;
    return atNs;
  }

  private void halve(Interval whole) {
    long bits = prng.next();
    double u = (bits & LOWER_53_BITS) / TWO_TO_53;
    long more = Math.min(whole.count, (long) Math.floor(bias * whole.count + u));
    long first = bits < 0 ? more : whole.count - more;
    long firstLenNs = whole.lenNs / 2;
    stack.push(
        new Interval(whole.startNs + firstLenNs, whole.lenNs - firstLenNs, whole.count - first));
    stack.push(new Interval(whole.startNs, firstLenNs, first));
  }
}
