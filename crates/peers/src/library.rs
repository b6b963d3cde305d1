//! Loads shared libraries and resolves their functions.

use esker_lab::error::{LabError, LabErrorKind, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A library that stays loaded until the process ends.
#[derive(Clone, Copy)]
pub struct Loaded {
    library: &'static Library,
    /// Name or path under which it was loaded.
    pub origin: &'static str,
}

/// Loads the first available library of `names`. If none is available, the error names `package` to
/// install.
pub fn load_installed(names: &[&str], package: &str) -> Result<Loaded> {
    for name in names {
        if let Ok(library) = open(name) {
            return Ok(library);
        }
    }
    let message = format!("not installed: apt install {package}");
    Err(LabError::new(LabErrorKind::NotInstalled, message))
}

/// Returns the specification of an engine: `name`, or `name=path`.
pub fn spec(name: &str, path: Option<&str>) -> String {
    path.map_or_else(|| name.to_string(), |path| format!("{name}={path}"))
}

/// Loads the library at `path`.
pub fn load_path(path: &str) -> Result<Loaded> {
    let name = if path.contains('/') { path.to_string() } else { format!("./{path}") };
    open(&name).map_err(|why| {
        LabError::new(LabErrorKind::NotInstalled, format!("cannot load {path}: {why}"))
    })
}

fn open(name: &str) -> std::result::Result<Loaded, String> {
    // SAFETY: loading runs the library's initialisers. The user requested this library by name. Its
    // symbols stay local, so that they cannot replace those of another engine.
    let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| {
        std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string)
    })?;
    Ok(Loaded {
        library: Box::leak(Box::new(library)),
        origin: Box::leak(name.to_string().into_boxed_str()),
    })
}

impl Loaded {
    /// Returns whether the library exports a symbol with this name.
    pub fn exports(&self, name: &str) -> bool {
        // SAFETY: the address is only looked up, never used.
        unsafe { self.library.get::<*const ()>(name.as_bytes()) }.is_ok()
    }

    /// Returns the address of a function. Fails if the library does not export it.
    ///
    /// # Safety
    /// `T` must be the function's type, an `unsafe extern "C" fn` pointer.
    pub unsafe fn function<T: Copy>(&self, name: &str) -> Result<T> {
        // SAFETY: the caller guarantees the type; the library is never unloaded.
        let symbol = unsafe { self.library.get::<T>(name.as_bytes()) };
        symbol.map(|symbol| *symbol).map_err(|_| {
            LabError::new(
                LabErrorKind::NotInstalled,
                format!("{} does not export {name}", self.origin),
            )
        })
    }
}

/// Declares a table of a library's functions and its loader; `$prefix` precedes each name.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident : fn($($argument:ty),*) $(-> $output:ty)?),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $table { $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $output)?),+ }

        impl $table {
            /// Resolves every function, named `prefix` followed by the field's name.
            pub fn load(
                library: &$crate::library::Loaded,
                prefix: &str,
            ) -> esker_lab::error::Result<$table> {
                Ok($table {
                    // SAFETY: the types are those of the library's published C header.
                    $($name: unsafe { library.function(&format!("{prefix}{}", stringify!($name)))? }),+
                })
            }
        }
    };
}
pub(crate) use functions;

/// Returns memory freed by earlier engines to the operating system, if the C library supports it
/// (glibc).
pub fn trim_memory() {
    let this = Library::this();
    // SAFETY: glibc's `int malloc_trim(size_t)` may be called at any time.
    unsafe {
        if let Ok(trim) = this.get::<unsafe extern "C" fn(usize) -> i32>(b"malloc_trim") {
            trim(0);
        }
    }
}
