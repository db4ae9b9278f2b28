/**
 * Realistic arrivals for the original YCSB: operations start when a series says, whatever the store
 * does. And our store as one of YCSB's.
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
 *   <li>J2: no time of a series is taken twice or left out; each belongs to one operation.
 *   <li>J3: what YCSB measures as intended begins at the time of the series, never later.
 *   <li>J4, J5: see SharedStore.
 * </ul>
 *
 * <p>Not here: the operations themselves, which are YCSB's CoreWorkload.
 */
package imbrex.ycsb;
