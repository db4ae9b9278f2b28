"""A daemon over a real drive is killed with -9 under load: what was acknowledged is there, and nothing is torn.

Needs the package imbrex. ``IMBREX_SWIFT_SEEDS`` says how many rounds there are.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from scene import POLICIES, Served

from swift.common import utils
from swift.common.exceptions import DiskFileDeleted, DiskFileError, DiskFileNotExist
from swift.common.utils import Timestamp, md5

from imbrex_swift.client import drive_of
from imbrex_swift.diskfile import DiskFileManager, cluster_digest

try:
    import imbrex

    HAS_OBJECTS = hasattr(imbrex.Store, "objects")
except ImportError:
    HAS_OBJECTS = False

ROUNDS = int(os.environ.get("IMBREX_SWIFT_SEEDS", "3"))
WORKERS = 4
NAMES = 12
CAPACITY = "1GiB"


@unittest.skipUnless(HAS_OBJECTS, "the package imbrex is not installed")
class Kills(Served):
    device = "d9"

    def serve(self, device, store=None, **options):
        """Makes a drive; `start_daemon` serves it."""
        os.makedirs(os.path.join(self.devices, device))
        self.drive_path = os.path.join(self.directory, "drive.imbrex")
        with open(os.path.join(self.directory, "swift.conf"), "w", encoding="utf-8") as conf:
            conf.write(f"[swift-hash]\nswift_hash_path_suffix = {utils.HASH_PATH_SUFFIX.decode()}\n")

    def command(self, *more):
        return [
            sys.executable, "-m", "imbrex_swift.drive", "--device", self.device, "--swift-dir", self.directory,
            "--socket", self.socket_of(self.device), self.drive_path, *more,
        ]

    def environment(self):
        paths = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *filter(None, sys.path)]
        return {**os.environ, "PYTHONPATH": ":".join(paths)}

    def start_daemon(self):
        log = open(os.path.join(self.directory, "log"), "ab")
        self.addCleanup(log.close)
        daemon = subprocess.Popen(self.command("--make", CAPACITY), stderr=log, env=self.environment())
        self.addCleanup(self.reap, daemon)
        drive = drive_of(self.devices, self.device, cluster_digest())
        end = time.monotonic() + 60
        while not drive.is_there():
            if daemon.poll() is not None or time.monotonic() > end:
                with open(log.name, encoding="utf-8", errors="replace") as text:
                    self.fail(f"the daemon does not answer: {text.read()}")
            time.sleep(0.05)
        return daemon

    def reap(self, daemon):
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()

    def diskfile(self, name):
        manager = DiskFileManager(self.conf(), self.logger)
        return manager.get_diskfile(self.device, "1", "a", "c", name, POLICIES[0])

    def work(self, number, seed, acknowledged, stop):
        """Writes and deletes objects of its own, and records for each what was tried and what was acknowledged."""
        rng = random.Random(seed * 100 + number)
        moment = time.time()
        while not stop.is_set():
            name = f"w{number}-{rng.randrange(NAMES)}"
            moment += 1
            at = Timestamp(moment)
            is_delete = rng.random() < 0.2
            data = b"" if is_delete else rng.randbytes(rng.choice([0, 100, 5000, 70_000, 1_500_000]))
            tried = acknowledged.setdefault(name, {"tried": [], "done": None})
            tried["tried"].append((at.internal, None if is_delete else md5(data, usedforsecurity=False).hexdigest()))
            try:
                if is_delete:
                    self.diskfile(name).delete(at)
                else:
                    with self.diskfile(name).create(size=len(data)) as writer:
                        for start in range(0, len(data), 65536):
                            writer.write(data[start : start + 65536])
                        length, etag = writer.chunks_finished()
                        writer.put({"X-Timestamp": at.internal, "ETag": etag, "Content-Length": str(length),
                                    "Content-Type": "a/b"})
            except (OSError, DiskFileError):
                continue
            tried["done"] = at.internal

    def found(self, name):
        """The moment and the etag of what is there; the etag is None for a tombstone."""
        diskfile = self.diskfile(name)
        try:
            with diskfile.open():
                data = b"".join(diskfile.reader())
        except DiskFileDeleted as error:
            return error.timestamp.internal, None
        except DiskFileNotExist:
            return None
        return diskfile.timestamp.internal, md5(data, usedforsecurity=False).hexdigest()

    def test_nothing_acknowledged_is_lost(self):
        count = 0
        acknowledged = {}
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            daemon = self.start_daemon()
            stop = threading.Event()
            workers = [
                threading.Thread(target=self.work, args=(number, seed, acknowledged, stop)) for number in range(WORKERS)
            ]
            for worker in workers:
                worker.start()
            end = time.monotonic() + 60
            while time.monotonic() < end and sum(r["done"] is not None for r in list(acknowledged.values())) < 12:
                time.sleep(0.05)
            time.sleep(rng.uniform(0.1, 1.5))
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
            stop.set()
            for worker in workers:
                worker.join()
            again = self.start_daemon()
            for name, record in acknowledged.items():
                there = self.found(name)
                if record["done"] is not None:
                    count += 1
                    self.assertIsNotNone(there, f"seed {seed}: {name} of {record['done']} is lost")
                    self.assertGreaterEqual(there[0], record["done"], f"seed {seed}: {name} went back")
                if there is not None:
                    self.assertIn(there, record["tried"], f"seed {seed}: {name} was never written so")
            # An upload that nobody ended leaves nothing.
            drive = drive_of(self.devices, self.device, cluster_digest())
            self.assertEqual(list(drive.scan(b"uploads/")), [])
            manager = DiskFileManager(self.conf(), self.logger)
            kept = manager.get_hashes(self.device, "1", [], POLICIES[0])
            self.assertEqual(kept, manager.get_hashes(self.device, "1", list(kept), POLICIES[0]))
            again.send_signal(signal.SIGTERM)
            self.assertEqual(again.wait(120), 0)
            self.assertFalse(os.path.exists(self.socket_of(self.device)))
        self.assertGreater(count, 10)

    def test_a_second_daemon_and_a_wrong_device_end_with_the_reason(self):
        daemon = self.start_daemon()
        run = {"env": self.environment(), "capture_output": True, "text": True}
        second = subprocess.run(self.command(), **run)
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertRegex(second.stderr, "cannot be opened|in use")
        self.assertNotIn("Traceback", second.stderr)
        daemon.terminate()
        daemon.wait(120)
        other = [*self.command()]
        other[other.index(self.device)] = "d8"
        wrong = subprocess.run(other, **run)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn(f"is the device {self.device}, not d8", wrong.stderr)
        for socket, said in (
            (self.directory + "/none/drive.sock", "No such file or directory"),
            (self.directory + "/" + "x" * 120, "path too long"),
            (self.directory, "(?i)address already in use|is a directory|refused"),
        ):
            elsewhere = [part if part != self.socket_of(self.device) else socket for part in self.command()]
            refused = subprocess.run(elsewhere, **run)
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, said)
            self.assertNotIn("Traceback", refused.stderr)
            beside = os.listdir(os.path.dirname(self.directory))
            left = [name for name in beside if name.startswith(os.path.basename(self.directory) + ".")]
            self.assertEqual(left, [])
        missing = [part if part != self.drive_path else self.drive_path + ".none" for part in self.command()]
        lost = subprocess.run(missing, **run)
        self.assertEqual(lost.returncode, 1)
        self.assertNotIn("Traceback", lost.stderr)


del Served

if __name__ == "__main__":
    unittest.main()
