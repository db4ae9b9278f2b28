"""The daemon of one drive: ``imbrex-swift-drive --device d1 --socket /srv/node/d1/drive.sock /dev/sdb``.

One process opens a drive, so this one has it, and the processes of Swift ask it over a Unix socket that only its owner
may use. Each connection is one thread. SIGTERM and Ctrl-C end it cleanly: calls that run are finished, uploads that
have no end are abandoned. After kill -9 the next start recovers what was acknowledged.
"""

import argparse
import configparser
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import time

from . import identity, wire
from .service import Refused, Service, Session
from .wire import PROTOCOL

#: Connections at the same time. Each has a thread, and an upload of at most 1 MiB in memory.
CONNECTION_COUNT_MAX = 1024

#: How long a clean stop waits for calls that run.
STOP_S_MAX = 10

#: How long a new connection may take to say who it is.
HELLO_S_MAX = 10

#: Data from this length on are written once, whatever the store does with their keys.
VALUES_APART = "64KiB"

_STACK_LEN = 1 << 20

log = logging.getLogger("imbrex-swift-drive")


class DriveServer:
    """Serves `store` at a socket. `start` returns when clients can connect."""

    def __init__(self, store, device, cluster, path, connection_count_max=CONNECTION_COUNT_MAX):
        self._service = Service(store)
        self._device = device
        self._cluster = cluster
        self._path = path
        self._connection_count_max = connection_count_max
        self._guard = threading.Lock()
        self._connections = {}
        self._listener = None
        self._accepting = None
        self._stopping = False
        #: Set when the store can no longer be used; the text says why.
        self.failure = None
        self.failed = threading.Event()

    def start(self):
        self._listener = listen(self._path)
        self._accepting = threading.Thread(target=self._accept, name="accept", daemon=True)
        self._accepting.start()

    def stop(self, patience=STOP_S_MAX):
        """Ends all connections, each after the call that it is in."""
        with self._guard:
            self._stopping = True
            connections = list(self._connections.items())
        try:
            os.unlink(self._path)
        except FileNotFoundError:
            pass
        # Wakes the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(patience)
        for sock, _ in connections:
            shut(sock, socket.SHUT_RD)
        end = time.monotonic() + patience
        for _, thread in connections:
            thread.join(max(0, end - time.monotonic()))

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as error:
                if self._stopping:
                    return
                log.warning("no connection could be accepted: %s", error)
                self.failed.wait(0.1)
                continue
            with self._guard:
                if self._stopping:
                    sock.close()
                    return
                full = len(self._connections) >= self._connection_count_max
                if not full:
                    thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
                    self._connections[sock] = thread
            if full:
                self._refuse(sock, "busy", f"{self._connection_count_max} connections are open")
                continue
            try:
                thread.start()
            except RuntimeError as error:
                with self._guard:
                    del self._connections[sock]
                self._refuse(sock, "busy", str(error))

    def _refuse(self, sock, code, text):
        try:
            sock.settimeout(1)
            # What is closed with a greeting unread loses the answer, too.
            wire.receive_frame(sock)
            wire.send_frame(sock, wire.ERROR, wire.pack([code, text]))
        except (OSError, wire.WireError):
            pass
        sock.close()

    def _serve(self, sock):
        session = Session(self._service)
        try:
            sock.settimeout(HELLO_S_MAX)
            self._greet(sock)
            sock.settimeout(None)
            while not self._stopping:
                self._answer(sock, session)
        except wire.ConnectionEnded:
            pass
        except wire.WireError as error:
            if not self._stopping:
                log.warning("a connection was ended: %s", error)
        except OSError as error:
            if not self._stopping:
                log.info("a connection was lost: %s", error)
        finally:
            try:
                session.close()
            except Exception as error:
                log.warning("an upload could not be abandoned: %s", error)
            sock.close()
            with self._guard:
                self._connections.pop(sock, None)

    def _greet(self, sock):
        kind, payload = wire.receive_frame(sock)
        hello = wire.unpack(payload) if kind == wire.CALL else None
        if not isinstance(hello, list) or len(hello) != 4 or hello[0] != b"hello":
            raise wire.WireError("a connection began without a greeting")
        _, protocol, device, cluster = hello
        text = None
        if protocol != PROTOCOL:
            text = f"the client speaks version {protocol} of the protocol, this daemon {PROTOCOL}"
        elif device != self._device.encode("utf-8", "surrogateescape"):
            text = f"this is the device {self._device}, not {device.decode('utf-8', 'replace')}"
        elif cluster != self._cluster.encode():
            text = "the drive is of another cluster: its hash path prefix and suffix are others"
        if text is not None:
            wire.send_frame(sock, wire.ERROR, wire.pack(["refused", text]))
            raise wire.ConnectionEnded(text)
        wire.send_frame(sock, wire.REPLY, wire.pack(None))

    def _answer(self, sock, session):
        kind, payload = wire.receive_frame(sock)
        if kind == wire.DATA:
            if len(payload) > wire.DATA_LEN_MAX:
                raise wire.WireError(f"{len(payload)} bytes of data in one frame")
            session.data(payload)
            return
        if kind != wire.CALL:
            raise wire.WireError(f"a frame of kind {kind!r} is no call")
        try:
            answer = wire.pack(session.call(wire.unpack(payload)))
        except wire.WireError:
            raise
        except Exception as error:
            wire.send_frame(sock, wire.ERROR, wire.pack(self._failure_of(error)))
            return
        wire.send_frame(sock, wire.REPLY, answer)

    def _failure_of(self, error):
        if isinstance(error, Refused):
            return [error.code, str(error)]
        name = type(error).__name__
        code = {"NoSpaceError": "nospace", "DamagedError": "damaged"}.get(name, "failed")
        if name in ("PoisonedError", "ClosedError", "StoppedError"):
            self.failure = str(error)
            self.failed.set()
        if code == "failed":
            log.error("%s: %s", name, error, exc_info=not self.failed.is_set())
        return [code, f"{name}: {error}"]


