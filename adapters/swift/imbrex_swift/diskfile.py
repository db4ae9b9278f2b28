"""Swift's DiskFile on drives of Imbrex, for replication policies; `ec_diskfile` has those of erasure codes.

A path of Swift's, ``/srv/node/d1/objects/30/179/HASH/FILE``, stays the name of a thing; `place_of` says which key of
which drive it is. Swift's classes keep their rules. What they ask of a file system is answered here, and each change of
a directory is one batch: the new file, the end of those that it replaces, and the mark of the suffix.
"""

import errno
import json
import logging
import os
import random
import time
import uuid
from contextlib import contextmanager
from types import SimpleNamespace

from swift.common import utils
from swift.common.exceptions import (
    DiskFileBadMetadataChecksum,
    DiskFileDeviceUnavailable,
    DiskFileError,
    DiskFileNoSpace,
    DiskFileNotExist,
    DiskFileQuarantined,
    DiskFileStateChanged,
    PartitionLockTimeout,
    ReplicationLockTimeout,
)
from swift.common.utils import Timestamp, hash_path, listdir, split_path
from swift.obj import diskfile as swift_diskfile
from swift.obj.diskfile import get_async_dir, get_data_dir, get_part_path, valid_suffix

from . import metadata as envelopes
from . import names
from .client import SOCKET_NAME, DriveFailure, DriveGone, DriveRefused, drive_of
from .identity import digest_of
from .seams import Facade, rebound

#: Seconds between two records of how far an auditor is.
AUDIT_RECORD_S = 60

#: So many changed suffixes of a partition are read as one range, with the unchanged ones between them.
SUFFIX_COUNT_MIN = 8

#: How often a change is tried again because others change the same directory.
ATTEMPT_COUNT_MAX = 100


def as_key(text):
    return text.encode("utf-8", "surrogateescape")


def as_text(key):
    return key.decode("utf-8", "surrogateescape")


def place_of(devices, path):
    """The device of a path below `devices`, and the key that it is there."""
    relative = os.path.relpath(path, devices)
    device, _, key = relative.partition("/")
    if device in ("", ".", "..") or not key:
        raise ValueError(f"{path} is not below a device of {devices}")
    return device, as_key(key)


def cluster_digest():
    """Which cluster this process is of."""
    return digest_of(utils.HASH_PATH_PREFIX, utils.HASH_PATH_SUFFIX)


