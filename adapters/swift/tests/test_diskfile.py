"""DiskFiles over a store in memory: what the tests beside Swift's own do not reach."""

import json
import os
import pickle
import threading
import time
import unittest
from unittest import mock

from scene import POLICIES, Served

from swift.common.exceptions import (
    DiskFileBadMetadataChecksum,
    DiskFileCollision,
    DiskFileDeleted,
    DiskFileDeviceUnavailable,
    DiskFileError,
    DiskFileExpired,
    DiskFileNoSpace,
    DiskFileNotExist,
    DiskFileQuarantined,
    DiskFileStateChanged,
    PartitionLockTimeout,
    ReplicationLockTimeout,
)
from swift.common.utils import Timestamp, hash_path, md5
from swift.obj.auditor import AuditorWorker

from imbrex_swift import diskfile as ours
from imbrex_swift import metadata as envelopes
from imbrex_swift.diskfile import DiskFileManager
from imbrex_swift.ec_diskfile import ECDiskFileManager


class Files(Served):
    policy = POLICIES[0]

    def setUp(self):
        super().setUp()
        self.manager = self.manager_of()

    def manager_of(self, **conf):
        kind = ECDiskFileManager if int(self.policy) else DiskFileManager
        return kind(self.conf(**conf), self.logger)

    def diskfile(self, name="o", manager=None, **kwargs):
        return (manager or self.manager).get_diskfile("d1", "3", "a", "c", name, self.policy, **kwargs)

    def put(self, data=b"hello", at=None, name="o", diskfile=None, **more):
        at = Timestamp(time.time() if at is None else at)
        diskfile = diskfile or self.diskfile(name)
        with diskfile.create(size=len(data)) as writer:
            for start in range(0, len(data), 65536):
                writer.write(data[start : start + 65536])
            length, etag = writer.chunks_finished()
            metadata = {"X-Timestamp": at.internal, "ETag": etag, "Content-Length": str(length), "Content-Type": "a/b"}
            writer.put({**metadata, **more})
            writer.commit(at)
        return at

    def read(self, name="o", **kwargs):
        diskfile = self.diskfile(name, **kwargs)
        with diskfile.open():
            return b"".join(diskfile.reader())

    def keys(self, start=b"objects"):
        return [key for key in self.store.keys if key.startswith(start)]

    def path_of(self, name="o"):
        object_hash = hash_path("a", "c", name)
        return b"objects/3/%s/%s" % (object_hash[-3:].encode(), object_hash.encode())


