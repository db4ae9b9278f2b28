"""A store is a mapping from bytes to bytes, in order of key."""

import array
import unittest

import imbrex
from scene import StoreTest


class Mapping(StoreTest):
    def test_what_is_set_is_found_and_what_is_deleted_is_not(self):
        with self.create() as db:
            db[b"k"] = b"v"
            self.assertEqual(db[b"k"], b"v")
            self.assertEqual(db.get(b"k"), b"v")
            self.assertIn(b"k", db)
            del db[b"k"]
            self.assertNotIn(b"k", db)
            self.assertIsNone(db.get(b"k"))
            self.assertEqual(db.get(b"k", b"other"), b"other")
            with self.assertRaises(KeyError) as caught:
                db[b"k"]
            self.assertEqual(caught.exception.args, (b"k",))
            with self.assertRaises(KeyError):
                del db[b"k"]
            db.delete(b"k")

    def test_it_is_there_after_it_was_opened_again(self):
        with self.create() as db:
            db.update({b"a": b"1", b"b": b"2"})
            db.update([(b"c", b"3")], sync=True)
        with imbrex.open(self.path()) as db:
            self.assertEqual(list(db.items()), [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
            self.assertEqual(db.layout, "imbrex-zones")
            self.assertEqual(db.path, self.path())
            self.assertFalse(db.read_only)

    def test_pop_and_absent_length(self):
        db = self.create()
        db[b"k"] = b"v"
        self.assertEqual(db.pop(b"k"), b"v")
        self.assertIsNone(db.pop(b"k", None))
        with self.assertRaises(KeyError):
            db.pop(b"k")
        db[b"k"] = b"v"
        with self.assertRaises(TypeError):
            db.pop(b"k", 1, 2)
        self.assertEqual(db[b"k"], b"v")
        with self.assertRaises(TypeError):
            len(db)
        self.assertTrue(db)

    def test_get_many_keeps_the_order_and_marks_what_is_absent(self):
        db = self.create()
        db.update((b"%d" % n, b"v%d" % n) for n in range(10))
        self.assertEqual(db.get_many([b"7", b"x", b"0"]), [b"v7", None, b"v0"])
        self.assertEqual(db.get_many(iter(())), [])

    def test_values_of_any_buffer(self):
        db = self.create()
        whole = bytes(range(200))
        for value in [
            whole,
            bytearray(whole),
            memoryview(whole),
            memoryview(whole)[10:50],
            memoryview(whole)[::3],
            memoryview(bytearray(whole))[5:],
            array.array("d", [1.5, 2.5]),
            b"",
        ]:
            db[memoryview(b"a key")[2:]] = value
            self.assertEqual(db[b"key"], bytes(value))

    def test_views_share_the_value_and_outlive_it(self):
        db = self.create()
        db[b"k"] = bytes(100_000)
        db.flush()
        view = db.view(b"k")
        self.assertTrue(view.readonly)
        self.assertEqual(view.nbytes, 100_000)
        db[b"k"] = b"other"
        db.close()
        self.assertEqual(view, bytes(100_000))
        with self.assertRaises(TypeError):
            view[0] = 1
        self.assertIsNone(self.create("b").view(b"absent"))


class Ranges(StoreTest):
    def setUp(self):
        super().setUp()
        self.db = self.create()
        self.db.update((b"k%03d" % n, b"%d" % n) for n in range(300))

    def test_bounds_prefixes_and_directions(self):
        db = self.db
        self.assertEqual(list(db.keys(b"k010", b"k013")), [b"k010", b"k011", b"k012"])
        self.assertEqual(list(db.keys(b"k297")), [b"k297", b"k298", b"k299"])
        self.assertEqual(list(db.keys(end=b"k002")), [b"k000", b"k001"])
        self.assertEqual(list(db.values(prefix=b"k00", reverse=True))[:3], [b"9", b"8", b"7"])
        self.assertEqual(next(db.items(reverse=True)), (b"k299", b"299"))
        self.assertEqual(list(db), list(db.keys()))
        self.assertEqual(list(reversed(db)), list(db)[::-1])
        self.assertEqual(list(db.keys(prefix=b"")), list(db))
        self.assertEqual(list(db.keys(b"x", b"y")), [])

    def test_long_ranges_come_whole(self):
        db = self.db
        db.update((b"z%06d" % n, b"x" * 50) for n in range(20_000))
        db.flush()
        self.assertEqual(list(db.keys(prefix=b"z")), [b"z%06d" % n for n in range(20_000)])
        backwards = [key for key, _ in db.items(prefix=b"z", reverse=True)]
        self.assertEqual(backwards, [b"z%06d" % n for n in reversed(range(20_000))])

    def test_writes_during_an_iteration_do_not_show(self):
        seen = []
        for key, _ in self.db.items():
            seen.append(key)
            self.db[key + b"x"] = b"new"
            self.db.delete(b"k299")
        self.assertEqual(seen, [b"k%03d" % n for n in range(300)])
        self.assertIn(b"k000x", self.db)

    def test_range_deletes(self):
        self.db.delete_range(b"k010", b"k290", sync=True)
        self.assertEqual(len(list(self.db)), 20)
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "range"):
            self.db.delete_range(b"b", b"a")

    def test_an_iterator_ends_with_its_store(self):
        entries = self.db.items()
        next(entries), next(entries)
        self.db.close()
        with self.assertRaisesRegex(imbrex.ClosedError, "closed"):
            next(entries)


class Moments(StoreTest):
    def test_batches_are_all_or_nothing(self):
        db = self.create()
        other = db.keyspace("other", create=True)
        db[b"old"] = b"1"
        with db.batch(sync=True) as batch:
            batch[b"a"] = b"1"
            batch.put(b"b", b"2", keyspace=other)
            del batch[b"old"]
            batch.delete_range(b"x", b"z")
            self.assertEqual(len(batch), 4)
            self.assertNotIn(b"a", db)
        self.assertEqual((db.get(b"a"), db.get(b"old"), other[b"b"]), (b"1", None, b"2"))
        with self.assertRaises(ZeroDivisionError):
            with db.batch() as batch:
                batch[b"never"] = b"1"
                1 / 0
        self.assertNotIn(b"never", db)
        with self.assertRaises(imbrex.ClosedError):
            batch[b"late"] = b"1"
        with self.assertRaises(imbrex.InvalidArgumentError):
            self.create("b").batch().put(b"a", b"b", keyspace=other)

    def test_snapshots_stay_as_they_are(self):
        db = self.create()
        db[b"k"] = b"1"
        with db.snapshot() as snapshot:
            db[b"k"] = b"2"
            db[b"l"] = b"2"
            self.assertEqual(snapshot[b"k"], b"1")
            self.assertEqual(list(snapshot.items()), [(b"k", b"1")])
            self.assertEqual(snapshot.get_many([b"k", b"l"]), [b"1", None])
            self.assertEqual(snapshot.keyspace("default")[b"k"], b"1")
        with self.assertRaisesRegex(imbrex.ClosedError, "snapshot"):
            snapshot[b"k"]
        late = db.snapshot()
        db.close()
        with self.assertRaisesRegex(imbrex.ClosedError, "store .* is closed"):
            late[b"k"]

    def test_keyspaces_and_checkpoints(self):
        db = self.create()
        with self.assertRaises(imbrex.NotFoundError):
            db.keyspace("fruit")
        fruit = db.keyspace("fruit", create=True)
        self.assertEqual(fruit.keyspace_name, "fruit")
        fruit[b"apple"] = b"red"
        db.checkpoint("monday")
        fruit[b"apple"] = b"green"
        self.assertEqual(db.keyspaces(), ["default", "fruit"])
        self.assertEqual(db.checkpoints(), ["monday"])
        with db.open_checkpoint("monday") as monday:
            self.assertEqual(monday.keyspace("fruit")[b"apple"], b"red")
        db.delete_checkpoint("monday")
        db.drop_keyspace("fruit")
        with self.assertRaises(imbrex.NotFoundError):
            fruit[b"apple"]

    def test_backups(self):
        db = self.create()
        db[b"k"] = b"v"
        report = db.backup(self.path("copies"))
        self.assertEqual(report["number"], 1)
        imbrex.create(self.path("restored"), capacity="2GiB").close()
        self.assertEqual(imbrex.restore(self.path("copies"), self.path("restored")), 1)
        db.backup_to(self.path("twin"))
        for name in ["restored", "twin"]:
            with imbrex.open(self.path(name)) as copy:
                self.assertEqual(copy[b"k"], b"v")

    def test_compaction_flush_and_stats(self):
        db = self.create()
        db.update((b"%05d" % n, bytes(100)) for n in range(5000))
        db.flush()
        db.compact()
        stats = db.stats()
        self.assertEqual(stats["layout"], "imbrex-zones")
        self.assertGreater(stats["drive"]["written_bytes"], 500_000)
        self.assertGreater(stats["space"]["live_bytes"], 0)
        self.assertEqual(stats["engine"]["keyspaces"][0]["name"], "default")
        self.assertGreater(db.approximate_size(b"0", b"9"), 0)


class Files(StoreTest):
    def test_a_value_is_read_as_a_file(self):
        db = self.create()
        value = bytes(range(256)) * 1000
        db[b"k"] = value
        with db.open(b"k") as file:
            self.assertEqual(file.read(5), value[:5])
            file.seek(-3, 2)
            self.assertEqual(file.read(), value[-3:])
            file.seek(1000)
            self.assertEqual(file.tell(), 1000)
            self.assertEqual(file.read(10), value[1000:1010])
            file.seek(0)
            self.assertEqual(file.read(), value)
        with self.assertRaises(ValueError):
            file.read()
        with self.assertRaises(KeyError):
            db.open(b"absent")
        with self.assertRaises(ValueError):
            db.open(b"k", "r+")

    def test_a_value_is_written_as_a_file(self):
        db = self.create()
        with db.open(b"k", "wb", sync=True) as file:
            file.write(b"first,")
            file.write(memoryview(b"second"))
            self.assertNotIn(b"k", db)
        self.assertEqual(db[b"k"], b"first,second")
        with self.assertRaises(ZeroDivisionError):
            with db.open(b"k", "wb") as file:
                file.write(b"half")
                1 / 0
        db.open(b"k", "wb").write(b"never closed")
        self.assertEqual(db[b"k"], b"first,second")


if __name__ == "__main__":
    unittest.main()
