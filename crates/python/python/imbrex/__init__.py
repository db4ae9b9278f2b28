"""A durable, ordered key-value store for hard disks whose tracks overlap: shingled (SMR) and interlaced (IMR).

>>> import imbrex
>>> with imbrex.open("shop.imbrex", create=True, capacity="2GiB") as db:
...     db[b"apple"] = b"red"
...     db[b"banana"] = b"yellow"
...     print(list(db.items(b"b")))
[(b'banana', b'yellow')]

``open`` and ``create`` return a `Store`: a mapping from bytes to bytes, in order of key. ``simulate`` makes one on an
emulated drive in memory, in virtual time, and ``bench`` measures layouts so. Every exception is an `Error`.
"""

import json
import os
from typing import NamedTuple

from ._errors import (
    AlreadyExistsError,
    ClosedError,
    DamagedError,
    Error,
    ForkedError,
    InUseError,
    InvalidArgumentError,
    InvalidEntryError,
    IoError,
    NewerVersionError,
    NoSpaceError,
    NotAStoreError,
    NotFoundError,
    NotPermittedError,
    PoisonedError,
    ReadOnlyError,
    StoppedError,
    UnsupportedError,
    WrongLayoutError,
)
from ._imbrex import (
    Batch,
    Checkpoint,
    Entries,
    Keyspace,
    ObjectBatch,
    ObjectListing,
    Objects,
    Reader,
    SimulatedStore,
    Snapshot,
    Store,
    __version__,
    create_store as _create_store,
    format_drive as _format_drive,
    layout_table as _layout_table,
    open_store as _open_store,
    profiles,
    restore,
    run_bench as _run_bench,
    simulate_store as _simulate_store,
)
from ._streams import ObjectReader, ObjectStat, ObjectWriter


def open(
    path,
    *,
    read_only=False,
    create=False,
    layout=None,
    flash=None,
    cache=None,
    write_buffer=None,
    capacity=None,
    profile=None,
    recording=None,
    zone_len=None,
    seed=None,
    values_apart=None,
):
    """Opens the store at `path`, an image file or a block device such as /dev/sdb, and returns a `Store`.

    With `read_only` nothing is written to the drive, and several processes may have it open so. With `create` a store
    is made if nothing is at the path. `capacity`, `profile`, `recording`, `zone_len`, `seed` and `values_apart` describe
    it, as for ``create``, and mean nothing for a store that exists.

    `layout` is what a store that exists must be, and `flash` is the path of its flash drive, if it has one. `cache` and
    `write_buffer` are lengths of memory, as bytes or as text like "64MiB".

    What was written with sync before a crash is there.
    """
    made = dict(
        capacity=capacity,
        profile=profile,
        recording=recording,
        zone_len=zone_len,
        seed=seed,
        values_apart=values_apart,
    )
    if create and read_only:
        raise InvalidArgumentError("a new store is empty: leave out create or read_only")
    for name, value in made.items():
        if value is not None and not create:
            raise InvalidArgumentError(
                f"{name} describes a new store; add create=True or leave it out"
            )
    keywords = dict(layout=layout, flash=flash, cache=cache, write_buffer=write_buffer, **made)
    return _open_store(os.fsdecode(path), read_only, create, keywords)


def create(
    path,
    *,
    layout=None,
    capacity=None,
    profile=None,
    recording=None,
    zone_len=None,
    flash=None,
    erase=False,
    seed=None,
    cache=None,
    write_buffer=None,
    values_apart=None,
):
    """Makes an empty store at `path`, in a new image file or on a block device, and returns a `Store`.

    An image emulates a drive in a sparse file: it refuses what a real one refuses. `layout` is one of ``layouts()``.
    `capacity` is the drive's length, as bytes or as text like "8GiB" (64 GiB otherwise). `profile` is one of
    ``profiles()`` or the path of a TOML file; `recording` and `zone_len` say how the drive differs from that model.
    `flash` is the path of the flash drive, for layouts that take one.

    A drive that exists is refused unless `erase` is True; what another program has put there takes its name, as in
    ``erase="ext4"``. `seed` makes the same image of the same calls. `cache` and `write_buffer` are as for ``open``.

    With `values_apart`, such as "64KiB", values from that length on are written once, apart from their keys, and
    compactions leave them where they are: for long values and objects.
    """
    keywords = dict(
        layout=layout,
        capacity=capacity,
        profile=profile,
        recording=recording,
        zone_len=zone_len,
        flash=flash,
        erase=erase,
        seed=seed,
        cache=cache,
        write_buffer=write_buffer,
        values_apart=values_apart,
    )
    return _create_store(os.fsdecode(path), keywords)


