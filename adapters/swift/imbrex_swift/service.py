"""The operations of a drive, over its store: what the daemon does for one connection.

Every change of what a suffix has goes through `Service.commit` and its like under the lock of that suffix. A client
says which names it saw; if others are there meanwhile, nothing changes and it gets the names of now. So Swift's rules
may run in another process and still be applied atomically.
"""

import os
import threading
import time
from contextlib import contextmanager

from .names import MARK, QUARANTINED, digest_key, is_of_objects, suffix_of

#: Data of an upload that wait in memory, for each connection. Shorter objects are written with their entry.
PENDING_LEN_MAX = 1 << 20

#: Entries in one answer, at most, and about how many bytes.
PAGE_COUNT_MAX = 2000
PAGE_LEN_MAX = 2 << 20

#: The longest single read.
READ_LEN_MAX = 1 << 20

#: How long the room of the drive is taken as known.
ROOM_AGE_MAX = 0.5

#: A batch of deletes of whole ranges.
DROP_COUNT = 500


class Refused(Exception):
    """The operation failed, for a reason that the client is told: a code and a text."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class KeyedLocks:
    """One lock for each key that is in use."""

    def __init__(self):
        self._guard = threading.Lock()
        self._locks = {}

    @contextmanager
    def hold(self, key):
        with self._guard:
            entry = self._locks.setdefault(key, [threading.Lock(), 0])
            entry[1] += 1
        try:
            with entry[0]:
                yield
        finally:
            with self._guard:
                entry[1] -= 1
                if entry[1] == 0:
                    del self._locks[key]


class Claims:
    """Locks of clients, by name. A claim ends with the connection that has it, so none outlives its process."""

    def __init__(self):
        self._guard = threading.Lock()
        self._holders = {}

    def take(self, name, limit, holder):
        """Whether `holder` has one of `limit` claims on `name` now."""
        with self._guard:
            holders = self._holders.setdefault(name, [])
            if len(holders) >= limit:
                return False
            holders.append(holder)
            return True

    def give(self, name, holder):
        with self._guard:
            holders = self._holders.get(name, [])
            if holder in holders:
                holders.remove(holder)
            if not holders:
                self._holders.pop(name, None)

    def give_all(self, holder):
        with self._guard:
            for name in list(self._holders):
                kept = [one for one in self._holders[name] if one is not holder]
                if kept:
                    self._holders[name] = kept
                else:
                    del self._holders[name]


class Service:
    """What all connections share."""

    def __init__(self, store, clock=time.monotonic):
        self._store = store
        self.objects = store.objects()
        self.locks = KeyedLocks()
        self.claims = Claims()
        self._clock = clock
        self._room = None
        self._room_guard = threading.Lock()
        self._mark_guard = threading.Lock()
        self._mark_start = os.urandom(4)
        self._mark_count = 0

    def room(self):
        """The drive's length and what new data may still take, in bytes; half a second old at most."""
        with self._room_guard:
            now = self._clock()
            if self._room is None or now - self._room[0] > ROOM_AGE_MAX:
                space = self._store.stats()["space"]
                free = space["free_bytes"] + space.get("dead_bytes", 0)
                self._room = (now, space["capacity_bytes"], free)
            return self._room[1:]

    def new_mark(self):
        """A value of a digest that no other mark has: the digest must be computed."""
        with self._mark_guard:
            self._mark_count = (self._mark_count + 1) % (1 << 32)
            if self._mark_count == 0:
                self._mark_start = os.urandom(4)
            return MARK + self._mark_start + self._mark_count.to_bytes(4, "little")

    def names(self, directory):
        """The names of the files in `directory`, in order."""
        prefix = directory + b"/"
        listing = self.objects.list(prefix, metadata=False)
        return [key[len(prefix) :] for key, _ in listing if b"/" not in key[len(prefix) :]]

    def add_mark(self, batch, suffix_directory):
        """Marks a suffix in `batch`, which changes what it has."""
        batch.put(digest_key(suffix_directory), b"", self.new_mark())

    def forget_if_empty(self, suffix_directory):
        """Removes the digest of a suffix that has no file any more. The caller holds the lock of the suffix."""
        if suffix_directory is None:
            return
        if next(iter(self.objects.list(suffix_directory + b"/", metadata=False)), None) is None:
            self.objects.delete(digest_key(suffix_directory), sync=False)


