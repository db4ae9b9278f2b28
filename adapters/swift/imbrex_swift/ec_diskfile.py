"""Swift's DiskFile on drives of Imbrex, for policies of erasure codes."""

import os
import time

from swift.common.exceptions import DiskFileError
from swift.obj import diskfile as swift_diskfile

from . import names
from .client import DriveFailure
from .diskfile import (
    ATTEMPT_COUNT_MAX,
    StoreFile,
    StoreManager,
    StoreReader,
    StoreWriter,
    as_key,
    as_text,
    found_in,
    no_space,
)


class ECDiskFileReader(swift_diskfile.ECDiskFileReader, StoreReader):
    """Reads one fragment archive and checks it."""


class ECDiskFileWriter(swift_diskfile.ECDiskFileWriter, StoreWriter):
    """Writes one fragment archive; `commit` makes it durable."""

    def commit(self, timestamp):
        manager, index = self.manager, self._diskfile._frag_index
        plain = manager.make_on_disk_filename(timestamp, ".data", index)
        durable = manager.make_on_disk_filename(timestamp, ".data", index, durable=True)
        try:
            with no_space():
                self._make_durable(plain, durable, timestamp)
        except DriveFailure as error:
            text = "Problem making data file durable %s (%s)" % (os.path.join(self._datadir, durable), error)
            self.logger.error("%s", text)
            raise DiskFileError(text) from error

    def _make_durable(self, plain, durable, timestamp):
        """Renames the archive and ends what it makes obsolete, in one batch."""
        manager = self.manager
        drive, directory = self._diskfile.place
        for _ in range(ATTEMPT_COUNT_MAX):
            found = dict(found_in(drive, directory))
            if as_key(plain) not in found:
                self._require_newer(found, timestamp, durable)
                return
            seen = list(found)
            found[as_key(durable)] = found.pop(as_key(plain))
            doomed = manager.tidied(found.items(), self._datadir)[1]
            if durable in doomed:
                doomed[doomed.index(durable)] = plain
                renames = []
            else:
                renames = [[names.join(directory, plain), names.join(directory, durable)]]
            deletes = [names.join(directory, name) for name in doomed]
            marks = [names.suffix_of(directory)]
            if drive.commit(directory, seen=seen, renames=renames, deletes=deletes, marks=marks) is True:
                return
        raise DiskFileError("%s changes all the time" % self._datadir)

    def _require_newer(self, found, timestamp, durable):
        """An archive that is gone was made obsolete by something newer, or its commit fails."""
        info = self.manager.get_ondisk_files(
            [as_text(name) for name in found],
            self._datadir,
            frag_index=self._diskfile._frag_index,
            policy=self._diskfile.policy,
        )
        tombstone = info.get("ts_info")
        fragments = info.get("durable_frag_set") or []
        if tombstone and tombstone["timestamp"] > timestamp:
            return
        if any(fragment["timestamp"] >= timestamp for fragment in fragments):
            return
        path = os.path.join(self._datadir, durable)
        self.logger.error("Problem making data file durable %s: it is gone", path)
        raise DiskFileError("Problem making data file durable %s: it is gone" % path)


class ECDiskFile(swift_diskfile.ECDiskFile, StoreFile):
    """One fragment archive of an object."""

    reader_cls = ECDiskFileReader
    writer_cls = ECDiskFileWriter

    def purge(self, timestamp, frag_index, nondurable_purge_delay=0, meta_timestamp=None):
        manager = self.manager
        drive, directory = self.place
        named = manager.make_on_disk_filename
        for _ in range(ATTEMPT_COUNT_MAX):
            found = dict(found_in(drive, directory))
            doomed = {named(timestamp, ext=".ts")}
            if meta_timestamp is not None:
                doomed.add(named(meta_timestamp, ext=".meta"))
            if frag_index is not None:
                doomed.add(named(timestamp, ext=".data", frag_index=frag_index, durable=True))
                plain = named(timestamp, ext=".data", frag_index=frag_index)
                age = time.time() - found.get(as_key(plain), 0)
                if nondurable_purge_delay <= 0 or age > nondurable_purge_delay:
                    doomed.add(plain)
            deletes = [names.join(directory, name) for name in sorted(doomed) if as_key(name) in found]
            marks = [names.suffix_of(directory)]
            if drive.commit(directory, seen=list(found), deletes=deletes, marks=marks) is True:
                self.found = None
                return
        raise DiskFileError("%s changes all the time" % self._datadir)


class ECDiskFileManager(swift_diskfile.ECDiskFileManager, StoreManager):
    """Of erasure-coding policies: ``diskfile_module = egg:imbrex-swift#erasure_coding.imbrex``."""

    diskfile_cls = ECDiskFile

    @staticmethod
    def _digest_of(hashers):
        return {fragment: hasher.hexdigest() for fragment, hasher in hashers.items()}