class StoreManager(swift_diskfile.BaseDiskFileManager):
    """What both managers have in place of a file system; stands between Swift's manager and its base."""

    def __init__(self, conf, logger):
        super().__init__(conf, logger)
        # Data come through a socket, so there is no file to splice from.
        self.use_splice = False
        self.pipe_size = None
        self._complaints = {}

    # Places.

    def drive(self, device):
        return drive_of(self.devices, device, cluster_digest())

    def place(self, path):
        """The drive of a path, and the key that it is there."""
        device, key = place_of(self.devices, path)
        return self.drive(device), key

    def get_dev_path(self, device, mount_check=None):
        """The path of a device, or None if its drive is not served. `mount_check` False asks nothing of the drive."""
        path = os.path.join(self.devices, device)
        if mount_check is False:
            return path
        if not device or "/" in device or device in (".", ".."):
            return None
        try:
            if self.drive(device).is_there():
                return path
            self._complain(device, "no drive is served at %s" % os.path.join(path, SOCKET_NAME))
        except DriveRefused as error:
            self._complain(device, str(error))
        return None

    def _complain(self, device, text):
        """Logs once a minute what is wrong with a device."""
        now = time.monotonic()
        said, at = self._complaints.get(device, (None, 0))
        if text != said or now - at > 60:
            self._complaints[device] = (text, now)
            self.logger.warning("%s is unavailable: %s", device, text)

    def get_diskfile(self, device, partition, account, container, obj, policy, **kwargs):
        if kwargs.get("next_part_power") is not None:
            self._complain(device, "the ring of policy %d increases its partition power, which drives of "
                           "Imbrex do not support: abort the increase" % int(policy))
            raise DiskFileDeviceUnavailable()
        return super().get_diskfile(device, partition, account, container, obj, policy, **kwargs)

    # Rules about files of one object.

    def tidied(self, found, hash_path_, **kwargs):
        """What Swift's rules say about the files of an object, and the names that should be deleted.

        `found` are names with the moment each was written. The first of the answer has under ``files`` the names that
        stay, newest first.
        """
        moments = {as_text(name): moment for name, moment in found}
        files = sorted(moments, reverse=True)
        results = self.get_ondisk_files(files, hash_path_, verify=False, **kwargs)
        now = time.time()
        doomed = set()
        tombstone = results.get("ts_info")
        if tombstone and now - float(tombstone["timestamp"]) > self.reclaim_age:
            doomed.add(results.pop("ts_info")["filename"])
        for info in results.get("possible_reclaim", []):
            if now - float(info["timestamp"]) <= self.reclaim_age:
                continue
            # A fragment that is not durable may still become so, whatever its timestamp is.
            settled = info.get("durable", True) or self.commit_window <= 0
            if settled or now - moments[info["filename"]] > self.commit_window:
                results.setdefault("obsolete", []).append(info)
        doomed.update(info["filename"] for info in results.get("obsolete", []))
        results["files"] = [name for name in files if name not in doomed]
        return results, sorted(doomed)

    def cleanup_ondisk_files(self, hsh_path, **kwargs):
        drive, directory = self.place(hsh_path)
        return self.cleaned(drive, directory, found_in(drive, directory), hsh_path, **kwargs)

    def cleaned(self, drive, directory, found, hsh_path, **kwargs):
        """Deletes what is obsolete among `found`, and returns what Swift's rules say of the rest."""
        for _ in range(ATTEMPT_COUNT_MAX):
            results, doomed = self.tidied(found, hsh_path, **kwargs)
            if not doomed:
                return results
            deletes = [names.join(directory, name) for name in doomed]
            seen = [name for name, _ in found]
            marks = [names.suffix_of(directory)]
            if drive.commit(directory, seen=seen, deletes=deletes, marks=marks) is True:
                return results
            found = found_in(drive, directory)
        raise DiskFileError("%s changes all the time" % hsh_path)

    # Digests of suffixes.

    def invalidate_hash(self, suffix_dir):
        drive, directory = self.place(suffix_dir)
        drive.commit(directory, marks=[directory])

    def consolidate_hashes(self, partition_dir):
        """The digests of a partition as they are recorded; None for one that must be computed."""
        drive, directory = self.place(partition_dir)
        hashes = {suffix: parse_digest(value) for suffix, value in digests_of(drive, directory)}
        return {**hashes, "valid": True, "updated": -1}

    def _hash_suffix_dir(self, path, policy):
        return self._hash_objects(path, policy, objects_in(*self.place(path)))

    def _hash_objects(self, path, policy, objects):
        """The hashers of a suffix whose objects and files are `objects`."""
        drive, directory = self.place(path)
        hashers = _Hashers()
        empty = True
        for object_hash, found in objects:
            hash_directory = names.join(directory, object_hash)
            info = self.cleaned(drive, hash_directory, found, os.path.join(path, object_hash), policy=policy)
            if not info["files"]:
                continue
            empty = False
            for kind in ("meta_info", "ts_info"):
                if kind in info:
                    hashers[None].update(info[kind]["timestamp"].internal + info[kind]["ext"])
            self._update_suffix_hashes(hashers, info)
            if "ctype_info" in info:
                hashers[None].update(info["ctype_info"]["ctype_timestamp"].internal + "_ctype")
        if empty:
            raise swift_diskfile.PathNotDir()
        return hashers

    def _get_hashes(self, device, partition, policy, recalculate=None, do_listdir=False):
        """How many digests were computed, and the digests of a partition. Every suffix is known, so none is listed."""
        drive = self.drive(device)
        part_path = get_part_path(os.path.join(self.devices, device), policy, partition)
        directory = self.place(part_path)[1]
        wanted = set(recalculate or ())
        recorded = dict(digests_of(drive, directory))
        digests = {suffix: parse_digest(recorded.get(suffix)) for suffix in sorted(wanted.union(recorded))}
        due = {suffix for suffix, digest in digests.items() if suffix in wanted or not digest}
        # Read after the digests: a suffix that changes meanwhile has another mark then.
        listed = Suffixes(drive, directory) if len(due) >= SUFFIX_COUNT_MIN else None
        hashes, computed = {}, 0
        for suffix, digest in digests.items():
            if suffix in due:
                objects = None if listed is None else listed.objects_of(suffix)
                try:
                    digest = self._computed(drive, part_path, suffix, recorded.get(suffix), policy, objects)
                except (OSError, DiskFileError):
                    logging.exception("Error hashing suffix")
                    digest = None
                else:
                    computed += 1
                if digest is _ABSENT:
                    continue
            hashes[suffix] = digest
        return computed, hashes

    def _computed(self, drive, part_path, suffix, value, policy, objects=None):
        """The digest of a suffix from its files; recorded, unless the suffix changes meanwhile. `objects` are those that it
        had after its mark `value` was read.
        """
        suffix_path = os.path.join(part_path, suffix)
        suffix_directory = self.place(suffix_path)[1]
        for _ in range(ATTEMPT_COUNT_MAX):
            try:
                if objects is None:
                    digest = self._hash_suffix(suffix_path, policy=policy)
                else:
                    digest = self._digest_of(self._hash_objects(suffix_path, policy, objects))
                new = format_digest(digest)
            except swift_diskfile.PathNotDir:
                digest, new = _ABSENT, None
            if drive.call("settle", suffix_directory, value, new):
                return digest
            stat = drive.stat(names.digest_key(suffix_directory))
            value, objects = None if stat is None else stat[1], None
        # Writes outrun us; the mark stays, and so the next pass computes it again.
        return digest

    def get_hashes(self, device, partition, suffixes, policy, skip_rehash=False):
        dev_path = self.get_dev_path(device)
        if not dev_path:
            raise DiskFileDeviceUnavailable()
        wanted = [suffix for suffix in suffixes or [] if valid_suffix(suffix)]
        if not skip_rehash:
            return self._get_hashes(device, partition, policy, recalculate=wanted)[1]
        part_path = get_part_path(dev_path, policy, partition)
        for suffix in wanted:
            self.invalidate_hash(os.path.join(part_path, suffix))
        return None

    # Walks.

    def yield_suffixes(self, device, partition, policy):
        dev_path = self.get_dev_path(device)
        if not dev_path:
            raise DiskFileDeviceUnavailable()
        part_path = get_part_path(dev_path, policy, partition)
        drive, directory = self.place(part_path)
        for suffix, _ in digests_of(drive, directory):
            yield os.path.join(part_path, suffix), suffix

    def yield_hashes(self, device, partition, policy, suffixes=None, **kwargs):
        dev_path = self.get_dev_path(device)
        if not dev_path:
            raise DiskFileDeviceUnavailable()
        part_path = get_part_path(dev_path, policy, partition)
        drive = self.drive(device)
        if suffixes is None:
            suffixes = (suffix for _, suffix in self.yield_suffixes(device, partition, policy))
        for suffix in suffixes:
            suffix_path = os.path.join(part_path, suffix)
            directory = self.place(suffix_path)[1]
            is_empty = True
            for object_hash, found in self._readable(objects_in(drive, directory), suffix_path):
                path = os.path.join(suffix_path, object_hash)
                try:
                    info = self.cleaned(drive, names.join(directory, object_hash), found, path, **kwargs)
                except (AssertionError, DiskFileError) as error:
                    self.logger.debug("Invalid files in %r (%s)", path, error)
                    is_empty = False
                    continue
                is_empty = is_empty and not info["files"]
                result = timestamps_of(info)
                if "ts_data" in result:
                    yield object_hash, result
            if is_empty:
                self.invalidate_hash(suffix_path)

    def _readable(self, found, path):
        """`found` up to the first entry that is damaged, of which the log is told."""
        try:
            yield from found
        except DriveFailure as error:
            if error.errno != errno.EIO:
                raise
            self.logger.error("%s can be read in part only: %s", path, error)

    def get_diskfile_and_filenames_from_hash(self, device, partition, object_hash, policy, **kwargs):
        dev_path = self.get_dev_path(device)
        if not dev_path:
            raise DiskFileDeviceUnavailable()
        path = os.path.join(get_part_path(dev_path, policy, partition), object_hash[-3:], object_hash)
        drive, directory = self.place(path)
        try:
            found = drive.look(directory)
            moments = [(name, envelopes.written(envelope)) for name, _, envelope in found]
            files = self.cleaned(drive, directory, moments, path)["files"]
        except DriveFailure as error:
            if error.errno != errno.EIO:
                raise
            # Replication of the other objects of the partition goes on.
            self.logger.error("%s cannot be read: %s", path, error)
            raise DiskFileNotExist() from error
        if not files:
            raise DiskFileNotExist()
        envelope = next((e for name, _, e in found if as_text(name) == files[-1]), b"")
        try:
            name = envelopes.decode(envelope, path).get("name", "")
            account, container, obj = split_path(name, 3, 3, True)
        except (DiskFileBadMetadataChecksum, EOFError, ValueError):
            raise DiskFileNotExist() from None
        made = self.diskfile_cls(self, dev_path, partition, account, container, obj, policy=policy, **kwargs)
        return made, files

    def partitions(self, device, policy):
        """The names directly below the objects of a policy on a device."""
        return [as_text(name) for name, _ in self.drive(device).children(as_key(get_data_dir(policy)))]

    # Auditing.

    def object_audit_location_generator(self, policy, device_dirs=None, auditor_type="ALL"):
        devices = listdir(self.devices)
        if device_dirs:
            devices = list(set(devices).intersection(device_dirs))
        random.shuffle(devices)
        for device in devices:
            if not os.path.exists(os.path.join(self.devices, device, SOCKET_NAME)):
                continue
            if not self.get_dev_path(device):
                self.logger.debug("Skipping: %s is not served", device)
                continue
            try:
                yield from self._locations_of(device, policy, auditor_type)
            except DriveGone as error:
                self.logger.error("The audit of %s ends early: %s", device, error)

    def _locations_of(self, device, policy, auditor_type):
        drive = self.drive(device)
        record = names.join(names.AUDITS, get_data_dir(policy), auditor_type)
        stat = drive.stat(record)
        try:
            partitions = json.loads(stat[1])["partitions"] if stat else None
        except (ValueError, KeyError) as error:
            self.logger.warning("The record of the auditor of %s is broken: %s", device, error)
            partitions = None
        if partitions is None:
            partitions = self.partitions(device, policy)
        recorded = 0
        for number, partition in enumerate(partitions):
            if time.monotonic() - recorded > AUDIT_RECORD_S:
                left = json.dumps({"partitions": partitions[number:]}).encode()
                drive.put(record, b"", left)
                recorded = time.monotonic()
            path = get_part_path(os.path.join(self.devices, device), policy, partition)
            directory = self.place(path)[1]
            for suffix, _ in self._readable(digests_of(drive, directory), path):
                suffix_path = os.path.join(path, suffix)
                found = objects_in(drive, names.join(directory, suffix))
                for object_hash, _ in self._readable(found, suffix_path):
                    place = os.path.join(suffix_path, object_hash)
                    yield swift_diskfile.AuditLocation(place, device, partition, policy)
        drive.put(record, b"", json.dumps({"partitions": []}).encode())

    def clear_auditor_status(self, policy, auditor_type="ALL"):
        for device in listdir(self.devices):
            if os.path.exists(os.path.join(self.devices, device, SOCKET_NAME)) and self.get_dev_path(device):
                self.drive(device).delete(names.join(names.AUDITS, get_data_dir(policy), auditor_type))

    def quarantine_dir_renamer(self, device_path, from_dir):
        drive, directory = self.place(from_dir)
        other = b"%s-%s" % (directory.rpartition(b"/")[2], uuid.uuid4().hex.encode())
        return os.path.join(device_path, as_text(drive.call("quarantine", directory, other)))

    def quarantine_renamer(self, device_path, corrupted_file_path):
        return self.quarantine_dir_renamer(device_path, os.path.dirname(corrupted_file_path))

    # Locks.

    @contextmanager
    def partition_lock(self, device, policy, partition, name=None, timeout=None):
        timeout = self.replication_lock_timeout if timeout is None else timeout
        lock = names.join("partition", get_data_dir(policy), str(partition), name or "")
        gone = PartitionLockTimeout(None, "%s of %s" % (as_text(lock), device))
        with self.drive(device).claim(lock, 1, timeout, gone):
            yield True

    @contextmanager
    def replication_lock(self, device, policy, partition):
        end = time.monotonic() + self.replication_lock_timeout
        with self.partition_lock(device, policy, partition, name="replication"):
            limit = self.replication_concurrency_per_device
            if not limit:
                yield True
                return
            gone = ReplicationLockTimeout(None, "replication of %s" % device)
            with self.drive(device).claim(b"replication", limit, end - time.monotonic(), gone):
                yield True

    # Updates of containers.

    def pickle_async_update(self, device, account, container, obj, data, timestamp, policy):
        object_hash = hash_path(account, container, obj)
        file = "%s-%s" % (object_hash, Timestamp(timestamp).internal)
        key = names.join(get_async_dir(policy), object_hash[-3:], file)
        pickled = swift_diskfile.pickle.dumps(data, swift_diskfile.PICKLE_PROTOCOL)
        self.drive(device).put(key, pickled)
        self.logger.increment("async_pendings")


