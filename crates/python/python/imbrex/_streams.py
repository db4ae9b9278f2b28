"""Values as binary files. A value is read and written as a whole; it is in memory meanwhile."""

import io


class ValueReader(io.RawIOBase):
    """Reads one value. It shares the memory of the store: nothing is copied before it is read."""

    def __init__(self, view):
        self._view = view
        self._at = 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self._check_open()
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._view)}.get(whence)
        if start is None:
            raise ValueError(f"whence is {whence}; it must be 0, 1 or 2")
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the start of the value")
        self._at = start + offset
        return self._at

    def tell(self):
        self._check_open()
        return self._at

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

    def _check_open(self):
        if self.closed:
            raise ValueError("the file is closed")


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
