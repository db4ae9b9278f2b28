"""Objects: streams, ranges, batches, and what is refused."""

import io
import os
import random
import shutil
import tarfile
import unittest
from concurrent.futures import ThreadPoolExecutor

import imbrex
from scene import StoreTest

MIB = 1 << 20


class Streams(StoreTest):
    def test_a_stream_of_unknown_length_comes_back(self):
        db = self.create(values_apart="64KiB")
        objects = db.objects()
        data = random.Random(1).randbytes(5 * MIB + 17)
        with objects.create(b"film") as film:
            for at in range(0, len(data), 70_001):
                self.assertEqual(film.write(memoryview(data)[at : at + 70_001]), len(data[at : at + 70_001]))
            self.assertIsNone(objects.stat(b"film"), "half an object is visible")
            self.assertEqual(film.tell(), len(data))
        with objects.open(b"film") as film:
            self.assertEqual((film.size, film.metadata), (len(data), b""))
            self.assertEqual(film.read(), data)
            self.assertEqual(film.read(10), b"")
            film.seek(MIB - 5)
            self.assertEqual(film.read(10), data[MIB - 5 : MIB + 5])
            film.seek(-5, io.SEEK_END)
            self.assertEqual(film.read(), data[-5:])
            film.seek(2 * MIB + 3)
            buffer = bytearray(3 * MIB)
            self.assertEqual(film.readinto(buffer), 3 * MIB)
            self.assertEqual(buffer, data[2 * MIB + 3 : 5 * MIB + 3])
            film.seek(100 * MIB)
            self.assertEqual(film.read(1), b"")
            with self.assertRaisesRegex(ValueError, "before the start of the object"):
                film.seek(-1)
        self.assertTrue(film.closed)
        with self.assertRaisesRegex(ValueError, "closed"):
            film.read()

    def test_programs_that_want_files_take_them(self):
        objects = self.create().objects()
        with objects.create(b"archive") as archive, tarfile.open(fileobj=archive, mode="w|") as tar:
            info = tarfile.TarInfo("a/b")
            info.size = 3 * MIB
            tar.addfile(info, io.BytesIO(bytes(3 * MIB)))
        with objects.open(b"archive") as archive, tarfile.open(fileobj=archive) as tar:
            self.assertEqual(len(tar.extractfile("a/b").read()), 3 * MIB)
        copy = io.BytesIO()
        shutil.copyfileobj(objects.open(b"archive"), copy)
        self.assertGreater(len(copy.getvalue()), 3 * MIB)

    def test_a_reader_sees_the_object_that_it_opened(self):
        objects = self.create().objects()
        objects.put(b"film", bytes(2 * MIB), b"old")
        film = objects.open(b"film")
        objects.put(b"film", b"new")
        self.assertTrue(objects.delete(b"film"))
        self.assertFalse(objects.delete(b"film"))
        self.assertEqual((film.read(), film.metadata), (bytes(2 * MIB), b"old"))
        with self.assertRaises(KeyError):
            objects.open(b"film")
        self.assertIsNone(objects.stat(b"film"))

    def test_what_is_not_finished_is_no_object(self):
        objects = self.create().objects()
        with self.assertRaises(ZeroDivisionError), objects.create(b"a") as file:
            file.write(bytes(3 * MIB))
            raise ZeroDivisionError
        file = objects.create(b"b")
        file.write(bytes(3 * MIB))
        file.close()
        file = objects.create(b"c")
        file.write(bytes(3 * MIB))
        del file
        file = objects.create(b"d")
        file.write(b"short")
        file.finish(b"of d")
        with self.assertRaisesRegex(ValueError, "closed"):
            file.write(b"more")
        self.assertEqual(list(objects.list()), [(b"d", (5, b"of d"))])
        found = objects.check()
        self.assertEqual((found["upload_count"], found["chunk_count"], found["findings"]), (0, 0, []))


