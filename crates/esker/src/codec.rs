//! Typed keys: an order-preserving encoding of values as bytes.
//!
//! A store sorts keys byte by byte. [`Key`] encodes integers, floats, strings and tuples as bytes
//! with the same order as the values, and decodes them. A range of values is therefore a range of
//! keys.
//!
//! ```
//! use esker::codec::{Desc, Key};
//!
//! // Newest first within a user: ("ada", 7) comes before ("ada", 3).
//! let newer = ("ada".to_string(), Desc(7u64)).encode();
//! let older = ("ada".to_string(), Desc(3u64)).encode();
//! assert!(newer < older);
//! assert_eq!(<(String, Desc<u64>)>::decode(&older)?, ("ada".to_string(), Desc(3)));
//!
//! // The first elements of a tuple are a prefix of its encoding: scan with `db.prefix(...)`.
//! assert!(newer.starts_with(&"ada".to_string().encode()));
//! assert!(!("adam".to_string(), Desc(1u64)).encode().starts_with(&"ada".to_string().encode()));
//! # Ok::<(), esker::Error>(())
//! ```
//!
//! Invariants, for all `a` and `b` of one type:
//! 1. `a < b` exactly when `a.encode() < b.encode()`.
//! 2. `decode(a.encode())` equals `a`.
//! 3. No encoding is a proper prefix of another, so tuples are plain concatenations.
//!
//! The encodings are part of the format of a store and never change:
//!
//! | type | bytes |
//! |---|---|
//! | `u8`..`u128` | big-endian |
//! | `i8`..`i128` | big-endian, sign bit flipped |
//! | `f32`, `f64` | the bits, big-endian; sign bit flipped if positive, all bits if negative (IEEE 754 `totalOrder`) |
//! | `bool` | 0 or 1 |
//! | `char` | as `u32` |
//! | `String`, `Vec<u8>` | the bytes, with 0 encoded as `00 FF`, then `00 01` |
//! | `[u8; N]` | the bytes |
//! | `Option<T>` | 0, or 1 and the value: `None` sorts first |
//! | `Desc<T>` | the encoding of `T` with every bit flipped |
//! | `(A, B, …)` | the concatenation of up to six elements |

use std::cmp::Ordering;

use crate::error::{Error, Result};

/// The byte after a 0 byte inside a string.
const ESCAPED_ZERO: u8 = 0xff;
/// The byte after the final 0 byte of a string. It is less than [`ESCAPED_ZERO`], so that a string
/// sorts before its extensions.
const END: u8 = 0x01;

/// A value with an order-preserving encoding as a key.
pub trait Key: Sized {
    /// Appends the encoding of the value to `out`.
    fn encode_into(&self, out: &mut Vec<u8>);

    /// Decodes one value at the current position of `input` and advances `input` past it.
    ///
    /// # Errors
    /// `InvalidArgument` if the bytes are not an encoding of this type.
    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self>;

    /// Returns the encoding of the value.
    ///
    /// ```
    /// use esker::codec::Key;
    /// assert_eq!(258u32.encode(), [0, 0, 1, 2]);
    /// assert!((-1i64).encode() < 0i64.encode());
    /// ```
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Decodes a value from all of `bytes`.
    ///
    /// ```
    /// use esker::codec::Key;
    /// assert_eq!(u32::decode(&[0, 0, 1, 2])?, 258);
    /// assert!(u32::decode(&[0, 0, 1]).is_err());
    /// assert!(u32::decode(&[0, 0, 1, 2, 3]).is_err());
    /// # Ok::<(), esker::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the bytes are not an encoding of this type, or bytes remain after it.
    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = KeyReader::new(bytes);
        let value = Self::decode_from(&mut input)?;
        match input.remaining() {
            0 => Ok(value),
            extra => Err(input.error(&format!("expected the end of the key, found {extra} bytes"))),
        }
    }
}

/// A position in the bytes of a key that is being decoded.
#[derive(Debug, Clone)]
pub struct KeyReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The mask for each byte: all ones inside a [`Desc`], else 0.
    flip: u8,
}

impl<'a> KeyReader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> KeyReader<'a> {
        KeyReader { bytes, at: 0, flip: 0 }
    }

    /// Returns the number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(bytes) = self.bytes[self.at..].first_chunk::<N>() else {
            let left = self.remaining();
            return Err(self.error(&format!("expected {N} more bytes, found {left}")));
        };
        self.at += N;
        Ok(bytes.map(|byte| byte ^ self.flip))
    }

    fn error(&self, what: &str) -> Error {
        Error::invalid(format!("not an encoded key: {what} (at byte {})", self.at))
    }
}

