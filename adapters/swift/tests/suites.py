"""Runs Swift's own tests, as they come in its source package, against a running cluster to try.

    imbrex-swift-cluster start DIR
    python3 adapters/swift/tests/suites.py DIR

A run fails if a test fails that `expected_failures.txt` does not name, or if one that it names passes. Several
processes of pytest share the work: each has accounts of its own, because the tests empty the accounts that they use.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imbrex_swift.cluster import Cluster  # noqa: E402
from imbrex_swift.cluster_plan import SWIFT_VERSION, TEST_ACCOUNTS, ClusterError  # noqa: E402

#: Suites, and which of their modules know the name of the first account by heart.
SUITES = {
    "functional": "test/functional",
    "functional-s3api": "test/functional/s3api",
    "s3api": "test/s3api",
}
ONLY_FIRST_ACCOUNT = "test_access_control.py"

#: How long the modules take beside each other: the longest are handed out first.
LONG = ("tests.py", "test_object_versioning.py", "test_mpu.py", "test_multi_upload.py", "test_object.py")

EXPECTED = os.path.join(HERE, "expected_failures.txt")
Outcome = collections.namedtuple("Outcome", "suite test status text seconds")


def source(directory):
    """Swift's source package, fetched and unpacked into `directory` once."""
    unpacked = os.path.join(directory, f"swift-{SWIFT_VERSION}")
    if os.path.isdir(os.path.join(unpacked, "test", "functional")):
        return unpacked
    os.makedirs(directory, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps",
               "--dest", directory, f"swift=={SWIFT_VERSION}"]
    if subprocess.run(command).returncode:
        raise ClusterError("Swift's source package cannot be fetched; `--source DIR` names an unpacked one")
    with tarfile.open(unpacked + ".tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return unpacked


def modules(tree, suites, only=()):
    """Pairs of a suite and a module's path, long ones first; `only` those of these names, if any."""
    found = []
    for suite in suites:
        folder = SUITES[suite]
        for name in sorted(os.listdir(os.path.join(tree, folder))):
            if name.startswith("test") and name.endswith(".py") and (not only or name in only):
                found.append((suite, f"{folder}/{name}"))

    def rank(pair):
        name = os.path.basename(pair[1])
        first = 0 if name == ONLY_FIRST_ACCOUNT else 1
        return first, LONG.index(name) if name in LONG else len(LONG), pair
    return sorted(found, key=rank)


def run_module(tree, plan, account, module, policy, report, extra):
    environment = dict(
        os.environ, SWIFT_TEST_CONFIG_FILE=plan.conf(f"test-{account}"), SWIFT_TEST_IN_PROCESS="0",
        PYTHONDONTWRITEBYTECODE="1", TMPDIR=tempfile.gettempdir())
    if policy:
        environment["SWIFT_TEST_POLICY"] = policy
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--tb=short",
               f"--junitxml={report}", "-o", "junit_logging=no", module, *extra]
    return subprocess.Popen(command, cwd=tree, env=environment, stdout=open(report + ".txt", "wb"),
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def outcomes(suite, report):
    """What a report of pytest says of each test."""
    try:
        root = ElementTree.parse(report).getroot()
    except (OSError, ElementTree.ParseError) as err:
        with open(report + ".txt", encoding="utf-8", errors="replace") as file:
            text = file.read()[-2000:]
        raise ClusterError(f"pytest wrote no report ({err}); it printed\n{text}") from None
    found = {}
    for case in root.iter("testcase"):
        test = f"{case.get('classname')}::{case.get('name')}"
        status, text = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                status, text = "failed", f"{child.get('message') or ''}\n{child.text or ''}"
            elif child.tag == "skipped" and status == "passed":
                status, text = "skipped", child.get("message") or ""
        # A test whose clean-up fails has two entries.
        if test not in found or found[test].status == "passed":
            found[test] = Outcome(suite, test, status, text, float(case.get("time") or 0))
    return list(found.values())


def run(plan, tree, waiting, jobs, policy="", extra=(), keep=None):
    """Runs all modules; the outcomes, by the order of their ends."""
    waiting, found, running = list(waiting), [], {}
    with tempfile.TemporaryDirectory(prefix="swift-suites-") as temporary:
        directory = keep or temporary
        os.makedirs(directory, exist_ok=True)
        while waiting or running:
            for account in TEST_ACCOUNTS[:jobs]:
                if account in running:
                    continue
                fits = [pair for pair in waiting
                        if account == TEST_ACCOUNTS[0] or not pair[1].endswith(ONLY_FIRST_ACCOUNT)]
                if fits:
                    suite, module = fits[0]
                    waiting.remove(fits[0])
                    report = os.path.join(directory, f"{suite}-{os.path.basename(module)}.xml")
                    child = run_module(tree, plan, account, module, policy, report, extra)
                    running[account] = (child, suite, module, report, time.monotonic())
            for account, (child, suite, module, report, began) in list(running.items()):
                if child.poll() is None:
                    continue
                del running[account]
                ended = outcomes(suite, report)
                found += ended
                count = collections.Counter(outcome.status for outcome in ended)
                print(f"  {module}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped, "
                      f"{time.monotonic() - began:.0f} s", flush=True)
            time.sleep(0.2)
    return found


def expected(path, backend, policy):
    """Names of tests that fail, with reasons. A line is a test, `:`, where it fails, `:`, why; see the file."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            parts = [part.strip() for part in line.split("|", 2)]
            if len(parts) != 3 or not parts[2]:
                raise ClusterError(f"{path}:{number}: a line is `test | where | why`")
            test, where, why = parts
            if where in ("everywhere", backend, policy and f"policy {policy}"):
                found[test] = why
    return found


def judge(found, reasons):
    """Outcomes that nobody expected: failures without a reason, and passes with one."""
    failed = [outcome for outcome in found if outcome.status == "failed" and outcome.test not in reasons]
    passed = [outcome for outcome in found if outcome.status == "passed" and outcome.test in reasons]
    return failed, passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR", help="of a running cluster")
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this one (may be given again)")
    parser.add_argument("--module", action="append", help="only modules of this name (may be given again)")
    parser.add_argument("--policy", default="", help="the storage policy of the tests' containers (default: the first)")
    parser.add_argument("--jobs", type=int, default=len(TEST_ACCOUNTS), choices=range(1, len(TEST_ACCOUNTS) + 1))
    parser.add_argument("--source", help="the directory for Swift's source package (default: target/swift)")
    parser.add_argument("--reports", help="keep pytest's reports and outputs in this directory")
    parser.add_argument("--json", help="write the counts to this file")
    parser.add_argument("-k", help="only tests that match, as pytest's -k")
    args = parser.parse_args()
    try:
        cluster = Cluster.at(args.directory)
        plan = cluster.plan
        cluster.wait_until_serving(patience_s=10)
        if args.policy and args.policy not in [policy.name for policy in plan.policies]:
            raise ClusterError(f"the cluster has no policy {args.policy}; was it made with --with-ec?")
        backend = plan.options.backend
        reasons = expected(EXPECTED, backend, args.policy)
        tree = source(args.source or os.path.join(os.path.dirname(HERE), "..", "..", "target", "swift"))
        began = time.monotonic()
        suites = args.suite or list(SUITES)
        waiting = modules(tree, suites, args.module or ())
        found = run(plan, tree, waiting, args.jobs, args.policy, ("-k", args.k) if args.k else (), args.reports)
    except ClusterError as err:
        print(f"suites: {err}", file=sys.stderr)
        return 2
    failed, passed = judge(found, reasons)
    skips = collections.Counter(outcome.text for outcome in found if outcome.status == "skipped")
    print("\nSkipped, by reason:")
    for text, count in skips.most_common():
        print(f"  {count:4}  {text}")
    foreseen = [outcome for outcome in found if outcome.status == "failed" and outcome.test in reasons]
    print("\nFailed as expected:" if foreseen else "\nNo expected failure.")
    for outcome in foreseen:
        print(f"  {outcome.test}: {reasons[outcome.test]}")
    for outcome in failed:
        print(f"\nFAILED, not expected: {outcome.test}\n{outcome.text.strip()[-1500:]}")
    for outcome in passed:
        print(f"\nPASSED, though expected to fail ({reasons[outcome.test]}): {outcome.test}")
    rows = []
    for suite in suites:
        of_suite = [outcome for outcome in found if outcome.suite == suite]
        count = collections.Counter(outcome.status for outcome in of_suite)
        rows.append({"suite": suite, "passed": count["passed"], "failed": count["failed"],
                     "expected": len([o for o in foreseen if o.suite == suite]), "skipped": count["skipped"],
                     "seconds": round(sum(outcome.seconds for outcome in of_suite))})
    print(f"\n{backend}{' ' + args.policy if args.policy else ''}, {time.monotonic() - began:.0f} s:")
    for row in rows:
        print("  {suite:18} {passed} passed, {failed} failed ({expected} expected), {skipped} skipped".format(**row))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"backend": backend, "policy": args.policy, "rows": rows,
                       "skips": skips.most_common()}, file, indent=1)
    if not found:
        print("suites: no test ran", file=sys.stderr)
        return 2
    # The plain line of a runner of tests.
    total = collections.Counter(outcome.status for outcome in found)
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if failed or passed else 0


if __name__ == "__main__":
    sys.exit(main())
