//! What mail to probe accounts named and hit, and which domains good mail names: what entries of
//! URL lists and hints of order are made of.
//!
//! In the folder `probes` of the data folder:
//!
//! * `sightings`, and `sightings.old` before it: a line of JSON for each message ([`Sighting`]).
//!   When the first is longer than half of what may be kept, it takes the place of the second;
//! * `good-domains`: magic `GNTLGDOM`, then 8 bytes of the BLAKE3 of a registrable domain and the
//!   day of its last message (u16, little endian), ordered; at the end the CRC-32 of all before.
//!   It holds no name. The [`DOMAINS_MAX`] that were seen last are kept, for [`DOMAIN_DAYS`];
//! * `lock`: one process writes at a time; readers need none.
//!
//! A line or file that is damaged is left out: it costs entries that are made again, or a look at
//! mail that comes again. A good-domains file that cannot be read is an error for whoever makes
//! entries, because every domain would pass.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Name of the folder in the data folder.
pub const FOLDER_NAME: &str = "probes";
/// URLs of a message that are kept.
pub const URLS_MAX: usize = 32;
/// Bytes of one of them; longer ones are left out.
pub const URL_BYTES_MAX: usize = 512;
/// Names of rules of a message that are kept.
pub const RULES_MAX: usize = 128;
/// Bytes of a line: what is longer was not written here.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Domains of good mail that are kept.
pub const DOMAINS_MAX: usize = 200_000;
/// Days that good mail of a domain counts.
pub const DOMAIN_DAYS: u16 = 365;
const MAGIC: &[u8; 8] = b"GNTLGDOM";
const DOMAIN_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 4;
const SIGHTINGS: &str = "sightings";
const SIGHTINGS_OLD: &str = "sightings.old";
const GOOD_DOMAINS: &str = "good-domains";

/// Why they cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbesError {
    /// A file could not be read or written.
    #[error("{path}: {cause}")]
    Io {
        /// Path of the file or folder.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The file is not what was written.
    #[error("{0} is damaged or no file of domains; remove it: it is made anew from good mail")]
    Damaged(PathBuf),
}

/// What a message to a probe account named and hit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Sighting {
    /// When it came, in seconds from 1970.
    pub at_s: i64,
    /// Network of the client, /24 or /64: who sent it cannot forge that.
    pub network: String,
    /// Domain of the envelope's sender, else of the author. Anybody can write it.
    pub sender: String,
    /// Name of its class.
    pub class: String,
    /// Links and what is loaded, in canonical form.
    pub urls: Vec<String>,
    /// Rules that hit.
    pub rules: Vec<String>,
}

/// The folder of a data folder, made if it is not there, locked until the file goes.
fn lock(data: &Path) -> Result<(PathBuf, File), ProbesError> {
    let folder = data.join(FOLDER_NAME);
    let failed = |cause| ProbesError::Io { path: folder.clone(), cause };
    gauntlet_store::files::create_folder(&folder).map_err(failed)?;
    let mut options = OpenOptions::new();
    let lock = options.create(true).truncate(false).write(true).open(folder.join("lock"));
    let lock = lock.map_err(failed)?;
    lock.lock().map_err(failed)?;
    Ok((folder, lock))
}

