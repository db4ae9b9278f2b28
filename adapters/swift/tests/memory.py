"""A store of objects in memory, with the calls of `imbrex` that the daemon uses: a double for fast tests."""

import bisect
import threading
from types import SimpleNamespace


class NoSpaceError(Exception):
    """The drive is full."""


class DamagedError(Exception):
    """Data are not as they were written."""


class MemoryStore:
    """`capacity` is what data may take; the data of the keys of `damaged` cannot be read, nor the entries of `damaged_entries`; `calls` counts some calls."""

    def __init__(self, capacity=1 << 30):
        self.capacity = capacity
        self.entries = {}
        self.keys = []
        self.guard = threading.RLock()
        self.damaged = set()
        self.damaged_entries = set()
        self.synced_batches = 0
        self.closed = False
        self.calls = {}

    def objects(self):
        return MemoryObjects(self)

    def stats(self):
        used = sum(len(data) for data, _ in list(self.entries.values()))
        return {"space": {"capacity_bytes": self.capacity, "free_bytes": self.capacity - used, "dead_bytes": 0}}

    def close(self):
        self.closed = True

    def sync(self):
        self.count("sync")

    def count(self, call):
        with self.guard:
            self.calls[call] = self.calls.get(call, 0) + 1

    def used(self):
        return sum(len(data) for data, _ in self.entries.values())

    def set(self, key, data, metadata):
        if key not in self.entries:
            bisect.insort(self.keys, key)
        self.entries[key] = (data, metadata)

    def remove(self, key):
        if key in self.entries:
            del self.entries[key]
            del self.keys[bisect.bisect_left(self.keys, key)]
            return True
        return False


class MemoryObjects:
    def __init__(self, store):
        self._store = store

    def create(self, key):
        return MemoryWriter(self._store, key)

    def put(self, key, data=b"", metadata=b"", *, sync=True):
        batch = self.batch()
        batch.put(key, data, metadata)
        batch.write(sync=sync)

    def open(self, key):
        self._store.count("open")
        with self._store.guard:
            data, metadata = self._store.entries[key]
            return MemoryReader(data, metadata, key in self._store.damaged)

    def stat(self, key):
        with self._store.guard:
            entry = self._store.entries.get(key)
        return None if entry is None else SimpleNamespace(size=len(entry[0]), metadata=entry[1])

    def list(self, prefix=b"", *, start=None, metadata=True):
        self._store.count("list")
        with self._store.guard:
            at = bisect.bisect_left(self._store.keys, max(prefix, start or b""))
            # As of this moment, as a snapshot is.
            found = []
            for key in self._store.keys[at:]:
                if not key.startswith(prefix):
                    break
                data, meta = self._store.entries[key]
                if key in self._store.damaged_entries:
                    return self._until_damage(found)
                found.append((key, SimpleNamespace(size=len(data), metadata=meta if metadata else None)))
        return iter(found)

    @staticmethod
    def _until_damage(found):
        yield from found
        raise DamagedError("a block has another checksum")

    def delete(self, key, *, sync=True):
        with self._store.guard:
            return self._store.remove(key)

    def batch(self):
        return MemoryBatch(self._store)


class MemoryWriter:
    def __init__(self, store, key):
        self._store, self.key = store, key
        self.data = bytearray()
        self.ended = False

    def write(self, data):
        if self._store.used() + len(self.data) + len(data) > self._store.capacity:
            raise NoSpaceError("the drive is full")
        self.data += data
        return len(data)

    def abandon(self):
        self.ended = True


class MemoryReader:
    def __init__(self, data, metadata, damaged):
        self._data, self.metadata, self._damaged = data, metadata, damaged
        self.size = len(data)
        self._at = 0

    def seek(self, offset):
        self._at = offset

    def read(self, length=-1):
        if self._damaged:
            raise DamagedError("a chunk has another checksum")
        part = self._data[self._at : self._at + length if length >= 0 else None]
        self._at += len(part)
        return part

    def close(self):
        self._data = b""


class MemoryBatch:
    """All or nothing, in the order of the calls."""

    def __init__(self, store):
        self._store = store
        self._steps = []

    def put(self, key, data=b"", metadata=b""):
        self._steps.append(("put", key, bytes(data), bytes(metadata)))

    def finish(self, writer, metadata=b""):
        assert not writer.ended
        self._steps.append(("put", writer.key, bytes(writer.data), bytes(metadata)))
        writer.ended = True

    def delete(self, key):
        self._steps.append(("delete", key))

    def rename(self, old, new):
        self._steps.append(("rename", old, new))

    def set_metadata(self, key, metadata):
        self._steps.append(("set_metadata", key, bytes(metadata)))

    def write(self, sync=True):
        store = self._store
        with store.guard:
            added = sum(len(step[2]) for step in self._steps if step[0] == "put")
            if added and store.used() + added > store.capacity:
                raise NoSpaceError("the drive is full")
            store.synced_batches += sync
            for step in self._steps:
                if step[0] == "put":
                    store.set(*step[1:])
                elif step[0] == "delete":
                    store.remove(step[1])
                elif step[0] == "rename":
                    data, metadata = store.entries[step[1]]
                    store.remove(step[1])
                    store.set(step[2], data, metadata)
                else:
                    store.set(step[1], store.entries[step[1]][0], step[2])
