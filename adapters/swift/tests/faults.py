"""Nodes of a cluster that are killed, wiped and damaged: do all replicas converge, and is everything acknowledged there?

    python3 adapters/swift/tests/faults.py DIR --rounds 10 --seed 1

A round takes three nodes, drawn from the seed, one after the other:

    killed    every process of the node ends with -9 in the middle of a load, and starts again behind its end
    wiped     the node loses its drive and its databases, in the middle of a load
    rotten    bytes of the node's drive are flipped while it is stopped

After each fault Swift's replicators, reconstructors, updaters and auditors pass over all nodes until every primary
replica of every object is the same and right, at most PASSES_MAX times. What is right:

  F1  An acknowledged write is there, until a later write of the same object is acknowledged.
  F2  A write that was not acknowledged is there or is not, on all replicas alike.
  F3  Bytes and metadata are those of one write. On imbrex no read returns other bytes before the auditors pass, either.
  F4  The container lists what is there.

DIR must not exist; the cluster in it is removed if everything is right, and kept stopped otherwise.
"""

import argparse
import collections
import hashlib
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imbrex_swift import cluster_processes  # noqa: E402
from imbrex_swift.cluster import Cluster  # noqa: E402
from imbrex_swift.cluster_plan import BACKENDS, ClusterError, Options  # noqa: E402

ACCOUNT = "AUTH_test"
PASSES_MAX = 8
#: For one round of all daemons of a node.
ONCE_S_MAX = 600
WORKERS = 2
#: Lengths of objects: in the entry, beside it, apart, and longer than a segment of an erasure code.
LENGTHS = ((0, 4096), (4096, 65536), (65536, 400_000), (1 << 20, 3 << 20))
#: A drive rots in so many runs, of so many bytes each, with a flipped bit in each block of a run.
RUN_COUNT = 6
ROTTEN_RUN_BYTES = 64 << 10

#: An object that is there: the digest of its bytes, and its metadata.
State = collections.namedtuple("State", "digest colour")


class Wrong(Exception):
    """The cluster broke F1 to F4."""


