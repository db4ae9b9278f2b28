"""Values and objects as binary files. A value is in memory as a whole, and an object one chunk at a time."""

import io
from typing import NamedTuple


class ObjectStat(NamedTuple):
    """What is known of an object without its data: their length in bytes, and the metadata as they were given."""

    size: int
    metadata: bytes


class _Positioned(io.RawIOBase):
    """A file to read with a position."""

    _what = "file"
    _at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self._check_open()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._len()}.get(whence)
        if start is None:
            raise ValueError(f"whence is {whence}; it must be 0, 1 or 2")
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the start of the {self._what}")
        self._at = start + offset
        return self._at

    def tell(self):
        self._check_open()
        return self._at

    def _check_open(self):
        if self.closed:
            raise ValueError("the file is closed")


#: The longest read of the store.
_PIECE = 8 << 20


class ObjectReader(_Positioned):
    """Reads one object as it was when it was opened. ``size`` is its length and ``metadata`` its metadata.

    A read returns all that is asked for, except at the end. While the reader is open, the store keeps what it sees.
    """

    _what = "object"

    def __init__(self, source, stat):
        self._source = source
        self._stat = stat

    @property
    def size(self):
        """The length of the data in bytes."""
        return self._stat.size

    @property
    def metadata(self):
        """The metadata, as they were given."""
        return self._stat.metadata

    def read(self, size=-1):
        """Returns the next `size` bytes, or all that are left."""
        self._check_open()
        left = max(0, self._stat.size - self._at)
        left = left if size is None or size < 0 else min(size, left)
        if left == 0:
            return b""
        if left <= _PIECE:
            data = self._source.read(self._at, left)
        else:
            # In pieces, so that the whole is in memory once, and a lack of it is a MemoryError.
            whole = io.BytesIO()
            for at in range(0, left, _PIECE):
                whole.write(self._source.read(self._at + at, min(_PIECE, left - at)))
            data = whole.getvalue()
        self._at += len(data)
        return data

    def readall(self):
        """Returns all bytes that are left."""
        return self.read()

    def readinto(self, buffer):
        """Fills `buffer` as far as there are bytes, and returns how many."""
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self):
        """Ends reading: the store may free what only this reader sees."""
        if not self.closed:
            self._source.close()
        super().close()

    def _len(self):
        return self._stat.size


class ObjectWriter(io.BufferedIOBase):
    """Writes one object, which takes effect as a whole with ``finish()``, or at the end of a ``with`` block.

    ``abandon()`` and ``close()`` forget what was written; so does a ``with`` block that raises.
    """

    def __init__(self, upload, key):
        self._upload = upload
        self._key = key
        self._at = 0

    @property
    def key(self):
        """The key that the object gets."""
        return self._key

    def writable(self):
        """True: the file is for writing."""
        return True

    def write(self, data):
        """Appends `data` and returns their length."""
        self._check_open()
        written = self._upload.write(data)
        self._at += written
        return written

    def tell(self):
        """How much was written."""
        return self._at

    def finish(self, metadata=b"", *, sync=True):
        """Makes what was written the object, and closes the file."""
        self._check_open()
        try:
            self._upload.finish(self._key, metadata, sync)
        finally:
            self.close()

    def abandon(self):
        """Closes the file and forgets what was written."""
        self.close()

    def close(self):
        """Closes the file, and forgets what was written unless it was finished."""
        if not self.closed:
            self._upload.abandon()
        super().close()

    def __exit__(self, kind, value, traceback):
        if kind is None and not self.closed:
            self.finish()
        else:
            self.close()

    def _release(self):
        """Gives the upload to a batch."""
        self._check_open()
        upload, self._upload = self._upload, _NoUpload
        self.close()
        return upload, self._key

    def _check_open(self):
        if self.closed:
            raise ValueError("the file is closed")


class _NoUpload:
    @staticmethod
    def abandon():
        pass


class ValueReader(_Positioned):
    """Reads one value. It shares the memory of the store: nothing is copied before it is read."""

    _what = "value"

    def __init__(self, view):
        self._view = view

    def readinto(self, buffer):
        self._check_open()
        target = memoryview(buffer).cast("B")
        part = self._view[self._at : self._at + len(target)]
        target[: len(part)] = part
        self._at += len(part)
        return len(part)

    def readall(self):
        self._check_open()
        part = self._view[self._at :]
        self._at = max(self._at, len(self._view))
        return bytes(part)

    def close(self):
        self._view = memoryview(b"")
        super().close()

    def _len(self):
        return len(self._view)


class ValueWriter(io.BufferedIOBase):
    """Collects what is written, and sets the key to it when the file is closed.

    ``discard()`` closes the file and sets nothing; so does a ``with`` block that raises, and a file that nobody closes.
    """

    def __init__(self, keyspace, key, sync):
        self._keyspace = keyspace
        self._key = bytes(key)
        self._sync = sync
        self._bytes = bytearray()

    def writable(self):
        return True

    def write(self, data):
        if self.closed:
            raise ValueError("the file is closed")
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        before = len(self._bytes)
        self._bytes += memoryview(data).cast("B")
        return len(self._bytes) - before

    def tell(self):
        return len(self._bytes)

    def discard(self):
        """Closes the file without setting the key."""
        self._keyspace = None
        self._bytes = bytearray()
        super().close()

    def close(self):
        if self.closed:
            return
        keyspace, value = self._keyspace, self._bytes
        try:
            keyspace.put(self._key, value, sync=self._sync)
        finally:
            self.discard()

    def __exit__(self, kind, value, traceback):
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self):
        self.discard()


def open_value(keyspace, key, mode, sync):
    """What ``Keyspace.open`` returns."""
    if mode == "rb":
        view = keyspace.view(key)
        if view is None:
            raise KeyError(key)
        return io.BufferedReader(ValueReader(view))
    if mode == "wb":
        try:
            key = memoryview(key)
        except TypeError:
            raise TypeError(f"a key must be bytes-like, not {type(key).__name__}") from None
        return ValueWriter(keyspace, key, sync)
    raise ValueError(f"mode is {mode!r}; it must be 'rb' or 'wb'")
