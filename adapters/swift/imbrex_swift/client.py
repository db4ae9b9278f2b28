"""The client of a drive's daemon: green sockets, a pool for each drive and process.

A call takes a connection of the pool and gives it back. Uploads, readers and claims keep theirs until they end. A
connection whose daemon has gone is noticed before it is used again, so a restart of the daemon costs nobody a failure
who was not within a call.
"""

import errno
import os
import select
import time
from contextlib import contextmanager

from eventlet import sleep
from eventlet.green import socket

from . import wire
from .wire import PROTOCOL

#: Where the daemon of a device listens, within the directory of the device.
SOCKET_NAME = "drive.sock"

#: Idle connections that a process keeps for each drive.
IDLE_COUNT_MAX = 32

#: Data of an upload that may be on their way before the daemon has said that it has them.
UNANSWERED_LEN_MAX = 1 << 20

#: Data that a reader fetches at once.
FETCH_LEN = 256 << 10

CONNECT_S_MAX = 10

#: How long a busy daemon is asked again.
BUSY_S_MAX = 5


class DriveFailure(OSError):
    """The daemon refused or failed; `errno` says how, as a file system would."""


class DriveGone(DriveFailure):
    """There is no daemon, or it has gone."""


class DriveRefused(DriveGone):
    """The daemon has another drive than the one that was asked for."""


_ERRNO = {
    "nospace": errno.ENOSPC,
    "damaged": errno.EIO,
    "missing": errno.ENOENT,
}


def _failure(payload):
    code, text = (part.decode("utf-8", "replace") for part in wire.unpack(payload))
    if code == "refused":
        return DriveRefused(errno.ENODEV, text)
    if code == "busy":
        return DriveGone(errno.EBUSY, text)
    return DriveFailure(_ERRNO.get(code, errno.EREMOTEIO), text)


class Connection:
    """One connection; it is in the hands of one green thread."""

    def __init__(self, path, device, cluster):
        self._path = path
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.settimeout(CONNECT_S_MAX)
        self.usable = False
        try:
            self._sock.connect(path)
            self._send(wire.CALL, wire.pack(["hello", PROTOCOL, device, cluster]))
            self._receive()
            self._sock.settimeout(None)
        except BaseException as error:
            self._sock.close()
            if isinstance(error, OSError) and not isinstance(error, DriveFailure):
                # Eventlet's errors have names for texts.
                text = os.strerror(error.errno) if error.errno else error
                raise DriveGone(errno.ENODEV, f"{path}: {text}") from error
            raise

    def is_current(self):
        """Whether the daemon still has this connection; it sends nothing unasked, so what can be read is its end."""
        poll = select_poll()
        poll.register(self._sock.fileno(), select.POLLIN | select.POLLHUP | select.POLLERR)
        return not poll.poll(0)

    def call(self, *request):
        """The answer to one call."""
        self._send(wire.CALL, wire.pack(request))
        return self._receive()

    def send_data(self, data):
        """Data of the upload, which the daemon does not answer."""
        self._send(wire.DATA, data)

    def _send(self, kind, payload):
        self.usable = False
        try:
            wire.send_frame(self._sock, kind, payload)
        except OSError as error:
            raise DriveGone(errno.ENODEV, f"{self._path}: {error}") from error
        self.usable = kind == wire.DATA

    def _receive(self):
        try:
            kind, payload = wire.receive_frame(self._sock)
        except (OSError, wire.WireError) as error:
            raise DriveGone(errno.ENODEV, f"{self._path}: {error}") from error
        if kind == wire.ERROR:
            failure = _failure(payload)
            self.usable = not isinstance(failure, DriveGone)
            raise failure
        if kind != wire.REPLY:
            raise DriveGone(errno.ENODEV, f"{self._path}: a frame of kind {kind!r} is no answer")
        answer = wire.unpack(payload)
        self.usable = True
        return answer

    def close(self):
        self.usable = False
        self._sock.close()


def select_poll():
    """A poll of the system, which returns at once; eventlet takes ``select.poll`` away from patched programs."""
    from eventlet import patcher

    return patcher.original("select").poll()