class Load:
    """Writers, each with objects of its own, and what each object may be by now."""

    def __init__(self, cluster, container, seed, name_count):
        self.cluster, self.container = cluster, container
        self.url, self.token = cluster.log_in()
        self.may_be = {}
        self.workers = []
        for worker in range(WORKERS):
            names = [f"{worker}-{number}" for number in range(name_count)]
            self.may_be.update((name, {None}) for name in names)
            self.workers.append((names, random.Random(f"{seed} {container} {worker}")))
        self.done = 0
        self.counts = collections.Counter()
        self._lock = threading.Lock()

    def request(self, method, name, body=None, **headers):
        """The status; 0 if there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.cluster.plan.port("proxy"), timeout=120)
        try:
            connection.request(method, f"/v1/{ACCOUNT}/{self.container}/{name}", body,
                               {"X-Auth-Token": self.token, **headers})
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, content, answer.headers
        except (OSError, http.client.HTTPException):
            return 0, b"", {}
        finally:
            connection.close()

    def run(self, operations):
        """Starts all writers; a function that waits for them."""
        threads = [threading.Thread(target=self._write, args=(*worker, operations // WORKERS))
                   for worker in self.workers]
        for thread in threads:
            thread.start()
        return lambda: [thread.join() for thread in threads]

    def _write(self, names, chance, operations):
        for _ in range(operations):
            name = chance.choice(names)
            what = chance.choices(("PUT", "POST", "DELETE"), (6, 2, 2))[0]
            body = chance.randbytes(chance.randint(*chance.choice(LENGTHS))) if what == "PUT" else None
            colour = f"{chance.getrandbits(32):08x}"
            before = self.may_be[name]
            if what == "PUT":
                status, _, _ = self.request(what, name, body, **{"X-Object-Meta-Colour": colour})
                new = {State(hashlib.sha256(body).hexdigest(), colour)}
            elif what == "POST":
                status, _, _ = self.request(what, name, b"", **{"X-Object-Meta-Colour": colour})
                new = {state and State(state.digest, colour) for state in before}
            else:
                status, _, _ = self.request(what, name)
                new = {None}
            is_acknowledged = status // 100 == 2 or (what == "DELETE" and status == 404)
            if what == "POST" and status == 404:
                # Nothing was changed where the object is not; elsewhere it may have been.
                new = before | new
            elif not is_acknowledged:
                new = before | new
            elif what == "POST":
                new = {state for state in new if state is not None} or {None}
            with self._lock:
                self.may_be[name] = new
                self.done += 1
                self.counts[f"{what} {'acknowledged' if is_acknowledged else f'refused, {status}'}"] += 1


class Replicas:
    """Every primary replica of every object, read from its own server."""

    def __init__(self, cluster):
        from imbrex_swift.launch import use_directory

        use_directory(cluster.plan.swift_dir)
        from swift.common.ring import Ring
        from swift.common.storage_policy import POLICIES

        self.cluster = cluster
        self.policies = POLICIES
        self.rings = {policy.index: Ring(cluster.plan.swift_dir, ring_name=policy.ring)
                      for policy in cluster.plan.policies}

    def read(self, policy, container, name):
        """States of all primaries by node. A state that is an error is a text."""
        partition, nodes = self.rings[policy.index].get_nodes(ACCOUNT, container, name)
        answers = {}
        for node in nodes:
            answers[node["device"]] = self._get(node, partition, policy, container, name)
        if not policy.is_ec:
            return {device: _state(*answer) for device, answer in answers.items()}
        return self._decoded(policy, answers)

    def _get(self, node, partition, policy, container, name):
        connection = http.client.HTTPConnection(node["ip"], node["port"], timeout=60)
        try:
            connection.request("GET", f"/{node['device']}/{partition}/{ACCOUNT}/{container}/{name}",
                               headers={"X-Backend-Storage-Policy-Index": str(policy.index)})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        except (OSError, http.client.HTTPException) as err:
            return 0, b"", {"error": repr(err)}
        finally:
            connection.close()

    def _decoded(self, policy, answers):
        """Fragments by node as the objects that any two of them give."""
        good = {device: answer for device, answer in answers.items() if answer[0] == 200}
        states = {device: _state(*answer) for device, answer in answers.items() if device not in good}
        indexes = {device: answer[2]["X-Object-Sysmeta-Ec-Frag-Index"] for device, answer in good.items()}
        if len(set(indexes.values())) < len(indexes):
            return states | dict.fromkeys(good, f"the same fragment twice: {indexes}")
        if len(good) == 1:
            return states | dict.fromkeys(good, "one fragment only")
        for one, other in itertools.combinations(good, 2):
            content = self._decode(policy, good[one][1], good[other][1])
            for device in (one, other):
                colour = good[device][2].get("X-Object-Meta-Colour")
                state = State(hashlib.sha256(content).hexdigest(), colour)
                if states.setdefault(device, state) != state:
                    states[device] = f"differs with {one} and {other}"
        return states

    def _decode(self, policy, one, other):
        swifts = self.policies[policy.index]
        size = swifts.fragment_size
        content = b""
        for at in range(0, max(len(one), len(other)), size):
            content += swifts.pyeclib_driver.decode([one[at:at + size], other[at:at + size]])
        return content


def _state(status, content, headers):
    if status == 200:
        return State(hashlib.sha256(content).hexdigest(), headers.get("X-Object-Meta-Colour"))
    return None if status == 404 else f"status {status} {headers.get('error', '')}"


class Rounds:
    def __init__(self, cluster, loads, seed):
        self.cluster, self.loads, self.seed = cluster, loads, seed
        self.replicas = Replicas(cluster)
        self.counts = collections.Counter()
        self.passes = collections.Counter()

    def round(self, number, operations):
        chance = random.Random(f"{self.seed} faults {number}")
        victims = chance.sample(list(self.cluster.plan.nodes), min(3, len(self.cluster.plan.nodes)))
        for fault, victim in zip(("killed", "wiped", "rotten"), itertools.cycle(victims)):
            getattr(self, fault)(victim, chance, operations)
            passes, objects, replicas = self.converge(fault, victim)
            self.passes[fault] = max(self.passes[fault], passes)
            self.counts["objects"] += objects
            self.counts["replicas"] += replicas
            print(f"  round {number}: node {victim} {fault}: converged after {passes} passes; "
                  f"{objects} objects on {replicas} replicas are right", flush=True)

    def _under_load(self, chance, operations, do):
        """Runs the load, and `do` somewhere in its middle."""
        waits = [load.run(operations) for load in self.loads]
        moment = chance.uniform(0.2, 0.6) * operations * len(self.loads)
        start = sum(load.done for load in self.loads)
        while sum(load.done for load in self.loads) - start < moment:
            time.sleep(0.01)
        do()
        for wait in waits:
            wait()

    def killed(self, victim, chance, operations):
        names = self.cluster.names(victim)
        self._under_load(chance, operations, lambda: self.cluster.kill(names))
        self.start_node(victim)

    def wiped(self, victim, chance, operations):
        names = self.cluster.names(victim)

        def wipe():
            self.cluster.kill(names)
            self.wipe(victim)
        self._under_load(chance, operations, wipe)
        self.start_node(victim)

    def wipe(self, victim):
        """An empty drive and empty databases in the place of the node's."""
        plan = self.cluster.plan
        shutil.rmtree(plan.devices(victim))
        os.makedirs(os.path.join(plan.devices(victim), plan.device(victim)))
        if os.path.exists(plan.drive(victim)):
            os.unlink(plan.drive(victim))

    def rotten(self, victim, chance, _operations):
        plan = self.cluster.plan
        self.cluster.running.stop(set(self.cluster.names(victim)))
        if plan.options.backend == "imbrex":
            self.counts["flipped bytes"] += rot_image(plan.drive(victim), chance)
        else:
            self.counts["flipped bytes"] += rot_files(plan.devices(victim), chance)
        try:
            self.start_node(victim)
        except ClusterError as err:
            # What an operator does with a drive that does not open.
            self.replace(victim, f"it does not start: {str(err).splitlines()[-1].strip()[:300]}")
        if plan.options.backend == "imbrex":
            self.read_all("before any audit")

    def replace(self, victim, why):
        print(f"  node {victim} gets a new drive: {why}", flush=True)
        self.counts["drives replaced"] += 1
        self.cluster.kill(self.cluster.names(victim))
        self.wipe(victim)
        self.start_node(victim)

    def start_node(self, victim):
        self.cluster.start_again(self.cluster.names(victim))

    def read_all(self, when):
        """F3: what the proxy returns is one of the writes, never other bytes."""
        for load in self.loads:
            for name, states in load.may_be.items():
                status, content, headers = load.request("GET", name)
                state = _state(status, content, headers)
                if isinstance(state, str) or state is None:
                    # Replicas may be behind, or be lost with the drive: only wrong bytes are a fault here.
                    self.counts[f"reads {when} without an object"] += state is None and None not in states
                    continue
                if state not in states:
                    raise Wrong(f"{load.container}/{name} reads as {state} {when}; it may be {states}")
                self.counts[f"reads {when}"] += 1

    def once(self, *daemons):
        """One round of daemons, one after the other, on all nodes at the same time."""
        plan = self.cluster.plan
        started = []
        for node in plan.nodes:
            log = plan.log(f"once-{node}")
            with open(log, "ab") as file:
                started.append((node, log, subprocess.Popen(
                    cluster_processes.once_command(plan, daemons, node), stdin=subprocess.DEVNULL, stdout=file,
                    stderr=file, start_new_session=True, env=cluster_processes.environment())))
        failed = []
        for node, log, child in started:
            try:
                status = child.wait(timeout=ONCE_S_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                status = f"no end after {ONCE_S_MAX} s"
            if status:
                failed.append(f"{', '.join(daemons)} of node {node}: {status}\n" + cluster_processes.last_lines(log))
        if failed:
            raise Wrong("\n".join(failed))

    def converge(self, fault, victim):
        """Passes of the daemons until everything is right; passes, objects and replicas read."""
        wrong = []
        for number in range(1, PASSES_MAX + 1):
            if fault == "rotten" and number in (1, 3):
                self.once("object-auditor")
            daemons = ["account-replicator", "container-replicator", "object-replicator", "container-updater"]
            if self.cluster.plan.options.with_ec:
                daemons.append("object-reconstructor")
            self.once(*daemons)
            # It forks, and a child must not inherit the green threads of the daemons before it.
            self.once("object-updater")
            wrong, objects, replicas = self.compare()
            if not wrong:
                return number, objects, replicas
            if number == PASSES_MAX // 2 and fault == "rotten" and self.cluster.plan.options.backend == "imbrex":
                self.replace(victim, f"it does not converge: {wrong[0]}")
        raise Wrong(f"after {PASSES_MAX} passes {len(wrong)} objects are not right:\n  " + "\n  ".join(wrong[:10]))

    def compare(self):
        wrong, objects, replicas = [], 0, 0
        settled = []
        for load in self.loads:
            there = set()
            for name, states in load.may_be.items():
                found = self.replicas.read(load.policy, load.container, name)
                distinct = set(found.values())
                if len(distinct) != 1 or not distinct <= states:
                    wrong.append(f"{load.container}/{name}: {found}, may be {sorted(map(str, states))}")
                    continue
                settled.append((load, name, distinct))
                if distinct != {None}:
                    objects += 1
                    replicas += len(found)
                    there.add(name)
            status, content, _ = load.request("GET", "?limit=10000")
            listed = {line for line in content.decode().splitlines()}
            if status not in (200, 204) or listed != there and not wrong:
                wrong.append(f"{load.container} lists {sorted(listed ^ there)} differently ({status})")
        if not wrong:
            for load, name, distinct in settled:
                load.may_be[name] = distinct
        return wrong, objects, replicas


def rot_image(path, chance):
    """Flips bits in a few runs of what the image holds, wherever it lies; the count of flipped bytes."""
    with open(path, "r+b") as image:
        end = os.fstat(image.fileno()).st_size
        held, at = [], 0
        while at < end:
            try:
                first = os.lseek(image.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(image.fileno(), first, os.SEEK_HOLE)
            held.append((first, at))
        total = sum(last - first for first, last in held)
        flipped = 0
        for _ in range(RUN_COUNT):
            offset = chance.randrange(total)
            for first, last in held:
                if offset < last - first:
                    flipped += _flip(image, first + offset, min(last, first + offset + ROTTEN_RUN_BYTES), chance)
                    break
                offset -= last - first
        return flipped


def rot_files(directory, chance):
    """Flips bits in one file of objects in four."""
    paths = sorted(os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names
                   if name.endswith(".data"))
    flipped = 0
    for path in paths:
        size = os.path.getsize(path)
        if size and chance.random() < 0.25:
            with open(path, "r+b") as file:
                flipped += _flip(file, 0, size, chance)
    return flipped


def _flip(file, first, last, chance):
    count = 0
    for at in range(first, last, 4096):
        at = min(last - 1, at + chance.randrange(4096))
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ (1 << chance.randrange(8))]))
        count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR", help="for the cluster; it must not exist")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--operations", type=int, default=200, help="of each load, for each policy")
    parser.add_argument("--names", type=int, default=60, help="objects of each writer")
    parser.add_argument("--backend", choices=BACKENDS, default="imbrex")
    parser.add_argument("--capacity", default="2GiB")
    parser.add_argument("--port", type=int, default=18180)
    parser.add_argument("--without-ec", action="store_true")
    parser.add_argument("--json", help="write what happened to this file")
    args = parser.parse_args()
    replay = f"python3 adapters/swift/tests/faults.py DIR --rounds {args.rounds} --seed {args.seed} --backend {args.backend}"
    if os.path.exists(args.directory):
        print(f"faults: {args.directory} exists", file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        cluster = Cluster.make(args.directory, Options(
            backend=args.backend, capacity=args.capacity, port=args.port, background="none",
            # Objects leave the log soon: a log that is damaged below what it has synced refuses to open, tables do not.
            write_buffer="1MiB", with_ec=not args.without_ec))
        cluster.start()
    except ClusterError as err:
        print(f"faults: {err}", file=sys.stderr)
        return 2
    rounds = None
    try:
        loads = []
        for policy in cluster.plan.policies:
            if policy.index == 1:
                # The second policy is the first with fewer copies; a wiped node may hold the only new one.
                continue
            load = Load(cluster, f"faults-{policy.name}", args.seed, args.names)
            load.policy = policy
            status, _, _ = load.request("PUT", "", b"", **{"X-Storage-Policy": policy.name})
            if status // 100 != 2:
                raise Wrong(f"the container of policy {policy.name} cannot be made: {status}")
            loads.append(load)
        rounds = Rounds(cluster, loads, args.seed)
        for number in range(1, args.rounds + 1):
            rounds.round(number, args.operations)
    except (Wrong, ClusterError) as err:
        cluster.stop()
        print(f"faults: {err}\nThe cluster is kept, stopped, in {args.directory}. Again: {replay}", file=sys.stderr)
        return 1
    except BaseException:
        cluster.stop()
        raise
    cluster.destroy()
    operations = sum((load.counts for load in loads), collections.Counter())
    print(f"\n{args.rounds} rounds in {time.monotonic() - began:.0f} s on {args.backend}; at most "
          + ", ".join(f"{passes} passes for {fault}" for fault, passes in rounds.passes.items()))
    for what, count in sorted((operations + rounds.counts).items()):
        print(f"  {count:7}  {what}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"backend": args.backend, "rounds": args.rounds, "seed": args.seed, "passes": rounds.passes,
                       "operations": operations, "counts": rounds.counts}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
