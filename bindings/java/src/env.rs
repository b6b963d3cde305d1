//! Arguments, results and exceptions of one call from Java.
//!
//! Invariants:
//! 1. No call of the engine runs while an array of Java is held.
//! 2. After a failure the exception is pending, and the result is zero or null.
//! 3. Texts are arrays of bytes in UTF-8, because Java's own encoding for native code differs.

use std::any::Any;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::{Error, ErrorKind};
use jni_sys::{JNIEnv, jbyteArray, jint, jlong, jlongArray, jobject, jsize};

/// Bytes of an argument that need no allocation.
const INLINE_BYTES: usize = 512;
/// The kind of an error that is a defect of Esker.
const INTERNAL: &str = "internal";

/// Why a call throws.
pub struct Failure {
    kind: &'static str,
    message: String,
    path: String,
    offset_bytes: i64,
}

/// The result of a call.
pub type Outcome<T> = Result<T, Failure>;

impl Failure {
    fn new(kind: &'static str, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into(), path: String::new(), offset_bytes: -1 }
    }

    /// Returns the failure of an invalid argument.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::InvalidArgument.name(), message)
    }

    /// Returns the failure of a call on a closed object.
    pub fn closed(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::Closed.name(), message)
    }

    fn of_panic(panic: &(dyn Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Failure::new(INTERNAL, format!("Esker has panicked, which is a defect of Esker: {text}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            kind: error.kind().name(),
            message: error.to_string(),
            path: error.path().map(|path| path.display().to_string()).unwrap_or_default(),
            offset_bytes: error.offset_bytes().map_or(-1, |offset| offset as i64),
        }
    }
}

/// The interface to the virtual machine during one call.
#[derive(Clone, Copy)]
pub struct Env(*mut JNIEnv);

/// Bytes of an argument: a copy.
pub struct Bytes {
    inline: [MaybeUninit<u8>; INLINE_BYTES],
    long: Vec<u8>,
    len: usize,
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.len > INLINE_BYTES {
            return &self.long;
        }
        // SAFETY: `Env::bytes` has set the first `len` bytes.
        unsafe { std::slice::from_raw_parts(self.inline.as_ptr().cast(), self.len) }
    }
}

/// Calls a function of the virtual machine.
macro_rules! jni {
    ($env:expr, $version:ident.$name:ident $(, $argument:expr)*) => {
        ((**$env.0).$version.$name)($env.0 $(, $argument)*)
    };
}

impl Env {
    /// Copies `len` bytes of an array from `offset` on. Java has checked that they exist.
    #[inline]
    pub fn bytes(self, array: jbyteArray, offset: jint, len: jint) -> Outcome<Bytes> {
        let count = usize::try_from(len).unwrap_or(0);
        let mut bytes = Bytes {
            inline: [const { MaybeUninit::uninit() }; INLINE_BYTES],
            long: Vec::new(),
            len: count,
        };
        if count == 0 {
            return Ok(bytes);
        }
        if array.is_null() {
            return Err(Failure::invalid("an array is null"));
        }
        let to = match count > INLINE_BYTES {
            true => {
                bytes.long.resize(count, 0);
                bytes.long.as_mut_ptr().cast()
            }
            false => bytes.inline.as_mut_ptr().cast(),
        };
        // SAFETY: `to` has room for `count` bytes. The virtual machine checks the range, and throws.
        unsafe {
            jni!(self, v1_1.GetByteArrayRegion, array, offset, count as jsize, to);
            if count > 0 && jni!(self, v1_2.ExceptionCheck) {
                bytes.len = 0;
                return Err(Failure::invalid("a range is outside of its array"));
            }
        }
        Ok(bytes)
    }

    /// Copies an array. A null array is `None`.
    #[inline]
    pub fn whole(self, array: jbyteArray) -> Outcome<Option<Bytes>> {
        if array.is_null() {
            return Ok(None);
        }
        // SAFETY: the array is not null.
        let len = unsafe { jni!(self, v1_1.GetArrayLength, array) };
        self.bytes(array, 0, len).map(Some)
    }

