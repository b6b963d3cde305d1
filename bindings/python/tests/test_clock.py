"""Clocks of the program, by which pairs expire."""

import math
import subprocess
import sys
import time

import pytest

import esker


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def test_pairs_expire_by_the_clock(place):
    clock = Clock(1000.5)
    with esker.DB(place, create_if_missing=True, clock=clock) as db:
        users = db.keyspace("users", ttl=20)
        db.put(b"k", b"v", ttl=10)
        users.put(b"k", b"v")
        assert (db.expiry(b"k"), users.expiry(b"k")) == (1010.5, 1020.5)
        clock.now = 1010.499
        assert db[b"k"] == b"v"
        with db.snapshot() as snapshot:
            clock.now = 1010.5
            assert db.get(b"k") is None and users[b"k"] == b"v"
            assert snapshot.get(b"k") == b"v"
        clock.now = 1020.5
        assert list(users) == []
        db.flush()
        db.compact_range()
        assert db.verify() == []


def test_clock_that_goes_back_leaves_the_database_at_the_latest_time(place):
    clock = Clock(1000)
    with esker.DB(place, create_if_missing=True, clock=clock) as db:
        db.put(b"k", b"v", ttl=10)
        clock.now = 1010
        assert b"k" not in db
        clock.now = 0
        assert b"k" not in db
    clock.now = 1009
    with esker.DB(place, clock=clock) as db:
        assert b"k" in db
    with esker.DB(place, clock=time.time) as db:
        assert b"k" not in db


def test_every_opening_takes_a_clock(place, tmp_path):
    clock = Clock(1000)
    with esker.DB(place, create_if_missing=True, clock=clock) as db:
        db.put(b"k", b"v", ttl=10)
        db.flush()
        with esker.SortedWriter(tmp_path / "file", clock=clock) as writer:
            writer.put(b"l", b"v", ttl=10)
            file = writer.finish()
        db.ingest([file.path])
        assert db.expiry(b"l") == 1010
        follower = esker.follow(place, clock=clock)
        with follower.db() as view:
            assert sorted(view.keys()) == [b"k", b"l"]
        follower.close()
    with esker.DB(place, read_only=True, clock=clock) as db:
        assert b"k" in db


def test_clock_that_raises_stands_still_and_is_reported(place, monkeypatch):
    caught, answers = [], [1000]
    monkeypatch.setattr(sys, "unraisablehook", lambda error: caught.append(error.exc_value))

    def clock():
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    with esker.DB(place, create_if_missing=True, clock=clock) as db:
        db.put(b"k", b"v", ttl=10)
        wrong = (KeyError("no time"), "noon", -1, math.nan, math.inf)
        for answers[0] in wrong:
            db.put(b"m", b"v", ttl=10)
            assert db.expiry(b"m") == 1010
        kinds = {type(error) for error in caught}
        assert kinds == {KeyError, TypeError, ValueError}
        answers[0] = 1010
        assert list(db) == []


@pytest.mark.parametrize(
    ("clock", "error"),
    [
        (7, TypeError),
        (lambda: None, TypeError),
        (lambda: -0.5, ValueError),
        (lambda: math.nan, ValueError),
        (lambda: 1 / 0, ZeroDivisionError),
        (lambda now: now, TypeError),
    ],
)
def test_wrong_clocks_are_refused(place, clock, error):
    with pytest.raises(error):
        esker.DB(place, create_if_missing=True, clock=clock)
    assert not place.exists()


def test_clock_cannot_use_its_database(place):
    box, caught = [], []

    def clock():
        for call in (lambda: box[0].get(b"k"), lambda: box[0].close()) if box else ():
            try:
                call()
            except esker.Error as error:
                caught.append(str(error))
        return time.time()

    with esker.DB(place, create_if_missing=True, clock=clock) as db:
        box.append(db)
        db.put(b"k", b"v", ttl=100)
        box.clear()
        assert db[b"k"] == b"v"
    assert len(caught) >= 2
    assert all("must not use its own store" in text for text in caught)


SNAPSHOTS = """
import sys, threading, time
import esker

def clock():
    time.sleep(0.0001)      # another thread takes the interpreter's lock
    return time.time()

with esker.DB(sys.argv[1], create_if_missing=True, clock=clock) as db:
    db.put(b"k", b"v", ttl=1000)

    def work(how):
        for _ in range(200):
            snapshot = db.snapshot()
            if how == 1:
                snapshot.close()
            if how == 2:
                list(esker.diff(snapshot, db))
            del snapshot

    threads = [threading.Thread(target=work, args=(number % 3,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.metrics()["snapshots"] == 0
"""


def test_release_of_a_snapshot_does_not_wait_for_the_clock_of_another_thread(place):
    # A program of its own: a deadlock would hold the interpreter's lock.
    subprocess.run([sys.executable, "-c", SNAPSHOTS, str(place)], check=True, timeout=120)
