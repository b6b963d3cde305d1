//! Merge operators: functions that make a value of an older value and operands.
//!
//! Invariants: a panic or a failure of an operator is an error of the call. It changes nothing. The
//! operands stay as they were written.

use std::sync::Arc;

use super::key::VALUE_BYTES_MAX;
use super::panics::catch_panic;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of bytes of a key in a message.
const SHOWN_KEY_BYTES_MAX: usize = 64;

/// A merge operator: makes the value of a key from an older value and the operands that were merged
/// into it since.
///
/// A merge writes only its operand. The operands meet the older value when the key is read, or in a
/// flush or compaction, so a merge is as quick as a put. Every read, flush and compaction of a key
/// may call the operator, in any grouping of the operands that keeps their order. The result must
/// not depend on the grouping. It should depend on nothing but the arguments. An operator that
/// answers differently each time gives values that change, but damages nothing.
///
/// The operator runs on threads of the store and within reads, some of which hold the store's
/// locks. It must not use the store, and must end. A failure or a panic within a read is an error
/// of the read. Within a flush or a compaction it leaves the operands as they are, and
/// [`Metrics::callback_problem`](crate::Metrics::callback_problem) has the message.
///
/// ```
/// # fn main() -> esker::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::Arc;
///
/// use esker::{Db, MergeOperator, Options};
///
/// /// Keeps the longest value.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "example.Longest"
///     }
///     fn full_merge(
///         &self,
///         _key: &[u8],
///         existing: Option<&[u8]>,
///         operands: &[&[u8]],
///         out: &mut Vec<u8>,
///     ) -> Result<(), String> {
///         let all = existing.into_iter().chain(operands.iter().copied());
///         out.extend_from_slice(all.max_by_key(|value| value.len()).unwrap_or_default());
///         Ok(())
///     }
/// }
///
/// let options = Options { merge_operator: Some(Arc::new(Longest)), ..Options::default() };
/// let db = Db::open(dir.path().join("db"), options)?;
/// db.merge("name", "Ada")?;
/// db.merge("name", "Grace")?;
/// assert_eq!(&*db.get("name")?.unwrap(), b"Grace");
/// # Ok(())
/// # }
/// ```
pub trait MergeOperator: Send + Sync + 'static {
    /// Returns a permanent name of the operator, of at most 255 bytes. The store keeps it with the
    /// operands, and finds the operator by it when the store is opened.
    fn name(&self) -> &str;
    /// Appends to `out`, which is empty, the value of `key` after `operands` were merged into
    /// `existing`, oldest operand first. There is at least one operand. `existing` is `None` if the
    /// key did not exist or had expired.
    ///
    /// # Errors
    /// A sentence that says why there is no such value. It becomes an error of each read of the
    /// key, until the key is put or deleted or another operand changes the result.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), String>;
    /// Appends to `out`, which is empty, one operand that has the effect of `operands`, oldest
    /// first, of which there are at least two. Returns `false` if there is none. Without this
    /// function the operands of a key are kept until a compaction reaches the value below them.
    /// Default: `false`.
    fn partial_merge(&self, _key: &[u8], _operands: &[&[u8]], _out: &mut Vec<u8>) -> bool {
        false
    }
    /// Checks an operand before it is written. Default: every operand is accepted.
    ///
    /// # Errors
    /// A sentence that says why the operand is refused. The merge returns it.
    fn check_operand(&self, _operand: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }
}

/// The merge operator of a keyspace. Its code may be missing.
#[derive(Clone)]
pub struct NamedOperator {
    name: Arc<str>,
    operator: Option<Arc<dyn MergeOperator>>,
}

impl NamedOperator {
    /// Wraps an operator.
    pub fn new(operator: Arc<dyn MergeOperator>) -> NamedOperator {
        NamedOperator { name: Arc::from(operator.name()), operator: Some(operator) }
    }

    /// Creates an operator of which only the name is known.
    pub fn missing(name: &str) -> NamedOperator {
        NamedOperator { name: Arc::from(name), operator: None }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the code of the operator is present.
    pub fn is_known(&self) -> bool {
        self.operator.is_some()
    }

    /// Checks an operand before it is written.
    ///
    /// # Errors
    /// `Incompatible` when the operator is missing, `InvalidArgument` when it refuses the operand.
    pub fn check_operand(&self, operand: &[u8]) -> Result<()> {
        let operator = self.operator()?;
        let checked = catch_panic(|| operator.check_operand(operand));
        checked.unwrap_or_else(|cause| Err(format!("it panicked ({cause})"))).map_err(|why| {
            Error::invalid(format!("the merge operator {:?} refuses the operand: {why}", self.name))
        })
    }

    /// Writes to `out` the value of `key` after `operands`, oldest first, were merged into
    /// `existing`.
    ///
    /// # Errors
    /// `Incompatible` when the operator is missing, `InvalidArgument` when it fails or panics.
    pub fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let operator = self.operator()?;
        out.clear();
        match catch_panic(|| operator.full_merge(key, existing, operands, out)) {
            Ok(Ok(())) if out.len() <= VALUE_BYTES_MAX => Ok(()),
            Ok(Ok(())) => {
                let bytes = out.len();
                Err(self.failed(key, &format!("the value has {bytes} bytes; the maximum is 1 GiB")))
            }
            Ok(Err(why)) => Err(self.failed(key, &why)),
            Err(cause) => Err(self.failed(key, &format!("it panicked ({cause})"))),
        }
    }

