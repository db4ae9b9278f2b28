"""Frames and values: what is packed is unpacked, and anything else is refused."""

import random
import socket
import unittest

import scene  # noqa: F401  (finds the package)

from imbrex_swift import wire


def value_of(rng, depth=0):
    kind = rng.randrange(6 if depth < 3 else 5)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.randrange(-(1 << 63), 1 << 63)
    if kind < 5:
        return rng.randbytes(rng.randrange(30))
    return [value_of(rng, depth + 1) for _ in range(rng.randrange(5))]


class Values(unittest.TestCase):
    def test_what_is_packed_is_unpacked(self):
        rng = random.Random(1)
        for _ in range(2000):
            value = value_of(rng)
            self.assertEqual(wire.unpack(wire.pack(value)), value)

    def test_text_is_its_bytes(self):
        self.assertEqual(wire.unpack(wire.pack(["é", "\udcff"])), ["é".encode(), b"\xff"])

    def test_no_bytes_but_those_of_pack_are_taken(self):
        rng = random.Random(2)
        refused = 0
        for _ in range(3000):
            packed = bytearray(wire.pack(value_of(rng)))
            if packed and rng.random() < 0.7:
                packed[rng.randrange(len(packed))] = rng.randrange(256)
            else:
                del packed[rng.randrange(len(packed) + 1) :]
            try:
                self.assertEqual(wire.pack(wire.unpack(bytes(packed))), packed)
            except wire.WireError:
                refused += 1
        self.assertGreater(refused, 1000)

    def test_lists_that_promise_more_than_there_is_or_are_too_deep(self):
        for packed in (b"l\xff\xff\xff\x7f", b"b\xff\xff\xff\x7fa", b"l\x01\x00\x00\x00" * 9 + b"N", b"NN", b""):
            with self.assertRaises(wire.WireError):
                wire.unpack(packed)

    def test_no_other_kinds_travel(self):
        with self.assertRaises(TypeError):
            wire.pack({"a": 1})


class Frames(unittest.TestCase):
    def setUp(self):
        self.one, self.other = socket.socketpair()
        self.addCleanup(self.one.close)
        self.addCleanup(self.other.close)

    def test_an_end_between_frames_is_told_from_one_within(self):
        wire.send_frame(self.one, wire.CALL, b"abc")
        self.one.sendall(b"\x09\x00\x00\x00Cab")
        self.one.close()
        self.assertEqual(wire.receive_frame(self.other), (wire.CALL, b"abc"))
        with self.assertRaisesRegex(wire.WireError, "within"):
            wire.receive_frame(self.other)
        with self.assertRaises(wire.ConnectionEnded):
            wire.receive_frame(self.other)

    def test_a_frame_that_is_too_long_is_refused_before_it_is_read(self):
        self.one.sendall((wire.FRAME_LEN_MAX + 1).to_bytes(4, "little") + b"C")
        with self.assertRaisesRegex(wire.WireError, "too long"):
            wire.receive_frame(self.other)
        with self.assertRaisesRegex(wire.WireError, "too long"):
            wire.send_frame(self.one, wire.CALL, bytes(wire.FRAME_LEN_MAX + 1))


if __name__ == "__main__":
    unittest.main()
