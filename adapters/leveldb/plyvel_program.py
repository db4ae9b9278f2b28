"""LevelDB from Python: random puts and deletes against a dict, closed and opened again."""

import random

import plyvel

random.seed(3)
expected = {}
db = plyvel.DB("/plyvel", create_if_missing=True, write_buffer_size=1 << 16, max_file_size=1 << 20)
for i in range(20_000):
    key = b"key%d" % random.randrange(8_000)
    if random.random() < 0.1:
        db.delete(key)
        expected.pop(key, None)
    else:
        expected[key] = b"%d" % i * 40
        db.put(key, expected[key], sync=i % 1_000 == 0)
assert dict(db) == expected
db.close()
db = plyvel.DB("/plyvel")
assert dict(db) == expected
print("plyvel:", len(expected), "keys")
