"""What is refused, by which exception, and what the text says."""

import os
import unittest

import imbrex
from scene import StoreTest


class Arguments(StoreTest):
    def test_keys_and_values_that_are_no_bytes(self):
        db = self.create()
        for bad, why in [
            ("text", "a key must be bytes-like, not str; encode it"),
            (7, "a key must be bytes-like, not int"),
            (None, "a key must be bytes-like, not NoneType"),
            ((b"a",), "a key must be bytes-like, not tuple"),
        ]:
            with self.assertRaisesRegex(TypeError, why):
                db[bad] = b"v"
            with self.assertRaisesRegex(TypeError, why):
                db.get(bad)
        with self.assertRaisesRegex(TypeError, "a value must be bytes-like, not generator"):
            db[b"k"] = (n for n in range(3))
        with self.assertRaisesRegex(TypeError, "end must be bytes-like, not str"):
            db.keys(end="z")
        with self.assertRaisesRegex(TypeError, "not both"):
            db.keys(b"a", prefix=b"b")
        self.assertEqual(list(db), [])

    def test_keys_that_are_too_long_or_empty(self):
        db = self.create()
        for key in [b"", bytes(100_000)]:
            with self.assertRaisesRegex(imbrex.InvalidEntryError, "key"):
                db[key] = b"v"
        with self.assertRaises(ValueError):
            db.batch()[b""] = b"v"
        with self.assertRaises(imbrex.InvalidEntryError):
            db.update([(b"good", b"1"), (b"", b"2")])
        self.assertEqual(list(db), [])

    def test_lengths_layouts_and_names(self):
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "not a size"):
            self.create(capacity="much")
        with self.assertRaisesRegex(TypeError, "capacity must be"):
            self.create(capacity=1.5)
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "capacity"):
            self.create(capacity=-1)
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "imbrex-zones"):
            self.create(layout="imbrex-zone")
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "recording"):
            self.create(recording="round")
        with self.assertRaisesRegex(imbrex.InvalidArgumentError, "create=True"):
            imbrex.open(self.path(), capacity="8GiB")
        with self.assertRaisesRegex(TypeError, "unexpected keyword"):
            imbrex.create(self.path(), sise=7)
        self.assertFalse(os.path.exists(self.path()))


class Paths(StoreTest):
    def test_nothing_there(self):
        with self.assertRaisesRegex(FileNotFoundError, "cannot open .*absent") as caught:
            imbrex.open(self.path("absent"))
        self.assertIsInstance(caught.exception, imbrex.NotFoundError)
        self.assertEqual(caught.exception.kind, "NotFound")
        with self.assertRaises(imbrex.NotFoundError):
            self.create("no/such/directory")

    def test_a_directory_and_a_foreign_file(self):
        with self.assertRaises(imbrex.NotAStoreError):
            imbrex.open(self.directory)
        with open(self.path("text"), "wb") as file:
            file.write(b"This is no drive. " * 1000)
        with self.assertRaises(imbrex.NotAStoreError):
            imbrex.open(self.path("text"))
        with self.assertRaises(FileExistsError):
            imbrex.create(self.path("text"))

    def test_a_truncated_image(self):
        self.create().close()
        size = os.path.getsize(self.path())
        for keep in [size // 2, 8192, 100]:
            os.truncate(self.path(), keep)
            with self.assertRaises(imbrex.Error) as caught:
                imbrex.open(self.path())
            self.assertIn(self.path(), str(caught.exception))

    def test_a_store_that_is_open_already(self):
        db = self.create()
        with self.assertRaisesRegex(imbrex.InUseError, "disk.imbrex"):
            imbrex.open(self.path())
        db.close()
        imbrex.open(self.path()).close()

    def test_reading_only(self):
        with self.create() as db:
            db[b"k"] = b"v"
        with imbrex.open(self.path(), read_only=True) as one:
            with imbrex.open(self.path(), read_only=True) as other:
                self.assertEqual(one[b"k"], other[b"k"])
                self.assertTrue(other.read_only)
            with self.assertRaises(imbrex.ReadOnlyError):
                one[b"k"] = b"w"
        with self.assertRaises(imbrex.InvalidArgumentError):
            imbrex.open(self.path(), read_only=True, create=True)


class Closed(StoreTest):
    def test_every_call_after_close(self):
        db = self.create()
        batch, fruit = db.batch(), db.keyspace("fruit", create=True)
        batch[b"k"] = b"v"
        db.close()
        db.close()
        self.assertTrue(db.closed)
        for call in [
            lambda: db.get(b"k"),
            lambda: db.put(b"k", b"v"),
            lambda: db.update({}),
            lambda: list(db),
            lambda: b"k" in db,
            lambda: fruit.get(b"k"),
            lambda: db.batch(),
            lambda: batch.write(),
            lambda: db.snapshot(),
            lambda: db.sync(),
            lambda: db.stats(),
            lambda: db.layout,
            lambda: db.keyspaces(),
            lambda: db.open(b"k"),
        ]:
            with self.assertRaisesRegex(imbrex.ClosedError, "is closed; open it again"):
                call()
        self.assertIn("closed", repr(db))
        self.assertIsInstance(imbrex.ClosedError("x"), ValueError)


class Full(StoreTest):
    def test_a_full_drive_refuses_and_goes_on_reading(self):
        db = self.create(capacity="512MiB")
        value, count = os.urandom(1 << 20), 0
        with self.assertRaises(imbrex.NoSpaceError) as caught:
            for count in range(600):
                db[b"%06d" % count] = value
        self.assertGreater(count, 100)
        self.assertIsInstance(caught.exception, OSError)
        self.assertEqual(db[b"%06d" % 7], value)
        db.delete_range(b"000000", b"000100")
        db.compact()
        db[b"again"] = value
        self.assertEqual(db[b"again"], value)


class Classes(unittest.TestCase):
    def test_each_exception_is_an_error_with_a_text(self):
        for name in imbrex.__all__:
            thing = getattr(imbrex, name)
            if name.endswith("Error") and name != "Error":
                self.assertTrue(issubclass(thing, imbrex.Error), name)
                self.assertEqual(thing.kind + "Error", name)
                self.assertEqual(str(thing("what, where")), "what, where")
                self.assertEqual(thing.__module__, "imbrex")
                self.assertTrue(thing.__doc__)


if __name__ == "__main__":
    unittest.main()
