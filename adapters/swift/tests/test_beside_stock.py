"""The same random calls on Swift's own DiskFile in a directory and on ours: files, metadata and digests are the same.

``IMBREX_SWIFT_SEEDS`` says how many seeds each test has.
"""

import os
import random
import shutil
import tempfile
import time
import unittest
from unittest import mock

from scene import POLICIES, Logger, Served

from swift.common.exceptions import DiskFileDeleted, DiskFileError, DiskFileNotExist
from swift.common.utils import Timestamp, md5
from swift.obj import diskfile as swift_diskfile

from memory import MemoryStore

from imbrex_swift import diskfile as our_diskfile
from imbrex_swift.client import drive_of
from imbrex_swift.diskfile import DiskFileManager
from imbrex_swift.ec_diskfile import ECDiskFileManager

try:
    import imbrex

    HAS_OBJECTS = hasattr(imbrex.Store, "objects")
except ImportError:
    HAS_OBJECTS = False

SEEDS = int(os.environ.get("IMBREX_SWIFT_SEEDS", "3"))
STEPS = 120
PARTITION = "12"
RECLAIM_S = 1000


def has_attributes(directory):
    try:
        os.setxattr(directory, "user.test", b"x")
        return True
    except OSError:
        return False


class Side:
    """One of the two: a manager, and how its files are listed."""

    def __init__(self, manager, policy, files):
        self.manager, self.policy, self.files = manager, policy, files

    def diskfile(self, name, **kwargs):
        return self.manager.get_diskfile("d1", PARTITION, "a", "c", name, self.policy, **kwargs)

    def do(self, call):
        """The answer of `call`, or the type of what it raised."""
        try:
            return call(self)
        except DiskFileDeleted as error:
            return "DiskFileDeleted", error.timestamp.internal
        except (DiskFileError, DiskFileNotExist) as error:
            return type(error).__name__


def put(side, name, data, timestamp, index=None, commit=True, more=None):
    kwargs = {} if index is None else {"frag_index": index}
    with side.diskfile(name, **kwargs).create(size=len(data)) as writer:
        writer.write(data)
        metadata = {
            "X-Timestamp": timestamp.internal,
            "ETag": md5(data, usedforsecurity=False).hexdigest(),
            "Content-Length": str(len(data)),
            "Content-Type": "text/plain",
            **(more or {}),
        }
        if index is not None:
            metadata["X-Object-Sysmeta-Ec-Frag-Index"] = str(index)
            metadata["X-Object-Sysmeta-Ec-Etag"] = "e"
        writer.put(metadata)
        if commit:
            writer.commit(timestamp)


def post(side, name, timestamp, ctype):
    metadata = {"X-Timestamp": timestamp.internal, "X-Object-Meta-Colour": f"blue {timestamp.internal}"}
    if ctype is not None:
        metadata["Content-Type"] = f"kind/{ctype.internal}"
        metadata["Content-Type-Timestamp"] = ctype.internal
    side.diskfile(name).write_metadata(metadata)


def read(side, name, **kwargs):
    diskfile = side.diskfile(name, open_expired=True, **kwargs)
    with diskfile.open():
        metadata = diskfile.get_metadata()
        return metadata, diskfile.get_metafile_metadata(), b"".join(diskfile.reader())


