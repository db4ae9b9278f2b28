"""Which device of which cluster a drive is, so that a drive in the wrong slot is refused.

A cluster is known by the prefix and the suffix of its hash paths, of which only a digest is recorded.
"""

import configparser
import hashlib
import json

from .names import IDENTITY

VERSION = 1


class WrongDrive(Exception):
    """The drive is not the one that the daemon was asked to serve."""


def cluster_of(path):
    """The digest of the cluster whose ``swift.conf`` lies at `path`."""
    config = configparser.RawConfigParser(strict=False)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        config.read_file(file)
    parts = [
        config.get("swift-hash", f"swift_hash_path_{end}", fallback="") for end in ("prefix", "suffix")
    ]
    if not any(parts):
        raise WrongDrive(f"{path} has neither swift_hash_path_prefix nor swift_hash_path_suffix")
    return digest_of(*parts)


def digest_of(prefix, suffix):
    """The digest of a cluster with these parts of hash paths, as text."""
    if isinstance(prefix, bytes):
        prefix, suffix = (part.decode("utf-8", "surrogateescape") for part in (prefix, suffix))
    both = json.dumps([prefix, suffix], ensure_ascii=True)
    return hashlib.sha256(both.encode()).hexdigest()


def write(objects, device, cluster):
    """Records in an empty store which device it is."""
    record = {"version": VERSION, "device": device, "cluster": cluster}
    objects.put(IDENTITY, b"", json.dumps(record, sort_keys=True).encode(), sync=True)


def check(objects, device, cluster, drive):
    """Raises `WrongDrive` unless the store is that device of that cluster; `drive` is the path for messages."""
    stat = objects.stat(IDENTITY)
    if stat is None:
        raise WrongDrive(f"{drive} is no drive of Swift: make one with --make")
    try:
        record = json.loads(stat.metadata)
        version, found, found_cluster = record["version"], record["device"], record["cluster"]
    except (ValueError, KeyError, TypeError) as error:
        raise WrongDrive(f"{drive}: the record of its identity cannot be read: {error}") from error
    if version != VERSION:
        raise WrongDrive(f"{drive} has version {version} of the layout of keys; this program has {VERSION}")
    if found_cluster != cluster:
        raise WrongDrive(f"{drive} is of another cluster: its hash path prefix and suffix are others")
    if found != device:
        raise WrongDrive(f"{drive} is the device {found}, not {device}")
