//! `rocksdb_sstfilewriter_*` and `rocksdb_ingest_external_file*`: sorted files made outside of a
//! store, which it ingests. The files are Esker's tables.
//!
//! Invariants:
//! 1. A file that was not finished is not ingested, and is removed with its writer.
//! 2. An option of an ingest that changes results and that Esker does not have makes the ingest fail.

use std::ffi::c_char;
use std::path::Path;

use esker::KeyOrder;
use esker::ingest::{IngestOptions, SortedWriter};
use esker_c::failure::{Failure, Outcome, there};
use esker_c::ffi;

use crate::db::rocksdb_column_family_handle_t;
use crate::failure::{kept, refusal};
use crate::objects::rocksdb_comparator_t;
use crate::options::{rocksdb_options_set_comparator, rocksdb_options_t};
use crate::settings::Settings;
use crate::slots;
use crate::store::{Family, rocksdb_t};

/// A writer of sorted files, one after the other.
pub struct rocksdb_sstfilewriter_t {
    options: rocksdb_options_t,
    /// The open file.
    file: Option<SortedWriter>,
    /// Length of the file that was finished last, in bytes.
    finished_bytes: u64,
}

type Writer<'a> = Option<&'a mut rocksdb_sstfilewriter_t>;

impl rocksdb_sstfilewriter_t {
    fn open(&mut self, path: &Path) -> Outcome<()> {
        if self.file.is_some() {
            return Err(Failure::invalid("the file before is not finished"));
        }
        let fs = self.options.fs();
        let mut made = self.options.store_options(&self.options, Vec::new())?;
        made.merge_operator = slots::operator_of_files(&self.options);
        // As in RocksDB, the file takes the place of an existing one.
        if fs.exists(path).unwrap_or(false) {
            fs.remove(path).map_err(|error| Failure {
                code: esker_c::failure::ESKER_IO,
                message: format!("{}: cannot replace the file: {error}", path.display()),
            })?;
        }
        self.file = Some(SortedWriter::create_on(fs, path, &made)?);
        Ok(())
    }

    fn file(&mut self) -> Outcome<&mut SortedWriter> {
        self.file.as_mut().ok_or_else(|| Failure::invalid("File is not opened"))
    }

    fn finish(&mut self) -> Outcome<()> {
        if self.file()?.entries() == 0 {
            return Err(Failure::invalid("Cannot create sst file with no entries"));
        }
        if let Some(file) = self.file.take() {
            self.finished_bytes = file.finish()?.bytes;
        }
        Ok(())
    }

    fn order(&self) -> KeyOrder {
        self.options.order()
    }
}

/// Creates a writer of files with the key order, the compression and the blocks of the options.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sstfilewriter_create(
    _env: Option<&Settings>,
    io_options: Option<&rocksdb_options_t>,
) -> Box<rocksdb_sstfilewriter_t> {
    let options = io_options.cloned().unwrap_or_default();
    Box::new(rocksdb_sstfilewriter_t { options, file: None, finished_bytes: 0 })
}

/// Does the same with another key order. NULL is the bytewise order.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sstfilewriter_create_with_comparator(
    env: Option<&Settings>,
    io_options: Option<&rocksdb_options_t>,
    comparator: Option<&rocksdb_comparator_t>,
) -> Box<rocksdb_sstfilewriter_t> {
    let mut writer = rocksdb_sstfilewriter_create(env, io_options);
    rocksdb_options_set_comparator(Some(&mut writer.options), comparator);
    writer
}

/// Frees a writer. An unfinished file is removed.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sstfilewriter_destroy(writer: Option<Box<rocksdb_sstfilewriter_t>>) {
    let _ = esker_c::failure::attempt(|| {
        drop(writer);
        Ok(())
    });
}

/// Begins a file. An existing file of this name is replaced.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_open(
    writer: Writer<'_>,
    name: *const c_char,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for strings and error texts.
    unsafe {
        kept(errptr, || there(writer, "writer of files")?.open(ffi::path(name)?));
    }
}

/// Adds a pair. Its key must be after all keys of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_put(
    writer: Writer<'_>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let (key, value) = (ffi::bytes(key, keylen, "key")?, ffi::bytes(val, vallen, "value")?);
            Ok(there(writer, "writer of files")?.file()?.put(key, value)?)
        });
    }
}