class Batches(StoreTest):
    def test_changes_take_effect_together(self):
        objects = self.create().objects()
        objects.put(b"a", b"1", b"of a")
        writer = objects.create(b"b")
        writer.write(bytes(2 * MIB))
        with objects.batch() as batch:
            batch.rename(b"a", b"c")
            batch.finish(writer, b"of b")
            batch.set_metadata(b"c", b"of c")
            batch.put(b"d", b"4")
            self.assertEqual(len(batch), 4)
            self.assertEqual([key for key, _ in objects.list()], [b"a"])
        self.assertTrue(writer.closed)
        self.assertEqual(
            list(objects.list()),
            [(b"b", (2 * MIB, b"of b")), (b"c", (1, b"of c")), (b"d", (1, b""))],
        )
        self.assertEqual([key for key, _ in objects.list(b"", start=b"c")], [b"c", b"d"])
        self.assertEqual(list(objects.list(b"c", metadata=False)), [(b"c", (1, b""))])
        batch = objects.batch()
        batch.delete(b"b")
        batch.rename(b"absent", b"e")
        with self.assertRaisesRegex(imbrex.NotFoundError, "absent"):
            batch.write()
        self.assertIsNotNone(objects.stat(b"b"))
        with self.assertRaisesRegex(TypeError, "Objects.create"):
            batch.finish(io.BytesIO())
        with self.assertRaisesRegex(ValueError, "closed"):
            batch.finish(writer)

    def test_threads_share_objects(self):
        objects = self.create(values_apart="64KiB").objects()

        def work(seed):
            source = random.Random(seed)
            for at in range(20):
                data = source.randbytes(source.choice([10, 10_000, 300_000, 2 * MIB]))
                key = b"%d/%d" % (seed, at % 5)
                with objects.create(key) as file:
                    file.write(data)
                with objects.open(key) as file:
                    assert file.read() == data

        with ThreadPoolExecutor(4) as threads:
            # Raises what a thread raised.
            list(threads.map(work, range(4)))
        self.assertEqual(len(list(objects.list())), 20)
        self.assertEqual(objects.check()["findings"], [])


class Refusals(StoreTest):
    def test_wrong_names_and_kinds(self):
        db = self.create()
        objects = db.objects()
        with self.assertRaisesRegex(imbrex.InvalidEntryError, "name of 0 bytes"):
            objects.put(b"", b"")
        with self.assertRaisesRegex(imbrex.InvalidEntryError, "metadata"):
            objects.put(b"a", b"", bytes(MIB + 1))
        with self.assertRaisesRegex(TypeError, "data must be bytes-like, not str"):
            objects.put(b"a", "text")
        plain = db.keyspace("plain", create=True)
        plain[b"apple"] = b"red"
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "plain entries"):
            plain.objects()

    def test_after_closing_everything_is_refused(self):
        db = self.create()
        objects = db.objects()
        objects.put(b"a", bytes(2 * MIB))
        reader, writer = objects.open(b"a"), objects.create(b"b")
        writer.write(bytes(3 * MIB))
        listing = objects.list()
        db.close()
        for call in [
            lambda: objects.put(b"a", b""),
            lambda: reader.read(),
            lambda: writer.write(b"more"),
            lambda: next(listing),
        ]:
            with self.assertRaises(imbrex.ClosedError):
                call()
        writer.close()
        reader.close()
        with imbrex.open(self.path()) as db:
            objects = db.objects()
            objects.put(b"c", b"")
            self.assertEqual([key for key, _ in objects.list()], [b"a", b"c"])
            self.assertEqual(objects.check()["upload_count"], 0)

    def test_read_only_stores_and_checkpoints_have_objects(self):
        db = self.create()
        objects = db.objects()
        objects.put(b"a", bytes(2 * MIB))
        db.checkpoint("monday")
        objects.delete(b"a")
        monday = db.open_checkpoint("monday").objects()
        self.assertEqual(monday.open(b"a").read(), bytes(2 * MIB))
        with self.assertRaises(imbrex.ReadOnlyError):
            monday.put(b"b", b"")
        db.close()
        with imbrex.open(self.path(), read_only=True) as db:
            self.assertEqual(list(db.objects().list()), [])
            with self.assertRaises(imbrex.ReadOnlyError):
                db.objects().put(b"b", b"")

    def test_a_power_cut_takes_no_finished_object(self):
        db = imbrex.simulate(values_apart="64KiB")
        for seed in range(10):
            objects = db.objects()
            data = random.Random(seed).randbytes(3 * MIB)
            objects.put(b"%d" % seed, data)
            open_writer = objects.create(b"half")
            open_writer.write(bytes(5 * MIB))
            db.cut_power(seed)
            objects = db.objects()
            self.assertEqual(objects.open(b"%d" % seed).read(), data)
            self.assertEqual(len(list(objects.list())), seed + 1)

    def test_a_forked_child_is_refused(self):
        objects = self.create().objects()
        objects.put(b"a", bytes(2 * MIB))
        reader, writer = objects.open(b"a"), objects.create(b"b")
        writer.write(bytes(2 * MIB))
        child = os.fork()
        if child == 0:
            code = 0
            for call in [lambda: objects.stat(b"a"), lambda: reader.read(), lambda: writer.finish()]:
                try:
                    call()
                    code = 1
                except imbrex.ForkedError:
                    pass
            os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        writer.finish()
        self.assertEqual(objects.check()["object_count"], 2)


if __name__ == "__main__":
    unittest.main()
