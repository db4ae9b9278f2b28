"""The metadata of an object: what Swift keeps in extended attributes, in one envelope.

    offset  size  field      rule
    0       1     version    1
    1       8     written    u64, little-endian: nanoseconds since 1970 when the file was written
    9       16    checksum   MD5 of what follows, as Swift checks it
    25      -     pickle     of a dictionary, as Swift writes it
"""

import pickle
import time

from swift.common.exceptions import DiskFileBadMetadataChecksum
from swift.common.utils import md5
from swift.common.utils.pickle import unpickle
from swift.obj.diskfile import PICKLE_PROTOCOL, _decode_metadata, _encode_metadata

VERSION = 1
_WRITTEN = slice(1, 9)
_CHECKSUM = slice(9, 25)
_HEAD_LEN = 25


def encode(metadata, written=None):
    """The envelope of a dictionary; `written` is in seconds, now if it is None."""
    pickled = pickle.dumps(_encode_metadata(metadata), PICKLE_PROTOCOL)
    return wrap(pickled, time.time() if written is None else written)


def wrap(pickled, written):
    """The envelope of a dictionary that is pickled already."""
    nanoseconds = max(0, int(written * 1e9))
    digest = md5(pickled, usedforsecurity=False).digest()
    return bytes([VERSION]) + nanoseconds.to_bytes(8, "little") + digest + pickled


def written(envelope):
    """When the file was written, in seconds; 0 if that cannot be read."""
    return int.from_bytes(envelope[_WRITTEN], "little") / 1e9 if len(envelope) >= _HEAD_LEN else 0.0


def decode(envelope, name):
    """The dictionary. Raises `DiskFileBadMetadataChecksum` for one that is not as it was written."""
    if len(envelope) < _HEAD_LEN or envelope[0] != VERSION:
        raise DiskFileBadMetadataChecksum(f"Metadata of {name} has no envelope of version {VERSION}")
    pickled = envelope[_HEAD_LEN:]
    if md5(pickled, usedforsecurity=False).digest() != envelope[_CHECKSUM]:
        raise DiskFileBadMetadataChecksum(f"Metadata checksum mismatch for {name}")
    # Both of Swift's ways to write text are read: that of Python 2 has no such mark.
    return _decode_metadata(unpickle(pickled, encoding="bytes"), b"_codecs\nencode" in pickled[:32])