/// Adds a pair, as `rocksdb_sstfilewriter_put` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_add(
    writer: Writer<'_>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the same contract.
    unsafe { rocksdb_sstfilewriter_put(writer, key, keylen, val, vallen, errptr) }
}

/// Adds an operand. A file with operands can be ingested into the default column family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_merge(
    writer: Writer<'_>,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, keylen, "key")?;
            let operand = ffi::bytes(val, vallen, "operand")?;
            Ok(there(writer, "writer of files")?.file()?.merge(key, operand)?)
        });
    }
}

/// Adds a delete: the ingest deletes the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_delete(
    writer: Writer<'_>,
    key: *const c_char,
    keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let key = ffi::bytes(key, keylen, "key")?;
            Ok(there(writer, "writer of files")?.file()?.delete(key)?)
        });
    }
}

/// Fails: files have no range deletes. Bounds in the wrong order are an invalid argument.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_delete_range(
    writer: Writer<'_>,
    begin_key: *const c_char,
    begin_keylen: usize,
    end_key: *const c_char,
    end_keylen: usize,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for buffers and error texts.
    unsafe {
        kept(errptr, || {
            let begin = ffi::bytes(begin_key, begin_keylen, "begin key")?;
            let end = ffi::bytes(end_key, end_keylen, "end key")?;
            if there(writer, "writer of files")?.order().compare(begin, end).is_gt() {
                return Err(Failure::invalid("end key comes before start key"));
            }
            let why = "Esker's files have no range deletes; delete the range in the store";
            Err::<(), _>(refusal("rocksdb_sstfilewriter_delete_range", why))
        });
    }
}

/// Completes the file and makes it durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_sstfilewriter_finish(
    writer: Writer<'_>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for error texts.
    unsafe {
        kept(errptr, || there(writer, "writer of files")?.finish());
    }
}

/// Stores the length of the open file so far, or of the finished file, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rocksdb_sstfilewriter_file_size(
    writer: Option<&rocksdb_sstfilewriter_t>,
    file_size: Option<&mut u64>,
) {
    if let (Some(writer), Some(file_size)) = (writer, file_size) {
        let open = writer.file.as_ref().map(SortedWriter::estimated_bytes);
        *file_size = open.unwrap_or(writer.finished_bytes);
    }
}

/// Ingests files into a column family, all of them at once.
///
/// # Safety
/// The list has `len` strings.
unsafe fn ingest(
    family: &Family,
    list: *const *const c_char,
    len: usize,
    options: Option<&Settings>,
) -> Outcome<()> {
    let options = there(options, "options of the ingest")?;
    options.check()?;
    if options.flag("ingest_behind") {
        let why = "Esker ingests above what is there, not behind it";
        return Err(refusal("rocksdb_ingestexternalfileoptions_set_ingest_behind", why));
    }
    // SAFETY: guaranteed by the caller.
    let files = unsafe {
        let list = ffi::array(list, len, "files")?;
        list.iter().map(|name| ffi::path(*name)).collect::<Outcome<Vec<_>>>()?
    };
    if files.is_empty() {
        return Err(Failure::invalid("the list of external files is empty"));
    }
    let is_moved = options.flag("move_files") || options.flag("link_files");
    let verify = options.flag("verify_checksums_before_ingest");
    let how = IngestOptions::default().copy(!is_moved).verify(verify);
    family.keyspace().ingest(&files, &how)?;
    Ok(())
}

/// Ingests files of this library into the default column family, all of them at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingest_external_file(
    db: Option<&rocksdb_t>,
    file_list: *const *const c_char,
    list_len: usize,
    options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays, strings and error texts.
    unsafe {
        kept(errptr, || ingest(&rocksdb_t::writable(db)?.default, file_list, list_len, options));
    }
}

/// Ingests files of this library into a column family, all of them at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocksdb_ingest_external_file_cf(
    db: Option<&rocksdb_t>,
    handle: Option<&rocksdb_column_family_handle_t>,
    file_list: *const *const c_char,
    list_len: usize,
    options: Option<&Settings>,
    errptr: Option<&mut *mut c_char>,
) {
    // SAFETY: the caller meets RocksDB's contract for arrays, strings and error texts.
    unsafe {
        kept(errptr, || {
            rocksdb_t::writable(db)?;
            let family = rocksdb_column_family_handle_t::of(handle)?;
            ingest(family, file_list, list_len, options)
        });
    }
}