_ABSENT = object()


class _Hashers(dict):
    """A hash for each key that is asked for."""

    def __missing__(self, key):
        made = self[key] = _Hasher()
        return made


class _Hasher:
    def __init__(self):
        self._md5 = utils.md5(usedforsecurity=False)

    def update(self, text):
        self._md5.update(text.encode("utf-8") if isinstance(text, str) else text)

    def hexdigest(self):
        return self._md5.hexdigest()


def found_in(drive, directory):
    """The files of a directory, each with the moment it was written."""
    return [(name, envelopes.written(envelope)) for name, _, envelope in drive.look(directory)]


def objects_in(drive, suffix_directory):
    """The hashes of a suffix in order, each with its files as `found_in` has them: one range of keys."""
    prefix = suffix_directory + b"/"
    current, found = None, []
    for key, _, envelope in drive.scan(prefix, metadata=True):
        object_hash, _, name = key[len(prefix) :].partition(b"/")
        if object_hash != current:
            if found:
                yield as_text(current), found
            current, found = object_hash, []
        if name and b"/" not in name:
            found.append((name, envelopes.written(envelope)))
    if found:
        yield as_text(current), found


class Suffixes:
    """The suffixes of a partition in order, read as one range of keys as far as they are asked for."""

    def __init__(self, drive, part_directory):
        self._suffixes = suffixes_in(drive, part_directory)
        self._current = ("", [])

    def objects_of(self, suffix):
        """What `objects_in` has of a suffix behind the last one; None if that must be asked, after damage before it."""
        if self._suffixes is None:
            return None
        try:
            while self._current is not None and self._current[0] < suffix:
                self._current = next(self._suffixes, None)
        except DriveFailure as error:
            if error.errno != errno.EIO:
                raise
            self._suffixes = None
            return None
        return self._current[1] if self._current is not None and self._current[0] == suffix else []


