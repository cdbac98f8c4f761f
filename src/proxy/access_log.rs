//! The access log of `gauntlet proxy`: lines of a format, by way of a thread, in a file that other
//! programs may move away.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use gauntlet_proxy::access_log::{AccessLog, AccessRecord, NoLog, Outcome, Peer};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};

/// How a line of the access log is written.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Format {
    /// Squid's native format
    Squid,
    /// Apache's combined format
    Combined,
    /// All that is known, with what was found in content, as a JSON object
    Json,
}

/// An access log, and what can be done with it while it is written.
pub(super) struct Access {
    /// Takes records.
    pub(super) log: Arc<dyn AccessLog>,
    control: Arc<Control>,
    /// Lines for which the thread had no room.
    crowded: Option<ErrorCounter>,
    /// What waits is written when this is dropped.
    _writing: Option<WorkerGuard>,
}

#[derive(Debug, Default)]
struct Control {
    /// The file is to be opened anew before the next line.
    opens_anew: AtomicBool,
    /// Lines that the disk did not take.
    lost: AtomicU64,
}

impl Access {
    /// Appends to `file`; `-` is standard output, and without one nothing is written.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub(super) fn open(file: Option<&Path>, format: Format) -> anyhow::Result<Access> {
        let control = Arc::<Control>::default();
        let (writer, writing) = match file {
            None => {
                let log = Arc::new(NoLog);
                return Ok(Access { log, control, crowded: None, _writing: None });
            }
            Some(file) if file.as_os_str() == "-" => tracing_appender::non_blocking(io::stdout()),
            Some(file) => {
                let path = file.to_owned();
                let log = LogFile::new(Box::new(move || append(&path)), Arc::clone(&control));
                let log = log.with_context(|| format!("cannot write {}", file.display()))?;
                tracing_appender::non_blocking(log)
            }
        };
        let crowded = Some(writer.error_counter());
        let log = Arc::new(Lines { writer, format });
        Ok(Access { log, control, crowded, _writing: Some(writing) })
    }

    /// The next line goes into a file of the same name that is opened then.
    pub(super) fn open_anew(&self) {
        self.control.opens_anew.store(true, Ordering::Relaxed);
    }

    /// Lines that are lost: the disk did not take them, or not fast enough.
    pub(super) fn lost(&self) -> u64 {
        let crowded = self.crowded.as_ref().map_or(0, ErrorCounter::dropped_lines) as u64;
        crowded + self.control.lost.load(Ordering::Relaxed)
    }
}

fn append(path: &Path) -> io::Result<Box<dyn Write + Send>> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    Ok(Box::new(file))
}

type Open = Box<dyn FnMut() -> io::Result<Box<dyn Write + Send>> + Send>;

/// A file of lines. A disk that takes none loses lines rather than stop the proxy; it is said when
/// that begins and when it is over, and what was written in part is a line of its own.
struct LogFile {
    open: Open,
    file: Box<dyn Write + Send>,
    control: Arc<Control>,
    /// The file ends within a line.
    is_within_line: bool,
    /// Lines that were lost since the last that was written.
    lost: u64,
}

impl LogFile {
    fn new(mut open: Open, control: Arc<Control>) -> io::Result<Self> {
        let file = open()?;
        Ok(LogFile { open, file, control, is_within_line: false, lost: 0 })
    }

