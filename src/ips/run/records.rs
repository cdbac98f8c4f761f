//! Where EVE records go: a file that may be moved away, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::ips::node::is_for_node;

/// The log of records, for all threads.
pub(super) struct Records {
    path: Option<PathBuf>,
    file: Mutex<Option<File>>,
    /// What is printed is for the node.
    for_node: bool,
    /// Batches of records that could not be written.
    failures: AtomicU64,
}

impl Records {
    /// Opens the file.
    pub(super) fn open(path: Option<&Path>, for_node: bool) -> io::Result<Self> {
        let file = path.map(append).transpose()?;
        let path = path.map(Path::to_owned);
        Ok(Self { path, file: Mutex::new(file), for_node, failures: AtomicU64::new(0) })
    }

    /// Opens the file of that name anew: the old one was moved away.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let opened = append(path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        Ok(())
    }

    /// Appends lines. That they cannot be written is told the first time.
    pub(super) fn write(&self, lines: &str) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = match file.as_mut() {
            Some(file) => file.write_all(lines.as_bytes()),
            None if self.for_node => Ok(()),
            None => io::stdout().lock().write_all(lines.as_bytes()),
        };
        drop(file);
        if self.for_node {
            let told = lines.split_inclusive('\n').filter(|line| is_for_node(line));
            written = written.and(self.tell_node(&told.collect::<String>()));
        }
        if let Err(error) = written
            && self.failures.fetch_add(1, Ordering::Relaxed) == 0
        {
            eprintln!("gauntlet: records are lost: {error}");
        }
    }

    /// Hands lines to the node alone.
    pub(super) fn tell_node(&self, lines: &str) -> io::Result<()> {
        match self.for_node {
            true => io::stdout().lock().write_all(lines.as_bytes()),
            false => Ok(()),
        }
    }

    /// How often records were lost.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
