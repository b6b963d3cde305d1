//! Keys: decimal numbers padded with zeros, and buffers that hold keys in the order of use.
//!
//! A buffer is walked front to back, so fetching the next key costs no cache miss inside the clock.

/// Keys one after another in one allocation.
#[derive(Clone, Debug, Default)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBuffer {
    /// An empty buffer with room for `count` keys of about `key_bytes` each.
    pub fn with_capacity(count: usize, key_bytes: usize) -> KeyBuffer {
        KeyBuffer {
            bytes: Vec::with_capacity(count.saturating_mul(key_bytes)),
            ends: Vec::with_capacity(count),
        }
    }

    /// Appends a key made of `parts`.
    pub fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ends.push(self.bytes.len());
    }

    /// Appends the decimal text of `number`, padded with zeros to `width` bytes.
    pub fn push_number(&mut self, number: u64, width: usize) {
        push_padded(&mut self.bytes, number, width);
        self.ends.push(self.bytes.len());
    }

    /// Key number `index`; empty past the end.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }

    /// How many keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys.
    pub fn key_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()) as u64
    }
}

/// Appends `number` in decimal, padded with zeros on the left to `width` bytes.
pub fn push_padded(out: &mut Vec<u8>, number: u64, width: usize) {
    let start = out.len();
    let mut rest = number;
    loop {
        out.push(b'0' + (rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    while out.len() - start < width {
        out.push(b'0');
    }
    out[start..].reverse();
}

/// How many decimal digits `number` has.
pub fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_like_printf() {
        let mut keys = KeyBuffer::default();
        for number in [0u64, 7, 10, 999_999, u64::MAX] {
            keys.push_number(number, 16);
            assert_eq!(keys.get(keys.len() - 1), format!("{number:016}").as_bytes());
        }
        assert_eq!((digits(0), digits(9), digits(10)), (1, 1, 2));
        assert_eq!(keys.get(99), b"");
    }
}
