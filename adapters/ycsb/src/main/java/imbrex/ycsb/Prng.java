package imbrex.ycsb;

import java.nio.charset.StandardCharsets;

/** The random numbers of a series: xoshiro256** (steps 2 to 5). */
final class Prng {
  private static final String STREAM = "arrivals";
  private static final long FNV_BASIS = 0xcbf29ce484222325L;
  private static final long FNV_PRIME = 0x00000100000001b3L;
  private static final double TWO_TO_53 = 0x1p53;

  private long s0;
  private long s1;
  private long s2;
  private long s3;
  private long splitMix;

  private Prng(long seed) {
    splitMix = seed;
    s0 = nextOfSplitMix();
    s1 = nextOfSplitMix();
    s2 = nextOfSplitMix();
    s3 = nextOfSplitMix();
  }

  /** The stream from which the arrivals of a run are drawn (step 3). */
  static Prng ofRun(long seed) {
    Prng run = new Prng(seed);
    long hash = FNV_BASIS;
    for (byte letter : STREAM.getBytes(StandardCharsets.US_ASCII)) {
      hash = (hash ^ letter) * FNV_PRIME;
    }
    return new Prng(run.s0 ^ Long.rotateLeft(run.s2, 17) ^ hash);
  }

  private long nextOfSplitMix() {
    splitMix += 0x9e3779b97f4a7c15L;
    long mixed = (splitMix ^ (splitMix >>> 30)) * 0xbf58476d1ce4e5b9L;
    mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
    return mixed ^ (mixed >>> 31);
  }

  long next() {
    long result = Long.rotateLeft(s1 * 5, 7) * 9;
    long shifted = s1 << 17;
    s2 ^= s0;
    s3 ^= s1;
    s1 ^= s2;
    s0 ^= s3;
    s2 ^= shifted;
    s3 = Long.rotateLeft(s3, 45);
    return result;
  }

  /** More than 0, at most 1 (step 4). */
  double share() {
    return ((next() >>> 11) + 1) / TWO_TO_53;
  }

  /** At least 0, less than {@code bound}, which is positive (step 5). */
  long below(long bound) {
    long bits = next();
    // Java 17 multiplies signed: a negative factor is short by 2^64, so the product by 2^64 bound.
    long upper = Math.multiplyHigh(bits, bound);
    return bits < 0 ? upper + bound : upper;
  }
}
