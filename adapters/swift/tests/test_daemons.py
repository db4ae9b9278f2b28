"""Swift's daemons over served devices, with a real object server between them: ssync, reverts, rebuilding, updates."""

import os
import time
import unittest
from unittest import mock

from nodes import Cluster, Ring
from scene import POLICIES

from swift.common.utils import Timestamp, hash_path, md5

from imbrex_swift.diskfile import digests_of
from imbrex_swift.reconstructor import ObjectReconstructor
from imbrex_swift.replicator import ObjectReplicator
from imbrex_swift.updater import ObjectUpdater


class Replication(Cluster):
    def replicator(self, **more):
        made = ObjectReplicator(self.daemon_conf(**more), self.logger)
        made._zero_stats()
        return made

    def test_a_pass_makes_the_primaries_the_same_and_a_second_one_sends_nothing(self):
        now = time.time() - 100
        for number in range(12):
            device = ("d1", "d2")[number % 2]
            data = os.urandom(300_000 if number == 0 else number)
            diskfile = self.put(device, f"o{number}", data, now, part=str(number % 3))
            if number % 3 == 0:
                diskfile.delete(now + 1)
            elif number % 3 == 1:
                later = Timestamp(now + 2)
                diskfile.write_metadata({"X-Timestamp": later.internal, "X-Object-Meta-A": "b"})
        self.replicator().replicate()
        self.assertEqual(len(self.objects("d1")), 16)
        self.assertEqual(self.objects("d1"), self.objects("d2"))
        self.assertEqual(self.objects("d3"), {})
        again = self.replicator()
        again.replicate()
        stats = again.total_stats
        self.assertEqual((stats.attempted, stats.hashmatch, stats.rsync, stats.failure), (6, 6, 0, 0))
        self.assertNotIn("Traceback", self.logger.text())

    def test_a_handoff_gives_its_partition_away(self):
        now = time.time() - 100
        for number in range(5):
            self.put("d3", f"o{number}", b"data", now)
        replicator = self.replicator()
        replicator.replicate()
        self.assertEqual(len(self.objects("d1")), 5)
        self.assertEqual(self.objects("d1"), self.objects("d2"))
        self.assertEqual(self.stores["d3"].keys, [])

    def test_what_a_handoff_gets_meanwhile_stays_there(self):
        now = time.time() - 100
        self.put("d3", "o1", b"data", now)
        replicator = self.replicator()
        sync = replicator.sync

        def sync_and_write(node, job, suffixes, **kwargs):
            done = sync(node, job, suffixes, **kwargs)
            self.put("d3", "o1", b"newer", now + 5)
            self.put("d3", "o2", b"other", now + 5)
            return done

        with mock.patch.object(replicator, "sync", sync_and_write):
            replicator.replicate()
        self.assertEqual(len(self.objects("d3")), 2)
        self.replicator().replicate()
        self.assertEqual(self.stores["d3"].keys, [])
        self.assertEqual(sorted(data for data, _ in self.objects("d1").values()), [b"newer", b"other"])

    def test_objects_that_went_to_another_region_are_removed_one_by_one(self):
        now = time.time() - 100
        for number in range(40):
            self.put("d3", f"o{number}", b"data", now)
        replicator = self.replicator()
        replicator.all_devs_info = set()
        job = replicator.build_replication_jobs(self.policy, ["127.0.0.1"], override_devices=["d3"])[0]
        drive, directory = replicator._tree.place(job["path"])
        replicator._began[job["path"]] = dict(digests_of(drive, directory))
        chosen = [hash_path("a", "c", f"o{number}") for number in range(30)]
        deleted, failed = replicator.delete_handoff_objs(job, chosen)
        self.assertEqual((len(deleted), failed), (30, []))
        self.assertEqual(len(self.objects("d3")), 10)

    def test_devices_that_are_not_served_are_skipped(self):
        self.put("d1", "o", b"data", time.time())
        self.end("d2")
        replicator = self.replicator()
        replicator.replicate()
        # A handoff takes the copy of the device that is away.
        self.assertEqual(self.objects("d1"), self.objects("d3"))
        self.assertIn("d2 is not served", self.logger.text())

    def test_rsync_is_refused(self):
        with self.assertRaisesRegex(ValueError, "drives of Imbrex need ssync"):
            ObjectReplicator(self.daemon_conf(sync_method="rsync"), self.logger)


