"""Memory and open files do not grow while a program repeats what allocates them."""

import os
import subprocess
import sys
import textwrap

import pytest

BEGIN = """
    import gc, io, os, pathlib, sys, esker
    place = pathlib.Path(sys.argv[1])
    options = dict(create_if_missing=True, memory_budget_bytes="16MiB")
    db = esker.DB(place / "db", **options)
    value = os.urandom(20_000)
"""

# A round allocates about 2 MiB, so what one round loses is seen after a few of them.
ROUNDS = {
    "feed": """
        slot = db.subscribe("slot")
        def round():
            for number in range(100):
                db.put(b"%03d" % number, value)
            changes = slot.changes()
            assert sum(len(batch) for batch in changes) == 100
            slot.confirm(changes.position)
    """,
    "stream": """
        slot = db.subscribe("slot")
        copy = esker.DB(place / "copy", **options)
        def round():
            for number in range(100):
                db.put(b"%03d" % number, value)
            file, changes = io.BytesIO(), slot.changes()
            writer = db.change_writer(file)
            while (position := writer.write_next(changes, 0)) is not None:
                last = position
            writer.end(last)
            file.seek(0)
            with copy.applier(file) as applier:
                assert len(list(applier)) == 100
            slot.confirm(last)
    """,
    "diff": """
        for number in range(200):
            db.put(b"%03d" % number, value)
        db.fork(place / "fork")
        fork = esker.DB(place / "fork", **options)
        for number in range(100):
            fork.put(b"%03d" % number, b"other" + value)
        def round():
            assert len(list(esker.diff(db, fork))) == 100
            next(esker.diff(db, fork))
            with db.snapshot() as snapshot:
                next(esker.diff(snapshot, fork))
    """,
    "follower": """
        follower = esker.follow(place / "db", memory_budget_bytes="16MiB")
        def round():
            for number in range(20):
                db.put(b"%03d" % number, value)
                follower.catch_up()
                with follower.db() as view:
                    assert view[b"%03d" % number] == value
            db.flush()
            follower.lag()
    """,
    "ingest": """
        def round():
            with esker.SortedWriter(place / "file") as writer:
                for number in range(100):
                    writer.put(b"%03d" % number, value)
            db.ingest([place / "file"])
            db.bulk_load((b"%03d" % number, value) for number in range(100))
            left = esker.SortedWriter(place / "left")
            left.put(b"k", value)
            del left
            db.compact_all()
    """,
    "streamed values": """
        long = value * 60
        def round():
            assert db.put_reader(b"k", io.BytesIO(long)) == len(long)
            with db.get_reader(b"k") as reader:
                assert reader.read(100_000) == long[:100_000]
                room = bytearray(100_000)
                reader.readinto(room)
            db.get_reader(b"k").read()
            db.compact_all()
    """,
    "iterators": """
        users = db.keyspace("users")
        for part in (db, users):
            part.update((b"%03d" % number, value) for number in range(100))
        def round():
            for part in (db, users, db.prefixed_db(b"0")):
                list(part.iterator())
                steps = part.iterator(reverse=True)
                next(steps)
                steps.seek(b"050")
                next(steps)
            with db.raw_iterator() as raw, db.snapshot() as snapshot, db.transaction() as transaction:
                raw.seek_to_first()
                while raw.valid():
                    raw.item()
                    raw.next()
                list(snapshot.iterator())
                transaction.put(b"own", value)
                list(transaction.iterator())
                transaction.rollback()
    """,
    "reports": """
        for number in range(100):
            db.put(b"%03d" % number, value)
        db.flush()
        def round():
            for _ in range(500):
                assert db.tables() and db.metrics()["user_ops"]
            assert db.verify(progress=lambda *numbers: None) == []
    """,
}

END = """
    def used():
        gc.collect()
        pages = int(open("/proc/self/statm").read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        round()
    first = used()
    for _ in range(80):
        round()
    last = used()
    print(last[0] - first[0], last[1] - first[1])
"""


# What a test of these limits must see.
LEAK = """
    kept, long = [], value * 60
    def round():
        db.put_reader(b"k", io.BytesIO(long))
        kept.append((db.get_reader(b"k"), db.get(b"k")))
"""
LIMIT_BYTES, LIMIT_FILES = 24 << 20, 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read as on Linux")


def growth(rounds, tmp_path):
    """Returns by how many bytes and open files a program has grown in 80 rounds."""
    program = "".join(textwrap.dedent(part) for part in (BEGIN, rounds, END))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, timeout=1200, check=False,
        # Arenas of further threads would look like growth.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stderr
    return map(int, done.stdout.split())


@pytest.mark.parametrize("name", ROUNDS)
def test_memory_does_not_grow(name, tmp_path):
    grown, files = growth(ROUNDS[name], tmp_path)
    assert grown < LIMIT_BYTES, f"{grown >> 20} MiB in 80 rounds"
    assert files < LIMIT_FILES, f"{files} open files more"


def test_growth_is_seen(tmp_path):
    grown, files = growth(LEAK, tmp_path)
    assert grown > LIMIT_BYTES and files > LIMIT_FILES
