"""Upkeep of a database: compactions, tables, options, reports; and how a write is made."""

import array
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import esker


def filled(db, count=2000):
    db.update((b"%06d" % number, b"v" * 100) for number in range(count))


def test_tables_have_numbers(db):
    users = db.keyspace("users", compression="none")
    filled(db)
    users[b"7"] = b"Ada"
    db.delete(b"000000")
    db.delete_range(b"x", b"y")
    assert db.tables() == []
    db.flush()
    db.wait_idle()
    tables = db.tables()
    own = [table for table in tables if table.tree == 0]
    assert {table.tree for table in tables} == {0, users.tree} and users.tree != 0
    assert sum(table.entries for table in own) >= 2000
    assert sum(table.deletes for table in own) == 1
    assert sum(table.range_deletes for table in own) == 1
    assert sum(table.raw_bytes for table in own) >= 1999 * 106
    assert all(table.size_bytes > 0 and table.level >= 0 for table in tables)
    assert own[0].smallest == b"000000" and max(table.largest for table in own) >= b"001999"
    assert [table.largest[4:] for table in tables if table.tree] == [b"7"]
    assert sorted((table.tree, table.level, table.number) for table in tables) == [
        (table.tree, table.level, table.number) for table in tables
    ]
    assert f"{tables[0].number}" in repr(tables[0])


def test_compact_all_reaches_every_keyspace(db):
    users = db.keyspace("users", compression="none")
    for part in (db, users):
        filled(part)
        part.delete_range(b"0", b"1")
    db.flush()
    db.compact_all()
    db.wait_idle()
    assert sum(table.entries for table in db.tables()) == 0 and list(users) == []


def test_options_change_all_or_none(db):
    db.set_options(policy="leveled", fan_out=10)
    assert (db.option("policy"), db.option("fan_out")) == ("leveled", "10")
    for options, error in [
        ({"policy": "fluid", "fan_out": 1_000_000}, esker.Error),
        ({"policy": "fluid", "memory_budget_bytes": "1GiB"}, esker.Error),
        ({"policy": "fluid", "no_option": 1}, esker.Error),
        ({"policy": "fluid", "fan_out": [1]}, TypeError),
    ]:
        with pytest.raises(error):
            db.set_options(**options)
        assert (db.option("policy"), db.option("fan_out")) == ("leveled", "10")
    db.set_options()


def test_keyspace_tells_its_order_and_options(place):
    orders = {"shop.ByLength.v1": lambda a, b: len(a) - len(b) or (a > b) - (a < b)}
    with esker.DB(place, create_if_missing=True, key_orders=orders) as db:
        made = db.keyspace("made", order="shop.ByLength.v1", compression="none", fan_out=4, ttl=60)
        assert made.key_order == "shop.ByLength.v1"
        options = made.options()
        assert options["fan_out"] == "4" and options["compression"] == "none"
        assert options["ttl_ms"] == "60000"
        assert db.find_keyspace("made").options() == options
        default = db.keyspace("default")
        assert default.key_order == "esker.bytewise" and default.options() == {}
        assert default.tree == 0 and made.tree != 0
        assert db.keyspace("back", order="esker.reverse").key_order == "esker.reverse"
        filled(made)
        db.flush()
        assert made.approximate_size(b"000000", b"001000") > 0
        assert made.approximate_size(b"9", b"8") == 0
        assert db.path == os.path.realpath(place)


