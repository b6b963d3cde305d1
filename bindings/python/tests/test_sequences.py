"""Compares random sequences of calls with a dict: also after a close, with threads, and in a fork.

SEQUENCES is the number of sequences (default 200), SEED is the first seed (default 1). A failure
prints its seed: SEED=N SEQUENCES=1 runs only that sequence.
"""

import bisect
import gc
import os
import random
import shutil
import threading

import pytest

import esker

CLOSED = RuntimeError
LETTERS = [b"\0", b"a", b"\xfe", b"\xff"]


class Sequence:
    """One database, its objects, and its expected content."""

    def __init__(self, seed, place):
        self.random = random.Random(seed)
        self.place = place
        self.content = {}
        self.options = dict(
            create_if_missing=True,
            background_threads=self.random.choice([0, 0, 1]),
            write_buffer_size=self.random.choice([4096, 65536]),
            block_size=self.random.choice([64, 4096]),
            policy=self.random.choice(["leveled", "tiered", "fragmented", "lazy", "fluid"]),
            memory_budget_bytes=16 << 20,
        )
        self.db = esker.DB(place, **self.options)
        self.forget()

    def forget(self):
        """Drops the objects of a closed database."""
        self.batches, self.snapshots, self.iterators, self.transactions = [], [], [], []
        self.walks = []

    def key(self):
        key = b"".join(self.random.choices(LETTERS, k=self.random.randrange(4)))
        return key + b"k" * 300 if self.random.random() < 0.05 else key

    def value(self):
        return bytes([self.random.randrange(256)]) * self.random.choice([0, 1, 9, 40, 200, 5000])

    def step(self):
        steps = [self.write] * 8 + [self.batch] * 5 + [self.read] * 6 + [self.snapshot] * 3
        steps += [self.iterate] * 7 + [self.maintain] * 4 + [self.wrong] * 3
        steps += [self.transaction] * 8 + [self.walk] * 4
        steps += [self.reopen, self.closed, self.threads]
        self.random.choice(steps)()

    def write(self):
        key, value = self.key(), self.value()
        what = self.random.randrange(8)
        if what == 0:
            self.db.delete(key, sync=self.random.random() < 0.2)
            self.content.pop(key, None)
        elif what == 1:
            stop = self.key()
            self.db.delete_range(key, stop)
            for gone in [each for each in self.content if key <= each < stop]:
                del self.content[gone]
        elif what == 2:
            assert self.db.pop(key, None) == self.content.pop(key, None)
        elif what == 3:
            self.db[key] = self.content[key] = value
        else:
            kind = self.random.choice([bytes, bytearray, memoryview])
            self.db.put(key, kind(value), sync=self.random.random() < 0.2)
            self.content[key] = value

    def batch(self):
        if not self.batches or self.random.random() < 0.2:
            self.batches.append((self.db.write_batch(), []))
        batch, steps = self.random.choice(self.batches)
        what = self.random.randrange(8)
        if what == 0:
            batch.clear()
            steps.clear()
        elif what == 1 and len(steps) < 200:
            other, more = self.random.choice(self.batches)
            batch.append(other)
            steps.extend(list(more))
        elif what <= 3:
            batch.write()
            for key, value in steps:
                if value is None:
                    self.content.pop(key, None)
                else:
                    self.content[key] = value
        else:
            key, value = self.key(), self.random.choice([None, self.value()])
            batch.delete(key) if value is None else batch.put(key, value)
            steps.append((key, value))

    def read(self):
        key = self.key()
        assert self.db.get(key) == self.content.get(key)
        assert (key in self.db) == (key in self.content)
        if self.random.random() < 0.2:
            self.read_into(key)
        if self.random.random() < 0.2:
            keys = [self.key() for _ in range(5)]
            assert self.db.get_many(keys) == [self.content.get(each) for each in keys]
        if self.random.random() < 0.1:
            assert list(self.db) == sorted(self.content.items())

    def read_into(self, key):
        """Reads a value into a buffer that may be too short, and keys of one size into rows."""
        value, buffer = self.content.get(key), bytearray(b"." * self.random.randrange(40))
        if value is not None and len(value) > len(buffer):
            with pytest.raises(ValueError):
                self.db.get_into(key, buffer)
            assert set(buffer) <= set(b".")
        else:
            assert self.db.get_into(key, buffer) == (None if value is None else len(value))
            assert buffer.startswith(value or b"")
        rows = bytearray(b"..")
        wanted = [self.content.get(one) for one in (b"a", b"b")]
        if all(found is None or len(found) == 1 for found in wanted):
            assert self.db.get_array(b"ab", rows) == bytes(found is not None for found in wanted)
            assert bytes(rows) == b"".join(found or b"." for found in wanted)
        else:
            with pytest.raises(ValueError):
                self.db.get_array(b"ab", rows)

    def snapshot(self):
        if not self.snapshots or self.random.random() < 0.3:
            self.snapshots.append((self.db.snapshot(), dict(self.content)))
        elif self.random.random() < 0.2:
            taken, _ = self.snapshots.pop()
            taken.close()
            with pytest.raises(CLOSED):
                taken.get(b"a")
        else:
            taken, content = self.random.choice(self.snapshots)
            key = self.key()
            assert taken.get(key) == content.get(key)

    def transaction(self):
        """Uses a transaction, kept with its view, its writes, and the content at its begin."""
        if not self.transactions or self.random.random() < 0.2:
            taken = dict(self.content)
            self.transactions.append([self.db.transaction(), dict(taken), {}, taken])
        at = self.random.randrange(len(self.transactions))
        transaction, view, writes, _ = self.transactions[at]
        what = self.random.randrange(10)
        key, value = self.key(), self.value()
        if what < 3:
            transaction[key] = view[key] = writes[key] = value
        elif what == 3:
            transaction.delete(key)
            view.pop(key, None)
            writes[key] = None
        elif what == 4:
            with pytest.raises(ZeroDivisionError), transaction.savepoint():
                transaction[key] = value
                transaction.delete_range(key, self.key())
                raise ZeroDivisionError
        elif what == 5:
            assert list(transaction) == sorted(view.items())
            assert list(transaction.iterator(reverse=True)) == sorted(view.items(), reverse=True)
        elif what < 8:
            assert transaction.get(key) == view.get(key)
            assert (key in transaction) == (key in view)
        else:
            self.end_transaction(at)

    def end_transaction(self, at):
        transaction, _, writes, taken = self.transactions.pop(at)
        if self.random.random() < 0.3:
            return transaction.rollback()
        try:
            transaction.commit()
        except esker.ConflictError:
            # A write of the same value, or a put and a delete, are not seen in the contents.
            assert writes
            return
        for key, value in writes.items():
            assert self.content.get(key) == taken.get(key), "a lost update"
            if value is None:
                self.content.pop(key, None)
            else:
                self.content[key] = value

    def walk(self):
        """Steps an iterator, kept with its pairs and its position between them."""
        walks = self.walks
        if not walks or self.random.random() < 0.2:
            walks.append([self.db.iterator(), sorted(self.content.items()), 0])
        if self.random.random() < 0.1:
            walks.pop(self.random.randrange(len(walks)))[0].close()
            return
        kept = self.random.choice(walks)
        steps, pairs, at = kept
        up = self.random.random() < 0.7
        for _ in range(self.random.randrange(1, 40)):
            if self.random.random() < 0.1:
                up = not up
            if up:
                assert next(steps, None) == (pairs[at] if at < len(pairs) else None)
                at = min(at + 1, len(pairs))
            elif at == 0:
                with pytest.raises(StopIteration):
                    steps.prev()
            else:
                assert steps.prev() == pairs[at - 1]
                at -= 1
        kept[2] = at

    def iterate(self):
        """Moves a raw iterator, kept with its pairs and its position in them; None if invalid."""
        if not self.iterators or self.random.random() < 0.2:
            self.iterators.append([self.db.raw_iterator(), sorted(self.content.items()), None])
        if self.random.random() < 0.1:
            self.iterators.pop(self.random.randrange(len(self.iterators)))[0].close()
            return
        standing = self.random.choice(self.iterators)
        raw, pairs, _ = standing
        for _ in range(self.random.randrange(1, 6)):
            standing[2] = self.move(raw, pairs, standing[2])
            at = standing[2]
            assert raw.valid() == (at is not None)
            if at is not None:
                assert raw.item() == pairs[at] == (raw.key(), raw.value())

    def move(self, raw, pairs, at):
        inside = range(len(pairs))
        what = self.random.randrange(7)
        if what == 0:
            raw.seek_to_first()
            return 0 if pairs else None
        if what == 1:
            raw.seek_to_last()
            return len(pairs) - 1 if pairs else None
        if what == 2:
            key = self.key()
            raw.seek(key)
            found = bisect.bisect_left(pairs, (key,))
            return found if found in inside else None
        if at is None:
            with pytest.raises(esker.IteratorInvalidError):
                raw.key()
            return None
        if what < 5:
            raw.next()
            return at + 1 if at + 1 in inside else None
        raw.prev()
        return at - 1 if at - 1 in inside else None

    def maintain(self):
        what = self.random.randrange(7)
        if what == 0:
            self.db.flush()
        elif what == 1:
            self.db.compact_range()
        elif what == 2:
            assert self.db.verify() == []
        elif what == 3:
            self.db.set_option("policy", self.random.choice(["leveled", "fluid", "tiered"]))
        elif what == 4:
            self.db.get_property(b"leveldb.stats")
        elif what == 5:
            copy = str(self.place) + "-copy"
            self.db.checkpoint(copy)
            with esker.DB(copy, create_if_missing=False, background_threads=0) as db:
                assert dict(db) == self.content
            shutil.rmtree(copy)
        else:
            with pytest.raises(esker.Error):
                esker.DB(self.place, **self.options)

    def wrong(self):
        """Passes invalid arguments: each call raises and changes nothing."""
        bad = self.random.choice([None, 3, "text", 1.5, [b"k"], object(), {}])
        calls = [
            lambda: self.db.put(bad, b"v"),
            lambda: self.db.put(b"k", bad if not isinstance(bad, bytes) else None),
            lambda: self.db.get(bad),
            lambda: self.db.delete(bad),
            lambda: self.db.delete_range(bad, b"z"),
            lambda: self.db.put(b"k" * (2 << 20), b"v"),
            lambda: self.db.set_option("no such option", bad),
            lambda: self.db.put(),
            lambda: self.db.get_into(b"k", bad),
            lambda: self.db.get_array(b"ab", bad),
            lambda: self.db.put_array(bad, b"ab"),
            lambda: self.db.write_batch().write(timeout=-1),
            lambda: self.db.prefixed_db(bad or 7),
            lambda: esker.DB(self.place, no_such_option=bad),
            lambda: self.db.checkpoint(b"\0"),
        ]
        with pytest.raises((TypeError, ValueError, esker.Error)):
            self.random.choice(calls)()

    def reopen(self):
        old = (self.batches, self.snapshots, self.iterators, self.transactions)
        self.db.close()
        if self.random.random() < 0.5:
            self.db.close()
        self.use_after_close(self.db, *old)
        if self.random.random() < 0.2:
            gc.collect()
        self.db = esker.DB(self.place, **self.options)
        self.forget()

    def use_after_close(self, db, batches, snapshots, iterators, transactions):
        calls = [db.flush, db.verify, db.snapshot, db.write_batch, db.raw_iterator, db.iterator]
        calls += [db.stall, db.recovery_notes, lambda: db.get_into(b"k", bytearray(9))]
        calls += [lambda: db.get(b"k"), lambda: db.put(b"k", b"v"), lambda: list(db)]
        calls += [batch.write for batch, _ in batches]
        calls += [lambda s=snapshot: s.get(b"k") for snapshot, _ in snapshots]
        calls += [standing[0].seek_to_first for standing in iterators]
        calls += [kept[0].commit for kept in transactions]
        for call in self.random.sample(calls, min(4, len(calls))):
            with pytest.raises(CLOSED):
                call()
        assert db.closed

    def closed(self):
        """Drops the database and its objects, which are freed in a random order."""
        held = [self.batches, self.snapshots, self.iterators, self.transactions, self.walks]
        self.db = None
        self.random.shuffle(held)
        self.forget()
        while held:
            held.pop()
        gc.collect()
        self.db = esker.DB(self.place, **self.options)

    def threads(self):
        """Closes the database while threads write, read and iterate."""
        db, raised = self.db, []
        began = threading.Barrier(4)

        def work(number):
            try:
                began.wait(600)
                for at in range(100_000):
                    if number == 0:
                        db.put(b"thread%d" % (at % 50), b"v")
                    elif number == 1:
                        for _ in db.iterator():
                            pass
                    else:
                        db.get_many([b"thread%d" % each for each in range(20)])
            except CLOSED:
                pass
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        began.wait(600)
        for _ in range(self.random.randrange(200)):
            self.random.random()
        db.close()
        for thread in threads:
            thread.join(600)
            assert not thread.is_alive()
        assert raised == []
        self.db = esker.DB(self.place, **self.options)
        self.forget()
        found = dict(self.db)

        def others(pairs):
            return {key: pairs[key] for key in pairs if not key.startswith(b"thread")}

        assert others(found) == others(self.content)
        self.content = found

    def fork(self):
        """Forks: in the child all calls are refused and it exits normally; the parent continues."""
        child = os.fork()
        if child == 0:
            refused = 0
            calls = [lambda: self.db.get(b"k"), lambda: self.db.put(b"k", b"v"), self.db.flush]
            calls += [lambda: list(self.db), self.db.verify]
            for call in calls:
                try:
                    call()
                except (RuntimeError, esker.Error):
                    refused += 1
            try:
                self.db.close()
                self.forget()
                self.db = None
                gc.collect()
            except (RuntimeError, esker.Error):
                pass
            os._exit(0 if refused == len(calls) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert dict(self.db) == self.content

    def end(self):
        assert dict(self.db) == self.content
        if self.random.random() < 0.5:
            self.db.close()
        self.db = None


def test_random_call_sequences_match_model(tmp_path):
    first, count = int(os.environ.get("SEED", 1)), int(os.environ.get("SEQUENCES", 200))
    for seed in range(first, first + count):
        place = tmp_path / "db"
        try:
            sequence = Sequence(seed, place)
            for _ in range(sequence.random.randrange(20, 60)):
                sequence.step()
            if seed % 25 == 0:
                sequence.fork()
            sequence.end()
        except BaseException:
            print(f"in the sequence of SEED={seed}")
            raise
        del sequence
        shutil.rmtree(place)
