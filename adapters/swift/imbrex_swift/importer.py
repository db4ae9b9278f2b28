"""Imports a device of Swift from a file system: ``imbrex-swift-import /srv/node/sdb DRIVE --device sdb``.

Every object, tombstone, metadata file and fragment archive of every policy becomes an object of the drive, and so do
the updates of containers that wait. Each file is checked as Swift's auditor would: the checksum of its metadata, its
length and its etag. What fails is named and left out; Swift replicates it from elsewhere.

The tree is only read. A run that was interrupted is simply started again: what is there already is not copied again.
"""

import argparse
import errno
import hashlib
import os
import re
import sys
import time

from . import drive as daemon
from . import identity, names
from . import metadata as envelopes
from .service import PENDING_LEN_MAX, Service

#: Names of files that Swift has for objects.
FILE = re.compile(r"\d+\.\d{5}(_[0-9a-f]{16})?(#\d+(#d)?)?([+-][0-9a-f]+)*\.(data|ts|meta|durable)")

HASH = re.compile(r"[0-9a-f]{32}")

DATA_DIR = re.compile(r"objects(-[1-9]\d*)?")
ASYNC_DIR = re.compile(r"async_pending(-[1-9]\d*)?")

#: Directories of a device that are no concern of a drive of objects.
OTHERS = {"accounts", "containers", "lost+found", "quarantined", "tmp"}

ATTRIBUTE = "user.swift.metadata"
CHECKSUM = "user.swift.metadata_checksum"

#: Files between two moments at which what was copied is made durable.
SYNC_COUNT = 500

REPORT_S = 10


class Bad(Exception):
    """A file that is not as Swift has written it."""


class Importer:
    """One run. The figures are those of the run."""

    def __init__(self, store, tree, say=print, clock=time.monotonic):
        self._store = store
        self._service = Service(store)
        self._objects = self._service.objects
        self._tree = tree
        self._say = say
        self._clock = clock
        self._reported = clock()
        self._unsynced = 0
        self.copied = self.copied_bytes = self.present = 0
        #: Paths of what was left out, with the reason.
        self.bad = []

    def run(self):
        for top in sorted(os.listdir(self._tree)):
            if DATA_DIR.fullmatch(top):
                self._objects_of(top)
            elif ASYNC_DIR.fullmatch(top):
                self._updates_of(top)
            elif top.startswith(("objects", "async_pending")):
                self._leave_out(top, "this is the directory of no policy")
            elif top not in OTHERS and not top.startswith(("tmp-", "drive.sock")):
                self._say(f"{top}: left where it is")
        self._sync()

    def _sync(self):
        self._store.sync()
        self._unsynced = 0

    def _leave_out(self, path, reason):
        self.bad.append((path, reason))
        self._say(f"{path}: left out: {reason}")

    def _listed(self, path):
        try:
            return sorted(os.listdir(os.path.join(self._tree, path)))
        except NotADirectoryError:
            return []
        except OSError as error:
            self._leave_out(path, error.strerror)
            return []

    def _objects_of(self, top):
        for partition in self._listed(top):
            if not partition.isdigit():
                continue
            for suffix in self._listed(f"{top}/{partition}"):
                for object_hash in self._listed(f"{top}/{partition}/{suffix}"):
                    path = f"{top}/{partition}/{suffix}/{object_hash}"
                    if HASH.fullmatch(object_hash) and object_hash.endswith(suffix):
                        self._hash(path)
                    else:
                        self._leave_out(path, "this is the directory of no object")

    def _hash(self, path):
        files = self._listed(path)
        durable = {name.removesuffix(".durable") for name in files if name.endswith(".durable")}
        for name in files:
            if not FILE.fullmatch(name):
                self._leave_out(f"{path}/{name}", "this is no file of an object")
                continue
            if name.endswith(".durable"):
                continue
            target = name
            # Older versions of Swift said so in a file of its own.
            if name.count("#") == 1 and name.partition("#")[0] in durable:
                target = name.removesuffix(".data") + "#d.data"
            try:
                self._file(f"{path}/{name}", f"{path}/{target}")
            except Bad as error:
                self._leave_out(f"{path}/{name}", str(error))
            except OSError as error:
                if error.errno == errno.ENOENT:
                    continue  # The tree is in use, and Swift has removed it.
                self._leave_out(f"{path}/{name}", error.strerror)

    def _file(self, path, target):
        with open_unchanged(os.path.join(self._tree, path)) as file:
            status = os.fstat(file.fileno())
            pickled = attributes_of(file.fileno())
            envelope = envelopes.wrap(pickled, status.st_mtime)
            try:
                metadata = envelopes.decode(envelope, path)
            except Exception as error:
                raise Bad(f"its metadata cannot be read: {error}") from error
            key = target.encode()
            there = self._objects.stat(key)
            if there is not None and there.size == status.st_size and there.metadata == envelope:
                self.present += 1
                return
            if path.endswith(".data"):
                self._data(file, key, envelope, metadata, status.st_size)
            else:
                self._commit(key, lambda batch: batch.put(key, b"", envelope))
        self._counted(status.st_size if path.endswith(".data") else 0)

    def _data(self, file, key, envelope, metadata, size):
        if str(size) != str(metadata.get("Content-Length")):
            raise Bad(f"it has {size} bytes, and its metadata say {metadata.get('Content-Length')}")
        if size <= PENDING_LEN_MAX:
            data = file.read()
            require_etag(hashlib.md5(data, usedforsecurity=False), metadata)
            self._commit(key, lambda batch: batch.put(key, data, envelope))
            return
        temporary = b"uploads/" + os.urandom(16).hex().encode()
        upload = self._objects.create(temporary)
        try:
            digest = hashlib.md5(usedforsecurity=False)
            while part := file.read(PENDING_LEN_MAX):
                digest.update(part)
                upload.write(part)
            require_etag(digest, metadata)
        except BaseException:
            upload.abandon()
            raise

        def finish(batch):
            batch.finish(upload, envelope)
            batch.rename(temporary, key)

        self._commit(key, finish)

    def _commit(self, key, change):
        batch = self._objects.batch()
        change(batch)
        suffix_directory = names.suffix_of(key)
        if suffix_directory is not None:
            self._service.add_mark(batch, suffix_directory)
        batch.write(sync=False)

    def _counted(self, length):
        self.copied += 1
        self.copied_bytes += length
        self._unsynced += 1
        if self._unsynced >= SYNC_COUNT:
            self._sync()
        now = self._clock()
        if now - self._reported >= REPORT_S:
            self._reported = now
            self._say(self.summary())

    def _updates_of(self, top):
        for suffix in self._listed(top):
            for name in self._listed(f"{top}/{suffix}"):
                path = f"{top}/{suffix}/{name}"
                key = path.encode()
                if self._objects.stat(key) is not None:
                    self.present += 1
                    continue
                try:
                    with open_unchanged(os.path.join(self._tree, path)) as file:
                        data = file.read()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._leave_out(path, error.strerror)
                    continue
                self._commit(key, lambda batch, key=key, data=data: batch.put(key, data, b""))
                self._counted(len(data))

    def summary(self):
        return (
            f"{self.copied} files copied ({self.copied_bytes} bytes), {self.present} were there, "
            f"{len(self.bad)} left out"
        )


