//! Keys: decimal numbers padded with zeros, and buffers with keys in the order of use.
//!
//! A buffer is read front to back, so fetching the next key costs no cache miss in the measured
//! time.

/// Keys stored consecutively in one allocation.
#[derive(Clone, Debug, Default)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBuffer {
    /// Creates an empty buffer with capacity for `count` keys of about `key_bytes` each.
    pub fn with_capacity(count: usize, key_bytes: usize) -> KeyBuffer {
        KeyBuffer {
            bytes: Vec::with_capacity(count.saturating_mul(key_bytes)),
            ends: Vec::with_capacity(count),
        }
    }

    /// Appends a key composed of `parts`.
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

    /// Returns the key at `index`; empty past the end.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the buffer has no key.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all keys.
    pub fn key_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the memory used, in bytes.
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

/// Returns the number of decimal digits of `number`.
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
