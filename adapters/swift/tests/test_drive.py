"""The daemon of a drive and its client, over a store in memory."""

import errno
import os
import socket
import stat
import tempfile
import threading
import unittest
from types import SimpleNamespace
from unittest import mock

from memory import MemoryStore
from scene import Logger, Served

from imbrex_swift import drive as daemon
from imbrex_swift import identity
from imbrex_swift.client import Connection, Drive, DriveFailure, DriveGone, DriveRefused
from imbrex_swift.diskfile import DiskFileManager

HASH = b"objects/1/abc/00000000000000000000000000000abc"


class Client(Served):
    def setUp(self):
        super().setUp()
        self.drive = self.client()

    def client(self, device="d1", cluster=None):
        return Drive(self.socket_of(device), device, cluster or self.cluster)

    def upload(self, drive, name, data, **more):
        upload = drive.upload()
        upload.begin(len(data), 0, False)
        upload.write(data)
        answer = upload.commit(HASH, None, HASH + b"/" + name, b"m", [], [])
        upload.close()
        return answer


class Calls(Client):
    def test_an_upload_is_an_object_after_its_commit_and_not_before(self):
        upload = self.drive.upload()
        upload.begin(5, 0, False)
        upload.write(b"hello")
        self.assertEqual(self.drive.names(HASH), [])
        self.assertIs(upload.commit(HASH, [], HASH + b"/1.data", b"m", [], [HASH[:13]]), True)
        upload.close()
        self.assertEqual(self.drive.names(HASH), [b"1.data"])
        reader, metadata = self.drive.open(HASH + b"/1.data")
        with reader:
            self.assertEqual((reader.read(2), reader.read(9), reader.read(9), metadata), (b"he", b"llo", b"", b"m"))
            reader.seek(1)
            self.assertEqual((reader.read(3), reader.tell()), (b"ell", 4))

    def test_long_uploads_are_streamed_and_read_in_ranges(self):
        data = os.urandom(5 << 20)
        self.assertIs(self.upload(self.drive, b"2.data", data), True)
        # The name that an upload has before its end is gone.
        self.assertEqual(self.store.keys, [HASH + b"/2.data"])
        reader, _ = self.drive.open(HASH + b"/2.data")
        with reader:
            reader.seek(3_000_001)
            self.assertEqual(reader.read(100), data[3_000_001:3_000_101])
            reader.seek(0)
            self.assertEqual(reader.read(-1), data)

    def test_a_commit_that_saw_other_names_changes_nothing_and_may_be_tried_again(self):
        self.upload(self.drive, b"1.data", b"a")
        upload = self.drive.upload()
        upload.begin(1, 0, False)
        upload.write(b"b")
        keys = list(self.store.keys)
        self.assertEqual(upload.commit(HASH, [], HASH + b"/2.data", b"", [], []), [b"1.data"])
        self.assertEqual(self.store.keys, keys)
        deletes = [HASH + b"/1.data"]
        self.assertIs(upload.commit(HASH, [b"1.data"], HASH + b"/2.data", b"", deletes, []), True)
        upload.close()
        self.assertEqual(self.store.keys, [HASH + b"/2.data"])

    def test_an_upload_that_ends_without_a_commit_is_forgotten(self):
        for length in (10, 3 << 20):
            upload = self.drive.upload()
            upload.begin(length, 0, False)
            upload.write(bytes(length))
            upload.close()
        # A client that dies.
        lost = Connection(self.socket_of("d1"), "d1", self.cluster)
        lost.call("create", 9, 0, False)
        lost.send_data(b"abc")
        lost.close()
        self.assertEqual(self.store.keys, [])
        self.assertIs(self.upload(self.drive, b"1.data", b"a"), True)

    def test_a_reader_reads_what_it_opened(self):
        self.upload(self.drive, b"1.data", b"old")
        found, reader, held = self.drive.look_and_open(HASH)
        self.upload(self.drive, b"1.data", b"new!")
        self.assertEqual((reader.read(9), held, found), (b"old", b"1.data", [[b"1.data", 3, b"m"]]))
        reader.close()

    def test_children_cost_one_look_up_each(self):
        for part in range(30):
            for number in range(40):
                self.store.set(b"objects/%d/abc/%032x/1.data" % (part, number), b"", b"")
        self.store.set(b"objects/file", b"", b"")
        self.store.calls.clear()
        found = dict(self.drive.children(b"objects"))
        self.assertEqual(set(found), {b"%d" % part for part in range(30)} | {b"file"})
        self.assertEqual((found[b"7"], found[b"file"]), (True, False))
        self.assertLessEqual(self.store.calls["list"], 33)

    def test_a_scan_has_every_key_once(self):
        keys = [b"objects/1/abc/%032x/1.data" % number for number in range(5001)]
        for key in keys:
            self.store.set(key, b"", b"meta")
        self.assertEqual(list(self.drive.scan(b"objects/1/")), keys)
        self.assertEqual(list(self.drive.scan(b"objects/1/", metadata=True)), [(key, 0, b"meta") for key in keys])

    def test_a_full_drive_refuses_uploads_takes_deletes_and_reads(self):
        self.store.capacity = 4 << 20
        self.upload(self.drive, b"1.data", bytes(3 << 20))
        with self.assertRaises(OSError) as failed:
            self.upload(self.drive, b"2.data", bytes(2 << 20))
        self.assertEqual(failed.exception.errno, errno.ENOSPC)
        # A length that is not known is met while it is written.
        upload = self.drive.upload()
        upload.begin(-1, 0, False)
        with self.assertRaises(OSError) as failed:
            for _ in range(9):
                upload.write(bytes(1 << 19))
        self.assertEqual(failed.exception.errno, errno.ENOSPC)
        upload.close()
        self.assertEqual(self.drive.fetch(HASH + b"/1.data")[0], bytes(3 << 20))
        self.drive.delete(HASH + b"/1.data")
        self.assertEqual(self.store.keys, [])

    def test_the_reserve_is_kept_free(self):
        self.store.capacity = 1000
        upload = self.drive.upload()
        with self.assertRaises(OSError):
            upload.begin(900, 10, True)
        upload.begin(899, 10, True)
        upload.close()
        upload = self.drive.upload()
        with self.assertRaises(OSError):
            upload.begin(0, 1000, False)
        upload.begin(-1, 1000, False)
        upload.close()

    def test_damaged_data_are_an_error_of_the_device(self):
        self.upload(self.drive, b"1.data", b"abc")
        self.store.damaged.add(HASH + b"/1.data")
        reader, _ = self.drive.open(HASH + b"/1.data")
        with reader, self.assertRaises(OSError) as failed:
            reader.read(3)
        self.assertEqual(failed.exception.errno, errno.EIO)

    def test_claims_are_limited_and_end_with_their_connection(self):
        gone = TimeoutError("no claim")
        with self.drive.claim(b"a", 1, 0, gone):
            with self.assertRaises(TimeoutError), self.drive.claim(b"a", 1, 0.05, gone):
                pass
            with self.drive.claim(b"a", 2, 0, gone), self.drive.claim(b"b", 1, 0, gone):
                pass
        holder = Connection(self.socket_of("d1"), "d1", self.cluster)
        self.assertIs(holder.call("claim", b"a", 1), True)
        holder.close()
        with self.drive.claim(b"a", 1, 5, gone):
            pass

    def test_a_digest_is_settled_only_over_the_value_it_was_computed_for(self):
        suffix = HASH[:13]
        self.drive.commit(HASH, puts=[[HASH + b"/1.ts", b"", b""]], marks=[suffix])
        mark = self.drive.stat(b"digests/" + suffix)[1]
        self.drive.commit(HASH, puts=[[HASH + b"/2.ts", b"", b""]], marks=[suffix])
        self.assertIs(self.drive.call("settle", suffix, mark, b'd"x"'), False)
        mark = self.drive.stat(b"digests/" + suffix)[1]
        self.assertIs(self.drive.call("settle", suffix, mark, b'd"x"'), True)
        self.assertEqual(self.drive.stat(b"digests/" + suffix)[1], b'd"x"')

    def test_what_was_written_to_meanwhile_is_not_dropped(self):
        suffix = HASH[:13]
        self.drive.commit(HASH, puts=[[HASH + b"/1.ts", b"", b""]], marks=[suffix])
        seen = self.drive.stat(b"digests/" + suffix)[1]
        self.drive.commit(HASH, puts=[[HASH + b"/2.ts", b"", b""]], marks=[suffix])
        self.assertIs(self.drive.call("drop", suffix, seen), False)
        self.assertEqual(self.drive.names(HASH), [b"1.ts", b"2.ts"])
        self.assertIs(self.drive.call("drop", suffix, self.drive.stat(b"digests/" + suffix)[1]), True)
        self.assertEqual(self.store.keys, [])

    def test_calls_that_make_no_sense_fail_and_the_connection_lives(self):
        with self.drive.connection() as connection:
            for request in (["nothing"], ["read", 0, 1], ["open"], ["commit", HASH, None, [b"k", b""], [], [], [], []],
                            ["quarantine", b"x", b"y"], ["drop", b"x", None]):
                with self.assertRaises(DriveFailure):
                    connection.call(*request)
            self.assertIsNone(connection.call("ping"))


