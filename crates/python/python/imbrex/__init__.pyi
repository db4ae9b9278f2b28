"""Types of the package, for checkers and editors. The documentation of each call is in the package."""

from collections.abc import Iterable, Iterator, Mapping
from io import BufferedReader
from os import PathLike
from types import TracebackType
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, final, overload
from typing_extensions import Buffer, Self

from ._errors import (
    AlreadyExistsError as AlreadyExistsError,
    ClosedError as ClosedError,
    DamagedError as DamagedError,
    Error as Error,
    ForkedError as ForkedError,
    InUseError as InUseError,
    InvalidArgumentError as InvalidArgumentError,
    InvalidEntryError as InvalidEntryError,
    IoError as IoError,
    NewerVersionError as NewerVersionError,
    NoSpaceError as NoSpaceError,
    NotAStoreError as NotAStoreError,
    NotFoundError as NotFoundError,
    NotPermittedError as NotPermittedError,
    PoisonedError as PoisonedError,
    ReadOnlyError as ReadOnlyError,
    StoppedError as StoppedError,
    UnsupportedError as UnsupportedError,
    WrongLayoutError as WrongLayoutError,
)

_T = TypeVar("_T")
_Path = str | bytes | PathLike[str] | PathLike[bytes]
_HostPath = str | PathLike[str]
_Size = int | str
_Pairs = Mapping[Buffer, Buffer] | Mapping[bytes, bytes] | Iterable[tuple[Buffer, Buffer]]

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

__version__: str

class Layout(NamedTuple):
    name: str
    recording: str
    source: str
    summary: str
    takes_flash: bool

@final
class Entries(Iterator[_T]):
    def __iter__(self) -> Self: ...
    def __next__(self) -> _T: ...

class Reader:
    @overload
    def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    def view(self, key: Buffer) -> memoryview | None: ...
    def get_many(self, keys: Iterable[Buffer]) -> list[bytes | None]: ...
    def items(
        self,
        start: Buffer | None = None,
        end: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Entries[tuple[bytes, bytes]]: ...
    def keys(
        self,
        start: Buffer | None = None,
        end: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Entries[bytes]: ...
    def values(
        self,
        start: Buffer | None = None,
        end: Buffer | None = None,
        *,
        prefix: Buffer | None = None,
        reverse: bool = False,
    ) -> Entries[bytes]: ...
    def approximate_size(self, start: Buffer, end: Buffer) -> int: ...
    def __getitem__(self, key: Buffer, /) -> bytes: ...
    def __contains__(self, key: Buffer, /) -> bool: ...
    def __iter__(self) -> Entries[bytes]: ...
    def __reversed__(self) -> Entries[bytes]: ...

class Keyspace(Reader):
    @property
    def keyspace_name(self) -> str: ...
    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None: ...
    def delete(self, key: Buffer, *, sync: bool = False) -> None: ...
    def delete_range(self, start: Buffer, end: Buffer, *, sync: bool = False) -> None: ...
    def update(self, items: _Pairs, *, sync: bool = False) -> None: ...
    @overload
    def pop(self, key: Buffer) -> bytes: ...
    @overload
    def pop(self, key: Buffer, default: _T, /) -> bytes | _T: ...
    def compact(self, start: Buffer | None = None, end: Buffer | None = None) -> None: ...
    @overload
    def open(
        self, key: Buffer, mode: Literal["rb"] = "rb", *, sync: bool = False
    ) -> BufferedReader: ...
    @overload
    def open(self, key: Buffer, mode: Literal["wb"], *, sync: bool = False) -> BinaryIO: ...
    def __setitem__(self, key: Buffer, value: Buffer, /) -> None: ...
    def __delitem__(self, key: Buffer, /) -> None: ...

class Store(Keyspace):
    @property
    def layout(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def sync(self) -> None: ...
    def flush(self) -> None: ...
    def batch(self, *, sync: bool = False) -> Batch: ...
    def snapshot(self) -> Snapshot: ...
    def keyspace(self, name: str, *, create: bool = False) -> Keyspace: ...
    def drop_keyspace(self, name: str) -> None: ...
    def keyspaces(self) -> list[str]: ...
    def checkpoint(self, name: str) -> None: ...
    def checkpoints(self) -> list[str]: ...
    def open_checkpoint(self, name: str) -> Checkpoint: ...
    def delete_checkpoint(self, name: str) -> None: ...
    def backup(
        self,
        directory: _HostPath,
        *,
        full: bool = False,
        keep: int | None = None,
        adopt: bool = False,
    ) -> dict[str, Any]: ...
    def backup_to(self, path: _HostPath, *, layout: str | None = None) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class SimulatedStore(Store):
    @property
    def now_ns(self) -> int: ...
    def cut_power(self, seed: int = 1) -> None: ...

@final
class Snapshot(Reader):
    def keyspace(self, name: str) -> Reader: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Checkpoint(Reader):
    def keyspace(self, name: str) -> Reader: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Batch:
    def put(self, key: Buffer, value: Buffer, *, keyspace: Keyspace | None = None) -> None: ...
    def delete(self, key: Buffer, *, keyspace: Keyspace | None = None) -> None: ...
    def delete_range(
        self, start: Buffer, end: Buffer, *, keyspace: Keyspace | None = None
    ) -> None: ...
    def write(self, *, sync: bool | None = None) -> None: ...
    def clear(self) -> None: ...
    def __setitem__(self, key: Buffer, value: Buffer, /) -> None: ...
    def __delitem__(self, key: Buffer, /) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None: ...

def open(
    path: _Path,
    *,
    read_only: bool = False,
    create: bool = False,
    layout: str | None = None,
    flash: _HostPath | None = None,
    cache: _Size | None = None,
    write_buffer: _Size | None = None,
    capacity: _Size | None = None,
    profile: _HostPath | None = None,
    recording: str | None = None,
    zone_len: _Size | None = None,
    seed: int | None = None,
) -> Store: ...
def create(
    path: _Path,
    *,
    layout: str | None = None,
    capacity: _Size | None = None,
    profile: _HostPath | None = None,
    recording: str | None = None,
    zone_len: _Size | None = None,
    flash: _HostPath | None = None,
    erase: bool | str = False,
    seed: int | None = None,
    cache: _Size | None = None,
    write_buffer: _Size | None = None,
) -> Store: ...
def format(
    path: _Path,
    *,
    layout: str | None = None,
    flash: _HostPath | None = None,
    erase: bool | str = False,
) -> None: ...
def restore(
    directory: _HostPath,
    path: _HostPath,
    *,
    number: int | None = None,
    any_layout: bool = False,
    flash: _HostPath | None = None,
) -> int: ...
def simulate(
    layout: str | None = None,
    *,
    capacity: _Size | None = None,
    profile: _HostPath | None = None,
    recording: str | None = None,
    zone_len: _Size | None = None,
    seed: int | None = 1,
    cache: _Size | None = None,
    write_buffer: _Size | None = None,
) -> SimulatedStore: ...
def profiles() -> list[str]: ...
def layouts() -> list[Layout]: ...
def bench(
    benchmarks: str | Iterable[str] = "fillrandom,readrandom",
    *,
    layout: str | None = None,
    drive: _HostPath | None = None,
    **flags: Any,
) -> dict[str, Any]: ...
