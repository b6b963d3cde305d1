"""Many threads on one database, iterator or batch; engine calls release the interpreter's lock."""

import threading

import esker


def together(count, work):
    """Runs `work(number)` in `count` threads; raises an exception of a thread."""
    raised = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_threads_share_one_database(place):
    with esker.DB(place, create_if_missing=True, write_buffer_size=64 << 10) as db:

        def work(number):
            for at in range(500):
                key = b"%d-%d" % (number, at)
                db.put(key, key * 10)
                assert db.get(key) == key * 10

        together(6, work)
        assert len(db.keys()) == 3000
        assert db.verify() == []


def test_threads_share_one_iterator(db):
    db.update((b"%05d" % number, b"") for number in range(3000))
    steps, seen = db.iterator(include_value=False), [[] for _ in range(6)]
    together(6, lambda number: seen[number].extend(steps))
    assert all(part == sorted(part) for part in seen)
    assert sorted(key for part in seen for key in part) == list(db.keys())


def test_threads_share_one_batch(db):
    batch = db.write_batch()

    def work(number):
        for at in range(200):
            batch.put(b"%d-%d" % (number, at), b"v")
            if at % 50 == 0:
                batch.write()
                other = db.write_batch()
                other.put(b"other", b"v")
                batch.append(other)

    together(6, work)
    batch.write()
    assert len(db.keys()) == 1201


def test_engine_calls_release_the_gil(db):
    """If a call held the interpreter's lock, the second thread could not end the wait."""
    entered, left = threading.Event(), threading.Event()

    def order(a, b):
        entered.set()
        assert left.wait(600)
        return (a > b) - (a < b)

    with esker.DB(
        db.name.parent / "slow", create_if_missing=True, comparator=order, comparator_name=b"slow"
    ) as slow:

        def work(number):
            if number == 0:
                slow[b"a"] = slow[b"b"] = b"v"
            else:
                assert entered.wait(600)
                db[b"meanwhile"] = b"v"
                left.set()

        together(2, work)
        assert list(slow.keys()) == [b"a", b"b"]
    assert db[b"meanwhile"] == b"v"
