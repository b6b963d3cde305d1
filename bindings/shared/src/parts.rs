//! Byte strings as C takes them: an array of their starts and an array of their lengths.

/// Returns the starts and the lengths of `parts`. `T` is C's type of a byte. The pointers are valid
/// as long as the parts.
pub fn starts_and_lengths<T>(parts: &[&[u8]]) -> (Vec<*const T>, Vec<usize>) {
    const { assert!(size_of::<T>() == 1) };
    parts.iter().map(|part| (part.as_ptr().cast(), part.len())).unzip()
}
