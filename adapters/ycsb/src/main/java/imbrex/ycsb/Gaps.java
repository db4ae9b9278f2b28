package imbrex.ycsb;

/** How gaps are distributed, as numbers of operations, 1 in the mean (step 21). */
interface Gaps {
  double draw(Prng prng);

  static Gaps constant() {
    return prng -> 1;
  }

  static Gaps uniform() {
    return prng -> 2 * prng.share();
  }

  static Gaps exponential() {
    return prng -> -Elementary.ln(prng.share());
  }

  /** Heavy-tailed; {@code shape} is more than 1. */
  static Gaps pareto(double shape) {
    return prng -> (shape - 1) / shape * Elementary.exp(-Elementary.ln(prng.share()) / shape);
  }
}
