"""Where things lie among the keys of a drive.

    objects[-N]/PARTITION/SUFFIX/HASH/FILE      data, tombstones and metadata, as Swift names its files
    async_pending[-N]/SUFFIX/HASH-TIMESTAMP     updates of containers that wait
    quarantined/objects[-N]/HASH/FILE           what was found damaged
    digests/objects[-N]/PARTITION/SUFFIX        the digest of a suffix, or a mark that it must be computed
    audits/objects[-N]/KIND                     how far an auditor is
    imbrex-swift                                which device of which cluster this is

A digest lies in the metadata of an object without data. It is ``m`` and eight bytes that no other mark has, or ``d``
and the digest as JSON.
"""

IDENTITY = b"imbrex-swift"
DIGESTS = b"digests"
QUARANTINED = b"quarantined"
AUDITS = b"audits"

MARK, DIGEST = b"m", b"d"


def join(*parts):
    """The key with these parts, each bytes or text."""
    return b"/".join(p if isinstance(p, bytes) else p.encode("utf-8", "surrogateescape") for p in parts)


def is_of_objects(first):
    """Whether the first part of a key is that of the objects of a policy."""
    return first == b"objects" or first.startswith(b"objects-")


def suffix_of(directory):
    """The directory of the suffix that has `directory`, or None outside of the objects."""
    parts = directory.split(b"/")
    if len(parts) < 3 or not is_of_objects(parts[0]):
        return None
    return b"/".join(parts[:3])


def digest_key(suffix_directory):
    """The key of the digest of a suffix."""
    return DIGESTS + b"/" + suffix_directory
