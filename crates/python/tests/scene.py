"""What the tests share: a directory for images, and small stores."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

import imbrex

#: Drives of the tests: short, so that they are made quickly.
CAPACITY = "2GiB"


class StoreTest(unittest.TestCase):
    """A test with a directory of its own."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="imbrex-")
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def path(self, name="disk.imbrex"):
        return os.path.join(self.directory, name)

    def create(self, name="disk.imbrex", **keywords):
        db = imbrex.create(self.path(name), **{"capacity": CAPACITY, **keywords})
        self.addCleanup(db.close)
        return db

    def run_python(self, program, *arguments, **keywords):
        """Runs a program in another interpreter, and returns what it did."""
        command = [sys.executable, "-X", "dev", "-c", textwrap.dedent(program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, **keywords)
