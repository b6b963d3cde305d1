"""Compares random operations on a database or a keyspace with a dict, also after reopening."""

import shutil
import tempfile

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import esker

# A small set of similar keys, with the bytes that are edge cases of prefixes and orders.
KEYS = st.binary(max_size=3).map(lambda key: bytes(b"\x00a\xfe\xff"[byte % 4] for byte in key))
VALUES = st.binary(max_size=40) | st.integers(0, 3).map(lambda size: b"v" * 1000 * size)
FLAGS = st.booleans()


def expected(content, root, wanted):
    """Returns the expected pairs of an iterator with these arguments, in its order."""
    prefix = wanted.get("prefix") or b""
    start, stop = wanted.get("start"), wanted.get("stop")
    pairs = []
    for key in sorted(content):
        if not key.startswith(root + prefix):
            continue
        short = key[len(root) :]
        if start is not None and (short < start or short == start and not wanted["include_start"]):
            continue
        if stop is not None and (short > stop or short == stop and not wanted["include_stop"]):
            continue
        pairs.append((short, content[key]))
    return pairs[::-1] if wanted["reverse"] else pairs


class Model(RuleBasedStateMachine):
    snapshots = Bundle("snapshots")

    def __init__(self):
        super().__init__()
        self.place = tempfile.mkdtemp()
        self.content = {}

    @initialize(
        policy=st.sampled_from(["leveled", "tiered", "fragmented", "lazy", "fluid"]),
        keyspace=st.sampled_from([None, {}, dict(compression="none", block_size=1024)]),
    )
    def open(self, policy, keyspace):
        self.options = dict(create_if_missing=True, policy=policy, write_buffer_size=64 << 10)
        self.keyspace = keyspace
        self.open_again()
        if keyspace is not None:
            self.db.put(b"a", b"in the keyspace default")

    def open_again(self):
        """Opens the database; `whole` is the database or the keyspace that the rules work on."""
        self.db = self.whole = esker.DB(self.place, **self.options)
        if self.keyspace is not None:
            self.whole = self.db.keyspace("whole", **self.keyspace)

    @rule()
    def reopen(self):
        self.db.close()
        self.open_again()

    @rule()
    def settle(self):
        self.db.flush()
        self.whole.compact_range()

    @rule(root=KEYS, key=KEYS, value=VALUES, sync=FLAGS)
    def put(self, root, key, value, sync):
        (self.whole.prefixed_db(root) if root else self.whole).put(key, value, sync=sync)
        self.content[root + key] = value

    @rule(root=KEYS, key=KEYS)
    def delete(self, root, key):
        (self.whole.prefixed_db(root) if root else self.whole).delete(key)
        self.content.pop(root + key, None)

    @rule(start=KEYS, stop=KEYS)
    def delete_range(self, start, stop):
        self.whole.delete_range(start, stop)
        for key in [key for key in self.content if start <= key < stop]:
            del self.content[key]

    @rule(root=KEYS, key=KEYS)
    def pop(self, root, key):
        found = self.whole.prefixed_db(root).pop(key, None)
        assert found == self.content.pop(root + key, None)

    @rule(
        root=KEYS,
        steps=st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=20),
        fails=FLAGS,
        transaction=FLAGS,
    )
    def batch(self, root, steps, fails, transaction):
        part = self.whole.prefixed_db(root)
        try:
            with part.write_batch(transaction=transaction) as batch:
                for key, value in steps:
                    batch.delete(key) if value is None else batch.put(key, value)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert fails
        if fails and transaction:
            return
        for key, value in steps:
            if value is None:
                self.content.pop(root + key, None)
            else:
                self.content[root + key] = value

    @rule(target=snapshots, root=KEYS)
    def snapshot(self, root):
        return self.db, self.whole.prefixed_db(root).snapshot(), root, dict(self.content)

    @rule(taken=snapshots, key=KEYS)
    def read_snapshot(self, taken, key):
        db, snapshot, root, content = taken
        if db.closed:
            try:
                snapshot.get(key)
            except RuntimeError:
                return
            raise AssertionError("a snapshot of a closed database was read")
        assert snapshot.get(key) == content.get(root + key)
        everything = dict(reverse=False)
        assert list(snapshot) == expected(content, root, everything)

    @rule(
        root=KEYS,
        ends=st.tuples(st.none() | KEYS, st.none() | KEYS),
        prefix=st.none() | KEYS,
        flags=st.fixed_dictionaries(
            dict(reverse=FLAGS, include_start=FLAGS, include_stop=FLAGS, fill_cache=FLAGS)
        ),
        moves=st.lists(st.sampled_from(["next", "prev", "start", "stop"]) | KEYS, max_size=20),
    )
    def walk(self, root, ends, prefix, flags, moves):
        wanted = dict(flags)
        if prefix is not None:
            wanted["prefix"] = prefix
        else:
            wanted["start"], wanted["stop"] = ends
        pairs = expected(self.content, root, wanted)
        part = self.whole.prefixed_db(root)
        assert list(part.iterator(**wanted)) == pairs
        keys = [key for key, _ in pairs]
        assert list(part.iterator(include_value=False, **wanted)) == keys
        with part.iterator(**wanted) as steps:
            self.moves(steps, pairs, wanted["reverse"], moves)

    def moves(self, steps, pairs, reverse, moves):
        """Moves an iterator; `at` is the number of entries before it."""
        at = 0
        for move in moves:
            if move == "next":
                assert next(steps, None) == (pairs[at] if at < len(pairs) else None)
                at = min(at + 1, len(pairs))
            elif move == "prev":
                try:
                    assert steps.prev() == pairs[at - 1] and at > 0
                except StopIteration:
                    assert at == 0
                at = max(at - 1, 0)
            elif move in ("start", "stop"):
                steps.seek_to_start() if move == "start" else steps.seek_to_stop()
                at = len(pairs) if (move == "stop") != reverse else 0
            else:
                steps.seek(move)
                smaller = sum(key < move for key, _ in pairs)
                at = len(pairs) - smaller if reverse else smaller

    @invariant()
    def same(self):
        if not hasattr(self, "db"):
            return
        keys = sorted(self.content)
        assert list(self.whole) == [(key, self.content[key]) for key in keys]
        assert self.whole.get_many(keys + [b"none"]) == [*map(self.content.get, keys), None]
        if self.whole is not self.db:
            assert list(self.db) == [(b"a", b"in the keyspace default")]

    def teardown(self):
        if hasattr(self, "db"):
            assert self.db.verify() == []
            self.db.close()
        shutil.rmtree(self.place)


TestModel = Model.TestCase
TestModel.settings = hypothesis.settings(
    max_examples=60, stateful_step_count=40, deadline=None, print_blob=True
)
