"""Transactions: what they see, conflicts, locks, savepoints, their end, threads, and wrong uses."""

import errno
import gc
import os
import threading

import pytest

import esker
from test_closing import python

SERIALIZABLE = dict(isolation="serializable")
PESSIMISTIC = dict(concurrency="pessimistic")


def test_others_see_the_writes_after_the_commit(db):
    users = db.keyspace("users", order="esker.reverse")
    db.update({b"a": b"1", b"c": b"1", b"e": b"1"})
    users.update({b"a": b"1", b"c": b"1", b"e": b"1"})
    transaction = db.transaction()
    db[b"late"] = users[b"late"] = b"1"
    transaction.put(b"b", bytearray(b"2"))
    transaction[b"d"] = memoryview(b"2")
    del transaction[b"c"]
    transaction.put(b"b", b"2", keyspace=users)
    transaction.delete_range(b"e", b"b", keyspace=users)
    transaction.delete(b"none", keyspace=users)
    assert list(transaction) == [(b"a", b"1"), (b"b", b"2"), (b"d", b"2"), (b"e", b"1")]
    assert list(transaction.iterator(keyspace=users)) == [(b"b", b"2"), (b"a", b"1")]
    assert transaction[b"b"] == b"2" and b"c" not in transaction and b"late" not in transaction
    assert transaction.get(b"c") is None and transaction.get(b"c", b"none") == b"none"
    assert transaction.get(b"a", keyspace=users) == b"1"
    assert transaction.get_for_update(b"x", 7, keyspace=users) == 7
    with pytest.raises(KeyError):
        transaction[b"c"]
    with pytest.raises(KeyError):
        del transaction[b"c"]
    assert list(db.keys()) == [b"a", b"c", b"e", b"late"] and len(users.keys()) == 4
    transaction.commit()
    assert list(db.keys()) == [b"a", b"b", b"d", b"e", b"late"]
    assert list(users.keys()) == [b"late", b"b", b"a"]
    assert "was committed" in repr(transaction) and str(transaction.id) in repr(transaction)


def test_iterator_has_the_arguments_of_a_database(db):
    db.update({b"a1": b"1", b"b1": b"1", b"b3": b"3"})
    with db.transaction() as transaction:
        transaction[b"b2"] = b"2"
        keys = transaction.iterator(prefix=b"b", include_value=False)
        assert list(keys) == [b"b1", b"b2", b"b3"]
        assert list(transaction.iterator(reverse=True, stop=b"b3", include_key=False)) == [
            b"2",
            b"1",
            b"1",
        ]
        with transaction.iterator(start=b"b1", include_start=False) as steps:
            assert next(steps) == (b"b2", b"2")
            transaction[b"b25"] = b"2.5"
            assert next(steps) == (b"b25", b"2.5")
            assert steps.prev() == (b"b25", b"2.5") and steps.prev() == (b"b2", b"2")
            steps.seek(b"b3")
            assert next(steps) == (b"b3", b"3") and next(steps, None) is None
            steps.seek_to_start()
            assert next(steps) == (b"b2", b"2")
        with pytest.raises(RuntimeError, match="closed"):
            next(steps)
        with pytest.raises(TypeError, match="no argument 'from'"):
            transaction.iterator(**{"from": b"a"})
        open_steps = transaction.iterator()
        next(open_steps)
    with pytest.raises(RuntimeError, match="was committed"):
        next(open_steps)


def test_first_committer_wins(db):
    db[b"x"] = b"1"
    first, second = db.transaction(), db.transaction()
    first[b"x"], second[b"x"], second[b"y"] = b"2", b"3", b"3"
    first.commit()
    with pytest.raises(esker.ConflictError, match="run the transaction again") as error:
        second.commit()
    assert error.value.kind == "conflict" and dict(db) == {b"x": b"2"}
    with pytest.raises(RuntimeError, match="was rolled back"):
        second.commit()
    for options, conflicts in (({}, False), (SERIALIZABLE, True)):
        transaction = db.transaction(**options)
        assert transaction[b"x"] == b"2" and b"z" not in transaction
        db[b"x"] = b"2"
        transaction[b"new"] = b"1"
        if conflicts:
            with pytest.raises(esker.ConflictError):
                transaction.commit()
        else:
            transaction.commit()