    /// Returns the text of an array.
    pub fn text(self, array: jbyteArray) -> Outcome<String> {
        let bytes = self.whole(array)?.ok_or_else(|| Failure::invalid("a text is null"))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| Failure::invalid("a text is not UTF-8"))
    }

    /// Returns the texts of an array of packed items.
    pub fn texts(self, array: jbyteArray) -> Outcome<Vec<String>> {
        let Some(bytes) = self.whole(array)? else { return Ok(Vec::new()) };
        let text = |item: &[u8]| {
            String::from_utf8(item.to_vec()).map_err(|_| Failure::invalid("a text is not UTF-8"))
        };
        items(&bytes)?.into_iter().map(text).collect()
    }

    /// Calls `read` with the bytes of an array. `read` must be short and call no function of Java.
    pub fn with_held<R>(
        self,
        array: jbyteArray,
        len: jint,
        read: impl FnOnce(&[u8]) -> Outcome<R>,
    ) -> Outcome<R> {
        let len = usize::try_from(len).unwrap_or(0);
        if len == 0 {
            return read(&[]);
        }
        // SAFETY: the array is released before any other call, also if `read` panics. Java has
        // checked the length, and changes no byte of a batch during a call.
        unsafe {
            if array.is_null() || (jni!(self, v1_1.GetArrayLength, array) as usize) < len {
                return Err(Failure::invalid("a range is outside of its array"));
            }
            let start = jni!(self, v1_2.GetPrimitiveArrayCritical, array, std::ptr::null_mut());
            if start.is_null() {
                return Err(Failure::new(INTERNAL, "the virtual machine has no memory"));
            }
            let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
            let outcome = catch_unwind(AssertUnwindSafe(|| read(bytes)));
            jni!(self, v1_2.ReleasePrimitiveArrayCritical, array, start, jni_sys::JNI_ABORT);
            outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)))
        }
    }

    /// Returns a new array of bytes; null, with a pending exception, if memory is exhausted.
    #[inline]
    pub fn give_bytes(self, bytes: &[u8]) -> jbyteArray {
        let Ok(len) = jsize::try_from(bytes.len()) else {
            let text = format!("{} bytes do not fit into an array of Java", bytes.len());
            self.throw(&Failure::invalid(text));
            return std::ptr::null_mut();
        };
        // SAFETY: the new array has `len` bytes.
        unsafe {
            let array = jni!(self, v1_1.NewByteArray, len);
            if !array.is_null() {
                jni!(self, v1_1.SetByteArrayRegion, array, 0, len, bytes.as_ptr().cast());
            }
            array
        }
    }

    /// Copies `bytes` to the start of `array`, which Java has made large enough.
    #[inline]
    pub fn fill(self, array: jbyteArray, bytes: &[u8]) {
        // SAFETY: the virtual machine checks the range, and throws.
        unsafe {
            let len = bytes.len() as jsize;
            jni!(self, v1_1.SetByteArrayRegion, array, 0, len, bytes.as_ptr().cast());
        }
    }

    /// Returns a new array of numbers.
    pub fn give_longs(self, numbers: &[i64]) -> jlongArray {
        // SAFETY: the new array has as many numbers.
        unsafe {
            let len = numbers.len() as jsize;
            let array = jni!(self, v1_1.NewLongArray, len);
            if !array.is_null() {
                jni!(self, v1_1.SetLongArrayRegion, array, 0, len, numbers.as_ptr());
            }
            array
        }
    }

    /// Returns the numbers of an array; none for null.
    pub fn longs(self, array: jlongArray) -> Vec<jlong> {
        if array.is_null() {
            return Vec::new();
        }
        // SAFETY: the vector has as many numbers as the array.
        unsafe {
            let len = jni!(self, v1_1.GetArrayLength, array);
            let mut numbers = vec![0; len as usize];
            jni!(self, v1_1.GetLongArrayRegion, array, 0, len, numbers.as_mut_ptr());
            numbers
        }
    }

    /// Throws an `EskerException`. An exception that is pending remains.
    #[cold]
    fn throw(self, failure: &Failure) {
        // SAFETY: names and signature are those of the class. Each null has a pending exception.
        unsafe {
            if jni!(self, v1_2.ExceptionCheck) {
                return;
            }
            let class = jni!(self, v1_1.FindClass, c"dev/esker/EskerException".as_ptr());
            if class.is_null() {
                return;
            }
            let (name, signature) = (c"<init>".as_ptr(), c"([B[B[BJ)V".as_ptr());
            let constructor = jni!(self, v1_1.GetMethodID, class, name, signature);
            let kind = self.give_bytes(failure.kind.as_bytes());
            let message = self.give_bytes(failure.message.as_bytes());
            let path = self.give_bytes(failure.path.as_bytes());
            if constructor.is_null() || kind.is_null() || message.is_null() || path.is_null() {
                return;
            }
            let arguments = [
                jni_sys::jvalue { l: kind },
                jni_sys::jvalue { l: message },
                jni_sys::jvalue { l: path },
                jni_sys::jvalue { j: failure.offset_bytes },
            ];
            let thrown: jobject =
                jni!(self, v1_1.NewObjectA, class, constructor, arguments.as_ptr());
            if !thrown.is_null() {
                jni!(self, v1_1.Throw, thrown);
            }
        }
    }
}

