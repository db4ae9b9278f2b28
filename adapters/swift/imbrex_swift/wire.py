"""Frames between the daemon of a drive and its clients.

A frame is a length (u32, little-endian), one byte that says what it is, and so many bytes:

    C  a call: a list, the name of the operation first
    D  data of the upload of this connection; it has no answer
    R  the answer to a call: one value
    E  the call failed: a list of a code and a text

A value is a byte that says its kind, and then: nothing for None, True and False; 8 bytes for an integer; a length
(u32) and so many bytes for bytes; a length and so many values for a list. Text travels as UTF-8 bytes.
"""

import struct

#: The version of the protocol, in the greeting of a client.
PROTOCOL = 1

#: No frame is longer; a longer one ends the connection.
FRAME_LEN_MAX = 8 << 20

#: How long the data of one frame D are at most.
DATA_LEN_MAX = 1 << 20

#: Lists within lists, at most.
DEPTH_MAX = 6

CALL, DATA, REPLY, ERROR = b"C", b"D", b"R", b"E"

_HEAD = struct.Struct("<IB")
_LEN = struct.Struct("<I")
_INT = struct.Struct("<q")


class WireError(Exception):
    """The other side does not speak this protocol, or the connection ended within a frame."""


class ConnectionEnded(WireError):
    """The other side has closed the connection."""


def pack(value):
    """The bytes of `value`."""
    parts = []
    _pack_into(parts, value)
    return b"".join(parts)


def _pack_into(parts, value):
    if value is None:
        parts.append(b"N")
    elif value is True:
        parts.append(b"T")
    elif value is False:
        parts.append(b"F")
    elif isinstance(value, int):
        parts.append(b"i" + _INT.pack(value))
    elif isinstance(value, str):
        encoded = value.encode("utf-8", "surrogateescape")
        parts += (b"b" + _LEN.pack(len(encoded)), encoded)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        parts += (b"b" + _LEN.pack(len(value)), bytes(value))
    elif isinstance(value, (list, tuple)):
        parts.append(b"l" + _LEN.pack(len(value)))
        for item in value:
            _pack_into(parts, item)
    else:
        raise TypeError(f"{type(value).__name__} does not travel")


def unpack(data):
    """The value of `data`. Raises `WireError` for anything that `pack` does not make."""
    try:
        value, end = _unpack_from(data, 0, DEPTH_MAX)
    except (struct.error, IndexError):
        raise WireError("a value ends too early") from None
    if end != len(data):
        raise WireError(f"{len(data) - end} bytes behind a value")
    return value


def _unpack_from(data, at, depth):
    kind = data[at : at + 1]
    at += 1
    if kind == b"N":
        return None, at
    if kind == b"T":
        return True, at
    if kind == b"F":
        return False, at
    if kind == b"i":
        return _INT.unpack_from(data, at)[0], at + _INT.size
    if kind == b"b":
        end = at + _LEN.size + _LEN.unpack_from(data, at)[0]
        if end > len(data):
            raise WireError("bytes end too early")
        return bytes(data[at + _LEN.size : end]), end
    if kind == b"l":
        (count,) = _LEN.unpack_from(data, at)
        at += _LEN.size
        if count > len(data) - at:
            raise WireError("a list ends too early")
        if depth == 0:
            raise WireError("lists are nested too deep")
        items = []
        for _ in range(count):
            item, at = _unpack_from(data, at, depth - 1)
            items.append(item)
        return items, at
    raise WireError(f"no kind of value is {kind!r}")


def send_frame(sock, kind, payload):
    """Sends one frame on `sock`, whose ``sendall`` may be that of a green socket."""
    if len(payload) > FRAME_LEN_MAX:
        raise WireError(f"{len(payload)} bytes are too long for a frame")
    head = _HEAD.pack(len(payload), kind[0])
    if len(payload) < 65536:
        sock.sendall(head + payload)
    else:
        sock.sendall(head)
        sock.sendall(payload)


def receive_frame(sock):
    """The next frame of `sock`: its kind and its bytes.

    Raises `ConnectionEnded` if the other side has closed the connection between two frames.
    """
    head = _receive(sock, _HEAD.size, between=True)
    length, kind = _HEAD.unpack(head)
    if length > FRAME_LEN_MAX:
        raise WireError(f"a frame of {length} bytes is too long")
    return bytes([kind]), _receive(sock, length)


def _receive(sock, length, between=False):
    received = bytearray(length)
    view = memoryview(received)
    filled = 0
    while filled < length:
        count = sock.recv_into(view[filled:])
        if count == 0:
            if between and filled == 0:
                raise ConnectionEnded("the connection has ended")
            raise WireError("the connection ended within a frame")
        filled += count
    view.release()
    return received
