"""The change feed as bytes: writers, appliers, and what ends a stream."""

import io
import os
import threading

import pytest

import esker


@pytest.fixture
def copy(tmp_path):
    with esker.DB(tmp_path / "copy", create_if_missing=True) as copy:
        yield copy


def written(db, start=0):
    """Returns the changes of a database as bytes, and the position after them."""
    file = io.BytesIO()
    writer, changes, position = db.change_writer(file), db.changes(start), start
    while (sequence := writer.write_next(changes, 0)) is not None:
        position = sequence
    writer.end(position)
    return file.getvalue(), position


def test_changes_go_through_bytes(db, copy):
    db.subscribe("copy")  # from now on, the creation of a keyspace is in the feed
    users = db.keyspace("users", order="esker.reverse")
    with db.write_batch(transaction=True) as batch:
        batch.put(b"a", b"1")
        batch.put(b"7", b"Ada", keyspace=users)
    db.put(b"b", b"2")
    db.delete_range(b"b", b"c")
    data, position = written(db)
    applier = copy.applier(io.BytesIO(data))
    assert applier.source == db.store_id and applier.position is None
    assert copy.applied_position() is None
    items = list(applier)
    assert {item.kind for item in items} == {"batch"} and items[-1].position == position
    assert all(item.changed for item in items) and applier.position == position
    assert list(applier) == [] and "batch at" in repr(items[0])
    assert list(copy) == [(b"a", b"1")]
    assert list(copy.find_keyspace("users")) == [(b"7", b"Ada")]
    assert copy.find_keyspace("users").key_order == "esker.reverse"
    assert copy.applied_position() == (db.store_id, position)
    # Batches that the copy has are left out, and later ones follow.
    assert not any(item.changed for item in copy.applier(io.BytesIO(data)))
    db.put(b"c", b"3")
    data, after = written(db, position)
    assert [item.position for item in copy.applier(io.BytesIO(data))] == [after]
    assert copy[b"c"] == b"3"


def test_content_comes_before_changes_through_a_pipe(db, copy):
    db.update((b"%05d" % number, b"v" * 100) for number in range(5000))
    slot = db.subscribe("copy")
    read, write = os.pipe()
    kinds, failed = [], []

    def apply():
        try:
            with open(read, "rb") as file, copy.applier(file) as applier:
                kinds.extend(item.kind for item in applier)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=apply)
    thread.start()
    with open(write, "wb") as file:
        writer = db.change_writer(file)
        position = writer.content()
        changes = db.changes(position)
        assert writer.write_next(changes, timeout=0.01) is None
        db.put(b"new", b"1")
        position = writer.write_next(changes)
        writer.alive(position)
        # The applier has applied what was flushed, although the pipe is still open.
        while copy.get(b"new") is None:
            assert thread.is_alive()
        writer.end(position)
    thread.join()
    assert failed == []
    assert kinds[0] == "content" and kinds[-3:] == ["content_end", "batch", "alive"]
    assert list(copy) == list(db) and copy.applied_position() == (db.store_id, position)
    slot.confirm(position)


def test_copy_starts_at_the_position_of_a_snapshot(db, tmp_path):
    db.put(b"a", b"1")
    with db.snapshot() as snapshot:
        position = snapshot.position
    db.fork(tmp_path / "fork")
    db.put(b"b", b"2")
    data, after = written(db, position)
    with esker.DB(tmp_path / "fork") as fork:
        applier = fork.applier(io.BytesIO(data))
        applier.start_at(position)
        assert applier.position == position
        with pytest.raises(esker.Error):
            applier.start_at(position)
        assert [item.position for item in applier] == [after] and fork[b"b"] == b"2"


def test_cut_and_damaged_streams_raise(db, copy):
    db.put(b"a", b"1")
    db.put(b"b", b"2")
    data, _ = written(db)
    applier = copy.applier(io.BytesIO(data[:-40]))
    with pytest.raises(esker.IOError, match="cut"):
        list(applier)
    with pytest.raises(RuntimeError, match="closed"):
        next(applier)
    assert copy.applied_position() is not None
    wrong = bytearray(data)
    wrong[60] ^= 1
    with pytest.raises(esker.CorruptionError):
        list(copy.applier(io.BytesIO(wrong)))
    for no_stream in (b"", b"text" * 20):
        with pytest.raises(esker.CorruptionError):
            copy.applier(io.BytesIO(no_stream))
    with pytest.raises(esker.Error) as raised:
        db.applier(io.BytesIO(data))
    assert raised.value.kind == "incompatible"
    # Changes are missing between what the copy has and what the stream has.
    db.put(b"c", b"3")
    db.put(b"d", b"4")
    missing, _ = written(db, db.snapshot_with_position()[1] - 1)
    with pytest.raises(esker.Error):
        list(copy.applier(io.BytesIO(missing)))