class Connections(Client):
    def test_only_its_owner_may_use_the_socket(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.socket_of("d1")).st_mode), 0o600)

    def test_drives_of_another_device_or_cluster_are_refused_with_the_reason(self):
        self.serve("d2")
        wrong = Drive(self.socket_of("d2"), "d1", self.cluster)
        with self.assertRaisesRegex(DriveRefused, "the device d2, not d1"):
            wrong.is_there()
        with self.assertRaisesRegex(DriveRefused, "another cluster"):
            self.client(cluster="other").is_there()
        os.rename(self.socket_of("d2"), self.socket_of("d1"))
        manager = DiskFileManager(self.conf(), Logger())
        self.assertIsNone(manager.get_dev_path("d1"))
        self.assertIn("the device d2, not d1", manager.logger.text())

    def test_a_lost_daemon_is_told_and_a_new_one_is_found(self):
        self.assertTrue(self.drive.is_there())
        self.end("d1")
        self.assertFalse(self.drive.is_there())
        with self.assertRaises(DriveGone):
            self.drive.names(HASH)
        self.serve("d1")
        self.assertEqual(self.drive.names(HASH), [])

    def test_idle_connections_of_a_daemon_that_restarted_are_not_used(self):
        self.upload(self.drive, b"1.data", b"a")
        store = self.store
        self.end("d1")
        self.serve("d1", store)
        self.assertEqual(self.drive.names(HASH), [b"1.data"])

    def test_connections_are_limited(self):
        self.end("d1")
        self.serve("d1", connection_count_max=2)
        with self.drive.connection(), self.drive.connection():
            with mock.patch("imbrex_swift.client.BUSY_S_MAX", 0.2):
                with self.assertRaises(DriveGone) as failed, self.client().connection():
                    pass
            self.assertEqual(failed.exception.errno, errno.EBUSY)

    def test_strangers_are_dropped_and_others_are_served(self):
        for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\x01\x00\x00\x00CN", b"\x00\x00\x00\x00D", b""):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(self.socket_of("d1"))
                stranger.sendall(greeting)
                stranger.shutdown(socket.SHUT_WR)
                stranger.settimeout(5)
                try:
                    self.assertEqual(stranger.recv(100), b"")
                except ConnectionResetError:
                    pass
        self.assertTrue(self.drive.is_there())

    def test_many_at_once(self):
        failures = []

        def work(number):
            try:
                drive = self.client()
                for step in range(20):
                    data = bytes([number]) * (step * 1000)
                    name = b"%d-%d.data" % (number, step)
                    self.upload(drive, name, data)
                    if drive.fetch(HASH + b"/" + name)[0] != data:
                        failures.append(name)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(self.store.keys), 160)


