"""What `imbrex-swift-status` says of devices that are served, not served, or none of ours."""

import contextlib
import io
import json
import os
import socket
import unittest

from scene import Served

from imbrex_swift import status


class Statuses(Served):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.directory, "swift.conf"), "w", encoding="utf-8") as conf:
            conf.write("[swift-hash]\nswift_hash_path_suffix = of the tests\n")

    def run_with(self, *more):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = status.run(status.parse([self.devices, "--swift-dir", self.directory, *more]))
        return code, printed.getvalue()

    def test_figures_of_drives_and_reasons_of_others(self):
        for number in range(3):
            self.store.set(b"quarantined/objects-1/%032x/1.data" % number, b"", b"")
            self.store.set(b"quarantined/objects-1/%032x/2.meta" % number, b"", b"")
        self.store.set(b"quarantined/objects/%032x/1.data" % 9, b"", b"")
        for number in range(5):
            self.store.set(b"async_pending-1/abc/%032x-1" % number, b"", b"")
        os.makedirs(os.path.join(self.devices, "files", "objects"))
        self.assertEqual(self.run_with()[0], 0)
        os.makedirs(os.path.join(self.devices, "d2"))
        # What a daemon has left that was killed.
        os.makedirs(os.path.join(self.devices, "d3"))
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(self.socket_of("d3"))
        code, text = self.run_with("--json")
        found = json.loads(text)
        self.assertEqual((code, sorted(found)), (1, ["d1", "d2", "d3"]))
        figures = {"capacity_bytes": 1 << 30, "free_bytes": 1 << 30, "quarantined": 4, "async_pending": 5}
        self.assertEqual(found["d1"], figures)
        self.assertIn("No such file", found["d2"]["error"])
        self.assertIn("Connection refused", found["d3"]["error"])
        lines = self.run_with()[1].splitlines()
        self.assertEqual(lines[1].split(), ["d1", "1.0", "GiB", "1.0", "GiB", "4", "5"])
        self.assertIn("No such file", lines[2])


del Served

if __name__ == "__main__":
    unittest.main()
