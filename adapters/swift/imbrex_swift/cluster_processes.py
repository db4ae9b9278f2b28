"""Processes of a cluster to try: what they are, starting, watching, stopping.

A process is recorded in `run/NAME.json` by its id and by the moment of its start, as the kernel counts it. Only a
process whose moment matches is ever ended: ids are used again.
"""

import dataclasses
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from imbrex_swift.cluster_plan import ClusterError

#: Daemons of a node: name, module, kind of configuration, and whether a cluster to try has it by default.
DAEMONS = {
    "object-replicator": ("swift.obj.replicator:main", "object", True),
    "object-reconstructor": ("swift.obj.reconstructor:main", "object", True),
    "object-updater": ("swift.obj.updater:main", "object", True),
    "object-auditor": ("swift.obj.auditor:main", "object", False),
    "object-expirer": ("swift.obj.expirer:main", "object", True),
    "container-replicator": ("swift.container.replicator:main", "container", True),
    "container-updater": ("swift.container.updater:main", "container", True),
    "container-auditor": ("swift.container.auditor:main", "container", False),
    "container-sync": ("swift.container.sync:main", "container", False),
    "container-sharder": ("swift.container.sharder:main", "container", False),
    "account-replicator": ("swift.account.replicator:main", "account", True),
    "account-auditor": ("swift.account.auditor:main", "account", False),
    "account-reaper": ("swift.account.reaper:main", "account", True),
}

#: Where the imbrex backend has a program of its own.
IMBREX = {f"object-{name}": f"imbrex_swift.{name}:main"
          for name in ("server", "replicator", "reconstructor", "updater", "auditor")}

SERVERS = {
    "object": "swift.obj.server:main",
    "container": "swift.container.server:main",
    "account": "swift.account.server:main",
}

#: One of these is enough for a cluster.
ONE_IS_ENOUGH = ("object-expirer",)

START_S_MAX = 120
STOP_S_MAX = 20


@dataclasses.dataclass(frozen=True)
class Process:
    """One to start. `address` is where it listens, `order` when it starts: what it needs has a lower one."""

    name: str
    command: tuple
    log: str
    order: int
    node: int = 0
    address: tuple = ()
    socket: str = ""


def _launch(plan, name, *words):
    return (sys.executable, "-m", "imbrex_swift.launch", plan.swift_dir, plan.log(name), *words)


def _require(program, package):
    path = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin")
    if path is None:
        raise ClusterError(f"{program} is not installed; `apt-get install {package}`")
    return path


def program_of(plan, daemon):
    """The entry point of a daemon or of `object-server` for the plan's backend."""
    if plan.options.backend == "imbrex" and daemon in IMBREX:
        return IMBREX[daemon]
    kind = daemon.removesuffix("-server")
    return SERVERS[kind] if kind in SERVERS else DAEMONS[daemon][0]


def drive_command(plan, node):
    """The daemon of the drive of a node; it makes the drive if it is missing."""
    options = plan.options
    command = [sys.executable, "-m", "imbrex_swift.drive", "--device", plan.device(node), "--swift-dir", plan.swift_dir,
               "--socket", plan.socket(node), plan.drive(node), "--make", options.capacity]
    for name, value in (("--zone-len", options.zone_len), ("--write-buffer", options.write_buffer)):
        if value:
            command += [name, value]
    return tuple(command)


def processes(plan):
    """Everything that a cluster runs, in the order of starting."""
    found = [Process(
        "memcached",
        (_require("memcached", "memcached"), "-l", "127.0.0.1", "-p", str(plan.port("memcached")), "-U", "0",
         "-m", "64", *(("-u", plan.user) if os.getuid() == 0 else ())),
        plan.log("memcached"), 0, address=("127.0.0.1", plan.port("memcached")),
    )]
    for node in plan.nodes:
        address = plan.address(node)
        if plan.options.backend == "imbrex":
            name = f"drive-{node}"
            found.append(Process(name, drive_command(plan, node), plan.log(name), 0, node, socket=plan.socket(node)))
        name = f"rsync-{node}"
        conf = plan.path("etc", f"rsyncd-{node}.conf")
        found.append(Process(
            name, (_require("rsync", "rsync"), "--daemon", "--no-detach", f"--config={conf}",
                   f"--log-file={plan.log(name)}"),
            plan.log(name), 0, node, address=(address, plan.port("rsync")),
        ))
        for kind in SERVERS:
            name = f"{kind}-server-{node}"
            command = _launch(plan, name, program_of(plan, f"{kind}-server"), plan.conf(kind, node))
            found.append(Process(name, command, plan.log(name), 1, node, address=(address, plan.port(kind))))
    found.append(Process(
        "proxy-server", _launch(plan, "proxy-server", "swift.proxy.server:main", plan.conf("proxy-server")),
        plan.log("proxy-server"), 1, address=("127.0.0.1", plan.port("proxy")),
    ))
    for daemon in background(plan):
        nodes = [1] if daemon in ONE_IS_ENOUGH else plan.nodes
        for node in nodes:
            name = f"{daemon}-{node}"
            found.append(Process(name, daemon_command(plan, daemon, node), plan.log(name), 2, node))
    return found