class Copies(Files):
    def test_lengths_from_nothing_to_more_than_a_daemon_keeps(self):
        for length in (0, 1, 4096, 4097, 1 << 20, (1 << 20) + 1, 7_654_321):
            data = os.urandom(length)
            self.put(data)
            self.assertEqual(self.read(), data)
        self.assertEqual(len(self.keys()), 1)

    def test_ranges_and_many_ranges(self):
        data = os.urandom(700_000)
        self.put(data)
        for start, stop in ((0, 1), (5, 65541), (300_000, 700_000), (699_999, 700_000), (0, 700_000)):
            diskfile = self.diskfile().open()
            self.assertEqual(b"".join(diskfile.reader().app_iter_range(start, stop)), data[start:stop])
        diskfile = self.diskfile().open()
        parts = b"".join(diskfile.reader().app_iter_ranges([(0, 9), (400_000, 400_009)], "a/b", "bound", len(data)))
        self.assertIn(data[0:9], parts)
        self.assertIn(data[400_000:400_009], parts)
        self.assertEqual(parts.count(b"--bound"), 3)
        self.assertEqual(self.logger.counts.get("quarantines"), None)

    def test_a_reader_reads_on_when_its_object_is_replaced_and_deleted(self):
        old = os.urandom(900_000)
        at = self.put(old)
        diskfile = self.diskfile().open()
        reader = iter(diskfile.reader())
        first = next(reader)
        self.put(b"new", at=float(at) + 1)
        self.diskfile().delete(float(at) + 2)
        self.assertEqual(first + b"".join(reader), old)
        self.assertEqual(len(self.keys()), 1)

    def test_names_of_any_characters_and_metadata_at_the_limits(self):
        # Swift itself refuses names that are no UTF-8, and zeros.
        name = "x/\u00e9\u2603\U0001f4bd\x01\n\x7f/../ " + "y" * 1000
        more = {f"X-Object-Meta-{number:0118}": "\u00e9" * 128 for number in range(90)}
        self.put(b"data", name=name, **more)
        diskfile = self.diskfile(name)
        metadata = diskfile.read_metadata()
        self.assertEqual(metadata["name"], "/a/c/" + name)
        self.assertEqual({key: metadata[key] for key in more}, more)
        self.assertEqual(self.read(name), b"data")

    def test_a_post_keeps_the_data_and_replaces_metadata(self):
        at = self.put(b"data", **{"X-Object-Meta-A": "1", "X-Object-Sysmeta-B": "2"})
        later = Timestamp(float(at) + 1)
        self.diskfile().write_metadata({"X-Timestamp": later.internal, "X-Object-Meta-C": "3"})
        metadata = self.diskfile().read_metadata()
        self.assertNotIn("X-Object-Meta-A", metadata)
        self.assertEqual((metadata["X-Object-Sysmeta-B"], metadata["X-Object-Meta-C"]), ("2", "3"))
        self.assertEqual(self.read(), b"data")
        self.assertEqual(len(self.keys()), 2)

    def test_expired_objects(self):
        self.put(b"data", **{"X-Delete-At": str(int(time.time()) - 1)})
        with self.assertRaises(DiskFileExpired):
            self.diskfile().open()
        self.assertEqual(self.read(open_expired=True), b"data")

    def test_a_deleted_object_is_a_tombstone_until_it_is_reclaimed(self):
        at = self.put(b"data", at=time.time() - 5000)
        self.diskfile().delete(float(at) + 1)
        with self.assertRaises(DiskFileDeleted):
            self.diskfile().open()
        self.assertEqual(len(self.keys()), 1)
        manager = self.manager_of(reclaim_age="1000")
        self.assertEqual(manager.get_hashes("d1", "3", [hash_path("a", "c", "o")[-3:]], self.policy), {})
        self.assertEqual(self.store.keys, [])

    def test_an_older_put_changes_nothing(self):
        at = self.put(b"new")
        self.put(b"old", at=float(at) - 10)
        self.assertEqual(self.read(), b"new")
        self.assertEqual(len(self.keys()), 1)

    def test_two_writers_of_one_object_leave_the_newer_one(self):
        at = time.time()
        barrier = threading.Barrier(6)

        def write(number):
            barrier.wait()
            self.put(b"%d" % number, at=at + number, diskfile=diskfiles[number])

        for _ in range(5):
            at += 100
            diskfiles = [self.diskfile() for _ in range(6)]
            threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(self.read(), b"5")
            self.assertEqual(len(self.keys()), 1)

    def test_a_full_drive(self):
        self.put(b"kept")
        self.store.capacity = 100_000
        with self.assertRaises(DiskFileNoSpace):
            self.put(bytes(200_000), name="p")
        with self.assertRaises(DiskFileNoSpace), self.diskfile("p").create(size=None) as writer:
            for _ in range(40):
                writer.write(bytes(65536))
        manager = self.manager_of(fallocate_reserve="100%")
        with self.assertRaises(DiskFileNoSpace):
            self.diskfile(manager=manager).write_metadata({"X-Timestamp": Timestamp.now().internal})
        self.assertEqual(self.read(), b"kept")
        self.diskfile(manager=manager).delete(Timestamp.now())
        self.assertTrue(self.keys()[0].endswith(b".ts"))

    def test_a_drive_that_is_not_served(self):
        self.put(b"data")
        opened = self.diskfile()
        self.end("d1")
        for call in (
            self.diskfile,
            lambda: self.manager.get_hashes("d1", "3", [], self.policy),
            lambda: list(self.manager.yield_hashes("d1", "3", self.policy)),
            lambda: self.manager.get_diskfile_from_hash("d1", "3", hash_path("a", "c", "o"), self.policy),
            opened.open,
        ):
            with self.assertRaises(DiskFileDeviceUnavailable):
                call()
        self.assertIn("no drive is served", self.logger.text())
        self.assertIsNone(self.manager.get_dev_path("../d1"))
        self.assertIsNone(self.manager.get_dev_path("none"))

    def test_partition_powers_stay(self):
        with self.assertRaises(DiskFileDeviceUnavailable):
            self.diskfile(next_part_power=11)
        self.assertIn("abort the increase", self.logger.text())

    def test_what_is_not_as_it_was_written_is_quarantined(self):
        def damaged_data():
            self.store.damaged.add(self.keys()[0])

        def other_etag():
            _, envelope = self.store.entries[self.keys()[0]]
            self.store.set(self.keys()[0], b"jello", envelope)

        def other_length():
            _, envelope = self.store.entries[self.keys()[0]]
            self.store.set(self.keys()[0], b"hell", envelope)

        def other_metadata():
            data, envelope = self.store.entries[self.keys()[0]]
            self.store.set(self.keys()[0], data, envelope[:-1] + b"x")

        def no_metadata():
            self.store.set(self.keys()[0], b"hello", b"")

        for number, spoil in enumerate((damaged_data, other_etag, other_length, other_metadata, no_metadata)):
            with self.subTest(spoil=spoil.__name__):
                self.put(b"hello")
                spoil()
                with self.assertRaises((DiskFileQuarantined, OSError)):
                    self.read()
                    # Swift's reader quarantines what it has sent, and raises nothing.
                    with self.assertRaises(DiskFileNotExist):
                        self.read()
                    raise DiskFileQuarantined
                self.assertEqual(self.keys(), [])
                self.assertEqual(len(self.keys(b"quarantined/objects/")), number + 1)
                self.store.damaged.clear()
                self.assertEqual(self.manager.get_hashes("d1", "3", [], self.policy), {})

    def test_entries_that_cannot_be_read_stop_nothing_else(self):
        objects = [f"o{number}" for number in range(20)]
        for name in objects:
            self.put(name=name)
        (spoilt,) = [key for key in self.keys() if hash_path("a", "c", "o7").encode() in key]
        suffix = hash_path("a", "c", "o7")[-3:]
        self.store.damaged_entries.add(spoilt)
        with self.assertRaises(DiskFileError):
            self.diskfile("o7").open()
        with self.assertRaises(DiskFileNotExist):
            self.manager.get_diskfile_from_hash("d1", "3", hash_path("a", "c", "o7"), self.policy)
        found = dict(self.manager.yield_hashes("d1", "3", self.policy))
        self.assertEqual(set(found), {hash_path("a", "c", name) for name in objects} - {hash_path("a", "c", "o7")})
        with self.assertLogs():
            hashes = self.manager.get_hashes("d1", "3", [], self.policy)
        self.assertIsNone(hashes.pop(suffix))
        self.assertTrue(all(hashes.values()))
        self.assertEqual(len(list(self.manager.object_audit_location_generator(self.policy))), 19)
        self.assertIn("can be read in part only", self.logger.text())

    def test_an_object_that_is_replaced_while_it_is_opened(self):
        self.put(b"old", at=1000)
        objects = self.servers["d1"]._service.objects
        opened = objects.open

        def replace_first(key):
            if key.endswith(b"1000.00000.data"):
                self.put(b"new", at=2000)
            return opened(key)

        with mock.patch.object(objects, "open", replace_first):
            self.assertEqual(self.read(), b"new")
        with mock.patch.object(objects, "open", mock.Mock(side_effect=KeyError("gone"))):
            with self.assertRaises(DiskFileStateChanged):
                self.diskfile().open()
        self.assertEqual(len(self.keys()), 1)
        self.assertEqual(self.keys(b"quarantined"), [])

    def test_an_object_under_another_hash_is_a_collision_or_quarantined(self):
        self.put(b"data")
        other = self.path_of("p")
        for key in self.keys():
            self.store.set(other + key[len(self.path_of()) :], *self.store.entries[key])
        with self.assertRaises(DiskFileCollision):
            self.diskfile("p").open()

    def test_updates_that_wait_are_objects(self):
        data = {"op": "PUT", "account": "a"}
        self.manager.pickle_async_update("d1", "a", "c", "o", data, Timestamp(5), self.policy)
        (key,) = self.store.keys
        object_hash = hash_path("a", "c", "o")
        self.assertEqual(key.decode(), f"async_pending/{object_hash[-3:]}/{object_hash}-0000000005.00000")
        self.assertEqual(pickle.loads(self.store.entries[key][0]), data)

    def test_digests_are_computed_for_changed_suffixes_alone(self):
        for number in range(50):
            self.put(name=f"o{number}")
        first = self.manager._get_hashes("d1", "3", self.policy)
        self.assertEqual(first[0], len(first[1]))
        self.assertEqual(self.manager._get_hashes("d1", "3", self.policy), (0, first[1]))
        self.put(name="o7")
        self.store.calls.clear()
        computed, hashes = self.manager._get_hashes("d1", "3", self.policy)
        changed = [suffix for suffix in hashes if hashes[suffix] != first[1][suffix]]
        self.assertEqual((computed, changed), (1, [hash_path("a", "c", "o7")[-3:]]))
        # One range of digests, and one of the suffix.
        self.assertEqual(self.store.calls["list"], 2)

    def test_a_request_marks_suffixes_for_later(self):
        self.put()
        suffix = hash_path("a", "c", "o")[-3:]
        self.manager.get_hashes("d1", "3", [], self.policy)
        self.assertIsNone(self.manager.get_hashes("d1", "3", [suffix, "nonsense"], self.policy, skip_rehash=True))
        self.assertEqual(self.manager._get_hashes("d1", "3", self.policy)[0], 1)

    def test_the_auditor_finds_what_is_damaged_and_continues_where_it_was(self):
        for number in range(12):
            diskfile = self.manager.get_diskfile("d1", str(number % 4), "a", "c", f"o{number}", self.policy)
            self.put(b"data %d" % number, diskfile=diskfile)
        spoilt = self.keys()[5]
        self.store.damaged.add(spoilt)
        conf = self.conf(files_per_second="0", bytes_per_second="0", recon_cache_path=self.directory)
        worker = AuditorWorker(conf, self.logger, os.path.join(self.directory, "recon"), self.devices)
        with mock.patch("swift.obj.auditor.POLICIES", POLICIES):
            worker.audit_all_objects()
        self.assertEqual((worker.quarantines, worker.errors, worker.total_files_processed), (1, 0, 12))
        self.assertEqual(len(self.keys()), 11)
        self.assertEqual(self.keys(b"audits"), [])
        drive = self.manager.drive("d1")
        drive.put(b"audits/objects/ALL", b"", json.dumps({"partitions": ["2"]}).encode())
        locations = list(self.manager.object_audit_location_generator(self.policy))
        self.assertEqual({location.partition for location in locations}, {"2"})

    def test_locks_wait_and_give_up(self):
        manager = self.manager_of(replication_lock_timeout="0", replication_concurrency_per_device="1")
        with manager.replication_lock("d1", self.policy, "3"):
            with self.assertRaises(PartitionLockTimeout), manager.replication_lock("d1", self.policy, "3"):
                pass
            with self.assertRaises(ReplicationLockTimeout), manager.replication_lock("d1", self.policy, "4"):
                pass
            with manager.partition_lock("d1", self.policy, "3", name="other", timeout=0):
                pass
        with manager.replication_lock("d1", self.policy, "3"):
            pass

    def test_paths_outside_of_devices_are_refused(self):
        for path in ("/etc/passwd", self.devices, self.devices + "/d1"):
            with self.assertRaises(ValueError):
                ours.place_of(self.devices, path)


