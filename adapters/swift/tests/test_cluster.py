"""The cluster to try: what it refuses, and that it starts, stops, and ends only what is its own."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imbrex_swift import cluster, cluster_processes  # noqa: E402
from imbrex_swift.cluster_plan import ClusterError, Options, Plan  # noqa: E402

PORT = 18380


def command(*arguments):
    """The status and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = cluster.main(list(arguments))
    return status, said.getvalue()


class Refusals(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.directory = os.path.join(held.name, "cluster")

    def start(self, *options):
        return command("start", self.directory, "--backend", "directories", "--port", str(PORT), *options)

    def test_options_that_make_no_cluster_are_named_and_nothing_is_made(self):
        for options, words in (
            (("--nodes", "0"), "--nodes 0"),
            (("--replicas", "5"), "--replicas 5"),
            (("--nodes", "2", "--replicas", "2", "--with-ec"), "--with-ec"),
            (("--capacity", "4GB"), "'4GB' is no size"),
            (("--capacity", "1MiB"), "--capacity 1MiB"),
            (("--port", "80"), "--port 80"),
        ):
            status, said = self.start(*options)
            self.assertEqual((status, words in said, os.path.exists(self.directory)), (1, True, False), said)

    def test_a_directory_of_something_else_is_left_alone(self):
        os.makedirs(self.directory)
        path = os.path.join(self.directory, "letter")
        with open(path, "w"):
            pass
        for verb in ("start", "status", "stop", "destroy"):
            status, said = command(verb, self.directory)
            self.assertEqual(status, 1)
            self.assertIn("is not empty and holds no cluster", said)
        self.assertTrue(os.path.exists(path))

    def test_a_cluster_whose_making_was_interrupted_can_only_be_destroyed(self):
        os.makedirs(self.directory)
        with open(os.path.join(self.directory, "cluster.json"), "w") as file:
            json.dump({"options": {}, "complete": False}, file)
        status, said = self.start()
        self.assertEqual((status, "was interrupted" in said), (1, True), said)
        self.assertEqual(command("destroy", self.directory)[0], 0)
        self.assertFalse(os.path.exists(self.directory))

    def test_a_damaged_record_is_named(self):
        os.makedirs(self.directory)
        with open(os.path.join(self.directory, "cluster.json"), "w") as file:
            file.write("{")
        status, said = self.start()
        self.assertEqual((status, "cannot be understood" in said), (1, True), said)

    def test_no_cluster_is_no_traceback(self):
        for verb in ("status", "stop", "destroy"):
            status, said = command(verb, self.directory)
            self.assertEqual((status, "holds no cluster" in said), (1, True), said)

    def test_a_taken_port_is_named_before_anything_starts(self):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            taken.bind(("127.0.0.2", PORT + 1))
            taken.listen()
            status, said = self.start()
        self.assertEqual(status, 1)
        self.assertIn(f"127.0.0.2:{PORT + 1} is taken by another program (object-server-2", said)
        self.assertEqual(cluster.Cluster.at(self.directory).running.records(), {})

    def test_a_missing_swift_is_named(self):
        saved = sys.modules.get("swift")
        sys.modules["swift"] = None
        try:
            status, said = self.start()
        finally:
            if saved is None:
                del sys.modules["swift"]
            else:
                sys.modules["swift"] = saved
        self.assertEqual((status, "Swift is not installed" in said), (1, True), said)

    def test_a_path_too_long_for_a_socket_is_named(self):
        deep = os.path.join(self.directory, "x" * 100)
        status, said = command("start", deep, "--backend", "directories")
        self.assertEqual((status, "too long a path" in said), (1, True), said)


class Processes(unittest.TestCase):
    def test_a_process_that_took_the_id_of_ours_is_not_ended(self):
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, "run"))
            stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
            try:
                start = cluster_processes.start_of(stranger.pid)
                record = os.path.join(directory, "run", "ours.json")
                with open(record, "w") as file:
                    json.dump({"pid": stranger.pid, "start": start - 1, "log": ""}, file)
                running = cluster_processes.Running(Plan(directory, Options()))
                self.assertEqual(running.records(), {"ours": None})
                self.assertEqual(running.stop(), [])
                self.assertIsNone(stranger.poll())
            finally:
                stranger.communicate(b"\n")

    def test_a_process_that_had_ended_when_it_was_recorded_is_not_alive(self):
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, "run"))
            gone = subprocess.Popen([sys.executable, "-c", ""])
            gone.wait()
            with open(os.path.join(directory, "run", "ours.json"), "w") as file:
                json.dump({"pid": gone.pid, "start": None, "log": ""}, file)
            running = cluster_processes.Running(Plan(directory, Options()))
            self.assertEqual(running.records(), {"ours": None})

    def test_a_process_that_ends_at_once_is_an_error_with_its_words(self):
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(os.path.join(directory, "run"))
            running = cluster_processes.Running(Plan(directory, Options()))
            script = "import sys; sys.exit('no paper')"
            process = cluster_processes.Process(
                "printer", (sys.executable, "-c", script), os.path.join(directory, "printer.log"), 0,
                address=("127.0.0.1", PORT))
            running.start(process)
            with self.assertRaisesRegex(ClusterError, "(?s)printer ended while it started.*no paper"):
                running.wait_until_ready([process])


