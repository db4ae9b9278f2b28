"""Swift's own unit tests of its DiskFile and object server, unmodified, on ours: ``unit_of_swift.py SOURCES``.

SOURCES is the unpacked source package of Swift 2.38.3. Every device directory that a test makes is served from memory.
Most of these tests look into directories or replace functions of the file system; each failure is counted by that.
``--stock`` runs them on Swift's own DiskFile, for the counts that this machine can reach.
"""

import argparse
import collections
import importlib
import inspect
import os
import re
import sys
import tempfile
import types
import unittest

import scene  # noqa: F401  (finds the package)
from memory import MemoryStore

import swift.obj
import swift.obj.diskfile as stock
from swift.common import storage_policy

from imbrex_swift import client, diskfile, ec_diskfile, identity
from imbrex_swift.drive import DriveServer

MODULES = ["test.unit.obj.test_diskfile", "test.unit.obj.test_server"]

#: Words of a test, or of a helper that it calls, that handles files without the DiskFile.
FILES = (
    r"os\.(listdir|path\.(exists|isdir|isfile|getsize)|unlink|rename|makedirs|open|mkdir|utime|stat|write)|\bopen\(|"
    r"mkdirs|rmtree|write_metadata\(|legacy_durable|_create_ondisk_file|_create_test_file|_get_open_disk_file|xattr|"
    r"hashes_file|write_pickle|_fd\b|_datadir"
)

#: Why a test cannot pass, by its traceback or else by its source. The first one counts.
REASONS = [
    ("traceback", "calls for a path that is on no device", r"is not below a device"),
    ("source", "asks for an increase of the partition power", r"next_part_power|part_power"),
    ("traceback", "writes, reads or looks for files itself", FILES + r"|Bad file descriptor"),
    ("traceback", "replaces a function of the file system, or counts its calls",
     r"mock|call_count|call_args|\bcall\(|to be called|to have been called"),
    ("source", "writes, reads or looks for files itself", FILES),
    ("source", "replaces a function of the file system, or counts its calls", r"mock"),
]


class OurNames(types.ModuleType):
    """The module `swift.obj.diskfile` with our classes; what tests set in it is set in the module itself."""

    def __getattribute__(self, name):
        return OURS[name] if name in OURS else getattr(stock, name)

    def __setattr__(self, name, value):
        setattr(stock, name, value)

    def __delattr__(self, name):
        delattr(stock, name)


OURS = {
    name: getattr(module, name)
    for module, start in ((diskfile, "DiskFile"), (ec_diskfile, "ECDiskFile"))
    for name in (start, start + "Manager", start + "Reader", start + "Writer")
}


def use_ours():
    """Gives the tests our classes, and serves each device that they make."""

    def serving(devices, device, cluster):
        path = os.path.join(devices, device, client.SOCKET_NAME)
        if os.path.isdir(os.path.dirname(path)) and not os.path.exists(path):
            DriveServer(MemoryStore(1 << 40), device, cluster, path).start()
        return client.drive_of(devices, device, cluster)

    diskfile.drive_of = serving
    # Tests change the prefix of hash paths while a device is served.
    diskfile.cluster_digest = lambda: identity.digest_of("", "tests")
    managers = {"replication.fs": "DiskFileManager", "erasure_coding.fs": "ECDiskFileManager"}
    load = storage_policy.load_pkg_resource

    def load_ours(group, uri):
        name = managers.get(uri.partition("#")[2])
        return load(group, uri) if name is None else OURS[name]

    storage_policy.load_pkg_resource = load_ours
    swift.obj.diskfile = OurNames("swift.obj.diskfile")


def source_of(test):
    """The source of a test and of the methods of its class that it calls."""
    method = getattr(test, test._testMethodName)
    source = inspect.getsource(method)
    for _ in range(2):
        for name in set(re.findall(r"self\.(_\w+)\(", source)):
            helper = getattr(test, name, None)
            if helper is not None and inspect.ismethod(helper):
                text = inspect.getsource(helper)
                if text not in source:
                    source += text
    return source


def lines_of(traceback):
    """The lines of a traceback that are the tests' own, and its end."""
    lines = traceback.rstrip().split("\n")
    own = [lines[number + 1] for number, line in enumerate(lines[:-1]) if "/test_" in line or "/test/unit/" in line]
    return "\n".join([*own, lines[-1]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", metavar="SOURCES")
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--log", default=os.devnull, help="where tracebacks go")
    options = parser.parse_args()
    sys.path.insert(0, options.sources)
    # The path of a Unix socket is short.
    tempfile.tempdir = "/dev/shm" if os.path.isdir("/dev/shm") else None
    if not options.stock:
        use_ours()
    for module in MODULES:
        importlib.import_module(module)
    swift.obj.diskfile = stock
    output, said = os.dup(1), open(os.devnull, "w", encoding="utf-8")
    os.dup2(said.fileno(), 1)
    with open(options.log, "w", encoding="utf-8") as log:
        for module in MODULES:
            suite = unittest.defaultTestLoader.loadTestsFromName(module)
            result = unittest.TextTestRunner(stream=log, verbosity=0).run(suite)
            os.write(output, report(module, result).encode())
    # Threads of served devices are not waited for.
    os._exit(0)


def report(module, result):
    failed = {test.id(): (test, traceback) for test, traceback in result.failures + result.errors}
    skipped = len(result.skipped)
    lines = [f"{module}: {result.testsRun - len(failed) - skipped} passed, {len(failed)} failed, {skipped} skipped"]
    counts = collections.Counter()
    unexplained = []
    for test, traceback in failed.values():
        texts = {"source": source_of(test) if hasattr(test, "_testMethodName") else "", "traceback": lines_of(traceback)}
        reason = next((reason for where, reason, pattern in REASONS if re.search(pattern, texts[where])), None)
        if reason is None:
            unexplained.append(test.id())
        else:
            counts[reason] += 1
    lines += [f"  {count:4} {reason}" for reason, count in counts.most_common()]
    lines += [f"       not explained: {name}" for name in unexplained]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
