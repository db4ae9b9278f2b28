"""Measures the packages imbrex, plyvel and rocksdict on one workload, and prints a table in Markdown.

    pip install ./crates/python plyvel rocksdict
    python3 crates/python/bench/compare.py --directory /dev/shm

Every round gives each store a new directory, in turn, and does the same calls with the same bytes. All have a write
buffer and a cache of the same length, Bloom filters of 10 bits, and no sync but where it says so.
"""

import argparse
import gc
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time

BUFFER_LEN_BYTES = 64 << 20
CACHE_LEN_BYTES = 64 << 20
BATCH_LEN = 100
SCAN_LEN = 100


class Ours:
    name = "imbrex"

    def __init__(self, directory):
        import imbrex

        path = os.path.join(directory, "disk.imbrex")
        self.db = imbrex.create(
            path, capacity="16GiB", cache=CACHE_LEN_BYTES, write_buffer=BUFFER_LEN_BYTES
        )
        self.version = imbrex.__version__
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def put_synced(self, key, value):
        self.db.put(key, value, sync=True)

    def put_all(self, pairs):
        with self.db.batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def settle(self):
        self.db.flush()

    def scan(self):
        return self.db.items()

    def scan_from(self, key):
        return self.db.items(key)


class Plyvel:
    name = "plyvel"

    def __init__(self, directory):
        import plyvel

        self.db = plyvel.DB(
            directory,
            create_if_missing=True,
            write_buffer_size=BUFFER_LEN_BYTES,
            lru_cache_size=CACHE_LEN_BYTES,
            bloom_filter_bits=10,
        )
        self.version = plyvel.__version__
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def put_synced(self, key, value):
        self.db.put(key, value, sync=True)

    def put_all(self, pairs):
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def settle(self):
        # LevelDB has no flush; a compaction of a range without keys writes what is in memory.
        self.db.compact_range(start=b"\xff\xfe", stop=b"\xff\xff")

    def scan(self):
        return self.db.iterator()

    def scan_from(self, key):
        return self.db.iterator(start=key)


class Rocksdict:
    name = "rocksdict"

    def __init__(self, directory):
        import importlib.metadata

        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(BUFFER_LEN_BYTES)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(CACHE_LEN_BYTES))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.module, self.db = rocksdict, rocksdict.Rdict(directory, options)
        self.synced = rocksdict.WriteOptions()
        self.synced.sync = True
        self.version = importlib.metadata.version("rocksdict")
        self.put, self.get, self.close = self.db.put, self.db.get, self.db.close

    def put_synced(self, key, value):
        self.db.put(key, value, write_opt=self.synced)

    def put_all(self, pairs):
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self.db.write(batch)

    def settle(self):
        self.db.flush()

    def scan(self):
        return self.db.items()

    def scan_from(self, key):
        return self.db.items(from_key=key)


STORES = [Ours, Plyvel, Rocksdict]


def keys(count, seed):
    numbers = list(range(count))
    random.Random(seed).shuffle(numbers)
    return [b"%016d" % number for number in numbers]


def phases(args):
    """Each phase: its name, how many operations, and what it does to a store."""
    values = [random.Random(n).randbytes(args.value_len) for n in range(1000)]

    def value(n):
        return values[n % len(values)]

    loaded, asked = keys(args.count, 1), keys(args.count, 2)
    absent = [key + b"x" for key in asked]

    def put(store):
        put = store.put
        for n, key in enumerate(loaded):
            put(key, value(n))

    def put_in_batches(store):
        for start in range(0, args.count, BATCH_LEN):
            part = asked[start : start + BATCH_LEN]
            store.put_all([(key, value(n)) for n, key in enumerate(part)])

    def get(store):
        get, count = store.get, 0
        for key in asked:
            count += get(key) is not None
        assert count == args.count, count

    def get_absent(store):
        get = store.get
        assert not any(get(key) for key in absent)

    def scan(store):
        count = sum(1 for _ in store.scan())
        assert count == args.count, count

    def short_scans(store):
        for key in asked[: args.count // 100]:
            for n, _ in enumerate(store.scan_from(key)):
                if n == SCAN_LEN:
                    break

    def put_synced(store):
        for n, key in enumerate(asked[: args.synced]):
            store.put_synced(key, value(n))

    return [
        ("put, in random order", args.count, put),
        (f"put, in batches of {BATCH_LEN}", args.count, put_in_batches),
        ("flush", None, lambda store: store.settle()),
        ("get, in random order", args.count, get),
        ("get of absent keys", args.count, get_absent),
        ("scan of everything, entries", args.count, scan),
        (f"scan of {SCAN_LEN} entries, scans", args.count // 100, short_scans),
        ("put with sync", args.synced, put_synced),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200_000, help="keys [200000]")
    parser.add_argument("--value-len", type=int, default=100, help="bytes of a value [100]")
    parser.add_argument("--synced", type=int, default=2000, help="puts with sync [2000]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds [5]")
    parser.add_argument("--directory", help="where the stores lie [the temporary directory]")
    parser.add_argument("--data", help="also write the table to this data file of a results page")
    args = parser.parse_args()
    rates, versions, steps = {}, {}, phases(args)
    for round_number in range(args.rounds):
        # Each store is the first in some rounds.
        turn = round_number % len(STORES)
        for kind in STORES[turn:] + STORES[:turn]:
            directory = tempfile.mkdtemp(prefix=f"compare-{kind.name}-", dir=args.directory)
            try:
                store = kind(directory)
                versions[kind.name] = store.version
                for name, count, step in steps:
                    gc.collect()
                    start = time.perf_counter()
                    step(store)
                    took = time.perf_counter() - start
                    if count:
                        rates.setdefault((name, kind.name), []).append(count / took)
                store.close()
            finally:
                shutil.rmtree(directory, ignore_errors=True)
        print(f"round {round_number + 1} of {args.rounds}", file=sys.stderr)
    title, columns, rows = table(args, rates, [name for name, count, _ in steps if count])
    print(
        f"Python {platform.python_version()}, " + ", ".join(f"{n} {v}" for n, v in versions.items())
    )
    print(f"{title}:\n")
    for cells in [columns, ["---"] * len(columns), *rows]:
        print("| " + " | ".join(map(str, cells)) + " |")
    if args.data:
        write_data(args.data, title, columns, rows)


def table(args, rates, names):
    stores = [kind.name for kind in STORES]
    title = (
        f"{args.count:,} keys of 16 bytes, values of {args.value_len}: thousand operations a second, median of "
        f"{args.rounds} rounds; ratios with the least and the most of the rounds"
    )
    columns = ["operation", *stores, *(f"imbrex / {other}" for other in stores[1:])]
    rows = []
    for name in names:
        row = [name, *(f"{statistics.median(rates[name, store]) / 1000:.4g}" for store in stores)]
        for other in stores[1:]:
            ratios = [
                ours / theirs for ours, theirs in zip(rates[name, stores[0]], rates[name, other])
            ]
            row.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        rows.append(row)
    return title, columns, rows


def write_data(path, title, columns, rows):
    """Replaces the command and the first table of a data file; a person states commit, date, machine and limits."""
    with open(path) as file:
        data = json.load(file)
    words = sys.argv[1:]
    at = words.index("--data")
    data["command"] = " ".join(
        ["python3", "crates/python/bench/compare.py", *words[:at], *words[at + 2 :]]
    )
    data["tables"] = [
        {"title": title, "columns": [{"name": name} for name in columns], "rows": rows}
    ]
    with open(path, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