class Fragments(Files):
    policy = POLICIES[1]

    def fragment(self, index, data=b"fragment", at=None, commit=True):
        at = Timestamp(time.time() if at is None else at)
        with self.diskfile(frag_index=index).create(size=len(data)) as writer:
            writer.write(data)
            writer.put({
                "X-Timestamp": at.internal, "ETag": md5(data, usedforsecurity=False).hexdigest(), "Content-Type": "a/b",
                "Content-Length": str(len(data)), "X-Object-Sysmeta-Ec-Frag-Index": str(index),
                "X-Object-Sysmeta-Ec-Etag": "e",
            })
            if commit:
                writer.commit(at)
        return at

    def test_a_fragment_is_durable_after_its_commit(self):
        at = self.fragment(1, commit=False)
        with self.assertRaises(DiskFileNotExist):
            self.diskfile(frag_index=1).open()
        self.assertTrue(self.keys()[0].endswith(b"#1.data"))
        self.diskfile(frag_index=1).writer().commit(at)
        self.assertTrue(self.keys()[0].endswith(b"#1#d.data"))
        diskfile = self.diskfile(frag_index=1).open()
        self.assertEqual((diskfile.fragments, diskfile.durable_timestamp), ({at: [1]}, at))

    def test_the_fragment_that_is_chosen_is_the_one_that_is_read(self):
        at = time.time()
        for index in range(3):
            self.fragment(index, b"fragment %d" % index, at)
        for index in range(3):
            diskfile = self.diskfile(frag_index=index).open()
            reader = diskfile.reader()
            # They are no fragments that the code has made, so only their bytes are asked for.
            with mock.patch.object(reader, "_check_frag"):
                self.assertEqual(b"".join(reader), b"fragment %d" % index)

    def test_a_commit_of_nothing_fails(self):
        with self.assertRaises(DiskFileError):
            self.diskfile(frag_index=1).writer().commit(Timestamp(5))
        at = self.fragment(1)
        # Something newer has made it obsolete: that is no failure.
        self.diskfile(frag_index=1).writer().commit(Timestamp(float(at) - 5))

    def test_fragments_that_are_not_durable_stay_for_the_commit_window(self):
        self.fragment(1, at=time.time() - 5000, commit=False)
        suffix = hash_path("a", "c", "o")[-3:]
        patient = self.manager_of(reclaim_age="1000", commit_window="60")
        self.assertEqual(set(patient.get_hashes("d1", "3", [suffix], self.policy)[suffix]), {1})
        hasty = self.manager_of(reclaim_age="1000", commit_window="0")
        self.assertEqual(hasty.get_hashes("d1", "3", [suffix], self.policy), {})
        self.assertEqual(self.store.keys, [])

    def test_what_was_reverted_is_purged(self):
        at = self.fragment(1)
        self.fragment(2, at=at)
        self.diskfile(frag_index=1).purge(at, 1)
        self.assertEqual([key.rpartition(b"#2")[2] for key in self.keys()], [b"#d.data"])
        young = self.fragment(0, at=float(at) + 5, commit=False)
        self.diskfile(frag_index=0).purge(young, 0, nondurable_purge_delay=60)
        self.assertEqual(len(self.keys()), 2)
        self.diskfile(frag_index=0).purge(young, 0)
        self.assertEqual(len(self.keys()), 1)


class Envelopes(unittest.TestCase):
    def test_they_have_what_was_written_or_say_that_they_have_not(self):
        metadata = {"name": "/a/c/\u00e9\udcff", "X-Timestamp": "1"}
        envelope = envelopes.encode(metadata, 12.5)
        self.assertEqual((envelopes.decode(envelope, "f"), envelopes.written(envelope)), (metadata, 12.5))
        for at in (0, 9, 20, 30, len(envelope) - 1):
            with self.assertRaises(DiskFileBadMetadataChecksum):
                envelopes.decode(envelope[:at] + bytes([envelope[at] ^ 1]) + envelope[at + 1 :], "f")
        with self.assertRaises(DiskFileBadMetadataChecksum):
            envelopes.decode(envelope[:20], "f")


del Files, Served

if __name__ == "__main__":
    unittest.main()
