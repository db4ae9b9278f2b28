"""What a cluster to try consists of: its options, its addresses, its directory, its processes.

    DIR/cluster.json                the options, and whether everything is written
        etc/                        rings and configurations, as /etc/swift has them
        node1/d1/                   databases of accounts and containers; objects too, or the drive's socket
        drives/node1.imbrex         the emulated drive of a node
        run/NAME.json               a process that was started: id, start, log
        log/NAME.log

Nodes have addresses of their own (127.0.0.1, 127.0.0.2, ...) and the same ports:

    port      proxy (127.0.0.1 only)        port + 3  account server
    port + 1  object server                 port + 4  rsync of accounts and containers
    port + 2  container server              port + 5  memcached (127.0.0.1 only)

Not here: writing files (`cluster_files`), starting and stopping (`cluster_processes`), the command (`cluster`).
"""

import dataclasses
import getpass
import json
import os
import re

SWIFT_VERSION = "2.38.3"
BACKENDS = ("imbrex", "directories")
BACKGROUND = ("some", "all", "none")

#: Accounts for Swift's own tests, which empty them: two sets, so that two runs do not meet. The first is a person's too.
TEST_ACCOUNTS = ("test", "other")

#: Users of tempauth by account and name, with key and groups: those of Swift's sample configuration of tests.
USERS = {("admin", "admin"): "admin .admin .reseller_admin"}
for _account in TEST_ACCOUNTS:
    USERS |= {
        (_account, "tester"): "testing .admin",
        (_account, "tester2"): "testing2 .admin",
        (_account, "tester3"): "testing3",
        (f"{_account}2", "tester2"): "testing2 .admin",
        (f"{_account}5", "tester5"): "testing5 service",
        (_account, "tester6"): "testing6 .reseller_admin",
    }

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class ClusterError(Exception):
    """What a person can act on; its text is all that is shown."""


def parse_size(text):
    """`4GiB` as a count of bytes."""
    found = re.fullmatch(r"(\d+)\s*(|KiB|MiB|GiB|TiB)", text)
    if not found:
        raise ClusterError(f"{text!r} is no size; write it like 4GiB or 512MiB")
    return int(found[1]) * _UNITS[found[2]]


@dataclasses.dataclass(frozen=True)
class Options:
    """What a cluster is made with. It stays as it is until the cluster is destroyed."""

    nodes: int = 4
    replicas: int = 3
    with_ec: bool = False
    backend: str = "imbrex"
    capacity: str = "4GiB"
    zone_len: str = ""
    write_buffer: str = ""
    port: int = 18080
    background: str = "some"
    part_power: int = 6

    def check(self):
        """Raises `ClusterError` for options that make no cluster."""
        if not 1 <= self.nodes <= 16:
            raise ClusterError(f"--nodes {self.nodes}: a cluster has 1 to 16 nodes")
        if not 1 <= self.replicas <= self.nodes:
            raise ClusterError(
                f"--replicas {self.replicas}: each replica needs a node of its own, and there are {self.nodes}")
        if self.with_ec and self.nodes < 3:
            raise ClusterError("--with-ec needs 3 nodes: two fragments of data and one of parity")
        if self.backend not in BACKENDS:
            raise ClusterError(f"--backend {self.backend}: choose one of {', '.join(BACKENDS)}")
        if not 1024 <= self.port <= 65535 - 5:
            raise ClusterError(f"--port {self.port}: choose one from 1024 to 65530; the five behind it are used too")
        if parse_size(self.capacity) < 64 << 20:
            raise ClusterError(f"--capacity {self.capacity}: a drive needs 64MiB or more")
        for length in filter(None, (self.zone_len, self.write_buffer)):
            parse_size(length)


@dataclasses.dataclass(frozen=True)
class Policy:
    """A storage policy: `index` and `name` as in swift.conf."""

    index: int
    name: str
    is_ec: bool
    replicas: int

    @property
    def ring(self):
        return "object" if self.index == 0 else f"object-{self.index}"

    @property
    def datadir(self):
        return "objects" if self.index == 0 else f"objects-{self.index}"


class Plan:
    """Names, addresses and paths of the cluster in one directory."""

    def __init__(self, directory, options):
        self.directory = os.path.abspath(directory)
        self.options = options
        self.user = getpass.getuser()

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    @property
    def swift_dir(self):
        return self.path("etc")

    @property
    def record(self):
        return self.path("cluster.json")

    @property
    def nodes(self):
        return range(1, self.options.nodes + 1)

    def address(self, node):
        return f"127.0.0.{node}"

    def device(self, node):
        return f"d{node}"

    def devices(self, node):
        """The directory that holds the node's device, as `/srv/node` does."""
        return self.path(f"node{node}")

    def drive(self, node):
        return self.path("drives", f"node{node}.imbrex")

    def socket(self, node):
        return os.path.join(self.devices(node), self.device(node), "drive.sock")

    def port(self, kind):
        kinds = ("proxy", "object", "container", "account", "rsync", "memcached")
        return self.options.port + kinds.index(kind)

    @property
    def policies(self):
        replicas = self.options.replicas
        policies = [Policy(0, "gold", False, replicas), Policy(1, "silver", False, min(2, replicas))]
        if self.options.with_ec:
            policies.append(Policy(2, "ec21", True, 3))
        return policies

    def conf(self, kind, node=None):
        """A configuration; those of servers of a node are where `swift-init` looks for them."""
        return self.path("etc", f"{kind}.conf" if node is None else os.path.join(f"{kind}-server", f"{node}.conf"))

    def log(self, name):
        return self.path("log", f"{name}.log")

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port('proxy')}{path}"


def read_record(directory):
    """The plan of the cluster in `directory`; `None` if there is nothing, an error if it is something else."""
    path = os.path.join(os.path.abspath(directory), "cluster.json")
    try:
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        options = Options(**record["options"])
    except FileNotFoundError:
        if os.path.isdir(directory) and os.listdir(directory):
            raise ClusterError(f"{directory} is not empty and holds no cluster; choose another directory") from None
        if os.path.exists(directory) and not os.path.isdir(directory):
            raise ClusterError(f"{directory} is no directory") from None
        return None
    except (ValueError, KeyError, TypeError):
        raise ClusterError(
            f"{path} cannot be understood: another version wrote it, or it is damaged; remove {directory} by hand"
        ) from None
    except PermissionError:
        raise ClusterError(f"{path} cannot be read: it belongs to another user") from None
    if not record.get("complete"):
        raise ClusterError(f"{directory}: making this cluster was interrupted; `imbrex-swift-cluster destroy` it first")
    return Plan(directory, options)


def write_record(plan, complete):
    text = json.dumps({"options": dataclasses.asdict(plan.options), "complete": complete}, indent=2)
    with open(plan.record + ".new", "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(plan.record + ".new", plan.record)
