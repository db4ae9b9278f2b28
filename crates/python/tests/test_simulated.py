"""Virtual time, power cuts, benchmarks, and what there is to choose from."""

import unittest

import imbrex
from scene import StoreTest


def load(db, count=20_000):
    for n in range(count):
        db[b"%08d" % (n * 2_654_435_761 % 2**32)] = b"x" * 100
    db.flush()


class Simulated(unittest.TestCase):
    def test_the_same_calls_take_the_same_nanoseconds(self):
        times = []
        for _ in range(2):
            with imbrex.simulate("leveled-zones", capacity="4GiB") as db:
                start = db.now_ns
                load(db)
                times.append(db.now_ns - start)
        self.assertEqual(times[0], times[1])
        self.assertGreater(times[0], 1_000_000)

    def test_every_layout_without_flash_is_a_store(self):
        for layout in imbrex.layouts():
            if layout.takes_flash:
                with self.assertRaisesRegex(imbrex.InvalidArgumentError, "flash"):
                    imbrex.simulate(layout.name)
                continue
            with imbrex.simulate(layout.name, capacity="4GiB") as db:
                load(db, 1000)
                self.assertEqual(db.layout, layout.name)
                self.assertEqual(sum(1 for _ in db), 1000)

    def test_a_power_cut_keeps_what_was_synced(self):
        db = imbrex.simulate(capacity="2GiB")
        for n in range(1000):
            db[b"%04d" % n] = bytes(100)
        db.sync()
        for n in range(1000, 2000):
            db[b"%04d" % n] = bytes(100)
        entries, snapshot = db.keys(), db.snapshot()
        db.cut_power(seed=7)
        keys = list(db)
        self.assertGreaterEqual(len(keys), 1000)
        self.assertEqual(keys, [b"%04d" % n for n in range(len(keys))])
        for call in [lambda: next(entries), lambda: snapshot[b"0001"]]:
            with self.assertRaises(imbrex.ClosedError):
                call()
        db[b"again"] = b"1"
        db.cut_power(seed=8)
        db.close()
        with self.assertRaises(imbrex.ClosedError):
            db[b"again"]
        with self.assertRaises(imbrex.ClosedError):
            db.cut_power()

    def test_its_drive_counts(self):
        with imbrex.simulate("sealdb") as db:
            load(db, 5000)
            drive = db.stats()["drive"]
            self.assertGreater(drive["busy_ns"], 0)
            self.assertLessEqual(drive["seek_ns"] + drive["turn_ns"], drive["busy_ns"])


class Benchmarks(unittest.TestCase):
    def test_a_report_has_the_figures_of_the_command_line(self):
        report = imbrex.bench(
            ["fillrandom", "readrandom:50"], layout="gear", num=2000, value_size=500
        )
        self.assertEqual(report["setup"]["layout"], "gear")
        fill, read = report["runs"]
        self.assertEqual((fill["ops"], read["ops"]), (2000, 50))
        self.assertGreater(fill["drive"]["ops_per_disk_second"], 0)
        self.assertEqual(
            report,
            imbrex.bench("fillrandom,readrandom:50", layout="gear", num=2000, value_size=500),
        )

    def test_flags_that_do_not_exist_and_values_that_cannot_be(self):
        for flags, why in [
            ({"nums": 7}, "--nums"),
            ({"num": "many"}, "many"),
            ({"num": 0}, "nothing to do"),
            ({"layout": "no-such"}, "no-such"),
        ]:
            with self.assertRaisesRegex(imbrex.InvalidArgumentError, why):
                imbrex.bench("fillseq", **flags)
        with self.assertRaises(imbrex.InvalidArgumentError):
            imbrex.bench("fillsideways")


class Choices(StoreTest):
    def test_layouts_and_profiles(self):
        names = [layout.name for layout in imbrex.layouts()]
        self.assertIn("imbrex-zones", names)
        self.assertGreater(len(names), 20)
        self.assertIn("hc620", imbrex.profiles())

    def test_drives_of_other_kinds_are_made_and_formatted_again(self):
        with self.create(
            layout="sealdb", profile="st500dm002", recording="shingled", capacity=2 << 30
        ) as db:
            db[b"k"] = b"v"
        with self.assertRaises(imbrex.AlreadyExistsError):
            imbrex.format(self.path())
        imbrex.format(self.path(), layout="sealdb", erase=True)
        with imbrex.open(self.path(), layout="sealdb") as db:
            self.assertEqual(list(db), [])
        with self.assertRaises(imbrex.WrongLayoutError):
            imbrex.open(self.path(), layout="imbrex-zones")

    def test_a_flash_drive_lies_beside_the_drive(self):
        flash = self.path("flash.imbrex")
        with self.create(layout="imbrex-flash", capacity="8GiB", flash=flash) as db:
            db[b"k"] = b"v"
        with self.assertRaises(imbrex.WrongLayoutError):
            imbrex.open(self.path())
        with imbrex.open(self.path(), flash=flash) as db:
            self.assertEqual(db[b"k"], b"v")

    def test_open_creates_once(self):
        for times in range(2):
            with imbrex.open(
                self.path(), create=True, capacity="2GiB", cache="8MiB", write_buffer=4 << 20
            ) as db:
                db[b"%d" % times] = b"v"
        with imbrex.open(self.path()) as db:
            self.assertEqual(list(db), [b"0", b"1"])


if __name__ == "__main__":
    unittest.main()
