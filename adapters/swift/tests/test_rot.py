"""Data that rotted on an emulated drive: the auditor finds them, and replication brings them back.

Needs the package imbrex.
"""

import os
import time
import unittest
from unittest import mock

from nodes import Cluster
from scene import POLICIES
from test_beside_stock import HAS_OBJECTS

from swift.common.exceptions import DiskFileNotExist
from swift.obj.auditor import AuditorWorker

from imbrex_swift.replicator import ObjectReplicator

if HAS_OBJECTS:
    import imbrex

OBJECTS = 8
ROTTEN = (1, 4, 6)


@unittest.skipUnless(HAS_OBJECTS, "the package imbrex is not installed")
class Rot(Cluster):
    def serve(self, device, store=None, **options):
        if device == "d1" and store is None:
            self.image = os.path.join(self.directory, "d1.imbrex")
            store = imbrex.create(self.image, capacity="1GiB", values_apart="64KiB")
            self.addCleanup(store.close)
        return super().serve(device, store, **options)

    def read(self, device, name):
        diskfile = self.manager().get_diskfile(device, "5", "a", "c", name, POLICIES[0])
        with diskfile.open():
            return b"".join(diskfile.reader())

    def rot(self, contents):
        """Changes a few bytes of some objects where they lie in the image."""
        self.stores["d1"].flush()
        self.end("d1")
        self.stores["d1"].close()
        with open(self.image, "r+b") as image:
            bytes_of_image = image.read()
            for number in ROTTEN:
                at = bytes_of_image.find(contents[number][150_000:150_064])
                self.assertGreater(at, 0)
                image.seek(at)
                image.write(b"rot")
        store = imbrex.open(self.image)
        self.addCleanup(store.close)
        self.serve("d1", store)

    def test_what_rotted_is_found_and_comes_back(self):
        now = time.time() - 100
        contents = [os.urandom(300_000) for _ in range(OBJECTS)]
        for number, data in enumerate(contents):
            for device in ("d1", "d2"):
                self.put(device, f"o{number}", data, now)
        self.rot(contents)
        conf = self.daemon_conf(files_per_second="0", bytes_per_second="0")
        worker = AuditorWorker(conf, self.logger, os.path.join(self.directory, "recon"), self.devices)
        with mock.patch("swift.obj.auditor.POLICIES", [self.policy]):
            worker.audit_all_objects(device_dirs=["d1"])
        self.assertEqual((worker.quarantines, worker.errors), (len(ROTTEN), 0), self.logger.text())
        for number in ROTTEN:
            with self.assertRaises(DiskFileNotExist):
                self.read("d1", f"o{number}")
        replicator = ObjectReplicator(self.daemon_conf(), self.logger)
        replicator._zero_stats()
        replicator.replicate()
        for number, data in enumerate(contents):
            for device in ("d1", "d2"):
                self.assertEqual(self.read(device, f"o{number}"), data)

    def test_a_read_finds_it_as_well(self):
        contents = [os.urandom(300_000) for _ in range(OBJECTS)]
        for number, data in enumerate(contents):
            self.put("d1", f"o{number}", data, time.time() - 100)
        self.rot(contents)
        for number, data in enumerate(contents):
            if number not in ROTTEN:
                self.assertEqual(self.read("d1", f"o{number}"), data)
                continue
            with self.assertRaises(OSError):
                self.read("d1", f"o{number}")
            with self.assertRaises(DiskFileNotExist):
                self.read("d1", f"o{number}")


del Cluster

if __name__ == "__main__":
    unittest.main()
