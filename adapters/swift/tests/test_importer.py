"""Trees that Swift's own DiskFile has written, imported into a store in memory."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from memory import MemoryStore
from scene import POLICIES, Logger, Served
from test_beside_stock import HAS_OBJECTS, Side, has_attributes, post, put, read

from swift.common import utils
from swift.common.utils import Timestamp, hash_path
from swift.obj import diskfile as swift_diskfile

from imbrex_swift.diskfile import DiskFileManager
from imbrex_swift.ec_diskfile import ECDiskFileManager
from imbrex_swift.importer import Importer


if HAS_OBJECTS:
    import imbrex


class Importing(Served):
    def setUp(self):
        super().setUp()
        here = self.directory if has_attributes(self.directory) else tempfile.mkdtemp(prefix="ims-")
        self.addCleanup(shutil.rmtree, here, ignore_errors=True)
        if not has_attributes(here):
            self.skipTest("no file system here has extended attributes")
        self.stock_devices = os.path.join(here, "stock")
        self.tree = os.path.join(self.stock_devices, "d1")
        os.makedirs(self.tree)
        conf = {**self.conf(), "devices": self.stock_devices}
        self.stock = {
            0: Side(swift_diskfile.DiskFileManager(conf, Logger()), POLICIES[0], None),
            1: Side(swift_diskfile.ECDiskFileManager(conf, Logger()), POLICIES[1], None),
        }
        self.ours = {
            0: Side(DiskFileManager(self.conf(), self.logger), POLICIES[0], None),
            1: Side(ECDiskFileManager(self.conf(), self.logger), POLICIES[1], None),
        }
        self.said = []
        self.names = [f"o{number}" for number in range(6)]

    def fill(self):
        now = time.time() - 500
        for number, name in enumerate(self.names):
            data = os.urandom(number * 400_000)
            put(self.stock[0], name, data, Timestamp(now), more={"X-Object-Meta-A": "\u00e9"})
            put(self.stock[1], name, data[:9], Timestamp(now), number % 3, commit=number != 4)
        post(self.stock[0], "o1", Timestamp(now + 5), Timestamp(now + 4))
        self.stock[0].diskfile("o2").delete(Timestamp(now + 6))
        self.stock[0].manager.pickle_async_update("d1", "a", "c", "o", {"op": "PUT"}, Timestamp(now), POLICIES[0])
        os.makedirs(os.path.join(self.tree, "containers", "1"))

    def snapshot(self):
        found = {}
        for directory, _, files in os.walk(self.tree):
            for file in files:
                path = os.path.join(directory, file)
                with open(path, "rb") as opened:
                    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
                    found[path] = (opened.read(), attributes, os.stat(path).st_mtime_ns)
        return found

    def run_import(self, store=None):
        importer = Importer(store or self.store, self.tree, self.said.append)
        importer.run()
        return importer

    def compare(self, leaving=()):
        for policy in (0, 1):
            suffixes = [hash_path("a", "c", name)[-3:] for name in self.names]
            if not leaving:
                self.assertEqual(
                    self.ours[policy].manager.get_hashes("d1", "12", [], POLICIES[policy]),
                    self.stock[policy].manager.get_hashes("d1", "12", suffixes, POLICIES[policy]),
                )
            for name in set(self.names) - set(leaving):
                for kwargs in ({}, {"frag_prefs": []})[: policy + 1]:
                    self.assertEqual(
                        self.ours[policy].do(lambda side: read(side, name, **kwargs)),
                        self.stock[policy].do(lambda side: read(side, name, **kwargs)),
                    )

    def test_everything_of_every_policy_is_there_and_the_tree_is_as_it_was(self):
        self.fill()
        before = self.snapshot()
        importer = self.run_import()
        self.assertEqual(self.snapshot(), before)
        self.assertEqual((importer.copied, importer.present, importer.bad), (14, 0, []))
        self.assertEqual(len([key for key in self.store.keys if key.startswith(b"async_pending/")]), 1)
        self.compare()

    def test_a_second_run_copies_nothing_and_one_after_an_interruption_the_rest(self):
        self.fill()
        self.run_import()
        again = self.run_import()
        self.assertEqual((again.copied, again.present), (0, 14))
        store = MemoryStore()

        importer = Importer(store, self.tree, self.said.append)
        batches = [importer._objects.batch() for _ in range(7)]
        importer._objects.batch = mock.Mock(side_effect=[*batches, KeyboardInterrupt])
        with self.assertRaises(KeyboardInterrupt):
            importer.run()
        rest = self.run_import(store)
        self.assertGreater(rest.present, 3)
        self.assertEqual(rest.copied + rest.present, 14)
        objects = {key: value for key, value in store.entries.items() if not key.startswith(b"digests")}
        ours = {key: value for key, value in self.store.entries.items() if not key.startswith(b"digests")}
        self.assertEqual(objects, ours)

    def test_what_is_damaged_is_named_and_left_out(self):
        self.fill()
        paths = {}
        for path in self.snapshot():
            for name in self.names:
                if hash_path("a", "c", name) in path and "/objects/" in path:
                    paths.setdefault(name, []).append(path)
        with open(paths["o5"][0], "r+b") as file:
            file.write(b"other")
        with open(paths["o3"][0], "ab") as file:
            file.write(b"longer")
        os.setxattr(paths["o4"][0], "user.swift.metadata", b"nonsense")
        os.removexattr(paths["o0"][0], "user.swift.metadata")
        with open(os.path.join(os.path.dirname(paths["o1"][0]), ".1.data.Xy095a"), "wb"):
            pass
        importer = self.run_import()
        reasons = " ".join(reason for _, reason in importer.bad)
        for part in ("its etag is", "its metadata say", "another checksum", "has no metadata", "no file of an object"):
            self.assertIn(part, reasons)
        self.assertEqual(len(importer.bad), 5)
        self.assertEqual([key for key in self.store.keys if key.startswith(b"uploads")], [])
        self.compare(leaving=("o5", "o3", "o4", "o0"))

    @unittest.skipUnless(HAS_OBJECTS, "the package imbrex is not installed")
    def test_the_command_fills_a_drive_that_is_served_afterwards(self):
        self.fill()
        drive = os.path.join(self.directory, "new.imbrex")
        with open(os.path.join(self.directory, "swift.conf"), "w", encoding="utf-8") as conf:
            conf.write(f"[swift-hash]\nswift_hash_path_suffix = {utils.HASH_PATH_SUFFIX.decode()}\n")
        paths = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *filter(None, sys.path)]
        command = [sys.executable, "-W", "ignore", "-m", "imbrex_swift.importer", self.tree, drive]
        run = {
            "env": {**os.environ, "PYTHONPATH": ":".join(paths)}, "capture_output": True, "text": True, "check": False,
        }
        more = ["--swift-dir", self.directory, "--make", "1GiB"]
        first = subprocess.run([*command, *more], **run)
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertIn("14 files copied", first.stdout)
        again = subprocess.run([*command, *more], **run)
        self.assertIn("0 files copied (0 bytes), 14 were there", again.stdout)
        for wrong, said in (
            ([*command, "--swift-dir", self.directory, "--device", "d2"], "is the device d1, not d2"),
            ([*command, "--swift-dir", self.directory + "/none"], "the cluster is not known"),
            ([*command[:-2], self.tree + "/none", drive], "is no directory"),
        ):
            refused = subprocess.run(wrong, **run)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(said, refused.stderr)
            self.assertNotIn("Traceback", refused.stderr)
        self.end("d1")
        store = imbrex.open(drive)
        self.addCleanup(store.close)
        self.serve("d1", store)
        self.compare()

    def test_marks_of_older_versions_make_fragments_durable(self):
        now = Timestamp(time.time() - 500)
        put(self.stock[1], "o0", b"fragment", now, 1, commit=False)
        directory = self.stock[1].diskfile("o0")._datadir
        with open(os.path.join(directory, now.internal + ".durable"), "wb"):
            pass
        self.run_import()
        self.assertEqual(self.ours[1].diskfile("o0").open().durable_timestamp, now)


del Served

if __name__ == "__main__":
    unittest.main()
