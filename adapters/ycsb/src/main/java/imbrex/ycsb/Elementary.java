package imbrex.ycsb;

/**
 * Logarithm, power and sine from the four basic operations, so that every language gets the same
 * bits (steps 6 to 8).
 */
final class Elementary {
  private static final double SQRT_2 = 1.4142135623730951;
  private static final double LN_2 = 0.6931471805599453;
  private static final double LN_2_UPPER = 6.931471803691238e-1;
  private static final double LN_2_LOWER = 1.9082149292705877e-10;
  private static final long MANTISSA = (1L << 52) - 1;
  private static final int EXPONENT_BIAS = 1023;
  private static final int EXP_TERMS = 13;
  private static final int SIN_TERMS = 11;

  /** {@code 1 / n!}, by n. */
  private static final double[] EXP_FACTORS = new double[EXP_TERMS + 1];

  static {
    long factorial = 1;
    for (int n = 0; n <= EXP_TERMS; n++) {
      factorial *= Math.max(n, 1);
      EXP_FACTORS[n] = 1.0 / factorial;
    }
  }

  private Elementary() {}

  /** The natural logarithm of a normal number above 0. */
  static double ln(double x) {
    long bits = Double.doubleToRawLongBits(x);
    int exponent = (int) (bits >>> 52) - EXPONENT_BIAS;
    double m = Double.longBitsToDouble((bits & MANTISSA) | ((long) EXPONENT_BIAS << 52));
    if (m > SQRT_2) {
      m = m / 2;
      exponent += 1;
    }
    double s = (m - 1) / (m + 1);
    double z = s * s;
    double sum = 1.0 / 23;
    for (int n = 21; n >= 1; n -= 2) {
      sum = sum * z + 1.0 / n;
    }
    return exponent * LN_2 + 2 * s * sum;
  }

  /** e to the power x, from 0 to 700. */
  static double exp(double x) {
    double k = Math.floor(x / LN_2 + 0.5);
    double r = (x - k * LN_2_UPPER) - k * LN_2_LOWER;
    double sum = 0;
    for (int n = EXP_TERMS; n >= 0; n--) {
      sum = sum * r + EXP_FACTORS[n];
    }
    return sum * Double.longBitsToDouble(((long) k + EXPONENT_BIAS) << 52);
  }

  /** The sine of x, from 0 to a quarter of a circle. */
  static double sin(double x) {
    double z = x * x;
    double sum = 1;
    for (int n = SIN_TERMS; n >= 1; n--) {
      sum = 1 - z * sum / (2 * n * (2 * n + 1));
    }
    return x * sum;
  }
}