class OneNode(unittest.TestCase):
    """A real one, in directories: it needs Swift, memcached and rsync."""

    def test_it_starts_stops_keeps_what_it_has_and_says_who_died(self):
        with tempfile.TemporaryDirectory() as held:
            directory = os.path.join(held, "cluster")
            options = ("--nodes", "1", "--replicas", "1", "--backend", "directories", "--background", "none",
                       "--port", str(PORT))
            status, said_at_start = command("start", directory, *options)
            self.assertEqual(status, 0, said_at_start)
            try:
                one = cluster.Cluster.at(directory)
                self.assertEqual(command("status", directory)[0], 0)
                status, said = command("start", directory)
                self.assertEqual((status, "runs already" in said), (1, True), said)
                self._type_what_is_printed(said_at_start, held)
                self._request(one, "PUT", "/c")
                self._request(one, "PUT", "/c/o", b"kept")
                pid = one.running.records()["object-server-1"]
                os.kill(pid, signal.SIGKILL)
                while cluster_processes.start_of(pid) is not None:
                    pass
                status, said = command("status", directory)
                self.assertEqual((status, "object-server-1 is dead" in said), (1, True), said)
                self.assertEqual(command("stop", directory)[0], 0)
                self.assertEqual(command("status", directory), (3, "stopped\n"))
                status, said = command("start", directory, "--nodes", "2")
                self.assertEqual((status, "was made with --nodes 1, not 2" in said), (1, True), said)
                self.assertEqual(command("start", directory)[0], 0)
                self.assertEqual(self._request(one, "GET", "/c/o"), b"kept")
            finally:
                status, said = command("destroy", directory)
            self.assertEqual((status, os.path.exists(directory)), (0, False), said)

    def _type_what_is_printed(self, said, directory):
        """The first commands do what they say, in a shell, as they are printed."""
        lines = [line for line in said.splitlines() if line.startswith(("  TOKEN=", "  curl ", "  s3"))]
        self.assertEqual(len(lines), 4, said)
        path = os.path.dirname(sys.executable) + ":" + os.environ["PATH"]
        shell = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(lines)], cwd=directory, env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        self.assertEqual(shell.returncode, 0, shell.stdout)
        self.assertIn("\nhello\n", shell.stdout)
        self.assertRegex(shell.stdout, r" 6 +s3://second/hello.txt")

    def _request(self, one, method, path, body=b""):
        import urllib.request

        url, token = one.log_in()
        request = urllib.request.Request(url + path, body if method == "PUT" else None,
                                         {"X-Auth-Token": token}, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


if __name__ == "__main__":
    unittest.main()
