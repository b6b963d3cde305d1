"""Typed keys: an order-preserving encoding of values as bytes, as in Rust's ``esker::codec``.

A database sorts keys byte by byte. A codec encodes values so that the bytes have the order of the
values, and decodes them. A range of values is therefore a range of keys::

    from esker import codec

    event = codec.tuple_of(codec.string, codec.desc(codec.u64))   # newest first within a user
    key = event.encode(("ada", 7))
    assert event.decode(key) == ("ada", 7) and key < event.encode(("ada", 3))
    db.iterator(prefix=codec.string.encode("ada"))                # all events of "ada"

    ages = codec.TypedMapping(db.keyspace("ages"), codec.string, codec.u32)
    ages["ada"] = 36                                              # a MutableMapping

The encodings are those of Rust, so both languages read the same keys. They never change:

* ``u8`` to ``u128``: big-endian; ``i8`` to ``i128``: big-endian with the sign bit flipped
* ``f32``, ``f64``: the bits, with the sign bit flipped if positive, all bits if negative
* ``boolean``: 0 or 1; ``char``: as ``u32``
* ``string``, ``binary``: the bytes, with 0 encoded as ``00 FF``, then ``00 01``
* ``fixed(n)``: the bytes; ``optional(c)``: 0, or 1 and the value
* ``desc(c)``: the encoding of ``c`` with every bit flipped; ``tuple_of(...)``: one after the other

``raw`` and ``text`` are for values and for keys alone: their bytes are the value itself, so they
have no end within a tuple. Bytes that are not an encoding raise ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from . import DB, Keyspace, PrefixedDB

__all__ = [
    "Codec",
    "TypedMapping",
    "binary",
    "boolean",
    "char",
    "desc",
    "f32",
    "f64",
    "fixed",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "optional",
    "raw",
    "string",
    "text",
    "tuple_of",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
]

_T = TypeVar("_T")
_K = TypeVar("_K")
_V = TypeVar("_V")
_D = TypeVar("_D")
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_FLIPPED = bytes(255 - byte for byte in range(256))


class Codec(Generic[_T]):
    """Encodes values of one type as bytes, and decodes them."""

    __slots__ = ("_put", "_take", "_name")

    def __init__(
        self,
        name: str,
        put: Callable[[_T], bytes],
        take: Callable[[bytes, int], tuple[_T, int]],
    ) -> None:
        """``take(data, at)`` returns the value that begins at ``at``, and its end."""
        self._name = name
        self._put = put
        self._take = take

    def __repr__(self) -> str:
        return f"<esker.codec {self._name}>"

    def encode(self, value: _T) -> bytes:
        """Returns the encoding. Raises ValueError or TypeError for a value of another type."""
        return self._put(value)

    def decode(self, data: bytes) -> _T:
        """Returns the value. Raises ValueError if the bytes are not an encoding of one value."""
        value, end = self._take(data, 0)
        if end != len(data):
            raise ValueError(f"{self._name}: {len(data) - end} bytes are left after the value")
        return value


def _part(name: str, data: bytes, at: int, size: int) -> bytes:
    found = data[at : at + size]
    if len(found) != size:
        raise ValueError(f"{name}: expected {size} bytes at {at}, found {len(found)}")
    return found


def _integer(bits: int, signed: bool) -> Codec[int]:
    name, size = f"{'i' if signed else 'u'}{bits}", bits // 8
    low = -(1 << bits - 1) if signed else 0
    high = low + (1 << bits)

    def put(value: int) -> bytes:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: expected an int, not {type(value).__name__}")
        if not low <= value < high:
            raise ValueError(f"{name}: {value} is not from {low} to {high - 1}")
        return (value - low).to_bytes(size, "big")

    def take(data: bytes, at: int) -> tuple[int, int]:
        return int.from_bytes(_part(name, data, at, size), "big") + low, at + size

    return Codec(name, put, take)


def _float(bits: int) -> Codec[float]:
    name, size, form = f"f{bits}", bits // 8, ">f" if bits == 32 else ">d"

    def put(value: float) -> bytes:
        encoded = struct.pack(form, value)
        if encoded[0] & 0x80:
            return encoded.translate(_FLIPPED)
        return bytes((encoded[0] | 0x80,)) + encoded[1:]

    def take(data: bytes, at: int) -> tuple[float, int]:
        encoded = _part(name, data, at, size)
        if encoded[0] & 0x80:
            encoded = bytes((encoded[0] & 0x7F,)) + encoded[1:]
        else:
            encoded = encoded.translate(_FLIPPED)
        value: float = struct.unpack(form, encoded)[0]
        return value, at + size

    return Codec(name, put, take)


def _take_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = _part("boolean", data, at, 1)[0]
    if byte > 1:
        raise ValueError(f"boolean: expected 0 or 1 at {at}, found {byte}")
    return byte == 1, at + 1


def _put_binary(value: bytes) -> bytes:
    return bytes(value).replace(b"\0", b"\0\xff") + b"\0\x01"


def _take_binary(data: bytes, at: int) -> tuple[bytes, int]:
    start = at
    while True:
        zero = data.find(b"\0", at)
        mark = data[zero + 1 : zero + 2] if zero >= 0 else b""
        if mark == b"\x01":
            return data[start:zero].replace(b"\0\xff", b"\0"), zero + 2
        if mark != b"\xff":
            raise ValueError(f"string or binary: the bytes from {start} have no end")
        at = zero + 2


def _take_string(data: bytes, at: int) -> tuple[str, int]:
    value, end = _take_binary(data, at)
    return value.decode(), end


def _put_char(value: str) -> bytes:
    if len(value) != 1 or 0xD800 <= ord(value) < 0xE000:
        raise ValueError(f"char: expected one character, not {value!r}")
    return u32.encode(ord(value))


def _take_char(data: bytes, at: int) -> tuple[str, int]:
    code = int.from_bytes(_part("char", data, at, 4), "big")
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"char: {code:#x} at {at} is no character")
    return chr(code), at + 4


u8 = _integer(8, False)
"""Integers from 0 to 2**8 - 1."""
u16 = _integer(16, False)
"""Integers from 0 to 2**16 - 1."""
u32 = _integer(32, False)
"""Integers from 0 to 2**32 - 1."""
u64 = _integer(64, False)
"""Integers from 0 to 2**64 - 1."""
u128 = _integer(128, False)
"""Integers from 0 to 2**128 - 1."""
i8 = _integer(8, True)
"""Integers from -2**7 to 2**7 - 1."""
i16 = _integer(16, True)
"""Integers from -2**15 to 2**15 - 1."""
i32 = _integer(32, True)
"""Integers from -2**31 to 2**31 - 1."""
i64 = _integer(64, True)
"""Integers from -2**63 to 2**63 - 1."""
i128 = _integer(128, True)
"""Integers from -2**127 to 2**127 - 1."""
f32 = _float(32)
"""Numbers with the precision of 32 bits. -0.0 sorts before 0.0, and NaN at the ends."""
f64 = _float(64)
"""All values of ``float``. -0.0 sorts before 0.0, and NaN at the ends."""
boolean: Codec[bool] = Codec("boolean", lambda value: b"\x01" if value else b"\0", _take_boolean)
"""False, which sorts first, and True."""
char: Codec[str] = Codec("char", _put_char, _take_char)
"""One character, by code point; no surrogates."""
string: Codec[str] = Codec("string", lambda value: _put_binary(value.encode()), _take_string)
"""Text, in the order of its UTF-8 bytes, which is that of the code points."""
binary: Codec[bytes] = Codec("binary", _put_binary, _take_binary)
"""Byte strings, also within a tuple."""
raw: Codec[bytes] = Codec("raw", bytes, lambda data, at: (data[at:], len(data)))
"""Byte strings as they are: for values and whole keys, not within a tuple."""
text: Codec[str] = Codec(
    "text", lambda value: value.encode(), lambda data, at: (data[at:].decode(), len(data))
)
"""Text as its UTF-8 bytes: for values and whole keys, not within a tuple."""


def fixed(size: int) -> Codec[bytes]:
    """Returns the codec of byte strings of one size, in bytes."""
    name = f"fixed({size})"

    def put(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"{name}: the value has {len(value)} bytes")
        return bytes(value)

    return Codec(name, put, lambda data, at: (_part(name, data, at, size), at + size))


def optional(inner: Codec[_T]) -> Codec[_T | None]:
    """Returns the codec of values that may be None, which sorts first."""

    def put(value: _T | None) -> bytes:
        return b"\0" if value is None else b"\x01" + inner.encode(value)

    def take(data: bytes, at: int) -> tuple[_T | None, int]:
        is_some, at = _take_boolean(data, at)
        return inner._take(data, at) if is_some else (None, at)

    return Codec(f"optional({inner._name})", put, take)


def desc(inner: Codec[_T]) -> Codec[_T]:
    """Returns the codec of the same values in the opposite order."""

    def take(data: bytes, at: int) -> tuple[_T, int]:
        value, end = inner._take(data[at:].translate(_FLIPPED), 0)
        return value, at + end

    return Codec(f"desc({inner._name})", lambda v: inner.encode(v).translate(_FLIPPED), take)


@overload
def tuple_of(first: Codec[_A], /) -> Codec[tuple[_A]]: ...
@overload
def tuple_of(first: Codec[_A], second: Codec[_B], /) -> Codec[tuple[_A, _B]]: ...
@overload
def tuple_of(
    first: Codec[_A], second: Codec[_B], third: Codec[_C], /
) -> Codec[tuple[_A, _B, _C]]: ...
@overload
def tuple_of(*codecs: Codec[Any]) -> Codec[tuple[Any, ...]]: ...
def tuple_of(*codecs: Codec[Any]) -> Codec[Any]:
    """Returns the codec of tuples. The encoding of the first elements is a prefix of the whole."""
    name = f"tuple_of({', '.join(codec._name for codec in codecs)})"

    def put(value: tuple[Any, ...]) -> bytes:
        if len(value) != len(codecs):
            raise ValueError(f"{name}: the value has {len(value)} elements")
        return b"".join(codec.encode(one) for codec, one in zip(codecs, value))

    def take(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for codec in codecs:
            value, at = codec._take(data, at)
            values.append(value)
        return tuple(values), at

    return Codec(name, put, take)


class _Encoding(Protocol[_T]):
    """What a mapping needs of a codec: for values, ``json`` or ``struct`` may be behind it."""

    def encode(self, value: _T, /) -> bytes: ...
    def decode(self, data: bytes, /) -> _T: ...


class TypedMapping(MutableMapping[_K, _V]):
    """A mapping of typed keys and values over a database, a keyspace or a prefixed database.

    ``key`` and ``value`` are codecs: objects with ``encode(value)`` and ``decode(data)``. An
    iteration is in key order and shows the state at its start. ``len`` scans all keys. ``update``
    writes one batch. Nothing is pickled. A stored pair that is not an encoding raises ValueError.
    """

    __slots__ = ("_db", "_key", "_value", "__weakref__")

    def __init__(
        self, db: DB | Keyspace | PrefixedDB, key: _Encoding[_K], value: _Encoding[_V]
    ) -> None:
        self._db = db
        self._key = key
        self._value = value

    def __repr__(self) -> str:
        return f"<esker.codec.TypedMapping of {self._db!r}>"

    def _encoded(self, key: object) -> bytes | None:
        """Returns the key's bytes, or None for an object that can be no key of the mapping."""
        try:
            return self._key.encode(key)  # type: ignore[arg-type]
        except (AttributeError, TypeError, ValueError, struct.error, OverflowError):
            return None

    def __getitem__(self, key: _K) -> _V:
        encoded = self._encoded(key)
        found = None if encoded is None else self._db.get(encoded)
        if found is None:
            raise KeyError(key)
        return self._value.decode(found)

    def __setitem__(self, key: _K, value: _V) -> None:
        self._db.put(self._key.encode(key), self._value.encode(value))

    def __delitem__(self, key: _K) -> None:
        encoded = self._encoded(key)
        if encoded is None:
            raise KeyError(key)
        try:
            del self._db[encoded]
        except KeyError:
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        encoded = self._encoded(key)
        return encoded is not None and encoded in self._db

    def __iter__(self) -> Iterator[_K]:
        return map(self._key.decode, self._db.iterator(include_value=False))

    def __reversed__(self) -> Iterator[_K]:
        return map(self._key.decode, self._db.iterator(include_value=False, reverse=True))

    def __len__(self) -> int:
        return len(self._db.mapping())

    def __bool__(self) -> bool:
        return bool(self._db.mapping())

    def range(
        self, start: _K | None = None, stop: _K | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[_K, _V]]:
        """Returns an iterator over the pairs from ``start`` (inclusive) to ``stop`` (exclusive).

        None means no bound.
        """
        bounds = (None if key is None else self._key.encode(key) for key in (start, stop))
        pairs = self._db.iterator(start=next(bounds), stop=next(bounds), reverse=reverse)
        return ((self._key.decode(key), self._value.decode(value)) for key, value in pairs)

    def update(  # type: ignore[override]
        self, other: Mapping[_K, _V] | Iterable[tuple[_K, _V]] = (), /, **named: _V
    ) -> None:
        """Sets keys from a mapping or pairs, and by name, atomically in one batch."""
        pairs: Iterable[Any] = other.items() if isinstance(other, Mapping) else other
        pairs = chain(pairs, named.items())
        with self._db.write_batch(transaction=True) as batch:
            for key, value in pairs:
                batch.put(self._key.encode(key), self._value.encode(value))

    def clear(self) -> None:
        """Deletes all keys, in one batch."""
        self._db.mapping().clear()