def suffixes_in(drive, part_directory):
    """The suffixes of a partition in order, each with its objects as `objects_in` has them: one range of keys."""
    prefix = part_directory + b"/"
    current, objects = None, {}
    for key, _, envelope in drive.scan(prefix, metadata=True):
        parts = key[len(prefix) :].split(b"/")
        if len(parts) != 3:
            continue
        suffix, object_hash, name = parts
        if suffix != current:
            if objects:
                yield as_text(current), list(objects.items())
            current, objects = suffix, {}
        objects.setdefault(as_text(object_hash), []).append((name, envelopes.written(envelope)))
    if objects:
        yield as_text(current), list(objects.items())


def digests_of(drive, part_directory):
    """The suffixes of a partition with the values of their digests: one range of keys."""
    prefix = names.digest_key(part_directory) + b"/"
    for key, _, value in drive.scan(prefix, metadata=True):
        yield as_text(key[len(prefix) :]), value


def format_digest(digest):
    """The value of a digest: text, or one text for each fragment index."""
    if isinstance(digest, dict):
        digest = sorted(digest.items(), key=lambda item: (item[0] is not None, item[0]))
    return names.DIGEST + json.dumps(digest).encode()


def parse_digest(value):
    """The digest that a value has; None if it must be computed."""
    if value is None or not value.startswith(names.DIGEST):
        return None
    digest = json.loads(value[len(names.DIGEST) :])
    return dict(map(tuple, digest)) if isinstance(digest, list) else digest


