//! Files of an ingest: their checks, and their way into the directory of the store.
//!
//! Invariants:
//! 1. All files are checked before any is linked, copied or rewritten.
//! 2. A file that an ingest has used before is copied. Its bytes may still be a table of this or
//!    another store, and a new stamp would change that table.
//! 3. The old names are removed after the new ones are in the manifest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bulk_load::TableLoader;
use super::install::{Installed, Refused};
use super::{Destination, IngestOptions, IngestReport, shown};
use crate::base::key::Kind;
use crate::base::order::KeyOrder;
use crate::base::sync::atomic::Ordering;
use crate::db::backup::copy;
use crate::db::backup::place::refuse_inside_a_store;
use crate::db::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{absolute, sync_dir};
use crate::table::{External, ReadConfig, Table, TableInfo, TableSource, is_stamped};
use crate::tree::names;
use crate::tree::output::NewFile;

/// A file of an ingest that has passed its checks.
struct SourceFile {
    /// The path that the caller gave, made absolute.
    named: PathBuf,
    /// The file itself, without links.
    path: PathBuf,
    info: TableInfo,
    external: External,
}

impl Destination<'_> {
    /// Ingests files.
    pub(super) fn ingest<P: AsRef<Path>>(
        &self,
        paths: &[P],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        let tree = self.tree();
        let mut sources = Vec::with_capacity(paths.len());
        for path in paths {
            sources.push(self.examine(&tree, path.as_ref(), options.verify)?);
        }
        let order = &tree.user_order;
        sources.sort_by(|a, b| order.compare(&a.info.smallest, &b.info.smallest));
        let filled: Vec<&SourceFile> =
            sources.iter().filter(|file| file.info.entries > 0).collect();
        check_apart(order, &filled)?;
        let ingested = match (filled.is_empty(), self.own) {
            (true, _) => Ok(IngestReport::default()),
            (false, None) => self.take_over(&tree, &filled, options),
            (false, Some(_)) => self.rewrite(&filled),
        };
        self.inner.deliver_events();
        let report = ingested?;
        if !options.copy {
            for source in &sources {
                // The pairs are in the store, whatever becomes of the old names.
                let _ = self.inner.fs.remove(&source.path);
                if source.named != source.path {
                    let _ = self.inner.fs.remove(&source.named);
                }
            }
        }
        Ok(report)
    }

    /// Checks one file.
    fn examine(&self, tree: &Tree, named: &Path, verify: bool) -> Result<SourceFile> {
        let fs = &self.inner.fs;
        let named = absolute(&**fs, named)?;
        let path = fs.resolve(&named).map_err(|e| Error::io(&named, "open", e))?;
        let dir = path.parent().unwrap_or(&path);
        refuse_inside_a_store(&**fs, dir, "the file to ingest")?;
        let table = self.open(tree, &path)?;
        let external = table.external()?.clone();
        let info = table.info();
        if table.tree() != 0 || info.range_deletes > 0 || !info.values.is_empty() {
            let message = "expected a table that a SortedWriter made, found one of a keyspace of a \
                           store";
            return Err(Error::invalid(message).with_path(&path));
        }
        self.check_operator(&external).map_err(|error| error.with_path(&path))?;
        if verify {
            table.check()?;
        }
        Ok(SourceFile { named, info: table.info().clone(), path, external })
    }

    /// Opens a file as a table whose entries have no sequence number yet.
    fn open(&self, tree: &Tree, path: &Path) -> Result<Arc<Table>> {
        let fs = &self.inner.fs;
        let identity = Table::identify(&**fs, path).map_err(|error| match error.kind() {
            ErrorKind::Corruption => {
                let message = format!(
                    "{}; this is not a finished table: call `SortedWriter::finish`, or write the \
                     file again",
                    error.message()
                );
                Error::corruption(path, error.offset_bytes().unwrap_or(0), message)
            }
            _ => error,
        })?;
        let source = TableSource {
            fs: fs.clone(),
            path: path.to_path_buf(),
            file_number: 0,
            table_id: identity.table_id,
            size_bytes: identity.size_bytes,
            ingested: Some(0),
        };
        let order = tree.user_order.clone();
        let config = ReadConfig { order, ..tree.tables.config().of_other_file() };
        Table::open(source, &config).map(Arc::new)
    }

    /// Refuses operands of another merge operator.
    fn check_operator(&self, external: &External) -> Result<()> {
        let wanted = &external.merge_operator;
        let own = self.rules().operator.as_ref().map(|operator| operator.name());
        if wanted.is_empty() || own == Some(wanted) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the file has operands of the merge operator {wanted:?}, and the keyspace \"{}\" has {}",
            self.name(),
            own.map_or("no merge operator".to_string(), |own| format!(
                "the merge operator {own:?}"
            ))
        )))
    }

    /// Brings the files into the directory as they are, and installs them.
    fn take_over(
        &self,
        tree: &Arc<Tree>,
        sources: &[&SourceFile],
        options: &IngestOptions,
    ) -> Result<IngestReport> {
        let mut files: Vec<NewFile> = Vec::with_capacity(sources.len());
        let brought = sources.iter().try_for_each(|source| {
            let number = self.inner.numbers.fetch_add(1, Ordering::Relaxed);
            let info = source.info.clone();
            files.push(NewFile { number, info, hi: None, value_bytes: 0 });
            self.bring(source, &names::table_path(&self.inner.dir, number), options.copy)
        });
        let brought = brought.and_then(|()| sync_dir(&*self.inner.fs, &self.inner.dir));
        if let Err(error) = brought {
            self.remove(&files);
            return Err(error);
        }
        self.install(tree, files)
    }

    /// Links or copies a file to `to`, durably but for its name.
    fn bring(&self, source: &SourceFile, to: &Path, is_copy: bool) -> Result<()> {
        let fs = &*self.inner.fs;
        let links = !is_copy && !is_stamped(fs, &source.path, &source.info)?;
        let linked = links && fs.hard_link(&source.path, to).is_ok();
        match linked.then(|| fs.open_write(to)) {
            // The file may have been copied to its place without a sync.
            Some(Ok(mut file)) => file.sync().map_err(|e| Error::io(to, "sync", e))?,
            unwritable => {
                if unwritable.is_some() {
                    fs.remove(to).map_err(|e| Error::io(to, "remove a link", e))?;
                }
                copy(fs, &source.path, to, source.info.size_bytes)?;
            }
        }
        // The name may have become that of another file since the check.
        let found = Table::identify(fs, to)?;
        let (id, size_bytes) = (source.info.table_id, source.info.size_bytes);
        if (found.table_id, found.size_bytes) == (id, size_bytes) {
            return Ok(());
        }
        let message = "the file was replaced by another one during the ingest";
        Err(Error::invalid(message).with_path(&source.named))
    }

    /// Writes the entries of the files as tables with the prefix of the keyspace, and installs them.
    fn rewrite(&self, sources: &[&SourceFile]) -> Result<IngestReport> {
        let merging = sources.iter().find(|file| !file.external.merge_operator.is_empty());
        let external = merging.map_or_else(External::default, |file| file.external.clone());
        let mut loader = TableLoader::new(self, external);
        let tree = self.tree();
        for source in sources {
            let table = self.open(&tree, &source.path)?;
            let mut added = Ok(());
            for block in 0..table.block_count() {
                table.visit_block(block, &mut |key, _, kind: Kind, value| {
                    if added.is_ok() {
                        added = loader.add_entry(key, kind, value);
                    }
                })?;
                std::mem::replace(&mut added, Ok(()))?;
            }
        }
        self.install(&tree, loader.finish()?)
    }

    /// Installs tables in the directory, and removes them if that fails.
    pub(super) fn install(&self, tree: &Arc<Tree>, files: Vec<NewFile>) -> Result<IngestReport> {
        self.try_install(tree, files).map_err(|refused| refused.error)
    }

    /// Does the same, and says whether the manifest may have the tables after an error.
    pub(super) fn try_install(
        &self,
        tree: &Arc<Tree>,
        files: Vec<NewFile>,
    ) -> std::result::Result<IngestReport, Refused> {
        if files.is_empty() {
            return Ok(IngestReport::default());
        }
        let state = self.own.map(|own| &*own.state);
        match self.inner.install_ingested(tree, state, &files) {
            Ok(Installed { seqno, levels, has_flushed }) => {
                let mut report = IngestReport { seqno, flushed: has_flushed, ..Default::default() };
                for (file, level) in files.iter().zip(levels) {
                    report.files += 1;
                    report.entries += file.info.entries;
                    report.bytes += file.info.size_bytes;
                    report.levels[level] += 1;
                }
                Ok(report)
            }
            Err(Refused { error, is_unchanged }) => {
                if is_unchanged {
                    self.remove(&files);
                }
                self.inner.note_write_error(&error);
                Err(Refused { error, is_unchanged })
            }
        }
    }

    /// Removes tables that no manifest names.
    pub(super) fn remove(&self, files: &[NewFile]) {
        for file in files {
            let _ = self.inner.fs.remove(&names::table_path(&self.inner.dir, file.number));
        }
    }
}

/// Refuses files that share keys. They are sorted by their smallest keys.
fn check_apart(order: &KeyOrder, files: &[&SourceFile]) -> Result<()> {
    for pair in files.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.path == b.path {
            return Err(Error::invalid("the file was given twice").with_path(&a.named));
        }
        if order.compare(&a.info.largest, &b.info.smallest).is_ge() {
            let message = format!(
                "expected files that share no keys; this file goes up to {}, and {} begins with \
                 {}",
                shown(&a.info.largest),
                b.named.display(),
                shown(&b.info.smallest)
            );
            return Err(Error::invalid(message).with_path(&a.named));
        }
    }
    Ok(())
}
