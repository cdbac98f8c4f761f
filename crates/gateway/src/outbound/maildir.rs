//! Delivery into a Maildir: written to `tmp`, synced, renamed into `new`, the folder synced.
//! Several messages share the last sync.
//!
//! A file's name comes from the message's id and the recipient's number, so that a delivery
//! repeated after a crash replaces the first instead of doubling it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::facts::auth_results::without_return_path;
use crate::message::OutgoingMessage;
use gauntlet_smtp::text::truncate;

/// Messages delivered with one sync of the folder.
const BATCH_MAX: usize = 64;

/// Why a message could not be put into the Maildir.
#[derive(Debug, thiserror::Error)]
pub enum MaildirError {
    /// The thread has ended.
    #[error("the Maildir's thread has ended")]
    Ended,
    /// A file could not be written, renamed or synced.
    #[error("{folder}: {error}")]
    NotWritten {
        /// Path of the Maildir.
        folder: String,
        /// What the operating system says.
        error: io::Error,
    },
}

/// A message for one address.
pub struct MaildirJob {
    /// Name of the file in `new`, unique and the same at each attempt.
    pub name: String,
    /// Envelope sender, for Return-Path; empty for bounces.
    pub sender: String,
    /// Envelope recipient, for Delivered-To.
    pub recipient: String,
    /// The folder of the Maildir that it goes into (Maildir++: `.Junk`), instead of the inbox.
    pub subfolder: Option<String>,
    /// Header and body as they are to be written.
    pub body: OutgoingMessage,
    /// Called when it is durable, or why not.
    pub done: Box<dyn FnOnce(Result<(), MaildirError>) + Send>,
}

impl std::fmt::Debug for MaildirJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaildirJob").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A Maildir with the thread that writes it.
#[derive(Debug, Clone)]
pub struct Maildir {
    folder: PathBuf,
    queue: Sender<MaildirJob>,
}

impl Maildir {
    /// Opens or creates the Maildir in this folder.
    ///
    /// # Errors
    /// If the folders cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        for name in ["tmp", "new", "cur"] {
            gauntlet_store::files::create_folder(&folder.join(name))?;
        }
        let (queue, jobs) = channel();
        let path = folder.to_owned();
        std::thread::Builder::new().name("maildir".to_owned()).spawn(move || run(&path, &jobs))?;
        Ok(Maildir { folder: folder.to_owned(), queue })
    }

    /// Path of the Maildir, which holds `tmp`, `new` and `cur`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Queues a message for the thread that writes; `done` is called when it is durable.
    pub fn deliver(&self, job: MaildirJob) {
        if let Err(unsent) = self.queue.send(job) {
            (unsent.0.done)(Err(MaildirError::Ended));
        }
    }
}

fn run(folder: &Path, jobs: &Receiver<MaildirJob>) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        let written: Vec<_> = batch.iter().map(|job| write(folder, job)).collect();
        let renamed: Vec<_> = batch
            .iter()
            .zip(written)
            .map(|(job, written)| {
                written.and_then(|()| {
                    let home = home_of(folder, job);
                    let (tmp, new) = (home.join("tmp"), home.join("new"));
                    std::fs::rename(tmp.join(&job.name), new.join(&job.name))
                })
            })
            .collect();
        let mut synced: BTreeMap<PathBuf, io::Result<()>> = BTreeMap::new();
        for job in &batch {
            let new = home_of(folder, job).join("new");
            synced.entry(new).or_insert_with_key(|new| File::open(new).and_then(|f| f.sync_all()));
        }
        for (job, result) in batch.into_iter().zip(renamed) {
            let home = home_of(folder, &job);
            let result = match (&result, synced.get(&home.join("new"))) {
                (Err(error), _) | (Ok(()), Some(Err(error))) => Err(MaildirError::NotWritten {
                    folder: home.display().to_string(),
                    // One failed sync of the folder concerns all of the batch.
                    error: io::Error::new(error.kind(), error.to_string()),
                }),
                (Ok(()), _) => Ok(()),
            };
            (job.done)(result);
        }
    }
}

/// The Maildir, or its folder, that a message goes into.
fn home_of(folder: &Path, job: &MaildirJob) -> PathBuf {
    job.subfolder.as_ref().map_or_else(|| folder.to_owned(), |name| folder.join(name))
}

/// Makes a folder of a Maildir++, durably: with an empty file that marks it as one.
fn make_subfolder(folder: &Path) -> io::Result<()> {
    if folder.join("maildirfolder").exists() {
        return Ok(());
    }
    for name in ["tmp", "new", "cur"] {
        gauntlet_store::files::create_folder(&folder.join(name))?;
    }
    gauntlet_store::files::create(&folder.join("maildirfolder"))?.sync_all()?;
    File::open(folder)?.sync_all()?;
    folder.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

fn write(folder: &Path, job: &MaildirJob) -> io::Result<()> {
    let folder = &home_of(folder, job);
    if job.subfolder.is_some() {
        make_subfolder(folder)?;
    }
    let path = folder.join("tmp").join(&job.name);
    let head = format!(
        "Return-Path: <{}>\nDelivered-To: {}\n",
        truncate(&job.sender, 320),
        truncate(&job.recipient, 320)
    );
    let mut content = head.into_bytes();
    // This is the final delivery: the field above is the only one (RFC 5321 section 4.4).
    let kept = without_return_path(job.body.header());
    unix_lines(kept.as_deref().unwrap_or(job.body.header()), &mut content);
    unix_lines(job.body.body(), &mut content);
    let mut file = gauntlet_store::files::create(&path)?;
    let written = file.write_all(&content).and_then(|()| file.sync_data());
    if written.is_err() {
        let _best_effort = std::fs::remove_file(&path);
    }
    written
}

/// Appends `body` with LF for CR LF, as files on Unix have it.
fn unix_lines(body: &[u8], out: &mut Vec<u8>) {
    out.reserve(body.len());
    let mut rest = body;
    while let Some(n) = memchr::memmem::find(rest, b"\r\n") {
        out.extend_from_slice(rest.get(..n).unwrap_or_default());
        out.push(b'\n');
        rest = rest.get(n + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivers_once_however_often() {
        let folder = tempfile::tempdir().unwrap();
        let maildir = Maildir::open(folder.path()).unwrap();
        for _ in 0..2 {
            let (sender, done) = channel();
            maildir.deliver(MaildirJob {
                name: "1.A_0.host".into(),
                sender: "a@b".into(),
                recipient: "c@d".into(),
                subfolder: None,
                body: (&b"Return-path : <eve@x>\r\nSubject: x\r\n\r\na\r\rb\r\n"[..]).into(),
                done: Box::new(move |result| sender.send(result).unwrap()),
            });
            done.recv().unwrap().unwrap();
        }
        let new = folder.path().join("new");
        assert_eq!(std::fs::read_dir(&new).unwrap().count(), 1);
        assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
        let text = std::fs::read(new.join("1.A_0.host")).unwrap();
        assert_eq!(text, b"Return-Path: <a@b>\nDelivered-To: c@d\nSubject: x\n\na\r\rb\n");
    }
}