def require_etag(digest, metadata):
    if digest.hexdigest() != metadata.get("ETag"):
        raise Bad(f"its etag is {metadata.get('ETag')}, and its data have {digest.hexdigest()}")


def attributes_of(fd):
    """The pickled metadata of a file, checked by the checksum beside it if there is one."""
    parts = []
    try:
        while True:
            parts.append(os.getxattr(fd, ATTRIBUTE + (str(len(parts)) if parts else "")))
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
    if not parts:
        raise Bad("it has no metadata")
    pickled = b"".join(parts)
    try:
        checksum = os.getxattr(fd, CHECKSUM)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return pickled
    if hashlib.md5(pickled, usedforsecurity=False).hexdigest().encode() != checksum:
        raise Bad("its metadata have another checksum")
    return pickled


def open_unchanged(path):
    """The file, for reading; not even the time of its last access changes where the system lets us say so."""
    try:
        return open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOATIME), "rb")
    except PermissionError:
        return open(path, "rb")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="imbrex-swift-import", description=__doc__.partition("\n")[0])
    parser.add_argument("tree", metavar="TREE", help="the directory of the device, such as /srv/node/sdb")
    parser.add_argument("drive", metavar="DRIVE", help="an image file or a block device that no daemon serves")
    parser.add_argument("--device", help="the name of the device in the ring; that of TREE otherwise")
    parser.add_argument("--swift-dir", default="/etc/swift", help="where swift.conf lies")
    parser.add_argument("--make", metavar="CAPACITY", help="make an image of this length if nothing is at DRIVE")
    options = parser.parse_args(arguments)
    options.device = options.device or os.path.basename(os.path.normpath(options.tree))
    for name in ("adopt", "layout", "profile", "zone_len", "flash", "cache", "write_buffer"):
        setattr(options, name, None)
    return options


def run(options):
    if not os.path.isdir(options.tree):
        raise daemon.Problem(f"{options.tree} is no directory")
    imbrex = daemon.load_imbrex()
    store = daemon.opened(imbrex, options, daemon.cluster_for(options))
    try:
        importer = Importer(store, options.tree)
        try:
            importer.run()
        except imbrex.NoSpaceError as error:
            raise daemon.Problem(f"{options.drive} is full: {error}. {importer.summary()}") from error
    finally:
        store.close()
    print(importer.summary())
    return 1 if importer.bad else 0


def main(arguments=None):
    try:
        sys.exit(run(parse(arguments)))
    except (daemon.Problem, identity.WrongDrive, OSError) as error:
        print(f"imbrex-swift-import: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
