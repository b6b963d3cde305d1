"""Compares the time of calls through ``esker.plyvel`` and through plyvel on LevelDB.

Both run in this process and alternate; the first one changes with each round. Prints, for each kind
of call, the median time per engine, the median ratio over the rounds, and the middle half of the
ratios. Arguments: COUNT ROUNDS.
"""

import random
import shutil
import statistics
import sys
import tempfile
import time

import plyvel

import esker.plyvel

COUNT, ROUNDS = (int(text) for text in (sys.argv[1:] + ["20000", "15"][len(sys.argv) - 1 :])[:2])
ENGINES = {"LevelDB": plyvel, "Esker": esker.plyvel}
SIZES = dict(write_buffer_size=4 << 20, lru_cache_size=8 << 20, bloom_filter_bits=10)


def keys_of(seed):
    numbers = list(range(COUNT))
    random.Random(seed).shuffle(numbers)
    return [b"key%013d" % number for number in numbers]


def puts(db, keys):
    value = b"v" * 100
    for key in keys:
        db.put(key, value)


def gets(db, keys):
    for key in keys:
        db.get(key)


def missing(db, keys):
    for key in keys:
        db.get(key + b"x")


def scan(db, keys):
    for _ in db:
        pass


def batches(db, keys):
    value = b"v" * 100
    for start in range(0, len(keys), 100):
        with db.write_batch() as batch:
            for key in keys[start : start + 100]:
                batch.put(key, value)


def settle(dbs):
    """Writes all memtables to tables, so that the next calls read tables."""
    for db in dbs.values():
        db.compact_range()


def measure(dbs, work):
    times = {name: [] for name in dbs}
    for number in range(ROUNDS):
        keys = keys_of(number)
        order = list(dbs) if number % 2 else list(reversed(dbs))
        for name in order:
            began = time.perf_counter_ns()
            work(dbs[name], keys)
            times[name].append((time.perf_counter_ns() - began) / COUNT / 1000)
    return times


def report(what, times):
    ratios = [e / l for e, l in zip(times["Esker"], times["LevelDB"])]
    low, middle, high = statistics.quantiles(ratios, n=4)
    each = {name: statistics.median(list_) for name, list_ in times.items()}
    print(
        f"{what:24} {each['LevelDB']:8.2f} {each['Esker']:8.2f}"
        f" {middle:8.2f}   {low:.2f} to {high:.2f}",
        flush=True,
    )
    return middle


def rounds(title, options):
    place = tempfile.mkdtemp()
    dbs = {
        name: engine.DB(f"{place}/{name}", create_if_missing=True, **options)
        for name, engine in ENGINES.items()
    }
    print(f"{title + ', us a call':24} {'LevelDB':>8} {'Esker':>8} {'ratio':>8}   middle half")
    measured = {"put": measure(dbs, puts), "put in batches of 100": measure(dbs, batches)}
    measured["get, just written"] = measure(dbs, gets)
    settle(dbs)
    measured["get, from files"] = measure(dbs, gets)
    measured["get, not there"] = measure(dbs, missing)
    measured["scan"] = measure(dbs, scan)
    worst = max(report(what, times) for what, times in measured.items())
    for db in dbs.values():
        db.close()
    shutil.rmtree(place)
    return worst


print(f"{COUNT} pairs of 16 and 100 bytes, {ROUNDS} rounds in turn, Python {sys.version.split()[0]}")
rounds("own defaults", {})
rounds("the same sizes", SIZES)
