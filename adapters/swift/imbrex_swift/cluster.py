"""`imbrex-swift-cluster`: a whole cluster of Swift on this machine, for a person to try and for tests.

Everything runs as ordinary processes of the caller, listens on loopback only, and lies in one directory.
"""

import argparse
import http.client
import os
import shutil
import signal
import sys
import time
import urllib.error
import urllib.request

from imbrex_swift import cluster_files, cluster_processes
from imbrex_swift.cluster_plan import (
    BACKENDS, BACKGROUND, SWIFT_VERSION, ClusterError, Options, Plan, read_record,
)


class Cluster:
    """The cluster in one directory."""

    def __init__(self, plan):
        self.plan = plan
        self.running = cluster_processes.Running(plan)

    @classmethod
    def at(cls, directory):
        """The one that is there, running or not."""
        plan = read_record(directory)
        if plan is None:
            raise ClusterError(f"{directory} holds no cluster; `imbrex-swift-cluster start {directory}` makes one")
        return cls(plan)

    @classmethod
    def make(cls, directory, options):
        """Makes a cluster in an empty directory, or in one that is not there. Starts nothing."""
        require_swift()
        options.check()
        plan = Plan(directory, options)
        if len(plan.socket(options.nodes)) > 100:
            raise ClusterError(f"{plan.directory} is too long a path: sockets lie below it, and have 107 bytes at most")
        cluster_files.write_cluster(plan)
        return cls(plan)

    def start(self):
        """Starts every process, and waits until the proxy serves. On an error nothing is left running."""
        alive = [name for name, pid in self.running.records().items() if pid is not None]
        if alive:
            raise ClusterError(f"{self.plan.directory} runs already ({len(alive)} processes); `stop` it first")
        wanted = cluster_processes.processes(self.plan)
        cluster_processes.require_free_ports(wanted)
        try:
            for order in sorted({process.order for process in wanted}):
                batch = [process for process in wanted if process.order == order]
                for process in batch:
                    self.running.start(process)
                self.running.wait_until_ready(batch)
            self.wait_until_serving()
        except BaseException:
            self.running.stop()
            raise

    def wait_until_serving(self, patience_s=60):
        """Waits until an account answers: the proxy reaches servers of accounts, and the cache."""
        end = time.monotonic() + patience_s
        while True:
            try:
                url, token = self.log_in()
                request = urllib.request.Request(url, headers={"X-Auth-Token": token}, method="HEAD")
                with urllib.request.urlopen(request, timeout=30):
                    return
            except (OSError, http.client.HTTPException) as err:
                if time.monotonic() > end:
                    log = cluster_processes.last_lines(self.plan.log("proxy-server"))
                    raise ClusterError(f"the proxy does not serve after {patience_s} s: {err}\n{log}") from None
            time.sleep(0.2)

    def log_in(self, user="test:tester", key="testing"):
        """The address of the user's account, and a token."""
        request = urllib.request.Request(
            self.plan.url("/auth/v1.0"), headers={"X-Auth-User": user, "X-Auth-Key": key})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"]

    def stop(self):
        """Stops what runs; returns the names of processes that had to be killed."""
        return self.running.stop()

    def process(self, name):
        """The plan of one process."""
        for process in cluster_processes.processes(self.plan):
            if process.name == name:
                return process
        raise ClusterError(f"a cluster with these options has no process {name}")

    def names(self, node):
        """Names of the processes of a node."""
        return [process.name for process in cluster_processes.processes(self.plan) if process.node == node]

    def kill(self, names):
        """Ends processes with -9, as a node that loses its power."""
        self.running.stop(set(names), signal.SIGKILL)

    def start_again(self, names):
        """Starts processes of the plan again, and waits for them."""
        wanted = [self.process(name) for name in names]
        for order in sorted({process.order for process in wanted}):
            batch = [process for process in wanted if process.order == order]
            for process in batch:
                self.running.start(process)
            self.running.wait_until_ready(batch)

    def destroy(self):
        """Stops what runs and removes the directory with everything that was stored."""
        self.stop()
        shutil.rmtree(self.plan.directory)


def require_swift():
    """Raises `ClusterError` without Swift, or with another than the tested one."""
    try:
        import swift
    except ImportError:
        raise ClusterError(
            f"Swift is not installed in {sys.executable}; adapters/swift/setup installs it, "
            f"or `pip install swift=={SWIFT_VERSION}`"
        ) from None
    if swift.__version__ != SWIFT_VERSION:
        print(f"warning: Swift is {swift.__version__}; the tested one is {SWIFT_VERSION}", file=sys.stderr)