def shut(sock, how):
    """Ends one direction of a socket that may be closed already."""
    try:
        sock.shutdown(how)
    except OSError:
        pass


class SocketTaken(Exception):
    """Another process answers at the socket."""


def listen(path):
    """A listening socket at `path`, for its owner alone. What a dead process left there is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = f"{path}.{os.getpid()}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            try:
                probe.connect(path)
            except (FileNotFoundError, ConnectionRefusedError):
                pass
            else:
                raise SocketTaken(f"another process serves {path}")
        before = os.umask(0o177)
        try:
            listener.bind(fresh)
        finally:
            os.umask(before)
        listener.listen(128)
        # Nobody ever finds a socket that does not listen.
        os.rename(fresh, path)
    except BaseException:
        listener.close()
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    return listener


class Problem(Exception):
    """What the operator can act on; its text is all that is shown."""


def open_drive(imbrex, options, cluster):
    """The store of the drive, made before if that was asked for and nothing is there."""
    keywords = {"cache": options.cache, "write_buffer": options.write_buffer}
    if options.make and is_missing(options.drive):
        store = imbrex.create(
            options.drive,
            capacity=options.make,
            layout=options.layout,
            profile=options.profile,
            zone_len=options.zone_len,
            flash=options.flash,
            values_apart=VALUES_APART,
            **keywords,
        )
        identity.write(store.objects(), options.device, cluster)
        log.info("made %s, the device %s", options.drive, options.device)
        return store
    store = imbrex.open(options.drive, flash=options.flash, **keywords)
    try:
        if options.adopt and next(iter(store.objects().list(b"")), None) is None:
            identity.write(store.objects(), options.device, cluster)
        identity.check(store.objects(), options.device, cluster, options.drive)
    except BaseException:
        store.close()
        raise
    return store


def is_missing(path):
    """Whether nothing is at `path`."""
    return not os.path.lexists(path)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="imbrex-swift-drive", description="Serves one drive to Swift's processes.")
    parser.add_argument("drive", metavar="DRIVE", help="an image file or a block device")
    parser.add_argument("--device", required=True, help="the name of the device in the ring")
    parser.add_argument("--socket", required=True, help="where to serve it, DEVICES/NAME/drive.sock")
    parser.add_argument("--swift-dir", default="/etc/swift", help="where swift.conf lies")
    parser.add_argument("--make", metavar="CAPACITY", help="make an image of this length if nothing is at DRIVE")
    parser.add_argument("--adopt", action="store_true", help="take an empty store that is at DRIVE")
    parser.add_argument("--layout", help="of a new store; see imbrex layouts")
    parser.add_argument("--profile", help="of a new image: which drive it is")
    parser.add_argument("--zone-len", help="of a new image")
    parser.add_argument("--flash", help="the flash drive of the store, for layouts that take one")
    parser.add_argument("--cache", help="memory for reading, such as 64MiB")
    parser.add_argument("--write-buffer", help="memory for writing, such as 32MiB")
    parser.add_argument("--connections", type=int, default=CONNECTION_COUNT_MAX, help="at the same time")
    options = parser.parse_args(arguments)
    if options.connections < 1:
        parser.error("--connections: one or more")
    return options


def load_imbrex():
    """The package of the store."""
    try:
        import imbrex
    except ImportError as error:
        raise Problem(f"the package imbrex is not installed in {sys.executable}: {error}") from error
    return imbrex


def cluster_for(options):
    """The digest of the cluster whose configuration the options name."""
    try:
        return identity.cluster_of(os.path.join(options.swift_dir, "swift.conf"))
    except (OSError, configparser.Error) as error:
        raise Problem(f"the cluster is not known: {error}") from error


def opened(imbrex, options, cluster):
    """As `open_drive`, with errors for the operator."""
    try:
        return open_drive(imbrex, options, cluster)
    except (imbrex.Error, OSError) as error:
        raise Problem(f"{options.drive} cannot be opened: {error}") from error


def serve(options):
    """Serves until a signal comes. Returns the exit code."""
    imbrex = load_imbrex()
    cluster = cluster_for(options)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.stack_size(_STACK_LEN)
    store = opened(imbrex, options, cluster)
    server = DriveServer(store, options.device, cluster, options.socket, options.connections)
    try:
        try:
            server.start()
        except OSError as error:
            raise Problem(f"{options.socket}: {error.strerror or error}") from error
        log.info("serving %s as %s at %s", options.drive, options.device, options.socket)
        while not stop.wait(0.2) and not server.failed.is_set():
            pass
        server.stop()
    finally:
        store.close()
    if server.failure is not None:
        raise Problem(f"{options.drive} can no longer be used: {server.failure}")
    return 0


def main(arguments=None):
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        sys.exit(serve(parse(arguments)))
    except (Problem, identity.WrongDrive, SocketTaken) as error:
        print(f"imbrex-swift-drive: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
