"""Swift's object server on two kinds of device, one workload, on emulated drives of one model.

    files    Swift's own DiskFile -- XFS -- /dev/loopN -- nbdfuse --NBD--> imbrex serve -- drive, zoned
    imbrex   imbrex_swift's DiskFile -- a Unix socket --> imbrex-swift-drive -------------- drive, zoned

    python beside.py --imbrex target/ci/imbrex --dir SCRATCH [--small 6000] [--large 500] [--json FILE]

Each phase tells what the drive did for it: its busy time, seeks and bytes by its own counters. The clock of the machine
decides nothing but how requests of several clients meet. `files` needs root: it mounts.

Phases: `put` new objects, small and large; `overwrite` some of them; `get` some of them from a cold cache, whole;
`delete` some; `pass` the digests of all suffixes as a replicator asks for them, twice; `fill` many empty objects without
HTTP, then a pass over all of them.
"""

import argparse
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

DEVICE = "d1"
PART_POWER = 6
PORT = 18200
SECTORS = 4096


class Failed(Exception):
    """What cannot go on; its text is all that is shown."""


def said(*command, **more):
    """What a command prints; its failure is a `Failed`."""
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def wait_for(what, ready, patience=300):
    end = time.monotonic() + patience
    while not ready():
        if time.monotonic() > end:
            raise Failed(f"{what} was not ready in {patience} s")
        time.sleep(0.05)


class Process:
    """A process that ends with SIGTERM."""

    def __init__(self, log, *command, **more):
        self._log = open(log, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, **more)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._log.close()

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"a process ended with {self.process.returncode}; see {self._log.name}")


class Scene:
    """A directory with Swift's configuration, one device, and its object server."""

    name = None
    egg = None

    def __init__(self, options):
        self.options = options
        self.dir = os.path.join(options.dir, self.name)
        shutil.rmtree(self.dir, ignore_errors=True)
        self.devices = os.path.join(self.dir, "node")
        self.mount = os.path.join(self.devices, DEVICE)
        for path in (self.mount, self.path("etc")):
            os.makedirs(path)
        self.server = None

    def path(self, name):
        return os.path.join(self.dir, name)

    def configure(self):
        with open(self.path("etc/swift.conf"), "w") as file:
            file.write("[swift-hash]\nswift_hash_path_suffix = beside\n"
                       f"[storage-policy:0]\nname = only\ndefault = yes\ndiskfile_module = {self.egg}\n")
        with open(self.path("etc/object-server.conf"), "w") as file:
            file.write(
                f"[DEFAULT]\nswift_dir = {self.path('etc')}\ndevices = {self.devices}\nmount_check = false\n"
                f"bind_ip = 127.0.0.1\nbind_port = {PORT}\nworkers = 1\nuser = {os.environ.get('USER', 'root')}\n"
                f"recon_cache_path = {self.dir}\nlog_level = WARNING\n"
                "[pipeline:main]\npipeline = object-server\n[app:object-server]\nuse = egg:swift#object\n"
                "[object-replicator]\nsync_method = ssync\n")
        from swift.common.ring import RingBuilder

        builder = RingBuilder(PART_POWER, 1, 0)
        builder.add_dev({"region": 1, "zone": 1, "weight": 100.0, "device": DEVICE, "meta": "", "ip": "127.0.0.1",
                         "port": PORT, "replication_ip": "127.0.0.1", "replication_port": PORT})
        builder.rebalance(seed=1)
        builder.get_ring().save(self.path("etc/object.ring.gz"))

    def start_server(self):
        self.server = Process(
            self.path("object-server.log"), sys.executable, "-m", "imbrex_swift.launch", self.path("etc"),
            self.path("object-server.log"), "swift.obj.server:main", self.path("etc/object-server.conf"))

        def ready():
            self.server.check()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", PORT), 1).close()
                return True
            return False

        wait_for("the object server", ready)

    def stop_server(self):
        if self.server:
            self.server.stop()
            self.server = None


