//! The version of a database's schema, read from its bytes.
//!
//! SQLite keeps it in the first page ([file format](https://sqlite.org/fileformat2.html), sections
//! 1.3 and 4). The newest copy of that page may be in the write-ahead log: that of the last
//! transaction whose frames are whole, which is what SQLite would find, too.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// First bytes of a database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where `user_version` stands in the first page.
const VERSION_AT: usize = 60;
/// Bytes of the first page that hold its header.
const HEAD_BYTES: usize = 100;
/// Bytes of the header of a write-ahead log, and of that of each frame.
const LOG_HEAD_BYTES: usize = 32;
const FRAME_HEAD_BYTES: usize = 24;
/// First bytes of a write-ahead log but for the last bit, which says the order of bytes.
const LOG_MAGIC: u32 = 0x377f_0682;
/// Largest page of SQLite.
const PAGE_BYTES_MAX: u32 = 65_536;

/// Opens a plain file to read; a link or a pipe in its place is not followed and not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("no plain file")),
    }
}

/// Reads as many of these bytes as there are.
pub(crate) fn read_start(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Version of the schema of a database; none if the file is empty, as SQLite leaves it at first.
///
/// # Errors
/// If it cannot be read, or is no database.
pub fn schema_version(path: &Path) -> Result<Option<u32>, StoreError> {
    let failed = || StoreError::io(path, "read");
    let mut file = open(path).map_err(StoreError::io(path, "open"))?;
    let mut head = [0; HEAD_BYTES];
    let filled = read_start(&mut file, &mut head).map_err(failed())?;
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    let in_log = version_in_log(&PathBuf::from(beside)).map_err(failed())?;
    if in_log.is_some() || filled == 0 {
        return Ok(in_log);
    }
    if filled < HEAD_BYTES || !head.starts_with(MAGIC) {
        let cause = "it does not begin as a database does".to_owned();
        return Err(StoreError::Damaged { path: path.to_owned(), what: "the file".into(), cause });
    }
    Ok(version_of_page(&head))
}

fn version_of_page(page: &[u8]) -> Option<u32> {
    be(page, VERSION_AT)
}

fn be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The version by the newest first page in a write-ahead log; none if there is none.
fn version_in_log(path: &Path) -> io::Result<Option<u32>> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut head = [0; LOG_HEAD_BYTES];
    let whole = read_start(&mut reader, &mut head)? == LOG_HEAD_BYTES;
    let Some(log) = LogHead::of(&head).filter(|_| whole) else { return Ok(None) };
    let mut sum = log.sum;
    let mut frame = vec![0; FRAME_HEAD_BYTES + log.page_bytes];
    // Of the transaction that is being read, and of the last whole one.
    let (mut seen, mut committed) = (None, None);
    while read_start(&mut reader, &mut frame)? == frame.len() {
        let (head, page) = frame.split_at(FRAME_HEAD_BYTES);
        if head.get(8..16) != Some(&log.salts[..]) {
            break;
        }
        sum = log.add(sum, head.get(..8).unwrap_or_default());
        sum = log.add(sum, page);
        if (be(head, 16), be(head, 20)) != (Some(sum.0), Some(sum.1)) {
            break;
        }
        if be(head, 0) == Some(1) {
            seen = version_of_page(page);
        }
        if be(head, 4) != Some(0) {
            committed = seen.or(committed);
        }
    }
    Ok(committed)
}

/// What the header of a write-ahead log says.
struct LogHead {
    page_bytes: usize,
    salts: [u8; 8],
    is_big_endian: bool,
    sum: (u32, u32),
}

impl LogHead {
    /// None if it is none, or its checksum is wrong: SQLite takes such a log for an empty one.
    fn of(bytes: &[u8; LOG_HEAD_BYTES]) -> Option<Self> {
        let magic = be(bytes, 0).filter(|magic| magic & !1 == LOG_MAGIC)?;
        let page_bytes = be(bytes, 8).filter(|n| (512..=PAGE_BYTES_MAX).contains(n))? as usize;
        let salts = bytes.get(16..24)?.try_into().ok()?;
        let mut log = LogHead { page_bytes, salts, is_big_endian: magic & 1 == 1, sum: (0, 0) };
        log.sum = log.add((0, 0), bytes.get(..24)?);
        ((be(bytes, 24)?, be(bytes, 28)?) == log.sum).then_some(log)
    }

    /// Adds bytes to the running checksum (section 4.2 of the file format).
    fn add(&self, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
        let (words, _) = bytes.as_chunks::<4>();
        let (pairs, _) = words.as_chunks::<2>();
        let word = |bytes: [u8; 4]| match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        };
        for [one, two] in pairs {
            first = first.wrapping_add(word(*one)).wrapping_add(second);
            second = second.wrapping_add(word(*two)).wrapping_add(first);
        }
        (first, second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::open_write;

    const STEPS: [&str; 3] =
        ["CREATE TABLE a(x);", "ALTER TABLE a ADD COLUMN y;", "ALTER TABLE a ADD COLUMN z;"];

    #[test]
    fn a_version_is_read_from_the_file_and_from_the_log_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, "").unwrap();
        assert_eq!(schema_version(&path).unwrap(), None, "nothing was written yet");
        drop(open_write(&path, &STEPS[..1]).unwrap());
        assert_eq!(schema_version(&path).unwrap(), Some(1), "checkpointed when it was closed");
        let open = open_write(&path, &STEPS).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[VERSION_AT + 3], 1, "only the log has it");
        assert_eq!(schema_version(&path).unwrap(), Some(3));
        // As a kill leaves it: the end of the log is cut at any byte.
        let log = folder.path().join("a.db-wal");
        let whole = std::fs::read(&log).unwrap();
        let (copy, beside) = (folder.path().join("b.db"), folder.path().join("b.db-wal"));
        std::fs::copy(&path, &copy).unwrap();
        for cut in (0..whole.len()).step_by(97).chain([whole.len()]) {
            std::fs::write(&beside, &whole[..cut]).unwrap();
            let found = schema_version(&copy).unwrap();
            // What SQLite itself finds, in a copy, since it repairs what it opens.
            let third = folder.path().join("c.db");
            std::fs::copy(&copy, &third).unwrap();
            std::fs::copy(&beside, folder.path().join("c.db-wal")).unwrap();
            let opened = rusqlite::Connection::open(&third).unwrap();
            assert_eq!(found, Some(crate::database::version(&opened).unwrap()), "cut at {cut}");
        }
        drop(open);
    }

    #[test]
    fn what_is_no_database_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        std::fs::write(&path, [7; 4096]).unwrap();
        assert!(matches!(schema_version(&path), Err(StoreError::Damaged { .. })));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(schema_version(&path).is_err(), "a link is not followed");
    }
}