/// Appends what messages named. Both files together take `bytes_max` at most: the oldest go.
///
/// # Errors
/// On I/O errors; what was there stays.
pub fn append(data: &Path, sightings: &[Sighting], bytes_max: u64) -> Result<(), ProbesError> {
    let (folder, _lock) = lock(data)?;
    let path = folder.join(SIGHTINGS);
    let failed = |cause| ProbesError::Io { path: path.clone(), cause };
    let mut lines = Vec::new();
    for sighting in sightings {
        // A line that a crash cut ends here; an empty one is nothing.
        lines.push(b'\n');
        serde_json::to_writer(&mut lines, sighting).map_err(|e| failed(e.into()))?;
    }
    lines.push(b'\n');
    let is_there = std::fs::metadata(&path).map_or(0, |about| about.len());
    if is_there > 0 && is_there + lines.len() as u64 > bytes_max / 2 {
        std::fs::rename(&path, folder.join(SIGHTINGS_OLD)).map_err(failed)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    file.write_all(&lines).map_err(failed)
}

/// What messages named since a moment, in seconds from 1970, oldest first.
///
/// # Errors
/// On I/O errors.
pub fn read(data: &Path, since_s: i64) -> Result<Vec<Sighting>, ProbesError> {
    let folder = data.join(FOLDER_NAME);
    let mut all = Vec::new();
    for name in [SIGHTINGS_OLD, SIGHTINGS] {
        let path = folder.join(name);
        match File::open(&path) {
            Ok(file) => read_lines(file, since_s, &mut all)
                .map_err(|cause| ProbesError::Io { path, cause })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(ProbesError::Io { path, cause }),
        }
    }
    Ok(all)
}

fn read_lines(file: impl Read, since_s: i64, all: &mut Vec<Sighting>) -> io::Result<()> {
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if let Some(sighting) = parse(&line).filter(|sighting| sighting.at_s >= since_s) {
            all.push(sighting);
        }
    }
}

/// A line of the journal; none if it is damaged, or has more than one would write.
pub fn parse(line: &[u8]) -> Option<Sighting> {
    let sighting: Sighting = serde_json::from_slice(line).ok()?;
    let fits = sighting.urls.len() <= URLS_MAX
        && sighting.urls.iter().all(|url| url.len() <= URL_BYTES_MAX)
        && sighting.rules.len() <= RULES_MAX;
    fits.then_some(sighting)
}

/// Hash of a registrable domain in lower case.
pub fn domain_id(domain: &str) -> u64 {
    let hash = blake3::hash(domain.as_bytes());
    let bytes = hash.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
    u64::from_le_bytes(bytes)
}

/// Registrable domains that good mail names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GoodDomains(BTreeMap<u64, u16>);