class BesideStock(Served):
    """Runs the steps of one seed on both sides."""

    def setUp(self):
        super().setUp()
        here = self.directory if has_attributes(self.directory) else tempfile.mkdtemp(prefix="ims-")
        self.addCleanup(shutil.rmtree, here, ignore_errors=True)
        if not has_attributes(here):
            self.skipTest("no file system here has extended attributes")
        self.stock_devices = os.path.join(here, "stock")
        os.makedirs(os.path.join(self.stock_devices, "d1"))

    def sides(self, policy, commit_window):
        conf = {"reclaim_age": str(RECLAIM_S), "commit_window": str(commit_window)}
        stock_class, our_class = (
            (swift_diskfile.ECDiskFileManager, ECDiskFileManager)
            if int(policy)
            else (swift_diskfile.DiskFileManager, DiskFileManager)
        )
        stock = stock_class({**self.conf(**conf), "devices": self.stock_devices}, Logger())
        ours = our_class(self.conf(**conf), self.logger)
        top = swift_diskfile.get_data_dir(policy)
        return Side(stock, policy, lambda: self.stock_files(top)), Side(ours, policy, lambda: self.our_files(top))

    def stock_files(self, top):
        root = os.path.join(self.stock_devices, "d1")
        found = []
        for directory, _, files in os.walk(os.path.join(root, top, PARTITION)):
            found += [os.path.relpath(os.path.join(directory, file), root) for file in files]
        return sorted(f for f in found if f.endswith((".data", ".ts", ".meta")))

    def our_files(self, top):
        drive = drive_of(self.devices, "d1", self.cluster)
        return [key.decode() for key in drive.scan(f"{top}/{PARTITION}/".encode())]

    def new_store(self):
        return MemoryStore()

    def reset(self):
        """Empty devices on both sides."""
        shutil.rmtree(os.path.join(self.stock_devices, "d1"))
        os.makedirs(os.path.join(self.stock_devices, "d1"))
        self.end("d1")
        self.store.close()
        self.serve("d1", self.new_store())

    def run_seed(self, policy, seed):
        rng = random.Random(seed)
        # Suffixes one by one, or all of the partition at once.
        batched = mock.patch.object(our_diskfile, "SUFFIX_COUNT_MIN", 1 + seed % 2 * 100)
        batched.start()
        self.addCleanup(batched.stop)
        self.reset()
        stock, ours = self.sides(policy, rng.choice([0, 3600]))
        objects = [f"o{number}" for number in range(4)]
        # Far from the moment at which tombstones are reclaimed, which passes meanwhile.
        base = time.time()
        moments = [base - RECLAIM_S * age for age in (3, 2.5, 2, 1.5, 0.7, 0.5, 0.3, 0.1, 0.05)]
        uncommitted = []
        for step in range(STEPS):
            timestamp = Timestamp(rng.choice(moments) + rng.randrange(8))
            name = rng.choice(objects)
            call = self.step(rng, policy, name, timestamp, uncommitted)
            text = f"seed {seed}, step {step}, {call.__name__} of {name} at {timestamp.internal}"
            self.assertEqual(ours.do(call), stock.do(call), text)
            self.compare(stock, ours, objects, text)

    def step(self, rng, policy, name, timestamp, uncommitted):
        index = rng.randrange(3) if int(policy) else None
        kind = rng.choice(["put", "put", "put", "delete", "post", "post", "walk", "hashes", "other"])
        data = rng.randbytes(rng.randrange(40))
        if kind == "put":
            more = {"X-Object-Sysmeta-A": "b", "X-Object-Meta-C": "d"} if rng.random() < 0.5 else None
            commit = not int(policy) or rng.random() < 0.7
            return lambda side: put(side, name, data, timestamp, index, commit, more)
        if kind == "delete":
            return lambda side: side.diskfile(name).delete(timestamp)
        if kind == "post":
            ctype = Timestamp(float(timestamp) - rng.randrange(400)) if rng.random() < 0.5 else None
            return lambda side: post(side, name, timestamp, ctype)
        if kind == "walk":
            # Replication compares them as a dictionary; the order of a directory is that of its file system.
            return lambda side: dict(side.manager.yield_hashes("d1", PARTITION, policy))
        if kind == "hashes":
            return lambda side: side.manager.get_hashes("d1", PARTITION, suffixes_of(side), policy) and None
        if int(policy):
            meta = rng.choice([None, timestamp])
            return lambda side: side.diskfile(name).purge(timestamp, index, 0, meta)
        return lambda side: put(side, name, data, timestamp)

    def compare(self, stock, ours, objects, text):
        self.assertEqual(ours.files(), stock.files(), text)
        # Ours are kept with each change; Swift's are all computed. Swift's first computation still counts fragments
        # that it has just reclaimed, so the second one is that of the files.
        kept = ours.manager.get_hashes("d1", PARTITION, [], ours.policy)
        stock.manager.get_hashes("d1", PARTITION, suffixes_of(stock), stock.policy)
        computed = stock.manager.get_hashes("d1", PARTITION, suffixes_of(stock), stock.policy)
        self.assertEqual(kept, computed, text)
        for name in objects:
            for kwargs in [{}] if not int(ours.policy) else [{}, {"frag_prefs": []}, {"frag_index": 1}]:
                one = ours.do(lambda side: read(side, name, **kwargs))
                other = stock.do(lambda side: read(side, name, **kwargs))
                self.assertEqual(one, other, f"{text}: reading {name} with {kwargs}")

    def test_policies_of_copies(self):
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.run_seed(POLICIES[0], seed)

    def test_policies_of_fragments(self):
        for seed in range(SEEDS):
            with self.subTest(seed=seed):
                self.run_seed(POLICIES[1], seed)


@unittest.skipUnless(HAS_OBJECTS, "the package imbrex is not installed")
class BesideStockOnDrives(BesideStock):
    """The same on emulated drives."""

    def new_store(self):
        path = os.path.join(self.directory, f"{len(os.listdir(self.directory))}.imbrex")
        store = imbrex.create(path, capacity="1GiB", values_apart="64KiB")
        self.addCleanup(store.close)
        return store


def suffixes_of(side):
    return sorted({file.split("/")[2] for file in side.files()})


if __name__ == "__main__":
    unittest.main()