class Session:
    """One connection: at most one upload and one reader at a time."""

    def __init__(self, service):
        self._service = service
        self._objects = service.objects
        self._pending = None
        self._pending_len = 0
        self._upload = None
        self._upload_key = None
        self._upload_failure = None
        self._reader = None

    def close(self):
        """Ends what the connection had: its upload is abandoned, its claims are given back."""
        self._abandon()
        self._release()
        self._service.claims.give_all(self)

    def call(self, request):
        """Does one call and returns its answer."""
        if not isinstance(request, list) or not request or not isinstance(request[0], bytes):
            raise Refused("bad", "a call is a list that begins with a name")
        operation = self._OPERATIONS.get(request[0])
        if operation is None:
            raise Refused("bad", f"there is no operation {request[0]!r}")
        try:
            return operation(self, *request[1:])
        except TypeError as error:
            raise Refused("bad", f"{request[0].decode()}: {error}") from error

    # Reading.

    def _room_op(self):
        return list(self._service.room())

    def _look(self, directory, hold):
        """The files of a directory with size and metadata; with `hold`, the last of the `.data` is open afterwards."""
        self._release()
        for _ in range(8):
            prefix = directory + b"/"
            found = [
                [key[len(prefix) :], stat.size, stat.metadata]
                for key, stat in self._objects.list(prefix)
                if b"/" not in key[len(prefix) :]
            ]
            data = [entry for entry in found if entry[0].endswith(b".data")]
            if not hold or not data:
                return [found, None]
            name, size, metadata = data[-1]
            try:
                self._reader = self._objects.open(prefix + name)
            except KeyError:
                continue  # Deleted meanwhile: look again.
            if (self._reader.size, self._reader.metadata) == (size, metadata):
                return [found, name]
            self._release()  # Replaced meanwhile.
        return [found, None]

    def _open(self, key):
        self._release()
        try:
            self._reader = self._objects.open(key)
        except KeyError:
            raise Refused("missing", "there is no such object") from None
        return [self._reader.size, self._reader.metadata]

    def _read(self, offset, length):
        if self._reader is None:
            raise Refused("bad", "nothing is open")
        length = min(length, READ_LEN_MAX)
        parts = []
        self._reader.seek(offset)
        while length > 0:
            part = self._reader.read(length)
            if not part:
                break
            parts.append(bytes(part))
            length -= len(part)
        return b"".join(parts)

    def _release(self):
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _stat(self, key):
        stat = self._objects.stat(key)
        return None if stat is None else [stat.size, stat.metadata]

    def _scan(self, prefix, start, limit, metadata):
        """Entries with a prefix from `start` on: each a key, and size and metadata if asked for. Then the next start."""
        limit = min(limit, PAGE_COUNT_MAX)
        found, length = [], 0
        for key, stat in self._objects.list(prefix, start=start, metadata=metadata):
            if len(found) >= limit or length >= PAGE_LEN_MAX:
                return [found, key]
            found.append([key, stat.size, stat.metadata] if metadata else [key])
            length += len(key) + (len(stat.metadata) if metadata else 0)
        return [found, None]

    def _children(self, directory, start, limit):
        """The names directly below `directory`, from `start` on, and whether each is a directory. Then the next start.

        One look-up for each name, however much lies below it.
        """
        prefix = directory + b"/" if directory else b""
        found = []
        at = prefix + start
        while len(found) < min(limit, PAGE_COUNT_MAX):
            key = next((key for key, _ in self._objects.list(prefix, start=at, metadata=False)), None)
            if key is None:
                return [found, None]
            name, slash, _ = key[len(prefix) :].partition(b"/")
            found.append([name, bool(slash)])
            # "0" is the byte behind "/".
            at = prefix + name + (b"0" if slash else b"\x00")
        return [found, at[len(prefix) :]]

    # Writing.

    def _create(self, length, reserve, is_percent):
        """Begins an upload, if the drive keeps `reserve` free behind `length` more bytes; -1 asks no room at all."""
        self._abandon()
        if length >= 0:
            capacity, free = self._service.room()
            kept = capacity * reserve / 100e6 if is_percent else reserve
            if free - length <= kept:
                raise Refused("nospace", f"{free} bytes are free, and {int(kept)} are reserved")
        self._pending, self._pending_len = [], 0
        return None

    def data(self, payload):
        """Takes data of the upload. A failure is the answer of the next call, because data have none."""
        if self._pending is None or self._upload_failure is not None:
            return
        try:
            if self._upload is None and self._pending_len + len(payload) > PENDING_LEN_MAX:
                self._upload_key = b"uploads/" + os.urandom(16).hex().encode()
                self._upload = self._objects.create(self._upload_key)
                for part in self._pending:
                    self._upload.write(part)
                self._pending.clear()
            if self._upload is None:
                self._pending.append(bytes(payload))
            else:
                self._upload.write(payload)
            self._pending_len += len(payload)
        except Exception as error:
            self._upload_failure = error
            self._end_upload()

    def _written(self):
        """How many bytes the upload has; raises what a write met."""
        self._raise_failure()
        return self._pending_len

    def _raise_failure(self):
        if self._upload_failure is not None:
            failure, self._upload_failure = self._upload_failure, None
            self._pending = None
            raise failure

    def _abandon(self):
        self._end_upload()
        self._pending = self._upload_failure = None

    def _end_upload(self):
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abandon()

    def _commit(self, directory, seen, finish, puts, renames, deletes, marks):
        """Changes a directory in one durable batch.

        `seen` is None or the names that must be there. If they are not, nothing changes, the upload stays, and the
        answer is the names of now. Otherwise it is True.

        `finish` is None or the key and metadata that the upload gets. `puts` are keys, data and metadata, `renames`
        pairs of keys. `marks` are directories of suffixes.
        """
        self._raise_failure()
        if finish is not None and self._pending is None:
            raise Refused("bad", "there is no upload")
        with self._service.locks.hold(suffix_of(directory) or directory):
            if seen is not None:
                names = self._service.names(directory)
                if names != sorted(seen):
                    return names
            batch = self._objects.batch()
            if finish is not None:
                self._finish_in(batch, *finish)
            for key, data, metadata in puts:
                batch.put(key, data, metadata)
            for old, new in renames:
                batch.rename(old, new)
            for key in deletes:
                batch.delete(key)
            for suffix_directory in marks:
                self._service.add_mark(batch, suffix_directory)
            try:
                batch.write(sync=True)
            except BaseException:
                if finish is not None:
                    self._abandon()
                raise
            if finish is not None:
                self._upload = self._pending = None
            if deletes:
                self._service.forget_if_empty(suffix_of(directory))
            return True

    def _finish_in(self, batch, key, metadata):
        if self._upload is None:
            batch.put(key, b"".join(self._pending), metadata)
        else:
            batch.finish(self._upload, metadata)
            batch.rename(self._upload_key, key)

    def _settle(self, suffix_directory, expected, digest):
        """Replaces the value of a digest, if it is the expected one; without `digest` its entry goes."""
        key = digest_key(suffix_directory)
        with self._service.locks.hold(suffix_directory):
            stat = self._objects.stat(key)
            if (None if stat is None else stat.metadata) != expected:
                return False
            batch = self._objects.batch()
            if digest is not None:
                batch.put(key, b"", digest)
            elif stat is not None:
                batch.delete(key)
            # A digest that a crash takes back is a mark again.
            batch.write(sync=False)
            return True

    def _quarantine(self, directory, other_name):
        """Moves a directory to the quarantine, under `other_name` if its own is taken. The answer is its new key."""
        parts = directory.split(b"/")
        if not is_of_objects(parts[0]) or len(parts) not in (3, 4):
            raise Refused("bad", "only directories of hashes and suffixes can be quarantined")
        suffix_directory = b"/".join(parts[:3])
        with self._service.locks.hold(suffix_directory):
            target = b"/".join((QUARANTINED, parts[0], parts[-1]))
            if next(iter(self._objects.list(target + b"/", metadata=False)), None) is not None:
                target = b"/".join((QUARANTINED, parts[0], other_name))
            batch = self._objects.batch()
            moved = False
            for key, _ in self._objects.list(directory + b"/", metadata=False):
                batch.rename(key, target + key[len(directory) :])
                moved = True
            if not moved:
                raise Refused("missing", "there is no such directory")
            self._service.add_mark(batch, suffix_directory)
            batch.write(sync=True)
            self._service.forget_if_empty(suffix_directory)
        return target

    def _drop(self, directory, expected):
        """Deletes everything below a directory of a suffix or hash, if the digest of its suffix is still `expected`."""
        suffix_directory = suffix_of(directory)
        if suffix_directory is None:
            raise Refused("bad", "only directories of hashes and suffixes can be dropped")
        with self._service.locks.hold(suffix_directory):
            stat = self._objects.stat(digest_key(suffix_directory))
            if (None if stat is None else stat.metadata) != expected:
                return False
            keys = [key for key, _ in self._objects.list(directory + b"/", metadata=False)]
            for at in range(0, len(keys), DROP_COUNT):
                batch = self._objects.batch()
                for key in keys[at : at + DROP_COUNT]:
                    batch.delete(key)
                self._service.add_mark(batch, suffix_directory)
                batch.write(sync=True)
            self._service.forget_if_empty(suffix_directory)
            return True

    def _claim(self, name, limit):
        return self._service.claims.take(name, limit, self)

    def _give(self, name):
        self._service.claims.give(name, self)

    def _nothing(self):
        return None

    _OPERATIONS = {
        b"abandon": _abandon,
        b"children": _children,
        b"claim": _claim,
        b"commit": _commit,
        b"create": _create,
        b"drop": _drop,
        b"give": _give,
        b"look": _look,
        b"open": _open,
        b"ping": _nothing,
        b"quarantine": _quarantine,
        b"read": _read,
        b"release": _release,
        b"room": _room_op,
        b"scan": _scan,
        b"settle": _settle,
        b"stat": _stat,
        b"written": _written,
    }