def format(path, *, layout=None, flash=None, erase=False, values_apart=None):
    """Makes an empty store on a drive that exists, an image or a block device, and leaves it closed.

    `erase` and `values_apart` as for ``create``; a blank image needs no `erase`.
    """
    keywords = dict(layout=layout, flash=flash, erase=erase, values_apart=values_apart)
    _format_drive(os.fsdecode(path), keywords)


def simulate(
    layout=None,
    *,
    capacity=None,
    profile=None,
    recording=None,
    zone_len=None,
    seed=1,
    cache=None,
    write_buffer=None,
    values_apart=None,
):
    """Makes an empty store on an emulated drive in memory, in virtual time, and returns a `SimulatedStore`.

    Its clock moves by what the drive would have taken. The same calls give the same nanoseconds on every machine.
    Arguments are as for ``create``; the drive has 8 GiB otherwise. Layouts that take a flash drive are refused:
    ``bench`` has them.
    """
    keywords = dict(
        layout=layout,
        capacity=capacity,
        profile=profile,
        recording=recording,
        zone_len=zone_len,
        seed=seed,
        cache=cache,
        write_buffer=write_buffer,
        values_apart=values_apart,
    )
    return _simulate_store(keywords)


class Layout(NamedTuple):
    """How a store lies on its drive."""

    name: str
    #: What the drive is: conventional, zoned, shingled or interlaced.
    recording: str
    #: Where the layout was published.
    source: str
    summary: str
    takes_flash: bool


def layouts():
    """All layouts, by `Layout`. Their names are what ``create``, ``simulate`` and ``bench`` take."""
    return [Layout(*row) for row in _layout_table()]


def bench(benchmarks="fillrandom,readrandom", *, layout=None, drive=None, **flags):
    """Measures a layout, as ``imbrex bench`` does, and returns its report as a dict.

    The default is virtual time: a modelled disk, and the same figures on every machine. `benchmarks` is one text, or a
    list of names. Every flag of ``imbrex bench`` is a keyword: ``num``, ``value_size``, ``capacity``, ``seed``,
    ``threads`` and so on. Ctrl-C stops the run.
    """
    if not isinstance(benchmarks, str):
        benchmarks = ",".join(benchmarks)
    flags = {"benchmarks": benchmarks, "layout": layout, "drive": drive, **flags}
    return json.loads(
        _run_bench([part for name, value in flags.items() for part in _flag(name, value)])
    )


#: Flags that are there or not.
_SWITCHES = frozenset(["sync", "use_existing_db"])


def _flag(name, value):
    dashed = name.replace("_", "-")
    if value is None or (name in _SWITCHES and value is False):
        return []
    if name in _SWITCHES and value is True:
        return [f"--{dashed}"]
    if isinstance(value, bool):
        value = str(value).lower()
    return [f"--{dashed}={value}"]


__all__ = [
    "AlreadyExistsError",
    "Batch",
    "Checkpoint",
    "ClosedError",
    "DamagedError",
    "Entries",
    "Error",
    "ForkedError",
    "InUseError",
    "InvalidArgumentError",
    "InvalidEntryError",
    "IoError",
    "Keyspace",
    "Layout",
    "NewerVersionError",
    "NoSpaceError",
    "NotAStoreError",
    "NotFoundError",
    "NotPermittedError",
    "ObjectBatch",
    "ObjectListing",
    "ObjectReader",
    "ObjectStat",
    "ObjectWriter",
    "Objects",
    "PoisonedError",
    "ReadOnlyError",
    "Reader",
    "SimulatedStore",
    "Snapshot",
    "StoppedError",
    "Store",
    "UnsupportedError",
    "WrongLayoutError",
    "bench",
    "create",
    "format",
    "layouts",
    "open",
    "profiles",
    "restore",
    "simulate",
]