class Rebuilding(Cluster):
    policy = POLICIES[1]
    primaries = (0, 1, 2)

    def store_object(self, name, data, now, skip=()):
        fragments = self.policy.pyeclib_driver.encode(data)
        for index, fragment in enumerate(fragments):
            if index not in skip:
                self.put(f"d{index + 1}", name, fragment, now, index=index, meta=self.meta(data, index))
        return fragments

    def meta(self, data, index):
        return {
            "X-Object-Sysmeta-Ec-Etag": md5(data, usedforsecurity=False).hexdigest(),
            "X-Object-Sysmeta-Ec-Content-Length": str(len(data)),
            "X-Object-Sysmeta-Ec-Frag-Index": str(index),
            "X-Object-Sysmeta-Ec-Scheme": self.policy.ec_scheme_description,
            "X-Object-Sysmeta-Ec-Segment-Size": str(self.policy.ec_segment_size),
        }

    def reconstructor(self):
        return ObjectReconstructor(self.daemon_conf(), self.logger)

    def test_a_lost_fragment_is_rebuilt(self):
        now = time.time() - 100
        lost = {}
        for number in range(3):
            data = os.urandom(3000)
            lost[f"o{number}"] = self.store_object(f"o{number}", data, now, skip=(number,))[number]
        self.reconstructor().reconstruct()
        for number, (name, fragment) in enumerate(lost.items()):
            found = [data for key, (data, _) in self.objects(f"d{number + 1}").items()
                     if hash_path("a", "c", name).encode() in key]
            self.assertEqual(found, [fragment], self.logger.text())

    def test_a_fragment_on_the_wrong_device_goes_home(self):
        now = time.time() - 100
        data = os.urandom(3000)
        fragments = self.store_object("o", data, now, skip=(2,))
        self.put("d1", "o", fragments[2], now, index=2, meta=self.meta(data, 2))
        reconstructor = self.reconstructor()
        reconstructor.reconstruct()
        self.assertEqual([data for data, _ in self.objects("d3").values()], [fragments[2]], self.logger.text())
        self.assertEqual([data for data, _ in self.objects("d1").values()], [fragments[0]])


class Updates(Cluster):
    def setUp(self):
        super().setUp()
        self.answers = []
        self.updater = ObjectUpdater(self.daemon_conf(), self.logger)
        self.updater.container_ring = Ring(self.port, 3, (0, 1, 2))

    def wait_for(self, name, at, op="PUT"):
        update = {"op": op, "account": "a", "container": "c", "obj": name, "headers": {"X-Timestamp": str(at)}}
        self.manager().pickle_async_update("d1", "a", "c", name, update, Timestamp(at), self.policy)

    def sweep(self, answer):
        sent = []

        def send(node, part, op, path, headers):
            sent.append((node["id"], path, headers["X-Timestamp"]))
            return answer(node), node["id"], None

        with mock.patch.object(self.updater, "object_update", send):
            self.updater.object_sweep(os.path.join(self.devices, "d1"))
        return sorted(sent)

    def test_updates_are_sent_once_and_only_the_newest(self):
        self.wait_for("o1", 1)
        self.wait_for("o1", 2)
        self.wait_for("o2", 3)
        sent = self.sweep(lambda node: True)
        self.assertEqual(len(sent), 6)
        self.assertEqual({entry[1:] for entry in sent}, {("/a/c/o1", "2"), ("/a/c/o2", "3")})
        self.assertEqual(self.stores["d1"].keys, [])
        self.assertEqual((self.updater.stats.outdated_unlinks, self.updater.stats.errors), (1, 0))

    def test_updates_that_fail_wait_and_remember_who_has_them(self):
        self.wait_for("o1", 1)
        self.assertEqual(len(self.sweep(lambda node: node["id"] != 1)), 3)
        self.assertEqual(len(self.stores["d1"].keys), 1)
        self.assertEqual([entry[0] for entry in self.sweep(lambda node: True)], [1])
        self.assertEqual(self.stores["d1"].keys, [])

    def test_updates_that_cannot_be_read_are_quarantined(self):
        self.wait_for("o1", 1)
        (key,) = self.stores["d1"].keys
        self.stores["d1"].set(key, b"nonsense", b"")
        self.assertEqual(self.sweep(lambda node: True), [])
        self.assertEqual(self.stores["d1"].keys, [b"quarantined/objects/" + key.rpartition(b"/")[2]])

    def test_devices_that_are_not_served_are_skipped(self):
        self.end("d1")
        with mock.patch("os.fork", side_effect=AssertionError("nothing to do")):
            self.updater._process_devices(["d1"])
        self.assertIn("Skipping: d1 is not served", self.logger.text())


del Cluster

if __name__ == "__main__":
    unittest.main()
