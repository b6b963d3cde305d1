"""Compares Esker with the bindings that programs use today: plyvel, rocksdict and lmdb.

All run in this process and take turns; the first one changes with each round. Prints, for each kind
of call, the median time of a pair per engine in microseconds, and the ratio of Esker's time to the
fastest other of the same round: its median over the rounds, and its range. Every engine has its own
defaults, except that lmdb does not sync each commit (the others do not either) and has room for the
data. Arguments: COUNT ROUNDS.
"""

import itertools
import random
import shutil
import statistics
import sys
import tempfile
import time

import esker

try:
    import lmdb
    import plyvel
    import rocksdict
except ImportError as error:
    sys.exit(f"beside_others: {error.name} is not installed (pip install plyvel rocksdict lmdb)")

COUNT, ROUNDS = (int(text) for text in (sys.argv[1:] + ["50000", "9"][len(sys.argv) - 1 :])[:2])
VALUE = b"v" * 100
GROUP = 100


class Esker:
    def __init__(self, path):
        self.db = esker.DB(path, create_if_missing=True)
        self.put, self.get, self.get_many = self.db.put, self.db.get, self.db.get_many

    def batch(self, keys):
        with self.db.write_batch() as batch:
            for key in keys:
                batch.put(key, VALUE)

    def scan(self):
        return sum(1 for _ in self.db.iterator())

    def scan_from(self, key, most):
        return list(itertools.islice(self.db.iterator(start=key), most))

    def settle(self):
        self.db.compact_range()

    def close(self):
        self.db.close()


class Plyvel(Esker):
    def __init__(self, path):
        self.db = plyvel.DB(path, create_if_missing=True)
        self.put, self.get = self.db.put, self.db.get

    def get_many(self, keys):
        return [self.get(key) for key in keys]


class Rocksdict(Esker):
    def __init__(self, path):
        self.db = rocksdict.Rdict(path, options=rocksdict.Options(raw_mode=True))
        self.put, self.get = self.db.put, self.db.get

    def get_many(self, keys):
        return self.db.get(keys)

    def batch(self, keys):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key in keys:
            batch.put(key, VALUE)
        self.db.write(batch)

    def scan(self):
        return sum(1 for _ in self.db.items())

    def scan_from(self, key, most):
        return list(itertools.islice(self.db.items(from_key=key), most))

    def settle(self):
        self.db.flush()
        self.db.compact_range(None, None)


class Lmdb(Esker):
    def __init__(self, path):
        # Without a sync of each commit, as the defaults of the others.
        self.db = lmdb.open(path, map_size=1 << 32, sync=False)

    def put(self, key, value):
        with self.db.begin(write=True) as transaction:
            transaction.put(key, value)

    def get(self, key):
        with self.db.begin() as transaction:
            return transaction.get(key)

    def get_many(self, keys):
        with self.db.begin() as transaction:
            cursor = transaction.cursor()
            return cursor.getmulti(keys)

    def batch(self, keys):
        with self.db.begin(write=True) as transaction:
            for key in keys:
                transaction.put(key, VALUE)

    def scan(self):
        with self.db.begin() as transaction:
            return sum(1 for _ in transaction.cursor())

    def scan_from(self, key, most):
        with self.db.begin() as transaction:
            cursor = transaction.cursor()
            cursor.set_range(key)
            return list(itertools.islice(cursor, most))

    def settle(self):
        self.db.sync(True)


ENGINES = {"Esker": Esker, "plyvel": Plyvel, "rocksdict": Rocksdict, "lmdb": Lmdb}


def puts(db, keys):
    put = db.put
    for key in keys:
        put(key, VALUE)


def batches(db, keys):
    for start in range(0, len(keys), GROUP):
        db.batch(keys[start : start + GROUP])


def gets(db, keys):
    get = db.get
    for key in keys:
        assert get(key) is not None


def many(db, keys):
    for start in range(0, len(keys), GROUP):
        assert len(db.get_many(keys[start : start + GROUP])) == len(keys[start : start + GROUP])


def scan(db, keys):
    assert db.scan() == COUNT


def scans_of(most):
    def scans(db, keys):
        for key in keys[: COUNT // most]:
            pairs = db.scan_from(key, most)
            assert pairs[0] == (key, VALUE)

    return scans


def keys_of(seed):
    numbers = list(range(COUNT))
    random.Random(seed).shuffle(numbers)
    return [b"key%013d" % number for number in numbers]


def measure(dbs, work):
    times = {name: [] for name in dbs}
    for number in range(ROUNDS):
        keys, names = keys_of(number), list(dbs)
        first = number % len(names)
        for name in names[first:] + names[:first]:
            began = time.perf_counter_ns()
            work(dbs[name], keys)
            times[name].append((time.perf_counter_ns() - began) / COUNT / 1000)
    return times


def report(what, times):
    fastest = [min(each) for each in zip(*(times[name] for name in times if name != "Esker"))]
    ratios = [own / other for own, other in zip(times["Esker"], fastest)]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
    columns = " ".join(f"{statistics.median(times[name]):9.2f}" for name in ENGINES)
    print(f"{what:22} {columns}  {ratio}", flush=True)


def main():
    place = tempfile.mkdtemp()
    print(
        f"{COUNT} pairs of 16 and 100 bytes, {ROUNDS} rounds in turn,"
        f" Python {sys.version.split()[0]}, us a pair"
    )
    print(f"{'':22} " + " ".join(f"{name:>9}" for name in ENGINES) + "  ratio")
    dbs = {name: engine(f"{place}/{name}") for name, engine in ENGINES.items()}
    report("put", measure(dbs, puts))
    report("put, batches of 100", measure(dbs, batches))
    for db in dbs.values():
        db.settle()
    report("get", measure(dbs, gets))
    report("multi-get of 100", measure(dbs, many))
    report("scan", measure(dbs, scan))
    for most in (1, 10, 100):
        report(f"pair, scans of {most}", measure(dbs, scans_of(most)))
    for db in dbs.values():
        db.close()
    shutil.rmtree(place)


main()