class Raw:
    """A raw file, which takes a few bytes at a time and raises at some length."""

    def __init__(self, most=1 << 60):
        self.data, self.most = b"", most

    def write(self, data):
        if len(self.data) >= self.most:
            raise ValueError("the line broke")
        part = bytes(data[:7])
        self.data += part
        return len(part)


def test_failed_file_ends_the_stream_and_loses_no_batch(db, copy):
    db.put(b"a", b"1")
    db.put(b"b", b"2")
    whole = Raw()
    changes = db.changes()
    writer = db.change_writer(whole)
    assert writer.write_next(changes, 0) == 1
    broken = Raw(most=40)
    writer = db.change_writer(broken)
    with pytest.raises(ValueError, match="broke"):
        writer.write_next(changes, 0)
    for call in (lambda: writer.write_next(changes, 0), lambda: writer.end(2), writer.content):
        with pytest.raises(esker.IOError):
            call()
    file = io.BytesIO()
    again = db.change_writer(file)
    assert again.write_next(changes, 0) == 2
    again.end(2)
    with pytest.raises(esker.IOError, match="cut"):
        list(copy.applier(io.BytesIO(whole.data)))
    assert [item.position for item in copy.applier(io.BytesIO(file.getvalue()))] == [2]
    assert list(copy) == [(b"a", b"1"), (b"b", b"2")]
    with pytest.raises(ValueError):
        db.change_writer(Raw(most=0))


def test_wrong_files_and_feeds_are_refused(db, copy):
    for wrong in (None, 3, b"bytes", object()):
        with pytest.raises(TypeError, match="file object"):
            db.change_writer(wrong)
        with pytest.raises(TypeError, match="file object"):
            db.applier(wrong)
    writer = db.change_writer(io.BytesIO())
    with pytest.raises(ValueError, match="another database"):
        writer.write_next(copy.changes(), 0)
    with pytest.raises(TypeError):
        writer.write_next(3)

    class Wrong:
        answer = 0

        def write(self, data):
            return self.answer

        def read(self, size):
            raise LookupError

    for Wrong.answer in (0, 1 << 20, "text"):
        with pytest.raises((ValueError, TypeError)):
            db.change_writer(Wrong())
    with pytest.raises(LookupError):
        db.applier(Wrong())


def test_file_that_uses_its_own_stream_raises(db):
    class File(io.BytesIO):
        writer = None

        def write(self, data):
            if self.writer is not None:
                self.writer.alive(1)
            return super().write(data)

    file = File()
    file.writer = db.change_writer(file)
    with pytest.raises(RuntimeError, match="another call"):
        file.writer.alive(1)


def test_streams_of_a_closed_database_raise(db, copy):
    db.put(b"a", b"1")
    data, _ = written(db)
    writer, changes = db.change_writer(io.BytesIO()), db.changes()
    applier, closed = copy.applier(io.BytesIO(data)), copy.applier(io.BytesIO(data))
    closed.close()
    closed.close()
    with closed:
        for call in (lambda: next(closed), lambda: closed.start_at(1), lambda: closed.position):
            with pytest.raises(RuntimeError, match="closed"):
                call()
    db.close()
    copy.close()
    for call in (
        lambda: writer.write_next(changes, 0),
        writer.content,
        lambda: writer.alive(1),
        lambda: writer.end(1),
        lambda: next(applier),
        lambda: applier.start_at(1),
        lambda: applier.position,
        lambda: db.change_writer(io.BytesIO()),
        lambda: copy.applier(io.BytesIO(data)),
        copy.applied_position,
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_close_does_not_wait_for_a_stream(db, copy):
    read, write = os.pipe()
    raised = []
    with open(write, "wb", buffering=0) as out, open(read, "rb") as file:
        writer = db.change_writer(out)
        applier = copy.applier(file)

        def apply():
            try:
                next(applier)
            except RuntimeError as error:
                raised.append(error)

        thread = threading.Thread(target=apply)
        thread.start()
        copy.close()
        writer.alive(0)
        thread.join()
    assert len(raised) == 1