impl GoodDomains {
    /// Those of a data folder; none if there is no file.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(data: &Path) -> Result<Self, ProbesError> {
        let path = data.join(FOLDER_NAME).join(GOOD_DOMAINS);
        let bytes_max = (MAGIC.len() + DOMAINS_MAX * DOMAIN_BYTES + CHECKSUM_BYTES) as u64;
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => file.take(bytes_max + 1).read_to_end(&mut bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(GoodDomains::default());
            }
            Err(cause) => return Err(ProbesError::Io { path, cause }),
        }
        .map_err(|cause| ProbesError::Io { path: path.clone(), cause })?;
        Self::parse(&bytes).ok_or(ProbesError::Damaged(path))
    }

    /// The domains of a file's bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (entries, []) = body.strip_prefix(MAGIC)?.as_chunks::<DOMAIN_BYTES>() else {
            return None;
        };
        let entry = |bytes: &[u8; DOMAIN_BYTES]| {
            let (id, day) = (bytes.first_chunk()?, bytes.last_chunk()?);
            Some((u64::from_le_bytes(*id), u16::from_le_bytes(*day)))
        };
        entries.iter().take(DOMAINS_MAX).map(entry).collect::<Option<_>>().map(GoodDomains)
    }

    /// Good mail names it.
    pub fn has(&self, domain: &str) -> bool {
        self.0.contains_key(&domain_id(domain))
    }

    /// Adds what is named today. Result: whether that is news.
    pub fn add(&mut self, ids: impl IntoIterator<Item = u64>, today: u16) -> bool {
        let mut news = false;
        for id in ids {
            news |= self.0.insert(id, today) != Some(today);
        }
        news
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes what is old, and what there is no room for.
    fn forget(&mut self, today: u16) {
        // By distance, so that a clock that was wrong for a while spoils nothing for long.
        self.0.retain(|_, day| day.abs_diff(today) <= DOMAIN_DAYS);
        if self.0.len() > DOMAINS_MAX {
            let mut days: Vec<(u16, u64)> = self.0.iter().map(|(id, day)| (*day, *id)).collect();
            days.sort_unstable();
            for (_, id) in days.iter().take(self.0.len() - DOMAINS_MAX) {
                self.0.remove(id);
            }
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (id, day) in &self.0 {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&day.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// Adds domains that good mail names today (days from 1970) to those of a data folder, if that is
/// news. A damaged file is begun anew.
///
/// # Errors
/// On I/O errors; what was there stays.
pub fn add_good_domains(data: &Path, ids: &[u64], today: u16) -> Result<(), ProbesError> {
    let (folder, _lock) = lock(data)?;
    let mut domains = match GoodDomains::read(data) {
        Err(error @ ProbesError::Damaged(_)) => {
            tracing::warn!(%error, "domains of good mail are begun anew");
            GoodDomains::default()
        }
        read => read?,
    };
    if !domains.add(ids.iter().copied(), today) {
        return Ok(());
    }
    domains.forget(today);
    let path = folder.join(GOOD_DOMAINS);
    gauntlet_store::files::write_durably(&path, &domains.to_bytes())
        .map_err(|cause| ProbesError::Io { path, cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(at_s: i64, url: &str) -> Sighting {
        Sighting { at_s, urls: vec![url.to_owned()], ..Sighting::default() }
    }

    #[test]
    fn the_newest_sightings_are_kept_within_what_they_may_take() {
        let data = tempfile::tempdir().unwrap();
        assert!(read(data.path(), 0).unwrap().is_empty());
        for at_s in 0..1_000 {
            append(data.path(), &[sighting(at_s, "http://a.example/")], 20_000).unwrap();
        }
        let kept = read(data.path(), 0).unwrap();
        assert_eq!(kept.last(), Some(&sighting(999, "http://a.example/")));
        assert!((100..=223).contains(&kept.len()), "{}", kept.len());
        assert!(kept.is_sorted_by_key(|sighting| sighting.at_s));
        assert_eq!(read(data.path(), 990).unwrap().len(), 10);
        let bytes = |name| std::fs::metadata(data.path().join("probes").join(name)).unwrap().len();
        assert!(bytes(SIGHTINGS) + bytes(SIGHTINGS_OLD) <= 20_000);
    }

    #[test]
    fn a_line_that_a_crash_cut_costs_itself_alone() {
        let data = tempfile::tempdir().unwrap();
        append(data.path(), &[sighting(1, "http://a.example/")], 1 << 20).unwrap();
        let path = data.path().join("probes").join(SIGHTINGS);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..whole.len() - 1 {
            std::fs::write(&path, &whole[..cut]).unwrap();
            append(data.path(), &[sighting(2, "http://b.example/")], 1 << 20).unwrap();
            let kept = read(data.path(), 0).unwrap();
            assert_eq!(kept.last(), Some(&sighting(2, "http://b.example/")), "cut at {cut}");
        }
        let long = [b"{\"at_s\":".to_vec(), vec![b'1'; 200_000], b"}\n".to_vec()].concat();
        std::fs::write(&path, [&long[..], &whole].concat()).unwrap();
        assert_eq!(read(data.path(), 0).unwrap(), [sighting(1, "http://a.example/")]);
        assert_eq!(parse(b"{\"urls\":[1]}"), None);
        let many = Sighting { urls: vec![String::new(); URLS_MAX + 1], ..Sighting::default() };
        assert_eq!(parse(&serde_json::to_vec(&many).unwrap()), None);
    }

    #[test]
    fn domains_of_good_mail_are_forgotten_after_a_year_and_a_damaged_file_is_no_silence() {
        let data = tempfile::tempdir().unwrap();
        let add = |domain: &str, day| add_good_domains(data.path(), &[domain_id(domain)], day);
        add("old.example", 20_000).unwrap();
        add("new.example", 20_000 + DOMAIN_DAYS + 1).unwrap();
        let domains = GoodDomains::read(data.path()).unwrap();
        assert!(domains.has("new.example") && !domains.has("old.example"));
        let path = data.path().join("probes").join(GOOD_DOMAINS);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(GoodDomains::parse(&changed), None, "byte {at}");
            assert_eq!(GoodDomains::parse(&whole[..at]), None, "cut at {at}");
        }
        std::fs::write(&path, b"something else").unwrap();
        assert!(matches!(GoodDomains::read(data.path()), Err(ProbesError::Damaged(_))));
        add("new.example", 21_000).unwrap();
        assert_eq!(GoodDomains::read(data.path()).unwrap().len(), 1);
    }
}