/// Appends the encoding of `bytes` as a `Vec<u8>`, from a borrowed slice.
///
/// ```
/// use esker::codec::{Key, encode_bytes_into};
/// let mut out = Vec::new();
/// encode_bytes_into(b"a\0b", &mut out);
/// assert_eq!(out, b"a\0\xffb\0\x01");
/// assert_eq!(Vec::<u8>::decode(&out)?, b"a\0b");
/// # Ok::<(), esker::Error>(())
/// ```
#[doc(hidden)]
pub fn encode_bytes_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    for &byte in bytes {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend_from_slice(&[0, END]);
}

/// Appends the encoding of `text` as a `String`, from a borrowed string.
///
/// ```
/// use esker::codec::{Key, encode_str_into};
/// let mut prefix = Vec::new();
/// encode_str_into("ada", &mut prefix);
/// assert!(("ada".to_string(), 7u8).encode().starts_with(&prefix));
/// ```
#[doc(hidden)]
pub fn encode_str_into(text: &str, out: &mut Vec<u8>) {
    encode_bytes_into(text.as_bytes(), out);
}

/// A value in descending order. Both the wrapper and its encoding reverse the order of `T`.
///
/// ```
/// use esker::codec::{Desc, Key};
/// assert!(Desc(2u32) < Desc(1u32));
/// assert!(Desc(2u32).encode() < Desc(1u32).encode());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Desc<T>(pub T);

impl<T: PartialOrd> PartialOrd for Desc<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        other.0.partial_cmp(&self.0)
    }
}

impl<T: Ord> Ord for Desc<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.cmp(&self.0)
    }
}

impl<T: Key> Key for Desc<T> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.0.encode_into(out);
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        input.flip = !input.flip;
        let value = T::decode_from(input);
        input.flip = !input.flip;
        Ok(Desc(value?))
    }
}

macro_rules! unsigned_keys {
    ($($int:ty),+) => {$(
        impl Key for $int {
            fn encode_into(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
                Ok(<$int>::from_be_bytes(input.array()?))
            }
        }
    )+};
}

macro_rules! signed_keys {
    ($($int:ty),+) => {$(
        impl Key for $int {
            fn encode_into(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ <$int>::MIN).to_be_bytes());
            }
            fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
                Ok(<$int>::from_be_bytes(input.array()?) ^ <$int>::MIN)
            }
        }
    )+};
}

macro_rules! float_keys {
    ($($float:ty: $bits:ty),+) => {$(
        impl Key for $float {
            fn encode_into(&self, out: &mut Vec<u8>) {
                const SIGN: $bits = !(<$bits>::MAX >> 1);
                let bits = self.to_bits();
                let sorted = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                out.extend_from_slice(&sorted.to_be_bytes());
            }
            fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
                const SIGN: $bits = !(<$bits>::MAX >> 1);
                let sorted = <$bits>::from_be_bytes(input.array()?);
                let bits = if sorted & SIGN == 0 { !sorted } else { sorted & !SIGN };
                Ok(<$float>::from_bits(bits))
            }
        }
    )+};
}

unsigned_keys!(u8, u16, u32, u64, u128);
signed_keys!(i8, i16, i32, i64, i128);
float_keys!(f32: u32, f64: u64);

impl Key for bool {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(input.error(&format!("expected a bool (0 or 1), found {other}"))),
        }
    }
}

impl Key for char {
    fn encode_into(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode_into(out);
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        let code = u32::decode_from(input)?;
        char::from_u32(code)
            .ok_or_else(|| input.error(&format!("expected a character, found number {code}")))
    }
}

impl Key for Vec<u8> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        encode_bytes_into(self, out);
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        let mut bytes = Vec::new();
        loop {
            let byte = input.byte()?;
            if byte == 0 {
                match input.byte()? {
                    END => return Ok(bytes),
                    ESCAPED_ZERO => (),
                    other => {
                        return Err(
                            input.error(&format!("expected 1 or 255 after 0, found {other}"))
                        );
                    }
                }
            }
            bytes.push(byte);
        }
    }
}

impl Key for String {
    fn encode_into(&self, out: &mut Vec<u8>) {
        encode_str_into(self, out);
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        let bytes = Vec::<u8>::decode_from(input)?;
        String::from_utf8(bytes).map_err(|e| input.error(&format!("expected UTF-8: {e}")))
    }
}

impl<const N: usize> Key for [u8; N] {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        input.array()
    }
}

impl<T: Key> Key for Option<T> {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_into(out);
        }
    }

    fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
        match input.byte()? {
            0 => Ok(None),
            1 => Ok(Some(T::decode_from(input)?)),
            other => Err(input.error(&format!("expected an option (0 or 1), found {other}"))),
        }
    }
}

macro_rules! tuple_keys {
    ($(($($part:ident $place:tt),*)),+ $(,)?) => {$(
        impl<$($part: Key),*> Key for ($($part,)*) {
            #[allow(unused_variables)]
            fn encode_into(&self, out: &mut Vec<u8>) {
                $(self.$place.encode_into(out);)*
            }
            #[allow(unused_variables)]
            fn decode_from(input: &mut KeyReader<'_>) -> Result<Self> {
                Ok(($($part::decode_from(input)?,)*))
            }
        }
    )+};
}

