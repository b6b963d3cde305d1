"""Filters of tables that the program makes."""

import sys

import pytest

import esker


class Exact:
    """A filter with all keys of a table, which counts its calls."""

    name = "test.exact.v1"

    def __init__(self):
        self.created, self.asked, self.denied = [], [], 0

    def create(self, keys):
        self.created.append(keys)
        return b"".join(len(key).to_bytes(2, "big") + key for key in keys)

    def may_match(self, key, filter):
        self.asked.append(key)
        found = len(key).to_bytes(2, "big") + key in filter
        self.denied += not found
        return found


KEYS = [b"%03d" % number for number in range(100)]


def filled(place, policy, **options):
    db = esker.DB(place, create_if_missing=True, filter_policy=policy, **options)
    db.update((key, key) for key in KEYS)
    db.flush()
    return db


def test_filter_is_made_of_the_keys_and_saves_reads(place):
    policy = Exact()
    with filled(place, policy) as db:
        db.compact_range()
        assert policy.created and all(keys == KEYS for keys in policy.created)
        assert [db[key] for key in KEYS] == KEYS and policy.denied == 0
        esker.enable_perf()
        for key in KEYS[:-1]:  # a key after the last one needs no filter
            assert db.get(key + b"x") is None
        found = esker.take_perf()
        assert policy.denied == 99
        assert found["cache_hits"] + found["cache_misses"] == 0
        assert db.verify() == []


def test_keys_of_a_keyspace_have_its_four_bytes_before_them(place):
    policy = Exact()
    with esker.DB(place, create_if_missing=True, filter_policy=policy) as db:
        users = db.keyspace("users")
        users.update({b"k": b"v", b"m": b"v"})
        db.flush()
        assert users[b"k"] == b"v" and users.get(b"l") is None
    made = [key for keys in policy.created for key in keys if key.endswith(b"k")]
    assert made and all(len(key) == 5 for key in made + policy.asked)
    assert policy.denied == 1


def test_filter_that_denies_a_key_hides_it(place):
    # The test shows that the answer is obeyed.
    policy = Exact()
    with filled(place, policy) as db:
        policy.may_match = lambda key, filter: False
        assert db[b"007"] == b"007"
    policy = Exact()
    policy.may_match = lambda key, filter: False
    with esker.DB(place, filter_policy=policy) as db:
        assert db.get(b"007") is None and len(db.verify()) == 1


def test_filters_of_another_name_are_not_used(place):
    filled(place, Exact()).close()
    other = Exact()
    other.name = "test.exact.v2"
    for options in ({"filter_policy": other}, {}, {"bloom_filter_bits": 10}):
        with esker.DB(place, **options) as db:
            assert [db[key] for key in KEYS] == KEYS and db.get(b"x") is None
            assert db.verify() == []
    assert other.asked == []


@pytest.mark.parametrize("answer", [ValueError("no filter"), None, "text", b""])
def test_filter_that_is_not_made_hides_nothing(place, monkeypatch, answer):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: caught.append(error.exc_value))

    class Fails(Exact):
        def create(self, keys):
            if isinstance(answer, Exception):
                raise answer
            return answer

    policy = Fails()
    with filled(place, policy) as db:
        assert [db[key] for key in KEYS] == KEYS and db.get(b"x") is None
        assert db.verify() == []
        db.put(b"more", b"v")
    assert policy.asked == [] and bool(caught) == (answer != b"")


@pytest.mark.parametrize("answer", [ValueError("no answer"), None, "no", 0])
def test_question_without_an_answer_hides_nothing(place, monkeypatch, answer):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: caught.append(error.exc_value))

    class Fails(Exact):
        def may_match(self, key, filter):
            if isinstance(answer, Exception):
                raise answer
            return answer

    with filled(place, Fails()) as db:
        assert [db[key] for key in KEYS] == KEYS and db.get(b"x") is None
    assert len(caught) >= 100


class Nothing:
    name = "test.nothing"


@pytest.mark.parametrize("policy", [7, "text", Nothing, Nothing(), Exact, lambda key: True])
def test_wrong_policies_are_refused(place, policy):
    if policy is Exact:
        policy = Exact()
        policy.name = b"bytes"
    with pytest.raises(TypeError, match="filter_policy"):
        esker.DB(place, create_if_missing=True, filter_policy=policy)
    assert not place.exists()


def test_policy_cannot_use_its_database(place):
    box, caught = [], []

    class Greedy(Exact):
        def may_match(self, key, filter):
            for call in (lambda: box[0].get(b"k"), lambda: box[0].close()) if box else ():
                try:
                    call()
                except esker.Error as error:
                    caught.append(str(error))
            return super().may_match(key, filter)

    with filled(place, Greedy()) as db:
        box.append(db)
        assert db[b"007"] == b"007"
    assert len(caught) >= 2
    assert all("must not use its own store" in text for text in caught)