class Files(Scene):
    """XFS on the block device that `imbrex serve` makes of a zoned drive."""

    name = "files"
    egg = "egg:swift#replication.fs"
    metrics_port = PORT + 1

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        try:
            self._set_up()
        except BaseException:
            self.stack.close()
            raise
        return self

    def _set_up(self):
        imbrex, drive = self.options.imbrex, self.path("drive")
        said(imbrex, "drive", "create", "--blank", "--rule", "zoned", "--capacity", self.options.capacity, "--zone-len",
             self.options.zone_len, "--seed", "1", drive)
        door = self.path("socket")
        serve = Process(self.path("serve.log"), imbrex, "serve", "--make", "--buffer", self.options.buffer, "--drive",
                        drive, "--socket", door, "--sector-size", str(SECTORS), "--metrics",
                        f"127.0.0.1:{self.metrics_port}")
        self.stack.callback(serve.stop)

        def served():
            serve.check()
            return os.path.exists(door)

        wait_for("imbrex serve", served)
        fuse = self.path("fuse")
        os.makedirs(fuse)
        pid = self.path("nbdfuse.pid")
        nbdfuse = Process(self.path("nbdfuse.log"), "nbdfuse", "--pidfile", pid, fuse, f"nbd+unix:///?socket={door}")
        self.stack.callback(nbdfuse.stop)
        self.stack.callback(subprocess.run, ["umount", "--lazy", fuse], stderr=subprocess.DEVNULL)
        wait_for("nbdfuse", lambda: os.path.exists(pid) and os.path.getsize(pid))
        shown = said("losetup", "--direct-io=on", "--sector-size", str(SECTORS), "--find", "--show",
                     os.path.join(fuse, "nbd"))
        self.device = shown.split()[0]
        self.stack.callback(subprocess.run, ["losetup", "--detach", self.device])
        said("mkfs.xfs", "-q", "-f", self.device)
        self._mount()
        self.stack.callback(subprocess.run, ["umount", self.mount])
        self.stack.callback(self.stop_server)
        self.configure()
        self.start_server()

    def _mount(self):
        said("mount", "-t", "xfs", "-o", "noatime,nodiratime,logbufs=8,inode64", self.device, self.mount)

    def __exit__(self, *_):
        self.stack.close()

    def cool(self):
        """Empties every cache above the drive."""
        self.stop_server()
        said("umount", self.mount)
        self._mount()
        self.start_server()

    def settle(self):
        os.sync()

    def counters(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()

        def total(name, **labels):
            found = 0.0
            for line in text.splitlines():
                matched = re.match(rf"{name}\{{(.*)\}} (\S+)$", line)
                if matched and all(f'{key}="{value}"' in matched[1] for key, value in labels.items()):
                    found += float(matched[2])
            return found

        return {
            "busy_s": total("imbrex_drive_busy_seconds_total"),
            "seek_s": total("imbrex_drive_activity_seconds_total", part="seek"),
            "reads": total("imbrex_drive_reads_total"),
            "read_bytes": total("imbrex_drive_read_bytes_total"),
            "written_bytes": total("imbrex_drive_written_bytes_total"),
        }

    def used_bytes(self):
        room = os.statvfs(self.mount)
        return (room.f_blocks - room.f_bfree) * room.f_frsize

    def length(self):
        room = os.statvfs(self.mount)
        return room.f_blocks * room.f_frsize


#: The daemon of the drive with a second door: a line on its standard input gets its counters as a line.
HOST = """
import json, sys, threading
import imbrex
from imbrex_swift import drive, identity
path, device, conf, socket, made = sys.argv[1:]
cluster = identity.cluster_of(conf)
if made:
    store = imbrex.create(path, seed=1, values_apart="64KiB", **json.loads(made))
    identity.write(store.objects(), device, cluster)
else:
    store = imbrex.open(path)
server = drive.DriveServer(store, device, cluster, socket)
server.start()
print("{}", flush=True)
for _ in sys.stdin:
    stats = store.stats()
    print(json.dumps({"drive": stats["drive"], "space": stats["space"]}), flush=True)
server.stop()
store.close()
"""


class Imbrex(Scene):
    """A drive that `imbrex-swift-drive` serves."""

    name = "imbrex"
    egg = "egg:imbrex-swift#replication.imbrex"

    def __enter__(self):
        self.host = None
        self.configure()
        self.before = {}
        made = {"capacity": self.options.capacity, "recording": "zoned", "zone_len": self.options.zone_len}
        try:
            self._start(json.dumps(made))
            self.start_server()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, made):
        self.errors = open(self.path("drive.log"), "ab")
        self.host = subprocess.Popen(
            [sys.executable, "-c", HOST, self.path("drive"), DEVICE, self.path("etc/swift.conf"),
             os.path.join(self.mount, "drive.sock"), made],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        if not self.host.stdout.readline():
            raise Failed(f"the drive's daemon did not start; see {self.path('drive.log')}")

    def _ask(self):
        self.host.stdin.write("\n")
        self.host.stdin.flush()
        return json.loads(self.host.stdout.readline())

    def _stop(self):
        self.host.stdin.close()
        self.host.wait(120)
        self.errors.close()
        self.host = None

    def __exit__(self, *_):
        self.stop_server()
        if self.host:
            self._stop()

    def cool(self):
        self.stop_server()
        # The counters of an opening begin at 0.
        self.before = self.counters()
        self._stop()
        self._start("")
        self.start_server()

    def settle(self):
        pass

    def counters(self):
        drive = self._ask()["drive"]
        now = {
            "busy_s": drive["busy_ns"] / 1e9,
            "seek_s": drive["seek_ns"] / 1e9,
            "reads": drive["reads"],
            "read_bytes": drive["read_bytes"],
            "written_bytes": drive["written_bytes"],
        }
        return {name: value + self.before.get(name, 0) for name, value in now.items()}

    def used_bytes(self):
        space = self._ask()["space"]
        return space["live_bytes"]

    def length(self):
        return self._ask()["space"]["capacity_bytes"]


class Work:
    """The calls of a proxy, made to one object server; a seed decides all of them."""

    def __init__(self, scene, seed, clients):
        self.scene = scene
        self.random = random.Random(seed)
        self.source = self.random.randbytes(17 << 20)
        self.objects = {}
        self.clock = 1_700_000_000.0
        self.guard = threading.Lock()
        self.clients = concurrent.futures.ThreadPoolExecutor(clients)

    def part(self, name):
        from swift.common.utils import hash_path

        return int(hash_path("AUTH_a", "c", name)[:8], 16) >> (32 - PART_POWER)

    def stamp(self):
        from swift.common.utils import Timestamp

        with self.guard:
            self.clock += 0.01
            return Timestamp(self.clock).internal

    def all(self, call, items):
        """Calls for all items, by all clients."""
        for _ in self.clients.map(lambda item: call(*item), items):
            pass

    def put(self, name, length, start):
        body = self.source[start:start + length]
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        headers = {"X-Timestamp": self.stamp(), "Content-Type": "application/octet-stream",
                   "Content-Length": str(length), "X-Backend-Storage-Policy-Index": "0"}
        connection.request("PUT", f"/{DEVICE}/{self.part(name)}/AUTH_a/c/{name}", body, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 201:
            raise Failed(f"PUT {name} of {length} bytes: {answer.status}")
        self.objects[name] = (length, hashlib.md5(body).hexdigest())

    def ask(self, method, name):
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
        headers = {"X-Timestamp": self.stamp(), "X-Backend-Storage-Policy-Index": "0"}
        connection.request(method, f"/{DEVICE}/{self.part(name)}/AUTH_a/c/{name}", headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body

    def fill(self, small, large):
        kinds = ["s"] * small + ["l"] * large
        self.random.shuffle(kinds)
        self.overwrite([f"{kind}{at}" for at, kind in enumerate(kinds)])

    def some(self, count, kind):
        names = sorted(name for name in self.objects if name[0] == kind)
        return self.random.sample(names, min(count, len(names)))

    def overwrite(self, names):
        puts = []
        for name in names:
            length = int(2 ** (self.random.uniform(12, 16) if name[0] == "s" else self.random.uniform(20, 23)))
            puts.append((name, length, self.random.randrange(len(self.source) - length)))
        self.all(self.put, puts)

    def get(self, names):
        self.all(self.get_one, ((name,) for name in names))

    def get_one(self, name):
        status, body = self.ask("GET", name)
        length, etag = self.objects[name]
        if status != 200 or len(body) != length or hashlib.md5(body).hexdigest() != etag:
            raise Failed(f"GET {name}: {status}, {len(body)} of {length} bytes")

    def delete(self, names):
        self.all(self.delete_one, ((name,) for name in names))

    def delete_one(self, name):
        status, _ = self.ask("DELETE", name)
        if status != 204:
            raise Failed(f"DELETE {name}: {status}")
        del self.objects[name]


def run_in_swift(scene, program, *arguments):
    """What `program` prints, which runs with the scene's configuration of Swift."""
    runner = ("import sys\nfrom imbrex_swift.launch import use_directory, LogFile\n"
              "LogFile.path = sys.argv[2]\nimport swift.common.utils.logs as logs\nlogs.ThreadSafeSysLogHandler = LogFile\n"
              "use_directory(sys.argv[1])\nexec(sys.argv[3])\n")
    return said(sys.executable, "-c", runner, scene.path("etc"), scene.path("calls.log"), program, scene.devices,
                str(PART_POWER), DEVICE, *arguments)


def replication_pass(scene):
    """Asks for the digests of every partition, as a replicator does; returns how many suffixes there are, and how many
    directories were listed.
    """
    program = r"""
import json, os, sys
from swift.common.utils import get_logger
from swift.common.storage_policy import POLICIES
from swift.obj.diskfile import DiskFileRouter
listed = [0]
for name in ("listdir", "scandir"):
    whole = getattr(os, name)
    def counted(*args, whole=whole, **more):
        listed[0] += 1
        return whole(*args, **more)
    setattr(os, name, counted)
conf = {"devices": sys.argv[4], "mount_check": "false", "swift_dir": sys.argv[1]}
manager = DiskFileRouter(conf, get_logger(conf, log_route="beside"))[POLICIES[0]]
suffixes = 0
partitions = 1 << int(sys.argv[5])
for partition in range(partitions):
    suffixes += len(manager.get_hashes(sys.argv[6], str(partition), None, POLICIES[0]))
print(json.dumps([suffixes, listed[0]]))
"""
    shown = run_in_swift(scene, program)
    return json.loads(shown.splitlines()[-1])


def fill_directly(scene, count):
    """Makes `count` empty objects by calls of DiskFile, without HTTP and without waiting for the drive after each."""
    program = r"""
import sys
from swift.common.utils import get_logger, hash_path, Timestamp
from swift.common.storage_policy import POLICIES
from swift.obj import diskfile
diskfile.fsync = diskfile.fsync_dir = lambda *_: None
conf = {"devices": sys.argv[4], "mount_check": "false", "swift_dir": sys.argv[1]}
manager = diskfile.DiskFileRouter(conf, get_logger(conf, log_route="beside"))[POLICIES[0]]
for at in range(int(sys.argv[7])):
    name = "e%d" % at
    part = int(hash_path("AUTH_a", "c", name)[:8], 16) >> (32 - int(sys.argv[5]))
    stamp = Timestamp(1_700_000_000 + at / 100).internal
    made = manager.get_diskfile(sys.argv[6], part, "AUTH_a", "c", name, POLICIES[0])
    with made.create() as writer:
        writer.put({"X-Timestamp": stamp, "Content-Length": "0", "ETag": "d41d8cd98f00b204e9800998ecf8427e",
                    "Content-Type": "text/plain"})
        writer.commit(Timestamp(stamp))
print("done")
"""
    run_in_swift(scene, program, str(count))


class Phases:
    """What the drive did for each phase."""

    def __init__(self, scene):
        self.scene = scene
        self.told = {}

    @contextlib.contextmanager
    def phase(self, name, count):
        before, start = self.scene.counters(), time.monotonic()
        more = {"count": count, "at": len(self.told)}
        yield more
        self.scene.settle()
        after = self.scene.counters()
        told = {key: after[key] - before[key] for key in after} | more
        told["wall_s"] = time.monotonic() - start
        self.told[name] = told
        busy = told["busy_s"]
        rate = f"{told['count'] / busy:,.0f} a disk-second" if busy > 0.0005 else "no time of the drive"
        print(f"{self.scene.name:7} {name:16} {told['count']:>8,} in {busy:8.2f} s of the drive: {rate}", flush=True)


def run(scene, options):
    phases = Phases(scene)
    work = Work(scene, options.seed, options.clients)
    with phases.phase("put", options.small + options.large):
        work.fill(options.small, options.large)
    phases.told["put"]["bytes"] = sum(length for length, _ in work.objects.values())
    small, large = work.some(options.small // 4, "s"), work.some(options.large // 4, "l")
    with phases.phase("overwrite small", len(small)):
        work.overwrite(small)
    with phases.phase("overwrite large", len(large)):
        work.overwrite(large)
    scene.cool()
    small, large = work.some(options.small // 8, "s"), work.some(options.large // 4, "l")
    with phases.phase("get small", len(small)):
        work.get(small)
    with phases.phase("get large", len(large)):
        work.get(large)
    with phases.phase("delete", len(small)):
        work.delete(small)
    used = scene.used_bytes()
    scene.cool()
    with phases.phase("pass, cold", len(work.objects)) as more:
        more["suffixes"], more["listed"] = replication_pass(scene)
    scene.cool()
    with phases.phase("pass, unchanged", len(work.objects)) as more:
        more["suffixes"], more["listed"] = replication_pass(scene)
    if options.empty:
        with phases.phase("fill", options.empty):
            fill_directly(scene, options.empty)
        for name in ("pass of all, cold", "pass of all, unchanged"):
            scene.cool()
            with phases.phase(name, options.empty + len(work.objects)) as more:
                more["suffixes"], more["listed"] = replication_pass(scene)
    return {
        "phases": phases.told,
        "data_bytes": sum(length for length, _ in work.objects.values()),
        "used_bytes": used,
        "length_bytes": scene.length(),
    }


def main():
    parser = argparse.ArgumentParser(description="Swift's object server on XFS and on Imbrex, one workload.")
    parser.add_argument("--imbrex", required=True, help="the program imbrex")
    parser.add_argument("--dir", required=True, help="where drives and files go; 10 GiB free")
    parser.add_argument("--only", choices=["files", "imbrex"])
    parser.add_argument("--capacity", default="4GiB", help="of each drive")
    parser.add_argument("--zone-len", default="16MiB")
    parser.add_argument("--buffer", default="64MiB", help="write buffer of the block device")
    parser.add_argument("--small", type=int, default=6000, help="objects of 4 to 64 KiB")
    parser.add_argument("--large", type=int, default=400, help="objects of 1 to 8 MiB")
    parser.add_argument("--empty", type=int, default=0, help="empty objects for the last passes")
    parser.add_argument("--clients", type=int, default=8, help="at the same time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where the figures go")
    options = parser.parse_args()
    options.imbrex = os.path.abspath(options.imbrex)
    # Whatever ends it, mounts and processes go first.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit("beside: stopped"))
    told = {"options": {key: value for key, value in vars(options).items() if key not in ("dir", "json", "imbrex")}}
    try:
        for kind in (Files, Imbrex):
            if options.only in (None, kind.name):
                with kind(options) as scene:
                    told[kind.name] = run(scene, options)
                shutil.rmtree(scene.dir)
    except Failed as error:
        sys.exit(f"beside: {error}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(told, file, indent=1)


if __name__ == "__main__":
    main()