def test_verify_and_repair_report_numbers(place):
    with esker.DB(place, create_if_missing=True) as db:
        filled(db)
        db.delete_range(b"x", b"y")
        db.flush()
        db.put(b"k", b"v")
        steps = []
        report = db.verify(progress=lambda done, total: steps.append((done, total)))
        assert report == [] and not report and isinstance(report, esker.VerifyReport)
        assert report.files == len(db.tables()) and report.logs >= 1 and report.value_files == 0
        assert report.entries >= 2000 and report.range_deletes == 1
        assert report.bytes >= sum(table.size_bytes for table in db.tables())
        assert report.format_version == db.metrics()["format_version"]
        assert steps == sorted(steps) and steps[-1][0] == steps[-1][1] == report.bytes
    table = max(place.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 0xFF
    table.write_bytes(data)
    with esker.DB(place) as db:
        report = db.verify()
        assert len(report) == 1 and table.name in report[0] and report.files == len(db.tables())
    lost = esker.repair_db(place)
    assert isinstance(lost, esker.RepairReport) and isinstance(lost, list)
    assert lost.manifest_readable and lost.tables >= 1 and lost.logs >= 1 and lost.pairs >= 1
    assert lost.entries_held_max >= 0 and lost.originals.endswith("before-repair-1")
    with esker.DB(place) as db:
        assert len(db.mapping()) == lost.pairs and db[b"k"] == b"v"


def test_progress_may_raise_but_not_close(db):
    filled(db)
    db.flush()
    calls, refused = [], []

    def progress(done, total):
        calls.append(done)
        db.get(b"k")
        try:
            db.close()
        except esker.Error as error:
            refused.append(error)
        raise LookupError(done)

    with pytest.raises(LookupError):
        db.verify(progress=progress)
    assert len(calls) == len(refused) == 1 and db.verify() == []
    with pytest.raises(TypeError):
        db.verify(progress=3)


def test_positions_and_sizes(db, tmp_path):
    with db.snapshot() as snapshot:
        assert snapshot.position == 0
    db.put(b"a", b"1")
    snapshot, position = db.snapshot_with_position()
    assert snapshot.position == position == 1
    snapshot.close()
    with pytest.raises(RuntimeError, match="closed"):
        snapshot.position
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.delete(b"b")
    assert batch.count() == 2
    batch.clear()
    assert batch.count() == 0
    with esker.SortedWriter(tmp_path / "file") as writer:
        for number in range(2000):
            writer.put(b"%06d" % number, os.urandom(100))
        assert writer.estimated_bytes > 100_000
    with pytest.raises(RuntimeError):
        writer.estimated_bytes
    db.flush()
    db.fork(tmp_path / "fork")
    with esker.DB(tmp_path / "fork") as fork:
        found = esker.diff(db, fork)
        assert found.shared_files >= 1 and found.shared_bytes > 0 and list(found) == []


def test_times_of_expiry_come_with_values(db):
    part = db.prefixed_db(b"p/")
    part.put(b"a", b"1", ttl=1000)
    part.put(b"b", b"2")
    value, expires = part.get_with_expiry(b"a")
    assert value == b"1" and time.time() + 900 < expires < time.time() + 1100
    assert part.get_with_expiry(b"b") == (b"2", None) and part.get_with_expiry(b"c") is None
    with db.raw_iterator() as raw:
        with pytest.raises(esker.IteratorInvalidError):
            raw.expiry()
        raw.seek_to_first()
        assert raw.expiry() == expires
        raw.next()
        assert raw.expiry() is None
    with pytest.raises(TypeError):
        db.get_with_expiry("text")


def writes_of(part):
    """Returns the calls that write one key, by name."""
    return {
        "put": lambda **how: part.put(b"k", b"v", **how),
        "put with ttl": lambda **how: part.put(b"k", b"v", ttl=60, **how),
        "merge": lambda **how: part.merge(b"n", b"1", **how),
        "delete": lambda **how: part.delete(b"k", **how),
        "put_array": lambda **how: part.put_array(b"a", array.array("d", [1.0]), **how),
    }


def calls_of(db):
    users = db.keyspace("users", merge="add_i64")
    calls = {}
    for name, part in {"db": db, "users": users, "prefixed": users.prefixed_db(b"p")}.items():
        calls |= {f"{name}.{call}": made for call, made in writes_of(part).items()}
    for name, part in {"db": db, "users": users}.items():
        calls[f"{name}.delete_range"] = lambda part=part, **how: part.delete_range(b"a", b"b", **how)
    return calls


def test_every_write_takes_a_durability_and_a_timeout(place):
    with esker.DB(place, create_if_missing=True, merge="add_i64") as db:
        for call in calls_of(db).values():
            for how in ({}, {"sync": True}, {"timeout": 10}, {"timeout": None, "durability": None}):
                call(**how)
            for durability in ("none", "buffered", "sync"):
                call(durability=durability, timeout=float("inf"))
            call(sync=True, durability="sync")
            for how in (
                {"sync": True, "durability": "none"},
                {"sync": True, "durability": "buffered"},
                {"durability": "always"},
                {"timeout": -1},
            ):
                with pytest.raises(ValueError):
                    call(**how)
            for how in ({"durability": 3}, {"timeout": "text"}):
                with pytest.raises(TypeError):
                    call(**how)
        for make in (db.write_batch, db.find_keyspace("users").write_batch):
            with make(durability="none") as batch:
                batch.put(b"batch", b"1")
            with pytest.raises(ValueError):
                make(durability="none", sync=True)
        for durability in ("none", "buffered", "sync", None):
            with db.transaction(durability=durability) as transaction:
                transaction.put(b"transaction", b"1")
            db.transact(lambda transaction: transaction.put(b"t", b"1"), durability=durability)
        for options in ({"durability": "always"}, {"durability": "none", "sync": True}):
            with pytest.raises(ValueError):
                db.transaction(**options)
        with pytest.raises(TypeError):
            db.transaction(durability=3)


def test_durability_decides_what_a_crash_keeps(place):
    program = """
        import os, signal, sys, esker
        db = esker.DB(sys.argv[1], create_if_missing=True)
        db.put(b"buffered", b"", durability="buffered")
        with db.write_batch(durability="sync") as batch:
            batch.put(b"sync", b"")
        db.put(b"none", b"", durability="none")
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(place)], timeout=600, check=False
    )
    assert done.returncode == -signal.SIGKILL
    with esker.DB(place) as db:
        assert list(db.keys()) == [b"buffered", b"sync"]


def test_writes_with_a_timeout_raise_busy(place):
    opened = threading.Event()

    def gate(key, existing, operands):
        opened.wait(600)
        return b""

    options = {"memtable_size_bytes": "64KiB", "frozen_memtables_max": 1, "merge": "test.gate",
               "merge_operators": {"test.gate": gate}}
    with esker.DB(place, create_if_missing=True, **options) as db:
        try:
            # The flush of this key waits in the operator.
            db.put(b"!", b"")
            db.merge(b"!", b"")
            written = 0
            with pytest.raises(esker.BusyError):
                while written < 100_000:
                    db.put(b"%08d" % written, b"v" * 100, timeout=0.02)
                    written += 1
            assert b"%08d" % written not in db
            rows = memoryview(bytes(80_000)).cast("B", (10_000, 8))
            with pytest.raises(esker.BusyError):
                db.put_array(rows, rows, timeout=0.02)
        finally:
            opened.set()


def test_calls_after_the_close_raise(db):
    users, snapshot = db.keyspace("users"), db.snapshot()
    db.close()
    for call in (
        db.compact_all,
        db.wait_idle,
        db.tables,
        lambda: db.path,
        lambda: db.set_options(fan_out=4),
        lambda: db.verify(progress=print),
        lambda: db.get_with_expiry(b"k"),
        lambda: users.get_with_expiry(b"k"),
        lambda: users.approximate_size(b"a", b"b"),
        lambda: snapshot.position,
        lambda: db.put(b"k", b"v", durability="none"),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
