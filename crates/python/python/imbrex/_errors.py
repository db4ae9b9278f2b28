"""The exceptions of the package.

Each has the name of a kind of error of the store with "Error" behind it, and ``kind`` is that name. Where Python has an
exception of that meaning it is a parent, so ``except FileNotFoundError`` works too.
"""

import errno


class Error(Exception):
    """Any failure of this package: the text says what was being done, where, what was found, and what to do."""

    kind = ""

    def __init_subclass__(cls):
        cls.__module__ = "imbrex"
        cls.kind = cls.__name__.removesuffix("Error")

    def __str__(self):
        return str(self.args[0]) if self.args else ""


Error.__module__ = "imbrex"


class NotFoundError(Error, FileNotFoundError):
    """There is no such file, device, keyspace or checkpoint."""

    errno = errno.ENOENT


class AlreadyExistsError(Error, FileExistsError):
    """A file, keyspace or checkpoint of that name exists already, or a drive to be formatted holds data."""

    errno = errno.EEXIST


class NotAStoreError(Error):
    """The path names a directory, a foreign file, or a drive that holds something other than a store."""


class WrongLayoutError(Error):
    """The drive holds another layout than the one asked for, or its flash drive is missing, another's or not wanted."""


class InUseError(Error):
    """Another process, or another object of this one, has the drive open."""


class NotPermittedError(Error, PermissionError):
    """The caller may not read the file or the device, or not write it."""

    errno = errno.EACCES


class NewerVersionError(Error):
    """A newer version wrote the drive."""


class UnsupportedError(Error):
    """The machine's drive is of a kind that this package cannot use."""


class InvalidArgumentError(Error, ValueError):
    """An argument cannot be used: an unknown layout, a bad option, a range that ends before it starts."""


class InvalidEntryError(Error, ValueError):
    """A key, a value or a batch cannot be stored: an empty key, or more bytes than are allowed."""


class NoSpaceError(Error, OSError):
    """The drive, or the host's file system below an image, is full. Reading and deleting go on."""

    errno = errno.ENOSPC


class ReadOnlyError(Error):
    """The store is open for reading only."""


class DamagedError(Error):
    """Data on the drive is damaged. Other data may still be read."""


class ClosedError(Error, ValueError):
    """The store, the iterator, the snapshot or the batch is closed."""


class PoisonedError(Error):
    """An earlier write failed, so what is durable is unknown. Close the store and open it again."""


class StoppedError(Error):
    """The call was stopped before its end."""


class IoError(Error, OSError):
    """The drive or the operating system failed."""

    errno = errno.EIO


class ForkedError(Error, RuntimeError):
    """A child process uses an object that its parent made before the fork."""
