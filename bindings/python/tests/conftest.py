"""Fixtures: a database per test, and a directory for tests that open databases."""

import pytest

import esker


@pytest.fixture
def place(tmp_path):
    return tmp_path / "db"


@pytest.fixture
def db(place):
    with esker.DB(place, create_if_missing=True) as db:
        yield db
