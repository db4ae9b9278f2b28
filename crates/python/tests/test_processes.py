"""Threads, forks, signals, kills and the end of the interpreter."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import unittest

import imbrex
from scene import StoreTest


class Threads(StoreTest):
    def test_threads_share_a_store(self):
        db = self.create()

        def work(number):
            for n in range(300):
                db[b"%d/%d" % (number, n)] = b"%d" % n
                db.get(b"%d/%d" % (number, n // 2))
            failures.extend(n for n in range(300) if db.get(b"%d/%d" % (number, n)) != b"%d" % n)

        failures = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(sum(1 for _ in db), 8 * 300)

    def test_the_interpreter_runs_while_the_store_works(self):
        # A thread that held the lock of the interpreter would let nothing else run.
        db = self.create()
        ticks, stop = [0], threading.Event()

        def tick():
            while not stop.is_set():
                ticks[0] += 1

        thread = threading.Thread(target=tick)
        thread.start()
        db.update((b"%06d" % n, os.urandom(1000)) for n in range(30_000))
        before = ticks[0]
        db.flush()
        db.compact()
        during = ticks[0] - before
        stop.set()
        thread.join()
        self.assertGreater(during, 1000)

    def test_closing_waits_for_other_threads_and_refuses_what_comes_later(self):
        db = self.create()
        begun, refused = threading.Event(), []

        def write():
            try:
                for n in range(10_000_000):
                    db[b"%d" % n] = bytes(100)
                    begun.set()
            except imbrex.ClosedError as error:
                refused.append(error)

        def scan():
            try:
                while True:
                    for _ in db.items():
                        pass
            except imbrex.ClosedError as error:
                refused.append(error)

        threads = [threading.Thread(target=target) for target in [write, write, scan]]
        for thread in threads:
            thread.start()
        begun.wait()
        db.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(refused), 3)
        with imbrex.open(self.path()) as db:
            self.assertEqual(db[b"0"], bytes(100))

    def test_an_iterator_takes_one_caller_at_a_time(self):
        db = self.create()
        db.update((b"%05d" % n, bytes(10)) for n in range(5000))
        entries, seen, busy = db.keys(), [], []

        def drain():
            while True:
                try:
                    seen.append(next(entries))
                except StopIteration:
                    return
                except RuntimeError:
                    busy.append(1)

        threads = [threading.Thread(target=drain) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(seen), [b"%05d" % n for n in range(5000)])


class Forks(StoreTest):
    def test_a_child_is_refused_and_the_parent_goes_on(self):
        done = self.run_python(
            """
            import imbrex, os, sys, gc
            db = imbrex.create(sys.argv[1], capacity="2GiB")
            db[b"k"] = b"v"
            entries, snapshot, batch = db.items(), db.snapshot(), db.batch()
            batch[b"l"] = b"w"
            child = os.fork()
            if child == 0:
                calls = [
                    lambda: db[b"k"], lambda: db.put(b"k", b"x"), db.close, db.sync, lambda: next(entries),
                    lambda: snapshot[b"k"], lambda: len(batch), batch.write, db.snapshot, lambda: db.layout,
                ]
                for call in calls:
                    try:
                        call()
                    except imbrex.ForkedError as error:
                        assert "fork" in str(error), error
                    else:
                        os._exit(1)
                assert "another process's" in repr(db)
                try:
                    imbrex.open(sys.argv[1])
                except imbrex.InUseError:
                    pass
                else:
                    os._exit(2)
                # A store of its own is fine, and the end of the child harms neither.
                with imbrex.create(sys.argv[1] + ".child", capacity="2GiB") as own:
                    own[b"k"] = b"v"
                del db, entries, snapshot, batch, calls, call
                gc.collect()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert db[b"k"] == b"v" and list(entries) == [(b"k", b"v")]
            batch.write(sync=True)
            db.close()
            with imbrex.open(sys.argv[1]) as db:
                assert list(db.items()) == [(b"k", b"v"), (b"l", b"w")]
            """,
            self.path(),
        )
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_pool_of_processes(self):
        done = self.run_python(
            """
            import imbrex, multiprocessing, sys
            db = imbrex.create(sys.argv[1], capacity="2GiB")

            def ask(key):
                try:
                    return db.get(key)
                except imbrex.ForkedError:
                    return "refused"

            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(set(pool.map(ask, [b"k"] * 10)))
            db.close()
            """,
            self.path(),
        )
        self.assertEqual(done.stdout.strip(), "{'refused'}", done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)


class Ends(StoreTest):
    def test_the_end_of_the_interpreter_closes_what_is_open(self):
        done = self.run_python(
            """
            import imbrex, sys
            db = imbrex.create(sys.argv[1], capacity="2GiB")
            db[b"k"] = b"v"
            entries = db.items()
            next(entries)
            sys.modules["keeps"] = db
            """,
            self.path(),
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with imbrex.open(self.path()) as db:
            self.assertEqual(db[b"k"], b"v")

    def test_an_exception_in_a_with_block_closes(self):
        with self.assertRaises(ZeroDivisionError):
            with self.create() as db:
                db[b"k"] = b"v"
                1 / 0
        self.assertTrue(db.closed)
        imbrex.open(self.path()).close()

    def test_ctrl_c_ends_a_long_scan_and_a_long_compaction(self):
        program = """
            import imbrex, os, signal, sys, threading
            what = sys.argv[2]
            # A job in the background may have been started without it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            db = imbrex.simulate(capacity="2GiB")
            db.update((b"%06d" % n, os.urandom(400)) for n in range(100_000))
            if what == "bench":
                call = lambda: imbrex.bench("fillrandom", num=100_000_000)
            elif what == "scan":
                # No code of Python runs between two entries.
                def call():
                    while True:
                        sum(map(len, db.values()))
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                call()
            except KeyboardInterrupt:
                print("interrupted", db.get(b"000007") is not None)
            """
        for what in ["scan", "bench"]:
            done = self.run_python(program, self.path(), what)
            self.assertEqual(done.stdout.strip(), "interrupted True", done.stderr)

    def test_a_handler_of_signals_may_not_call_the_store_inside_a_call(self):
        done = self.run_python(
            """
            import imbrex, os, signal, sys, time
            db = imbrex.create(sys.argv[1], capacity="8GiB", layout="leveled-zones", write_buffer="2MiB")
            said = set()

            def handler(*_):
                # Between two calls of the loop below, a handler may use the store.
                try:
                    db.get(b"k")
                except imbrex.InUseError as error:
                    said.add(str(error)[:33])
                    try:
                        db.close()
                    except imbrex.InUseError:
                        said.add("close too")

            signal.signal(signal.SIGALRM, handler)
            for life in range(50):
                db.update((b"%06d" % n, os.urandom(400)) for n in range(20_000))
                signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
                db.compact()
                signal.setitimer(signal.ITIMER_REAL, 0)
                if len(said) == 2:
                    break
            print(sorted(said))
            """,
            self.path(),
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), "['close too', 'refused: a signal handler runs in']")

    def test_what_was_synced_is_there_after_a_kill(self):
        program = """
            import imbrex, sys
            db = imbrex.open(sys.argv[1])
            start = sum(1 for _ in db)
            for n in range(start, 1_000_000):
                db.put(b"%08d" % n, b"%d" % n * 50, sync=True)
                print(n, flush=True)
            """
        self.create().close()
        for _ in range(3):
            command = [sys.executable, "-c", textwrap.dedent(program), self.path()]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            last = -1
            for line in child.stdout:
                last = int(line)
                if last % 40 == 39:
                    child.send_signal(signal.SIGKILL)
                    break
            rest = child.stdout.read().split("\n")[:-1]
            child.wait()
            child.stdout.close()
            last = int(rest[-1]) if rest else last
            with imbrex.open(self.path()) as db:
                keys = list(db)
                self.assertEqual(keys, [b"%08d" % n for n in range(len(keys))])
                self.assertGreaterEqual(len(keys), last + 1)
                for n, value in enumerate(db.values()):
                    self.assertEqual(value, b"%d" % n * 50)


if __name__ == "__main__":
    unittest.main()