class Starting(Client):
    def test_a_socket_that_another_process_serves_is_left_alone(self):
        with self.assertRaisesRegex(daemon.SocketTaken, "another process serves"):
            daemon.listen(self.socket_of("d1"))
        self.assertTrue(self.drive.is_there())

    def test_a_socket_of_a_dead_process_is_replaced(self):
        path = self.socket_of("d1") + "-dead"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(path)
        daemon.listen(path).close()

    def test_the_identity_of_a_drive_is_checked(self):
        objects = MemoryStore().objects()
        with self.assertRaisesRegex(identity.WrongDrive, "no drive of Swift"):
            identity.check(objects, "d1", "c", "/dev/x")
        identity.write(objects, "d1", "c")
        identity.check(objects, "d1", "c", "/dev/x")
        with self.assertRaisesRegex(identity.WrongDrive, "/dev/x is the device d1, not d2"):
            identity.check(objects, "d2", "c", "/dev/x")
        with self.assertRaisesRegex(identity.WrongDrive, "another cluster"):
            identity.check(objects, "d1", "other", "/dev/x")
        objects.put(b"imbrex-swift", b"", b"{")
        with self.assertRaisesRegex(identity.WrongDrive, "cannot be read"):
            identity.check(objects, "d1", "c", "/dev/x")

    def test_the_cluster_comes_from_its_configuration(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("[swift-hash]\nswift_hash_path_suffix = a%b\n")
            conf.flush()
            self.assertEqual(identity.cluster_of(conf.name), identity.digest_of(b"", b"a%b"))
            conf.seek(0)
            conf.truncate()
            conf.write("[storage-policy:0]\nname = a\n")
            conf.flush()
            with self.assertRaisesRegex(identity.WrongDrive, "neither"):
                identity.cluster_of(conf.name)

    def test_a_drive_is_made_only_where_nothing_is(self):
        made = []

        class Imbrex:
            @staticmethod
            def create(path, **keywords):
                made.append((path, keywords["capacity"]))
                return MemoryStore()

            @staticmethod
            def open(path, **keywords):
                return MemoryStore()

        options = daemon.parse(["--device", "d1", "--socket", "s", "--make", "4GiB", self.directory + "/new"])
        store = daemon.open_drive(Imbrex, options, self.cluster)
        identity.check(store.objects(), "d1", self.cluster, "new")
        self.assertEqual(made, [(self.directory + "/new", "4GiB")])
        options = daemon.parse(["--device", "d1", "--socket", "s", "--make", "4GiB", self.directory])
        with self.assertRaisesRegex(identity.WrongDrive, "no drive of Swift"):
            daemon.open_drive(Imbrex, options, self.cluster)
        options = daemon.parse(["--device", "d1", "--socket", "s", "--adopt", self.directory])
        identity.check(daemon.open_drive(Imbrex, options, self.cluster).objects(), "d1", self.cluster, "new")

    def test_a_store_that_is_lost_ends_the_daemon(self):
        server = self.servers["d1"]
        poisoned = type("PoisonedError", (Exception,), {})
        objects = SimpleNamespace(list=mock.Mock(side_effect=poisoned("a flush failed")))
        server._service.objects = objects
        with self.assertLogs("imbrex-swift-drive"), self.assertRaisesRegex(DriveFailure, "a flush failed"):
            self.client().names(HASH)
        self.assertTrue(server.failed.is_set())
        self.assertEqual(server.failure, "a flush failed")


del Client, Served

if __name__ == "__main__":
    unittest.main()