def first_lines(plan):
    """Commands that a person can paste."""
    host = f"127.0.0.1:{plan.port('proxy')}"
    return f"""\
Swift's interface, user test:tester with the key testing:
  TOKEN=$(curl -si -H 'X-Auth-User: test:tester' -H 'X-Auth-Key: testing' {plan.url('/auth/v1.0')} | tr -d '\\r' | awk '/^X-Auth-Token/ {{print $2}}')
  curl -i -X PUT -H "X-Auth-Token: $TOKEN" {plan.url('/v1/AUTH_test/first')} && echo hello | curl -i -T - -H "X-Auth-Token: $TOKEN" {plan.url('/v1/AUTH_test/first/hello')} && curl -H "X-Auth-Token: $TOKEN" {plan.url('/v1/AUTH_test/first/hello')}
The interface of S3:
  s3() {{ {program('s3cmd')} --config=/dev/null --access_key=test:tester --secret_key=testing --host={host} --host-bucket={host} --no-ssl "$@"; }}
  s3 mb s3://second; echo hello > hello.txt; s3 put hello.txt s3://second; s3 ls s3://second
"""


def _start(args):
    given = {name: value for name, value in vars(args).items() if name in Options.__dataclass_fields__ and value is not None}
    plan = read_record(args.directory)
    if plan is None:
        cluster = Cluster.make(args.directory, Options(**given))
    else:
        cluster = Cluster(plan)
        for name, value in given.items():
            kept = getattr(plan.options, name)
            if kept != value:
                raise ClusterError(
                    f"{args.directory} was made with --{name.replace('_', '-')} {kept}, not {value}; "
                    "leave the option out, or destroy the cluster first")
        require_swift()
    began = time.monotonic()
    cluster.start()
    options = cluster.plan.options
    print(f"{options.nodes} nodes on {options.backend} serve at {cluster.plan.url()} after "
          f"{time.monotonic() - began:.0f} s; logs are in {cluster.plan.path('log')}\n")
    print(first_lines(cluster.plan))
    print(f"Stop it with: {program('imbrex-swift-cluster')} stop {args.directory}")
    return 0


def program(name):
    """The name of a program as it can be typed: with its directory if it is beside this interpreter and not on the path."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if shutil.which(name) is None and os.path.exists(beside) else name


def _status(args):
    cluster = Cluster.at(args.directory)
    alive = cluster.running.records()
    if not alive:
        print("stopped")
        return 3
    dead = []
    for process in cluster_processes.processes(cluster.plan):
        pid = alive.get(process.name)
        where = process.socket or ":".join(map(str, process.address))
        print(f"{process.name:26} {'dead' if pid is None else pid:>8}  {where}")
        if pid is None:
            dead.append(process)
    for process in dead:
        print(f"\n{process.name} is dead. {cluster_processes.last_lines(process.log, 5)}")
    return 1 if dead else 0


def _stop(args):
    cluster = Cluster.at(args.directory)
    alive = [name for name, pid in cluster.running.records().items() if pid is not None]
    killed = cluster.stop()
    print(f"stopped {len(alive)} processes" if alive else "nothing was running")
    if killed:
        print(f"had to be killed: {', '.join(killed)}")
    return 0


def _destroy(args):
    record = os.path.join(args.directory, "cluster.json")
    try:
        cluster = Cluster.at(args.directory)
    except ClusterError:
        # An interrupted one has no processes yet, and may go; what holds no record is not ours.
        if not os.path.exists(record):
            raise
        shutil.rmtree(args.directory)
    else:
        cluster.destroy()
    print(f"removed {args.directory}")
    return 0


def main(argv=None):
    parser = argparse.ArgumentParser(prog="imbrex-swift-cluster", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="makes a cluster in DIR, or starts the one that is there")
    start.add_argument("--nodes", type=int, help="nodes, each with one drive (default: 4)")
    start.add_argument("--replicas", type=int, help="copies of each object, account and container (default: 3)")
    start.add_argument("--with-ec", action="store_true", default=None, help="adds a policy with an erasure code, 2+1")
    start.add_argument("--backend", choices=BACKENDS,
                       help="where objects lie: emulated zoned drives (default), or stock Swift's directories")
    start.add_argument("--capacity", help="of each emulated drive (default: 4GiB; its file is sparse)")
    start.add_argument("--zone-len", help="of a zone of the emulated drives (default: the drive's)")
    start.add_argument("--write-buffer", help="memory for writing of each drive (default: the store's)")
    start.add_argument("--port", type=int, help="of the proxy; the five ports behind it are used too (default: 18080)")
    start.add_argument("--background", choices=BACKGROUND, help="which daemons run beside the servers (default: some)")
    for name, what in (
        ("start", None), ("status", "lists the processes; fails if one is dead"),
        ("stop", "stops the processes; everything stored stays"),
        ("destroy", "stops the processes and removes DIR with everything stored"),
    ):
        command = start if what is None else commands.add_parser(name, help=what)
        command.add_argument("directory", metavar="DIR")
        command.set_defaults(run={"start": _start, "status": _status, "stop": _stop, "destroy": _destroy}[name])
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except ClusterError as err:
        print(f"imbrex-swift-cluster: {err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("imbrex-swift-cluster: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