    /// A file that cannot be opened leaves the old one in use.
    fn open_if_wanted(&mut self) {
        if !self.control.opens_anew.swap(false, Ordering::Relaxed) {
            return;
        }
        match (self.open)() {
            Ok(file) => (self.file, self.is_within_line) = (file, false),
            Err(error) => tracing::warn!(%error, "access log: the old file stays in use"),
        }
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    let (written, rest) = bytes.split_at(n.min(bytes.len()));
                    self.is_within_line = !written.ends_with(b"\n");
                    bytes = rest;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Write for LogFile {
    /// Takes a line, or loses it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.open_if_wanted();
        let end: &[u8] = if self.is_within_line { b"\n" } else { b"" };
        match self.put(end).and_then(|()| self.put(line)) {
            Ok(()) => {
                let lost = std::mem::take(&mut self.lost);
                if lost > 0 {
                    tracing::warn!(lost, "access log: written again");
                }
            }
            Err(error) => {
                if self.lost == 0 {
                    tracing::warn!(%error, "access log: lines are lost");
                }
                self.lost += 1;
                self.control.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines of a format, by way of a thread: sockets do not wait for a disk. If it cannot keep up,
/// lines are lost.
struct Lines {
    writer: NonBlocking,
    format: Format,
}

impl AccessLog for Lines {
    fn record(&self, record: &AccessRecord) {
        let line = match self.format {
            Format::Squid => record.squid(),
            Format::Combined => record.combined(),
            Format::Json => json(record),
        };
        // It counts what it has no room for, and has no other error.
        let _ = self.writer.clone().write_all(format!("{line}\n").as_bytes());
    }
}

/// A record as JSON.
fn json(record: &AccessRecord) -> String {
    let since = record.at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let outcome = match record.outcome {
        Outcome::Passed => "passed",
        Outcome::Tunnel => "tunnel",
        Outcome::Denied => "denied",
        Outcome::Failed => "failed",
        Outcome::Aborted => "aborted",
        Outcome::Unmodified => "unmodified",
    };
    let server = match &record.peer {
        Peer::None => None,
        Peer::Direct(host) | Peer::Parent(host) => Some(host),
    };
    serde_json::json!({
        "at": since.as_secs_f64(), "seconds": record.took.as_secs_f64(),
        "client": record.client, "user": record.user, "method": record.method, "url": record.url,
        "version": record.version, "status": record.status, "bytes_out": record.bytes_out,
        "bytes_in": record.bytes_in, "outcome": outcome, "server": server,
        "server_address": record.server_address,
        "content_type": record.content_type, "referer": record.referer,
        "user_agent": record.user_agent, "refusal": record.refusal, "rule": record.rule,
        "tunnel": record.tunnel,
        // As the web log of a node has them: what the policy decided, what the page calls `Found
        // on`, and every list that has the URL.
        "action": Some(record.note.action).filter(|action| !action.is_empty()),
        "rules": record.note.rules, "evidence": word(&record.note.evidence),
        "category": word(&record.note.category), "listed": record.note.listed,
        "notes": record.notes, "reference": record.reference,
    })
    .to_string()
}

/// None if it is empty.
fn word(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A disk with room for so many bytes.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let room = disk.1.min(bytes.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&bytes[..room]);
            disk.1 -= room;
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_whole_lines_and_glues_none() {
        let (disk, control) = (Disk::default(), Arc::<Control>::default());
        let of_file = disk.clone();
        let open: Open = Box::new(move || Ok(Box::new(of_file.clone())));
        let mut file = LogFile::new(open, Arc::clone(&control)).unwrap();
        disk.0.lock().unwrap().1 = 9;
        for line in ["one\n", "two or\n", "three\n"] {
            file.write_all(line.as_bytes()).unwrap();
        }
        disk.0.lock().unwrap().1 = 100;
        file.write_all(b"four\n").unwrap();
        let text = String::from_utf8(disk.0.lock().unwrap().0.clone()).unwrap();
        assert_eq!(text, "one\ntwo o\nfour\n");
        assert_eq!(control.lost.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
        let control = Arc::<Control>::default();
        let opened = path.clone();
        let mut file =
            LogFile::new(Box::new(move || append(&opened)), Arc::clone(&control)).unwrap();
        file.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        file.write_all(b"two\n").unwrap();
        control.opens_anew.store(true, Ordering::Relaxed);
        file.write_all(b"three\n").unwrap();
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three\n");
    }
}
