"""What the tests of the adapter share: devices that are served from memory, policies, and a logger that remembers."""

import logging
import os
import shutil
import sys
import tempfile
import unittest
from unittest import mock

sys.path[:0] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(os.path.abspath(__file__))]

from swift.common import storage_policy, utils  # noqa: E402
from swift.common.storage_policy import ECStoragePolicy, StoragePolicy, StoragePolicyCollection  # noqa: E402

from memory import MemoryStore  # noqa: E402

from imbrex_swift import identity  # noqa: E402
from imbrex_swift.diskfile import DiskFileManager  # noqa: E402
from imbrex_swift.drive import DriveServer  # noqa: E402
from imbrex_swift.ec_diskfile import ECDiskFileManager  # noqa: E402

MANAGERS = {
    "egg:imbrex-swift#replication.imbrex": DiskFileManager,
    "egg:imbrex-swift#erasure_coding.imbrex": ECDiskFileManager,
}

utils.HASH_PATH_PREFIX, utils.HASH_PATH_SUFFIX = b"", b"of the tests"

#: One of each kind.
POLICIES = StoragePolicyCollection([
    StoragePolicy(0, name="copies", is_default=True, diskfile_module="egg:imbrex-swift#replication.imbrex"),
    ECStoragePolicy(1, name="fragments", ec_type="liberasurecode_rs_vand", ec_ndata=2, ec_nparity=1,
                    ec_segment_size=4096, diskfile_module="egg:imbrex-swift#erasure_coding.imbrex"),
])


class Logger(logging.LoggerAdapter):
    """Swift's calls of a logger, kept in lists."""

    def __init__(self):
        base = logging.Logger("tests", logging.DEBUG)
        super().__init__(base, {})
        self.lines = []
        self.counts = {}
        self.thread_locals = None
        base.addHandler(_Keeping(self.lines))

    def increment(self, name, *_, **__):
        self.counts[name] = self.counts.get(name, 0) + 1

    def update_stats(self, *_, **__):
        pass

    timing = timing_since = transfer_rate = update_stats

    def notice(self, *args):
        self.info(*args)

    def text(self):
        return "\n".join(self.lines)


class _Keeping(logging.Handler):
    def __init__(self, lines):
        super().__init__()
        self._lines = lines

    def emit(self, record):
        self._lines.append(f"{record.levelname}: {self.format(record)}")


class Served(unittest.TestCase):
    """A directory of devices, of which ``d1`` is served from memory."""

    device = "d1"

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ims-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.devices = os.path.join(self.directory, "node")
        self.logger = Logger()
        self.stores = {}
        self.servers = {}
        before = storage_policy._POLICIES
        storage_policy._POLICIES = POLICIES
        self.addCleanup(setattr, storage_policy, "_POLICIES", before)
        # The package need not be installed.
        found = mock.patch.object(storage_policy, "load_pkg_resource", lambda _, name: MANAGERS[name])
        found.start()
        self.addCleanup(found.stop)
        self.cluster = identity.digest_of(utils.HASH_PATH_PREFIX, utils.HASH_PATH_SUFFIX)
        self.serve(self.device)

    def serve(self, device, store=None, **options):
        """Serves a device from a new store in memory, or from this one."""
        os.makedirs(os.path.join(self.devices, device), exist_ok=True)
        store = MemoryStore() if store is None else store
        server = DriveServer(store, device, self.cluster, self.socket_of(device), **options)
        server.start()
        self.stores[device], self.servers[device] = store, server
        self.addCleanup(self.end, device, server)
        return store

    def end(self, device, server=None):
        server = server or self.servers[device]
        if self.servers.get(device) is server:
            del self.servers[device]
            server.stop(patience=2)

    def socket_of(self, device):
        return os.path.join(self.devices, device, "drive.sock")

    @property
    def store(self):
        return self.stores[self.device]

    def conf(self, **more):
        return {"devices": self.devices, "mount_check": "false", "fallocate_reserve": "0", **more}
