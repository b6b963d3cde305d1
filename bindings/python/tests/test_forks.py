"""Forks, comparisons, ingests and bulk loads."""

import os

import pytest

import esker


def test_fork_is_independent_and_the_comparison_lists_what_changed(db, tmp_path):
    db.put(b"apple", b"red")
    db.put(b"lime", b"green")
    report = db.fork(tmp_path / "fork", fork_name="try 1")
    assert report.linked_files + report.copied_files > 0
    with esker.DB(tmp_path / "fork") as fork:
        assert fork.store_id == report.store_id != db.store_id
        lineage = fork.lineage()
        assert lineage.name == "try 1" and db.lineage().ancestors == []
        assert [of.store_id for of in lineage.ancestors] == [db.store_id]
        before = fork.snapshot()
        fork.put(b"apple", b"green")
        fork.put(b"plum", b"", ttl=3600)
        fork.delete(b"lime")
        fork.keyspace("extra").put(b"k", b"v")
        db.put(b"parent", b"only")
        assert db.get(b"apple") == b"red" and fork.get(b"parent") is None
        diff = esker.diff(db, fork)
        assert diff.relation == "a fork of the first" and diff.shared_files > 0
        assert diff.keyspaces_only_in_new == ["extra"] and diff.keyspaces_only_in_old == []
        found = list(diff)
        assert [(d.keyspace, d.key, d.old, d.new) for d in found] == [
            ("default", b"apple", b"red", b"green"),
            ("default", b"lime", b"green", None),
            ("default", b"parent", b"only", None),
            ("default", b"plum", None, b""),
            ("extra", b"k", None, b"v"),
        ]
        assert found[3].new_expires is not None and found[0].new_expires is None
        assert list(diff) == []
        assert [d.key for d in esker.diff(before, fork, keyspace="default")] == [
            b"apple", b"lime", b"plum",
        ]
        assert list(esker.diff(before, before)) == []
        open_diff = esker.diff(db, fork)
        next(open_diff)
        with pytest.raises(esker.IOError):
            esker.diff(db, fork, keyspace="none")
        before.close()
        with pytest.raises(RuntimeError):
            esker.diff(before, db)
    with pytest.raises(RuntimeError):
        next(open_diff)
    with pytest.raises(RuntimeError):
        esker.diff(db, fork)
    open_diff.close()
    open_diff.close()
    for name, error in [(tmp_path / "fork", esker.Error), (7, TypeError)]:
        with pytest.raises(error):
            db.fork(name)
    with pytest.raises(esker.Error):
        db.fork(tmp_path / "bad", fork_name="")
    assert not (tmp_path / "bad").exists()
    with pytest.raises(TypeError):
        esker.diff(db, b"x")


def written(path, pairs, **options):
    with esker.SortedWriter(path, **options) as writer:
        for key, value in pairs:
            writer.put(key, value)
    return path


def test_ingest_takes_all_files_or_none(db, tmp_path):
    db.update({b"b": b"old", b"d": b"old"})
    writer = esker.SortedWriter(tmp_path / "one.sst")
    writer.put(b"b", b"new")
    for call in (lambda: writer.put(b"a", b""), lambda: writer.put(b"b", b"")):
        with pytest.raises(esker.Error, match="ascending"):
            call()
    with pytest.raises(esker.Error, match="merge operator"):
        writer.merge(b"c", b"1")
    writer.put(b"c", b"1", ttl=3600)
    writer.delete(b"d")
    assert writer.entries == 3
    made = writer.finish()
    assert (made.entries, made.smallest, made.largest) == (3, b"b", b"d")
    assert made.bytes == os.stat(made.path).st_size
    for call in (writer.finish, lambda: writer.put(b"z", b""), lambda: writer.entries):
        with pytest.raises(RuntimeError):
            call()
    shares = written(tmp_path / "two.sst", [(b"c", b"2")])
    with pytest.raises(esker.Error):
        db.ingest([made.path, shares])
    assert dict(db) == {b"b": b"old", b"d": b"old"}
    report = db.ingest([made.path], copy=True)
    assert report.entries == 3 and report.files > 0 and report.flushed and report.sequence > 0
    assert dict(db) == {b"b": b"new", b"c": b"1"} and db.expiry(b"c") is not None
    other = db.keyspace("other")
    assert other.ingest(iter([made.path]), verify=False).entries == 3
    assert not os.path.exists(made.path) and list(other) == [(b"b", b"new"), (b"c", b"1")]
    with pytest.raises(TypeError):
        db.ingest(str(shares))
    with pytest.raises(esker.IOError):
        db.ingest([tmp_path / "none.sst"])
    backwards = {"comparator": lambda a, b: (a < b) - (a > b), "comparator_name": b"test.back"}
    other_order = written(tmp_path / "back.sst", [(b"b", b""), (b"a", b"")], **backwards)
    with pytest.raises(esker.Error, match="order"):
        db.ingest([other_order])


def test_sorted_file_that_is_not_finished_is_removed(tmp_path):
    path = tmp_path / "one.sst"
    with pytest.raises(ValueError):
        with esker.SortedWriter(path) as writer:
            writer.put(b"a", b"1")
            raise ValueError
    assert not path.exists()
    writer = esker.SortedWriter(path)
    with pytest.raises(esker.IOError):
        esker.SortedWriter(path)
    writer.close()
    writer.close()
    assert not path.exists()
    with esker.SortedWriter(path) as writer:
        assert writer.finish().entries == 0
    assert path.exists()


def test_child_of_a_fork_leaves_the_file_of_its_parent(tmp_path):
    path = tmp_path / "one.sst"
    writer = esker.SortedWriter(path)
    writer.put(b"a", b"1")
    child = os.fork()
    if child == 0:
        refused = False
        try:
            writer.put(b"b", b"1")
        except RuntimeError:
            refused = True
        writer.close()
        del writer
        os._exit(0 if refused and path.exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert writer.finish().entries == 1


def test_bulk_load_loads_all_pairs_or_none(db):
    for pairs, error in [
        ([(b"b", b"1"), (b"a", b"1")], esker.Error),
        ([(b"a", b"1"), (b"a", b"1")], esker.Error),
        ([(b"a", b"1"), (b"b",)], ValueError),
        ([(b"a", b"1"), 7], TypeError),
        ([(b"a", "text")], TypeError),
        (7, TypeError),
    ]:
        with pytest.raises(error):
            db.bulk_load(pairs)

    def failing():
        for number in range(5000):
            yield b"%05d" % number, b"v"
        raise KeyError("of the source")

    with pytest.raises(KeyError):
        db.bulk_load(failing())
    assert list(db) == []

    def squares():
        for number in range(5000):
            if number == 0:
                # The source may use the database, but not close it.
                db.put(b"other", b"1")
                with pytest.raises(esker.Error):
                    db.close()
            yield b"%05d" % number, bytearray(b"%d" % (number * number))

    report = db.bulk_load(squares())
    assert report.entries == 5000 and report.sequence > 0
    assert db.get(b"00025") == b"625" and db.get(b"other") == b"1"
    sessions = db.keyspace("sessions", ttl=3600)
    assert sessions.bulk_load([(b"a", b"1")]).entries == 1 and sessions.expiry(b"a") is not None
    assert db.bulk_load([]).entries == 0
    db.close()
    for call in (lambda: db.bulk_load([]), lambda: db.ingest([]), lambda: db.fork("x")):
        with pytest.raises(RuntimeError):
            call()