tuple_keys!(
    (),
    (A 0),
    (A 0, B 1),
    (A 0, B 1, C 2),
    (A 0, B 1, C 2, D 3),
    (A 0, B 1, C 2, D 3, E 4),
    (A 0, B 1, C 2, D 3, E 4, F 5),
);

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    fn agree<K: Key + Ord + Debug>(a: &K, b: &K) {
        let (x, y) = (a.encode(), b.encode());
        assert_eq!(a.cmp(b), x.cmp(&y), "{a:?} and {b:?}");
        assert_eq!(&K::decode(&x).unwrap(), a);
        assert_eq!(&K::decode(&y).unwrap(), b);
        assert!(x == y || !y.starts_with(&x), "{a:?} is a prefix of {b:?}");
        for cut in 0..x.len() {
            assert!(K::decode(&x[..cut]).is_err(), "{a:?} cut at {cut}");
        }
    }

    /// Short strings over few byte values, so that prefixes, zeros and equal values are common.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(254), Just(255), any::<u8>()];
        proptest::collection::vec(byte, 0..5)
    }

    type Wide = (Vec<u8>, i16, Option<String>, Desc<Vec<u8>>, bool, Desc<(i8, Option<Desc<u8>>)>);

    fn wide() -> impl Strategy<Value = Wide> {
        let text = proptest::option::of("[\0a-b]{0,2}");
        let inner = (-1i8..2, proptest::option::of((0u8..2).prop_map(Desc))).prop_map(Desc);
        (bytes(), -1i16..2, text, bytes().prop_map(Desc), any::<bool>(), inner)
    }

    proptest! {
        #[test]
        fn integers_sort(
            a in any::<(u8, u16, u32, u64, u128, i8)>(),
            b in any::<(u8, u16, u32, u64, u128, i8)>(),
            c in any::<(i16, i32, i64, i128, char, bool)>(),
            d in any::<(i16, i32, i64, i128, char, bool)>(),
        ) {
            agree(&a, &b);
            agree(&c, &d);
            for (x, y) in [(a.3, b.3), (a.3, a.3.wrapping_add(1))] {
                agree(&(x as i64), &(y as i64));
                agree(&Desc(x), &Desc(y));
            }
        }

        #[test]
        fn floats_sort_as_total_order(a in any::<u64>(), b in any::<u64>()) {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            prop_assert_eq!(x.total_cmp(&y), x.encode().cmp(&y.encode()));
            prop_assert_eq!(f64::decode(&x.encode()).unwrap().to_bits(), a);
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            prop_assert_eq!(x.total_cmp(&y), x.encode().cmp(&y.encode()));
            prop_assert_eq!(f32::decode(&x.encode()).unwrap().to_bits(), a as u32);
        }

        #[test]
        fn strings_sort(a in bytes(), b in bytes(), s in ".*", t in ".*") {
            agree(&a, &b);
            agree(&Desc(a.clone()), &Desc(b.clone()));
            agree(&(a.clone(), b.clone()), &(b, a));
            agree(&s, &t);
        }

        #[test]
        fn tuples_sort(a in wide(), b in wide()) {
            agree(&a, &b);
            agree(&Desc(a), &Desc(b));
        }

        #[test]
        fn any_bytes_decode_or_fail(input in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(value) = Wide::decode(&input) {
                prop_assert_eq!(value.encode(), input);
            }
        }
    }

    #[test]
    fn boundary_values_sort() {
        let signed = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];
        let floats = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 1.5, f64::INFINITY];
        assert!(signed.map(|n| n.encode()).is_sorted());
        assert!(floats.map(|n| n.encode()).is_sorted());
        agree(&[1u8, 0, 255], &[1u8, 1, 0]);
        agree(&(), &());
    }

    #[test]
    fn malformed_key_error_names_position() {
        let error = <(u8, bool)>::decode(&[7, 2]).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("found 2 (at byte 2)"), "{error}");
        assert!(String::decode(&[0xc3, 0, 1]).is_err());
        assert!(Vec::<u8>::decode(&[0, 2]).is_err());
    }

    #[test]
    fn malformed_bytes_are_refused() {
        fn refused<K: Key + Debug>(bytes: &[u8], says: &str) {
            let error = K::decode(bytes).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        refused::<u8>(&[1, 2], "the end of the key, found 1 bytes");
        refused::<Option<u8>>(&[2, 0], "an option (0 or 1), found 2");
        refused::<char>(&0xd800u32.to_be_bytes(), "a character, found number 55296");
        assert!(Desc(1).partial_cmp(&Desc(2)).is_some_and(|o| o.is_gt()));
    }
}