def test_block_commits_at_its_end_and_rolls_back_after_an_exception(db):
    with db.transaction(sync=True) as transaction:
        transaction[b"a"] = b"1"
    with pytest.raises(ZeroDivisionError), db.transaction() as transaction:
        transaction[b"b"] = b"1"
        raise ZeroDivisionError
    assert dict(db) == {b"a": b"1"} and "was rolled back" in repr(transaction)
    with db.transaction() as transaction:
        transaction[b"c"] = b"1"
        transaction.rollback()
    with db.transaction() as transaction:
        transaction[b"d"] = b"1"
        transaction.commit()
    assert dict(db) == {b"a": b"1", b"d": b"1"}
    with pytest.raises(esker.ConflictError), db.transaction() as transaction:
        transaction[b"d"] = b"2"
        db[b"d"] = b"3"
    with pytest.raises(RuntimeError, match="transaction is closed"), transaction:
        pass


def test_savepoints(db):
    with db.transaction() as transaction:
        for call in (transaction.rollback_to_savepoint, transaction.pop_savepoint):
            with pytest.raises(esker.IOError) as error:
                call()
            assert error.value.errno == errno.ENOENT
        transaction[b"a"] = b"1"
        with transaction.savepoint():
            transaction[b"b"] = b"1"
        with pytest.raises(ZeroDivisionError), transaction.savepoint():
            transaction[b"a"] = b"2"
            transaction.savepoint()
            transaction[b"c"] = b"1"
            raise ZeroDivisionError
        assert list(transaction) == [(b"a", b"1"), (b"b", b"1")]
        transaction.savepoint()
        transaction.delete(b"a")
        transaction.savepoint()
        transaction.delete(b"b")
        transaction.pop_savepoint()
        transaction.rollback_to_savepoint()
        assert list(transaction) == [(b"a", b"1"), (b"b", b"1")]
        with transaction.savepoint():
            transaction.pop_savepoint()
            transaction[b"d"] = b"1"
        with pytest.raises(esker.IOError):
            transaction.pop_savepoint()
        with transaction.savepoint():
            transaction.commit()
    assert dict(db) == {b"a": b"1", b"b": b"1", b"d": b"1"}


def test_locks_are_busy_until_their_holder_ends(db):
    holder = db.transaction(**PESSIMISTIC)
    holder[b"k"] = b"1"
    other = db.transaction(lock_timeout_ms=0, **PESSIMISTIC)
    for call in (
        lambda: other.put(b"k", b"2"),
        lambda: other.get_for_update(b"k"),
        lambda: other.delete_range(b"a", b"z"),
    ):
        with pytest.raises(esker.BusyError, match=str(holder.id)) as error:
            call()
        assert error.value.kind == "busy"
    assert other.get(b"k") is None
    del holder
    gc.collect()
    other[b"k"] = b"2"
    other.commit()
    assert db[b"k"] == b"2"


def test_deadlock_names_the_transactions(db):
    raised, done = [], []
    one = db.transaction(lock_timeout_ms=600_000, **PESSIMISTIC)
    two = db.transaction(lock_timeout_ms=600_000, **PESSIMISTIC)
    one[b"a"], two[b"b"] = b"1", b"2"

    def cross(transaction, key):
        try:
            with transaction:
                transaction[key] = b"both"
            done.append(key)
        except esker.DeadlockError as error:
            raised.append(error)

    thread = threading.Thread(target=cross, args=(one, b"b"))
    thread.start()
    cross(two, b"a")
    thread.join()
    assert len(raised) == len(done) == 1 and db[done[0]] == b"both"
    assert isinstance(raised[0], esker.ConflictError) and raised[0].kind == "deadlock"
    assert str(one.id) in str(raised[0]) and str(two.id) in str(raised[0])