def timestamps_of(info):
    """What replication compares of an object."""
    result = {}
    for kind, field, name in (
        ("meta_info", "timestamp", "ts_meta"),
        ("data_info", "timestamp", "ts_data"),
        ("ts_info", "timestamp", "ts_data"),
        ("ctype_info", "ctype_timestamp", "ts_ctype"),
        ("data_info", "durable", "durable"),
    ):
        if kind in info and field in info[kind]:
            result[name] = info[kind][field]
    return result


class StoreFile(swift_diskfile.BaseDiskFile):
    """What both kinds of DiskFile have in place of files; stands between Swift's class and its base."""

    def __init__(self, mgr, device_path, *args, **kwargs):
        super().__init__(mgr, device_path, *args, **kwargs)
        #: The files of the object when they were last looked at: size and envelope by name. None before that.
        self.found = None

    @property
    def place(self):
        return self._manager.place(self._datadir)

    def open(self, modernize=False, current_time=None):
        drive, directory = self.place
        try:
            found, reader, held = drive.look_and_open(directory)
        except DriveGone as error:
            raise DiskFileDeviceUnavailable(str(error)) from error
        except DriveFailure as error:
            raise DiskFileError("Error listing %s: %s" % (self._datadir, error)) from error
        try:
            self.found = {as_text(name): (size, envelope) for name, size, envelope in found}
            info = self._get_ondisk_files(list(self.found), self.policy)
            self._data_file = info.get("data_file")
            if not self._data_file:
                raise self._construct_exception_from_ts_file(**info)
            if held is None or os.path.basename(self._data_file) != as_text(held):
                if reader is not None:
                    reader.close()
                reader = self._reader_at(self._data_file)
            opened, reader = _Opened(reader, self._data_file), None
            try:
                self._fp = rebound(
                    swift_diskfile.BaseDiskFile._construct_from_data_file, open=lambda *_: opened
                )(self, current_time=current_time, modernize=modernize, **info)
            except BaseException:
                opened.close()
                raise
        finally:
            if reader is not None:
                reader.close()
        self._metadata = self._metadata or {}
        return self

    def _reader_at(self, path):
        drive, key = self._manager.place(path)
        try:
            return drive.open(key)[0]
        except FileNotFoundError:
            raise DiskFileStateChanged() from None
        except DriveFailure as error:
            if error.errno == errno.ENOENT:
                raise DiskFileStateChanged() from None
            if error.errno == errno.EIO:
                raise self._quarantine(path, "Failed to open %s: %s" % (path, error)) from error
            raise

    def _verify_data_file(self, data_file, fp, current_time):
        by_size = Facade(os, fstat=lambda opened: SimpleNamespace(st_size=opened.size))
        check = rebound(swift_diskfile.BaseDiskFile._verify_data_file, os=by_size)
        return check(self, data_file, SimpleNamespace(fileno=lambda: fp), current_time)

    def _read_and_validate_metadata(self, source, quarantine_filename=None, add_missing_checksum=False):
        read = rebound(
            swift_diskfile.BaseDiskFile._read_and_validate_metadata,
            _read_file_metadata=lambda source, *_: self._metadata_of(getattr(source, "name", source)),
        )
        return read(self, source, quarantine_filename, add_missing_checksum)

    def _metadata_of(self, path):
        name = os.path.basename(path)
        if name not in self.found:
            raise DiskFileStateChanged()
        return envelopes.decode(self.found[name][1], path)

    def _log_quarantine(self, method, path, msg):
        try:
            return super()._log_quarantine(method, path, msg)
        except FileNotFoundError:
            # Another process has quarantined or replaced it.
            return DiskFileQuarantined(msg)
        except DriveFailure as error:
            self._logger.error("%s could not be quarantined: %s", path, error)
            return DiskFileQuarantined(msg)

    def moments(self):
        """The files that were last looked at, each with the moment it was written; looks if that was never."""
        if self.found is None:
            drive, directory = self.place
            return found_in(drive, directory)
        return [(as_key(name), envelopes.written(envelope)) for name, (_, envelope) in self.found.items()]