    /// Writes to `out` one operand that has the effect of `operands`, oldest first. Returns `false`
    /// if there is none.
    ///
    /// # Errors
    /// `Incompatible` when the operator is missing, `InvalidArgument` when it panics.
    pub fn partial_merge(&self, key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> Result<bool> {
        let operator = self.operator()?;
        out.clear();
        let combined = catch_panic(|| operator.partial_merge(key, operands, out));
        let combined =
            combined.map_err(|cause| self.failed(key, &format!("it panicked ({cause})")))?;
        Ok(combined && out.len() <= VALUE_BYTES_MAX)
    }

    fn operator(&self) -> Result<&dyn MergeOperator> {
        self.operator.as_deref().ok_or_else(|| {
            let message = format!(
                "the merge operator {:?} is missing; give it in `Options::merge_operator` for the \
                 default keyspace and in `Options::merge_operators` for the others{}",
                self.name,
                if &*self.name == "json_patch" {
                    ", or build with the feature \"json\""
                } else {
                    ""
                }
            );
            Error::new(ErrorKind::Incompatible, message)
        })
    }

    fn failed(&self, key: &[u8], why: &str) -> Error {
        let shown = key[..key.len().min(SHOWN_KEY_BYTES_MAX)].escape_ascii();
        let name = &self.name;
        Error::invalid(format!("the merge operator {name:?} failed on the key \"{shown}\": {why}"))
    }
}

impl std::fmt::Debug for NamedOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NamedOperator({:?}, known: {})", self.name, self.is_known())
    }
}

#[cfg(all(test, not(esker_shuttle)))]
mod tests {
    use super::*;

    /// Does what its operand says.
    struct Obedient;

    impl MergeOperator for Obedient {
        fn name(&self) -> &str {
            "test.Obedient"
        }
        fn full_merge(
            &self,
            _key: &[u8],
            existing: Option<&[u8]>,
            operands: &[&[u8]],
            out: &mut Vec<u8>,
        ) -> std::result::Result<(), String> {
            match operands[0] {
                b"panic" => panic!("as told"),
                b"fail" => Err("it has no value".to_string()),
                operand => {
                    out.extend_from_slice(existing.unwrap_or(b"none"));
                    out.extend_from_slice(operand);
                    Ok(())
                }
            }
        }
        fn partial_merge(&self, _key: &[u8], operands: &[&[u8]], out: &mut Vec<u8>) -> bool {
            assert!(operands[0] != b"panic", "as told");
            out.extend_from_slice(&operands.concat());
            operands[0] != b"apart"
        }
        fn check_operand(&self, operand: &[u8]) -> std::result::Result<(), String> {
            assert!(operand != b"panic", "as told");
            if operand == b"bad" { Err("it is bad".to_string()) } else { Ok(()) }
        }
    }

    #[test]
    fn failures_and_panics_are_errors_that_name_the_operator_and_the_key() {
        let operator = NamedOperator::new(Arc::new(Obedient));
        let mut out = b"old".to_vec();
        operator.full_merge(b"k", Some(b"1"), &[b"2"], &mut out).unwrap();
        assert_eq!(out, b"12");
        operator.full_merge(b"k", None, &[b"2"], &mut out).unwrap();
        assert_eq!(out, b"none2");
        for (operand, why) in [(&b"panic"[..], "as told"), (&b"fail"[..], "it has no value")] {
            let error = operator.full_merge(b"k\0", None, &[operand], &mut out).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            for part in ["test.Obedient", "k\\x00", why] {
                assert!(error.message().contains(part), "{error}");
            }
        }
        assert!(operator.partial_merge(b"k", &[b"1", b"2"], &mut out).unwrap());
        assert_eq!(out, b"12");
        assert!(!operator.partial_merge(b"k", &[b"apart", b"2"], &mut out).unwrap());
        assert!(operator.partial_merge(b"k", &[b"panic", b"2"], &mut out).is_err());
        operator.check_operand(b"good").unwrap();
        for operand in [&b"bad"[..], b"panic"] {
            let error = operator.check_operand(operand).unwrap_err();
            assert!(error.message().contains("test.Obedient"), "{error}");
        }
    }

    #[test]
    fn a_missing_operator_is_named() {
        let operator = NamedOperator::missing("example.Gone");
        assert!(!operator.is_known());
        let mut out = Vec::new();
        let errors = [
            operator.check_operand(b"1").unwrap_err(),
            operator.full_merge(b"k", None, &[b"1"], &mut out).unwrap_err(),
            operator.partial_merge(b"k", &[b"1", b"2"], &mut out).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            assert!(error.message().contains("example.Gone"), "{error}");
        }
    }
}
