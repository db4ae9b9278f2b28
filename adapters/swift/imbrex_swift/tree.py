"""A drive as Swift's daemons want to see it: paths, of which some are directories.

Nothing is a directory on a drive; what is asked of one is answered from ranges of keys. Paths outside of served devices
go to the file system.
"""

import errno
import io
import os
import pickle

from swift.obj.diskfile import PICKLE_PROTOCOL

from . import names
from .client import SOCKET_NAME, DriveFailure, DriveRefused, drive_of
from .diskfile import as_text, cluster_digest, digests_of, place_of
from .seams import Facade


class Tree:
    """The devices below one directory."""

    def __init__(self, devices):
        self._devices = devices
        #: In place of the module ``os``.
        self.os = Facade(
            os,
            listdir=self.listdir,
            path=Facade(os.path, exists=self.exists, isdir=self.isdir, isfile=self.isfile),
            rmdir=self.rmdir,
            unlink=self.unlink,
        )

    def drive(self, device):
        return drive_of(self._devices, device, cluster_digest())

    def place(self, path):
        """The drive of a path and the key there; None and None for a path on no drive."""
        relative = os.path.relpath(path, self._devices)
        device = relative.partition("/")[0]
        if device in ("", ".", "..") or not os.path.exists(os.path.join(self._devices, device, SOCKET_NAME)):
            return None, None
        if relative == device:
            return self.drive(device), b""
        device, key = place_of(self._devices, path)
        return self.drive(device), key

    def check_drive(self, root, device, mount_check):
        """The path of a device. Raises ValueError if it is not served, whatever `mount_check` is."""
        try:
            is_there = self.drive(device).is_there()
        except DriveRefused as error:
            raise ValueError("%s is not served: %s" % (device, error)) from error
        if not is_there:
            raise ValueError("%s is not served" % device)
        return os.path.join(root, device)

    def listdir(self, path):
        drive, key = self.place(path)
        if drive is None:
            try:
                return os.listdir(path)
            except FileNotFoundError:
                return []
        parts = key.split(b"/") if key else []
        if len(parts) == 2 and names.is_of_objects(parts[0]):
            return [suffix for suffix, _ in digests_of(drive, key)]
        if len(parts) == 2:
            return [as_text(name[len(key) + 1 :]) for name in drive.scan(key + b"/")]
        return [as_text(name) for name, _ in drive.children(key)]

    def exists(self, path):
        drive, key = self.place(path)
        if drive is None:
            return os.path.exists(path)
        return not key or self._has(drive, key)

    def _has(self, drive, key):
        return drive.stat(key) is not None or next(drive.scan(key + b"/"), None) is not None

    def isdir(self, path):
        drive, key = self.place(path)
        if drive is None:
            return os.path.isdir(path)
        return not key or next(drive.scan(key + b"/"), None) is not None

    def isfile(self, path):
        drive, key = self.place(path)
        if drive is None:
            return os.path.isfile(path)
        return bool(key) and drive.stat(key) is not None

    def unlink(self, path):
        drive, key = self.place(path)
        if drive is None:
            os.unlink(path)
            return
        if drive.stat(key) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        drive.delete(key)

    def rmdir(self, path):
        """A directory without files is none, so there is nothing to remove."""
        if self.isdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    def open(self, path, mode="r", *args, **kwargs):
        drive, key = self.place(path)
        if drive is None:
            return open(path, mode, *args, **kwargs)
        if mode != "rb":
            raise ValueError(f"files of a drive are opened for reading only, not {mode!r}")
        try:
            return io.BytesIO(drive.fetch(key)[0])
        except DriveFailure as error:
            raise OSError(error.errno, error.strerror, path) from error

    def renamer(self, old, new, fsync=True):
        drive, key = self.place(old)
        drive.commit(key.rpartition(b"/")[0], renames=[[key, self.place(new)[1]]])

    def write_pickle(self, value, path, tmp=None, pickle_protocol=PICKLE_PROTOCOL):
        drive, key = self.place(path)
        drive.put(key, pickle.dumps(value, pickle_protocol))


class Direct:
    """In place of Swift's pool of threads: what is run waits for a socket only, and green sockets make others run."""

    @staticmethod
    def execute(function, *args, **kwargs):
        return function(*args, **kwargs)


def nothing(*_args, **_kwargs):
    """In place of what only a file system needs."""