def test_transact_returns_the_result_and_runs_again_after_conflicts(db):
    db[b"n"] = b"0"
    runs = []

    def add(transaction):
        runs.append(transaction.id)
        transaction[b"n"] = b"%d" % (int(transaction[b"n"]) + 1)
        if len(runs) < 4:
            db[b"n"] = b"%d" % (int(db[b"n"]) + 10)
        return len(runs)

    assert db.transact(add) == 4 and db[b"n"] == b"31" and len(set(runs)) == 4
    runs.clear()
    with pytest.raises(esker.ConflictError):
        db.transact(add, retries=2)
    assert len(runs) == 3
    runs.clear()
    with pytest.raises(esker.ConflictError):
        db.transact(add, retries=0)
    assert len(runs) == 1


def test_transact_rolls_back_what_it_does_not_run_again(db):
    runs = []

    def fails(transaction):
        runs.append(transaction)
        transaction[b"a"] = b"1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(fails)
    assert len(runs) == 1 and "was rolled back" in repr(runs[0])

    def ends(transaction):
        transaction[b"b"] = b"1"
        transaction.rollback()
        return 7

    async def later(transaction):
        transaction[b"c"] = b"1"

    assert db.transact(ends) == 7
    coroutines = []
    with pytest.raises(TypeError, match="asynchronous"):
        db.transact(lambda transaction: coroutines.append(later(transaction)) or coroutines[0])
    coroutines[0].close()
    with pytest.raises(TypeError):
        db.transact(None)
    with pytest.raises(OverflowError):
        db.transact(ends, retries=-1)
    with pytest.raises(TypeError, match="no argument 'retry'"):
        db.transact(ends, retry=1)
    assert list(db) == []


@pytest.mark.parametrize("options", [{}, SERIALIZABLE, PESSIMISTIC, {**SERIALIZABLE, **PESSIMISTIC}])
def test_threads_count_without_losing_an_addition(db, options):
    counts = db.keyspace("counts")
    raised = []

    def add(transaction):
        before = int(transaction.get_for_update(b"n", b"0", keyspace=counts))
        transaction.put(b"n", b"%d" % (before + 1), keyspace=counts)

    def work():
        try:
            for _ in range(50):
                db.transact(add, retries=100_000, lock_timeout_ms=600_000, **options)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == [] and counts[b"n"] == b"200"


def test_threads_share_one_transaction(db):
    transaction, raised = db.transaction(), []

    def work(number):
        try:
            for at in range(200):
                key = b"%d-%d" % (number, at)
                transaction[key] = key
                assert transaction[key] == key
                with transaction.iterator(prefix=key, include_value=False) as keys:
                    assert key in list(keys)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == [] and list(db) == []
    transaction.commit()
    assert len(db.keys()) == 800


def test_close_ends_a_wait_for_a_lock(place):
    db = esker.DB(place, create_if_missing=True)
    holder = db.transaction(**PESSIMISTIC)
    waiter = db.transaction(lock_timeout_ms=2**64 - 1, **PESSIMISTIC)
    holder[b"k"] = b"1"
    raised, begun = [], threading.Event()

    def work():
        begun.set()
        try:
            waiter[b"k"] = b"2"
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    db.close()
    thread.join()
    assert [type(error) for error in raised] == [RuntimeError] and "closed" in str(raised[0])
    with esker.DB(place) as db:
        assert list(db) == []


