/**
 * Realistic arrivals for the original YCSB: operations start at the times of a series, whatever the
 * store does. Also a binding of YCSB to our store.
 *
 * <pre>
 *   properties --> ArrivalModel --(rate, end, seed)--> ArrivalSeries --> Schedule
 *                                                                           |
 *   YCSB's client threads --> ArrivalWorkload: when? -----------------------+
 *                                 CoreWorkload: which operation, on which record?
 *                                                                           |
 *   any binding of YCSB, or ImbrexDb --> SharedStore --> StoreLibrary <-----+
 *                           RecordFormat                 (the C API, by JNA)
 * </pre>
 *
 * <p>Invariants
 *
 * <ul>
 *   <li>J1: a series is the one that docs/arrivals.md describes; no logarithm, power or sine of the
 *       Java library takes part. Numbers in brackets, as in (step 7), are the steps of that page.
 *   <li>J2: every time of a series is used exactly once, for one operation.
 *   <li>J3: YCSB's intended latency begins at the time of the series, never later.
 *   <li>J4, J5: see SharedStore.
 * </ul>
 *
 * <p>Not here: the operations themselves, which are YCSB's CoreWorkload.
 */
package imbrex.ycsb;