class Drive:
    """One drive, as a process sees it."""

    def __init__(self, path, device, cluster):
        self.path = path
        self._device = device
        self._cluster = cluster
        self._pid = os.getpid()
        self._idle = []

    def _take(self):
        if self._pid != os.getpid():
            # The connections are the parent's.
            self._pid, self._idle = os.getpid(), []
        while self._idle:
            connection = self._idle.pop()
            if connection.is_current():
                return connection
            connection.close()
        end = time.monotonic() + BUSY_S_MAX
        while True:
            try:
                return Connection(self.path, self._device, self._cluster)
            except DriveGone as error:
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
            sleep(0.1)

    def _give(self, connection):
        if connection.usable and len(self._idle) < IDLE_COUNT_MAX and self._pid == os.getpid():
            self._idle.append(connection)
        else:
            connection.close()

    def give_back(self, connection, last):
        """Gives back a connection whose upload or object ends with the call `last`."""
        try:
            if connection.usable:
                connection.call(last)
        except DriveFailure:
            pass
        except BaseException:
            connection.close()
            raise
        self._give(connection)

    @contextmanager
    def connection(self):
        """A connection for a while."""
        connection = self._take()
        try:
            yield connection
        except DriveFailure:
            self._give(connection)
            raise
        except BaseException:
            connection.close()
            raise
        else:
            self._give(connection)

    def call(self, *request):
        with self.connection() as connection:
            return connection.call(*request)

    def is_there(self):
        """Whether the daemon answers. Raises `DriveRefused` if it is another drive's."""
        try:
            with self.connection():
                return True
        except DriveRefused:
            raise
        except DriveFailure:
            return False

    def room(self):
        return tuple(self.call("room"))

    def names(self, directory):
        """The names of the files in a directory."""
        return [name for name, _, _ in self.call("look", directory, False)[0]]

    def look(self, directory):
        """The files of a directory, each a name, a size and metadata."""
        return self.call("look", directory, False)[0]

    def look_and_open(self, directory):
        """The files of a directory, and a reader of the last of its ``.data``, or None, with its name."""
        connection = self._take()
        try:
            found, held = connection.call("look", directory, True)
        except DriveFailure:
            self._give(connection)
            raise
        except BaseException:
            connection.close()
            raise
        if held is None:
            self._give(connection)
            return found, None, None
        size = next(size for name, size, _ in found if name == held)
        return found, Reader(self, connection, size), held

    def open(self, key):
        """A reader of an object, and its metadata. Raises an OSError with ENOENT if there is none."""
        connection = self._take()
        try:
            size, metadata = connection.call("open", key)
        except DriveFailure:
            self._give(connection)
            raise
        except BaseException:
            connection.close()
            raise
        return Reader(self, connection, size), metadata

    def children(self, directory):
        """The names below a directory, each with whether it is a directory itself."""
        start = b""
        while start is not None:
            found, start = self.call("children", directory, start, 2000)
            yield from ((name, is_directory) for name, is_directory in found)

    def scan(self, prefix, metadata=False):
        """Entries with a prefix: keys, or keys, sizes and metadata."""
        start = prefix
        while start is not None:
            found, start = self.call("scan", prefix, start, 2000, metadata)
            for entry in found:
                yield tuple(entry) if metadata else entry[0]

    def stat(self, key):
        """Size and metadata, or None."""
        return self.call("stat", key)

    def fetch(self, key):
        """All data of a short object and its metadata."""
        reader, metadata = self.open(key)
        with reader:
            return reader.read(-1), metadata

    def commit(self, directory, *, seen=None, puts=(), renames=(), deletes=(), marks=()):
        """One batch. True, or the names that are there instead of those of `seen`."""
        return self.call("commit", directory, seen, None, puts, renames, deletes, marks)

    def put(self, key, data, metadata=b""):
        self.commit(key.rpartition(b"/")[0], puts=[[key, data, metadata]])

    def delete(self, *keys):
        self.commit(keys[0].rpartition(b"/")[0], deletes=list(keys))

    def upload(self):
        return Upload(self)

    @contextmanager
    def claim(self, name, limit, timeout, on_timeout):
        """A claim on a name; raises `on_timeout` if there is none within `timeout` seconds."""
        end = time.monotonic() + timeout
        pause = 0.01
        with self.connection() as connection:
            while not connection.call("claim", name, limit):
                left = end - time.monotonic()
                if left <= 0:
                    raise on_timeout
                sleep(min(pause, left))
                pause = min(pause * 2, 0.25)
            try:
                yield True
            finally:
                if connection.usable:
                    connection.call("give", name)


class Upload:
    """Data of an object that has no name yet. Without `commit` it is forgotten."""

    def __init__(self, drive):
        self._drive = drive
        self._connection = None
        self._unanswered = 0

    def begin(self, length, reserve, is_percent):
        """Asks for room; see `Session._create`."""
        self._connection = self._drive._take()
        self._connection.call("create", length, int(reserve * (1e6 if is_percent else 1)), is_percent)

    def write(self, data):
        """Sends data on; what the drive says is known after a mebibyte at most."""
        view = memoryview(data)
        while view:
            part, view = view[: wire.DATA_LEN_MAX], view[wire.DATA_LEN_MAX :]
            self._connection.send_data(part)
            self._unanswered += len(part)
            if self._unanswered >= UNANSWERED_LEN_MAX:
                self._unanswered = 0
                self._connection.call("written")

    def commit(self, directory, seen, key, metadata, deletes, marks):
        """As `Drive.commit`; the upload becomes the object `key`."""
        return self._connection.call("commit", directory, seen, [key, metadata], [], [], deletes, marks)

    def close(self):
        """Ends it, and abandons it if it has not become an object."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._drive.give_back(connection, "abandon")


class Reader:
    """A file of one object: the one that was there when it was opened."""

    def __init__(self, drive, connection, size):
        self._drive = drive
        self._connection = connection
        self.size = size
        self._at = 0
        self._fetched = b""
        self._fetched_from = 0

    def read(self, length=-1):
        """At most `length` bytes from here; empty at the end. A damaged object raises an OSError with EIO."""
        if length is None or length < 0:
            parts = []
            while part := self.read(FETCH_LEN):
                parts.append(part)
            return b"".join(parts)
        offset = self._at - self._fetched_from
        if not 0 <= offset < len(self._fetched):
            wanted = min(max(length, FETCH_LEN), self.size - self._at)
            if wanted <= 0:
                return b""
            self._fetched = self._call("read", self._at, wanted)
            self._fetched_from, offset = self._at, 0
        part = self._fetched[offset : offset + length]
        self._at += len(part)
        return part

    def _call(self, *request):
        if self._connection is None:
            raise ValueError("the reader is closed")
        return self._connection.call(*request)

    def seek(self, offset):
        self._at = offset

    def tell(self):
        return self._at

    def close(self):
        connection, self._connection = self._connection, None
        if connection is not None:
            self._drive.give_back(connection, "release")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        connection, self._connection = getattr(self, "_connection", None), None
        if connection is not None:
            connection.close()


_DRIVES = {}


def drive_of(devices, device, cluster):
    """The drive of a device below `devices`; one for each, for all who ask."""
    key = (devices, device, cluster)
    if key not in _DRIVES:
        _DRIVES[key] = Drive(os.path.join(devices, device, SOCKET_NAME), device, cluster)
    return _DRIVES[key]