def test_prepared_transactions_survive_reopening(place):
    with esker.DB(place, create_if_missing=True) as db:
        for name in ("two", "one"):
            transaction = db.transaction()
            transaction[name.encode()] = b"v"
            transaction.prepare(name)
            with pytest.raises(RuntimeError, match="was prepared"):
                transaction.commit()
        transaction = db.transaction()
        with pytest.raises(esker.Error) as error:
            transaction.prepare("one")
        assert error.value.kind == "invalid argument" and "was rolled back" in repr(transaction)
        with pytest.raises(esker.ConflictError), db.transaction() as transaction:
            transaction[b"one"] = b"w"
    with esker.DB(place) as db:
        assert db.prepared_transactions() == ["one", "two"] and list(db) == []
        db.commit_prepared("one")
        db.rollback_prepared("two")
        for call in (db.commit_prepared, db.rollback_prepared):
            with pytest.raises(esker.IOError) as error:
                call("one")
            assert error.value.errno == errno.ENOENT
        assert dict(db) == {b"one": b"v"} and db.prepared_transactions() == []


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (dict(isolation="snap"), ValueError, "'isolation'.*'serializable'"),
        (dict(isolation=None), TypeError, "isolation"),
        (dict(concurrency="none"), ValueError, "'concurrency'.*'pessimistic'"),
        (dict(lock_timeout_ms=-1), OverflowError, "lock_timeout_ms"),
        (dict(lock_timeout_ms="1"), TypeError, "lock_timeout_ms"),
        (dict(timeout=1), TypeError, "no argument 'timeout'"),
    ],
)
def test_wrong_option_is_named(db, wrong, error, message):
    with pytest.raises(error, match=message):
        db.transaction(**wrong)
    with pytest.raises(error, match=message):
        db.transact(print, **wrong)