/// Returns the items of a packed array: each is a length of 4 bytes, little-endian, and as many
/// bytes.
pub fn items(mut bytes: &[u8]) -> Outcome<Vec<&[u8]>> {
    let mut items = Vec::new();
    while !bytes.is_empty() {
        items.push(item(&mut bytes)?);
    }
    Ok(items)
}

/// Takes one item from the start of a packed array.
#[inline]
pub fn item<'a>(bytes: &mut &'a [u8]) -> Outcome<&'a [u8]> {
    let torn = || Failure::invalid("a packed array is torn");
    let (len, rest) = bytes.split_first_chunk().ok_or_else(torn)?;
    let (item, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(torn)?;
    *bytes = rest;
    Ok(item)
}

/// Appends one item to a packed array.
pub fn pack(out: &mut Vec<u8>, item: &[u8]) {
    out.extend_from_slice(&(item.len() as u32).to_le_bytes());
    out.extend_from_slice(item);
}

/// Runs the body of a function, and throws its failure.
///
/// # Safety
/// `raw` is the interface that the virtual machine passed to the running function.
#[inline]
pub unsafe fn run<T>(raw: *mut JNIEnv, none: T, body: impl FnOnce(Env) -> Outcome<T>) -> T {
    let env = Env(raw);
    let failure = match catch_unwind(AssertUnwindSafe(|| body(env))) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::of_panic(&*panic),
    };
    env.throw(&failure);
    none
}

/// Declares functions of the class `Native`. Each has the owner of its handles as an argument, so
/// that the garbage collector keeps the owner during the call.
macro_rules! natives {
    ($( $(#[$doc:meta])* fn $name:ident($env:ident $(, $argument:ident: $type:ty)* $(,)?)
        -> $result:ty, $none:expr; $body:block )+) => { $(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, clippy::unit_arg)]
        pub extern "system" fn $name(
            raw: *mut jni_sys::JNIEnv,
            _class: jni_sys::jclass,
            _owner: jni_sys::jobject
            $(, $argument: $type)*
        ) -> $result {
            // SAFETY: the virtual machine calls this function, with its interface.
            unsafe { $crate::env::run(raw, $none, |$env: $crate::env::Env| {
                let _ = $env;
                $body
            }) }
        }
    )+ };
}
pub(crate) use natives;