class _Opened:
    """A data file that is open, as Swift's reader uses one."""

    def __init__(self, reader, path):
        self._reader = reader
        self.name = path
        self.read, self.seek, self.tell, self.close = reader.read, reader.seek, reader.tell, reader.close
        self.size = reader.size

    def fileno(self):
        return -1


class StoreReader(swift_diskfile.BaseDiskFileReader):
    """What both kinds of readers have; stands between Swift's class and its base."""

    def _drop_cache(self, fd, offset, length):
        """The drive's daemon has its own cache."""

    def _quarantine(self, msg):
        try:
            super()._quarantine(msg)
        except (FileNotFoundError, DriveFailure) as error:
            self._logger.error("%s could not be quarantined: %s", self._data_file, error)
            self._quarantine_hook(msg)


class StoreWriter(swift_diskfile.BaseDiskFileWriter):
    """What both kinds of writers have; stands between Swift's class and its base."""

    _upload = None

    def open(self):
        if self._upload is not None:
            raise ValueError("DiskFileWriter is already open")
        manager = self.manager
        # Tombstones free room, so none is asked of them.
        length = -1 if self._extension == ".ts" else self._size or 0
        upload = self._diskfile.place[0].upload()
        try:
            with no_space():
                upload.begin(length, manager.fallocate_reserve, manager.fallocate_is_percent)
        except BaseException:
            upload.close()
            raise
        self._upload = upload
        return self

    def write(self, chunk):
        if self._upload is None:
            raise ValueError("Writer is not open")
        self._chunks_etag.update(chunk)
        with no_space():
            self._upload.write(chunk)
        self._upload_size += len(chunk)

    def close(self):
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.close()

    def _put(self, metadata, cleanup=True, *a, **kw):
        timestamp = Timestamp(metadata["X-Timestamp"])
        ctype = metadata.get("Content-Type-Timestamp")
        name = self.manager.make_on_disk_filename(
            timestamp, self._extension, *a, ctype_timestamp=Timestamp(ctype) if ctype else None, **kw
        )
        metadata["name"] = self._name
        with no_space():
            self._finish(name, envelopes.encode(metadata), cleanup)
        self._put_succeeded = True

    def _finish(self, name, envelope, cleanup):
        """Makes the upload the file `name`, and ends what it makes obsolete."""
        drive, directory = self._diskfile.place
        found = self._diskfile.moments()
        marks = [names.suffix_of(directory)]
        key = names.join(directory, name)
        for _ in range(ATTEMPT_COUNT_MAX):
            seen = [known for known, _ in found]
            doomed = []
            if cleanup:
                after = {**dict(found), as_key(name): time.time()}
                doomed = self.manager.tidied(after.items(), self._datadir)[1]
            deletes = [names.join(directory, one) for one in doomed if one != name]
            if name in doomed:
                # Something newer is there already.
                answer = drive.commit(directory, seen=seen, deletes=deletes, marks=marks)
            else:
                answer = self._upload.commit(directory, seen, key, envelope, deletes, marks)
            if answer is True:
                return
            found = found_in(drive, directory)
        raise DiskFileError("%s changes all the time" % self._datadir)


@contextmanager
def no_space():
    """Says of a full drive what Swift says of it."""
    try:
        yield
    except DriveGone as error:
        raise DiskFileDeviceUnavailable(str(error)) from error
    except DriveFailure as error:
        if error.errno == errno.ENOSPC:
            raise DiskFileNoSpace(str(error)) from error
        raise


class DiskFileReader(swift_diskfile.DiskFileReader, StoreReader):
    """Reads one object and checks it."""


class DiskFileWriter(swift_diskfile.DiskFileWriter, StoreWriter):
    """Writes one object."""


class DiskFile(swift_diskfile.DiskFile, StoreFile):
    """One object of a replication policy."""

    reader_cls = DiskFileReader
    writer_cls = DiskFileWriter


class DiskFileManager(swift_diskfile.DiskFileManager, StoreManager):
    """Of replication policies: ``diskfile_module = egg:imbrex-swift#replication.imbrex``."""

    diskfile_cls = DiskFile

    @staticmethod
    def _digest_of(hashers):
        return hashers[None].hexdigest()