def background(plan):
    """Names of the daemons that the plan's cluster runs."""
    wanted = plan.options.background
    names = [name for name, (_, _, by_default) in DAEMONS.items()
             if wanted == "all" or (wanted == "some" and by_default)]
    return [name for name in names if name != "object-reconstructor" or plan.options.with_ec]


def daemon_command(plan, daemon, node):
    """The command of a daemon of a node."""
    return _launch(plan, f"{daemon}-{node}", program_of(plan, daemon), plan.conf(DAEMONS[daemon][1], node))


def once_command(plan, daemons, node):
    """The command that runs one round of several daemons of a node, one after the other, and ends. Its log is `once-NODE`."""
    words = []
    for daemon in daemons:
        words += ["+", program_of(plan, daemon), plan.conf(DAEMONS[daemon][1], node), "once"]
    return _launch(plan, f"once-{node}", *words[1:])


def environment():
    """Of every process of a cluster."""
    variables = dict(os.environ)
    # The package may run from its sources.
    sources = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [sources, *filter(None, [variables.get("PYTHONPATH")])]
    variables["PYTHONPATH"] = ":".join(paths)
    # Swift's replicators call `rsync` by its name.
    variables["PATH"] = variables.get("PATH", "/usr/bin:/bin") + ":/usr/bin:/usr/sbin"
    return variables


def start_of(pid):
    """When the process began, in the kernel's ticks; `None` if there is none, or only its remains."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin1") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Running:
    """The processes of a plan, by their records."""

    def __init__(self, plan):
        self.plan = plan
        self._children = {}

    def _record(self, name):
        return self.plan.path("run", f"{name}.json")

    def records(self):
        """Names of recorded processes, with their ids if they live."""
        found = {}
        for file in sorted(os.listdir(self.plan.path("run"))):
            if not file.endswith(".json"):
                continue
            name = file.removesuffix(".json")
            with open(self._record(name), encoding="utf-8") as record:
                kept = json.load(record)
            self._reap(name)
            start = start_of(kept["pid"])
            # A process that had ended when it was recorded has no start, as a process that is gone has none.
            found[name] = kept["pid"] if start is not None and start == kept["start"] else None
        return found

    def _reap(self, name):
        child = self._children.get(name)
        if child is not None:
            child.poll()

    def is_alive(self, name):
        return self.records().get(name) is not None

    def start(self, process):
        """Starts a process and records it; it may not listen yet."""
        with open(process.log, "ab") as log:
            child = subprocess.Popen(
                process.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.plan.directory,
                env=environment(), start_new_session=True,
            )
        self._children[process.name] = child
        record = {"pid": child.pid, "start": start_of(child.pid), "log": process.log}
        path = self._record(process.name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(path + ".new", path)
        return child.pid

    def wait_until_ready(self, processes_, patience_s=START_S_MAX):
        """Waits until every process listens, or raises `ClusterError` for the first that ended or does not."""
        end = time.monotonic() + patience_s
        waiting = list(processes_)
        while waiting:
            alive = self.records()
            for process in list(waiting):
                if alive.get(process.name) is None:
                    raise ClusterError(f"{process.name} ended while it started.\n{last_lines(process.log)}")
                if _listens(process):
                    waiting.remove(process)
            if waiting and time.monotonic() > end:
                process = waiting[0]
                raise ClusterError(
                    f"{process.name} does not answer after {patience_s} s.\n{last_lines(process.log)}")
            if waiting:
                time.sleep(0.1)

    def stop(self, names=None, signal_=signal.SIGTERM, patience_s=STOP_S_MAX):
        """Ends recorded processes, children first by the signal and then for good; returns those that needed that."""
        alive = {name: pid for name, pid in self.records().items()
                 if pid is not None and (names is None or name in names)}
        for pid in alive.values():
            _signal(pid, signal_)
        end = time.monotonic() + patience_s
        left = dict(alive)
        while left and time.monotonic() < end:
            time.sleep(0.05)
            now = self.records()
            left = {name: pid for name, pid in left.items() if now.get(name) == pid}
        for pid in left.values():
            _signal(pid, signal.SIGKILL)
        while any(self.records().get(name) == pid for name, pid in left.items()):
            time.sleep(0.05)
        for name in self.records():
            if names is None or name in names:
                os.unlink(self._record(name))
        return sorted(left)


def _signal(pid, signal_):
    """To the process and what it has forked: each is the leader of a session of its own."""
    try:
        os.killpg(pid, signal_)
    except ProcessLookupError:
        pass


def _listens(process):
    if process.socket:
        family, address = socket.AF_UNIX, process.socket
    elif process.address:
        family, address = socket.AF_INET, process.address
    else:
        return True
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True


def require_free_ports(processes_):
    """Raises `ClusterError` for a port that is taken. Swift's servers would share it without a word."""
    for process in processes_:
        if not process.address:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(process.address)
            except OSError as err:
                address = "%s:%d" % process.address
                if err.errno == errno.EADDRINUSE:
                    raise ClusterError(
                        f"{address} is taken by another program ({process.name} would use it); choose another --port"
                    ) from None
                raise ClusterError(f"{address} cannot be used for {process.name}: {err.strerror}") from None


def last_lines(path, count=15):
    """The end of a log, for an error."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()[-count:]
    except FileNotFoundError:
        lines = []
    shown = "\n".join(f"    {line}" for line in lines) or "    (it is empty)"
    return f"The end of {path}:\n{shown}"