def test_wrong_arguments_and_keyspaces_are_refused(db, tmp_path):
    transaction, dropped = db.transaction(), db.keyspace("dropped")
    for call in (
        lambda: transaction.put("k", b"v"),
        lambda: transaction.get(None),
        lambda: transaction.put(b"k", b"v", keyspace="users"),
        lambda: transaction.prepare(b"name"),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(esker.Error, match="bytes"):
        transaction.put(b"k" * (2 << 20), b"")
    with esker.DB(tmp_path / "other", create_if_missing=True) as other:
        foreign = other.keyspace("users")
        for call in (
            lambda: transaction.put(b"k", b"v", keyspace=foreign),
            lambda: transaction.get(b"k", keyspace=foreign),
            lambda: transaction.iterator(keyspace=foreign),
        ):
            with pytest.raises(esker.Error, match="another store") as error:
                call()
            assert error.value.kind == "invalid argument"
    transaction.put(b"k", b"v", keyspace=dropped)
    transaction.put(b"k", b"v")
    db.drop_keyspace("dropped")
    with pytest.raises(esker.IOError, match="dropped"):
        transaction.get(b"k", keyspace=dropped)
    with pytest.raises(esker.IOError, match="dropped"):
        transaction.commit()
    assert list(db) == []


def test_read_only_database_has_transactions_that_read(db, place):
    db[b"k"] = b"v"
    with esker.DB(place, read_only=True) as seen, seen.transaction() as transaction:
        assert transaction[b"k"] == b"v"
        with pytest.raises(esker.IOError) as error:
            transaction[b"k"] = b"w"
        assert error.value.kind == "read-only"


@pytest.mark.parametrize("use", ["get", "put", "iterator", "next", "commit", "rollback", "begin", "drop"])
def test_order_cannot_use_the_transaction_that_called_it(place, use):
    inner, raised = [], []
    uses = {
        "get": lambda db, transaction, steps: transaction.get(b"a"),
        "put": lambda db, transaction, steps: transaction.put(b"a", b""),
        "iterator": lambda db, transaction, steps: transaction.iterator(),
        "next": lambda db, transaction, steps: next(steps),
        "commit": lambda db, transaction, steps: transaction.commit(),
        "rollback": lambda db, transaction, steps: transaction.rollback(),
        "begin": lambda db, transaction, steps: db.transaction(),
    }

    def order(a, b):
        if inner:
            given = inner.pop()
            if use == "drop":
                # The only reference to another transaction, which holds a lock.
                del given
                gc.collect()
            else:
                with pytest.raises(esker.Error, match="must not use its own store"):
                    uses[use](*given)
            raised.append(use)
        return (a > b) - (a < b)

    with esker.DB(place, create_if_missing=True, comparator=order, comparator_name=b"o") as db:
        transaction = db.transaction(**PESSIMISTIC)
        transaction[b"a"] = transaction[b"c"] = b"1"
        steps = transaction.iterator()
        if use == "drop":
            other = db.transaction(**PESSIMISTIC)
            other[b"x"] = other[b"y"] = b"1"
            inner.append(other)
            del other
        else:
            inner.append((db, transaction, steps))
        transaction[b"b"] = b"1"
        assert raised == [use]
        assert [key for key, _ in transaction] == [b"a", b"b", b"c"]
        transaction.commit()
        assert list(db.keys()) == [b"a", b"b", b"c"]


def test_order_that_raises_stops_a_transaction(place):
    broken = False

    def order(a, b):
        if broken:
            raise ZeroDivisionError("no order")
        return (a > b) - (a < b)

    given = dict(create_if_missing=True, comparator=order, comparator_name=b"o")
    db = esker.DB(place, **given)
    transaction = db.transaction()
    transaction[b"a"] = transaction[b"b"] = b"1"
    broken = True
    with pytest.raises(RuntimeError, match="raised") as error:
        transaction[b"c"] = b"1"
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    with pytest.raises(RuntimeError, match="raised"):
        transaction.commit()
    del transaction
    db.close()
    broken = False
    with esker.DB(place, **given) as db:
        assert list(db) == []


def test_transaction_keeps_its_database_open(place):
    transaction = esker.DB(place, create_if_missing=True).transaction()
    transaction[b"k"] = b"v"
    with pytest.raises(esker.IOError):
        esker.DB(place)
    steps = transaction.iterator()
    transaction.commit()
    del transaction, steps
    gc.collect()
    with esker.DB(place) as db:
        assert db[b"k"] == b"v"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_transaction_is_closed_in_forked_child(place):
    output = python(
        """
        import gc, os, sys, esker
        db = esker.DB(sys.argv[1], create_if_missing=True)
        transaction = db.transaction(concurrency="pessimistic")
        transaction[b"k"] = b"v"
        steps = transaction.iterator()
        child = os.fork()
        if child == 0:
            calls = (lambda: transaction.get(b"k"), transaction.commit, lambda: next(steps))
            for call in calls:
                try:
                    call()
                    print("did not raise")
                except RuntimeError as error:
                    print(error)
            del calls, call, transaction, steps
            gc.collect()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        transaction.commit()
        db.close()
        """,
        place,
    )
    assert output.count("closed") == 3 and "did not raise" not in output
    with esker.DB(place) as db:
        assert dict(db) == {b"k": b"v"}


def test_program_may_exit_with_open_transactions(place):
    python(
        """
        import sys, threading, esker
        order = lambda a, b: (a > b) - (a < b)
        db = esker.DB(sys.argv[1], create_if_missing=True, comparator=order, comparator_name=b"o")
        holder = db.transaction(concurrency="pessimistic")
        waiter = db.transaction(concurrency="pessimistic", lock_timeout_ms=600_000)
        holder[b"a"] = holder[b"b"] = b"1"
        steps = holder.iterator()
        next(steps)
        def work():
            try:
                waiter[b"a"] = b"2"
            except RuntimeError:
                pass
        threading.Thread(target=work, daemon=True).start()
        """,
        place,
    )


def test_openmetrics(db):
    db[b"k"] = b"v"
    text = db.openmetrics()
    assert "\nesker_user_ops_total 1\n" in text and text.endswith("# EOF\n")
