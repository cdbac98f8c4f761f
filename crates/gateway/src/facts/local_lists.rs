//! Lists of our own as files or URLs: addresses, networks, hosts, mail addresses, hashes; one entry
//! a line.
//!
//! A file may have millions of entries. Each is kept as 64 bits of its hash, sorted; large lists
//! are written as an index into the data folder and mapped from there, so that they cost no memory
//! of the process. Files are looked at every few seconds and read anew when they changed; until the
//! new list is complete the old one answers.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use arc_swap::ArcSwap;
use gauntlet_mail::facts::Listing;
use memmap2::Mmap;

use super::list_fetch::Remote;
use super::lists::{self, Subjects};
use crate::clock::Clock;
use crate::config::{ListSubject, LocalListSettings, mask};
use crate::net::tls::HopTls;
use crate::net::{download, web};

/// Entries from which on a list is mapped instead of held in memory.
const MAPPED_FROM: usize = 250_000;
/// Entries of one list.
const ENTRIES_MAX: usize = 50_000_000;
/// Listings of one message in one list.
const LISTINGS_MAX: usize = 16;
/// Least time between two fetches of a list, in seconds.
const REFRESH_SECONDS_MIN: u64 = 10;
/// A fetch that failed is tried again after this.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Longest line, in bytes; longer ones are no entries.
const LINE_BYTES_MAX: usize = 1_024;

/// One list and the file it comes from.
#[derive(Debug)]
pub struct LocalList {
    /// Its name in listings.
    pub name: String,
    path: PathBuf,
    index: PathBuf,
    entries: ArcSwap<Entries>,
    remote: Option<(Remote, Schedule)>,
}

/// When a list from a URL is fetched again.
#[derive(Debug)]
struct Schedule {
    every: Duration,
    due: Mutex<Instant>,
}

/// All lists of our own, with what is looked up in them.
#[derive(Debug, Default)]
pub struct LocalLists {
    clock: Clock,
    /// For lists from URLs.
    tls: Option<HopTls>,
    lists: Vec<(LocalList, Vec<ListSubject>, f64)>,
}

impl LocalLists {
    /// Opens the lists of these settings; `folder` takes the indices of large ones. Lists of URLs
    /// are due by `clock`.
    ///
    /// # Errors
    /// The list that cannot be read, or whose settings are wrong.
    pub fn open(
        settings: &[LocalListSettings],
        folder: &Path,
        roots: &Path,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let lists = settings.iter().map(|list| {
            let opened = LocalList::of(list, folder, clock.now())
                .with_context(|| format!("local_list {:?}", list.name))?;
            Ok((opened, list.of.clone(), list.points))
        });
        let lists = lists.collect::<anyhow::Result<_>>()?;
        let secure = settings.iter().any(|list| list.url.starts_with("https:"));
        let remote = settings.iter().any(|list| !list.url.is_empty());
        let tls = match (remote, secure) {
            (_, true) => Some(web::hop_tls(roots)?),
            (true, false) => Some(HopTls::load(Path::new(""))?),
            (false, false) => None,
        };
        Ok(LocalLists { clock, tls, lists })
    }

    /// Refuses lists that could not be opened: reads none, makes no folder.
    ///
    /// # Errors
    /// As [`LocalLists::open`], as far as that can be said before.
    pub fn check(settings: &[LocalListSettings]) -> anyhow::Result<()> {
        settings.iter().try_for_each(|list| {
            LocalList::check(list).with_context(|| format!("local_list {:?}", list.name))
        })
    }

    /// Fetches the lists that are due, one after the other; what fails is reported and stays as it
    /// was.
    pub(super) async fn fetch(&self) {
        let Some(tls) = &self.tls else { return };
        for (list, _, _) in &self.lists {
            match list.fetch(tls, &self.clock).await {
                Ok(false) => {}
                Ok(true) => tracing::info!(list = list.name, entries = list.len(), "list fetched"),
                Err(error) => {
                    let (list, error) = (&list.name, format!("{error:#}"));
                    tracing::warn!(list, error, "a list could not be fetched; it stays as it was");
                }
            }
        }
    }

    /// Reads files again that changed; what cannot be read is reported and stays as it was.
    pub(super) fn reload(&self) {
        for (list, _, _) in &self.lists {
            if let Err(error) = list.reload() {
                let error = format!("{error:#}");
                tracing::warn!(error, "a local list stays as it was");
            }
        }
    }

    /// Looks a message up in all lists.
    pub(super) fn ask(&self, about: &Subjects<'_>) -> Vec<Listing> {
        if self.lists.is_empty() {
            return Vec::new();
        }
        let wants = |subject| self.lists.iter().any(|(_, of, _)| of.contains(&subject));
        let links = lists::links_of(about.raw, usize::MAX, wants);
        let mut found = Vec::new();
        for (list, of, points) in &self.lists {
            let mut texts: Vec<String> =
                of.iter().flat_map(|subject| lists::texts(*subject, about, &links)).collect();
            if of.contains(&ListSubject::MailFrom) {
                texts.push(about.envelope.mail_from.clone());
            }
            texts.sort();
            texts.dedup();
            let listed = texts.into_iter().filter(|text| list.has(text));
            found.extend(listed.take(LISTINGS_MAX).map(|subject| Listing {
                zone: list.name.clone(),
                subject,
                answers: Vec::new(),
                text: None,
                points: *points,
            }));
        }
        found
    }
}

/// What a file held at one time.
#[derive(Debug, Default)]
struct Entries {
    hashes: Hashes,
    /// Prefix lengths of the networks, separately for IPv4 and IPv6.
    lengths_v4: BTreeSet<u8>,
    lengths_v6: BTreeSet<u8>,
    /// Time and size of the file.
    stamp: Option<(SystemTime, u64)>,
    /// Lines that are no entries.
    bad: usize,
}

#[derive(Debug)]
enum Hashes {
    Held(Vec<u64>),
    Mapped(Mmap),
}

impl Default for Hashes {
    fn default() -> Self {
        Hashes::Held(Vec::new())
    }
}

impl Hashes {
    fn len(&self) -> usize {
        match self {
            Hashes::Held(all) => all.len(),
            Hashes::Mapped(map) => map.len() / 8,
        }
    }

    fn get(&self, at: usize) -> Option<u64> {
        match self {
            Hashes::Held(all) => all.get(at).copied(),
            Hashes::Mapped(map) => {
                let bytes = map.get(at * 8..at * 8 + 8)?;
                bytes.try_into().ok().map(u64::from_le_bytes)
            }
        }
    }

    fn contains(&self, hash: u64) -> bool {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle) {
                Some(found) if found == hash => return true,
                Some(found) if found < hash => low = middle + 1,
                _ => high = middle,
            }
        }
        false
    }
}

impl LocalList {
    /// What can be said of a list before it is read.
    fn check(settings: &LocalListSettings) -> anyhow::Result<()> {
        let (has_path, has_url) = (!settings.path.as_os_str().is_empty(), !settings.url.is_empty());
        ensure!(has_path != has_url, "give it a path or a url, one of them");
        if has_path {
            let path = &settings.path;
            let opened = File::open(path).with_context(|| path.display().to_string())?;
            ensure!(!opened.metadata()?.is_dir(), "{}: is a folder, no file", path.display());
            return Ok(());
        }
        ensure!(
            settings.refresh_seconds >= REFRESH_SECONDS_MIN,
            "refresh_seconds must be {REFRESH_SECONDS_MIN} or more"
        );
        download::address(&settings.url)?;
        Ok(())
    }

    fn of(settings: &LocalListSettings, folder: &Path, now: Instant) -> anyhow::Result<Self> {
        Self::check(settings)?;
        if !settings.path.as_os_str().is_empty() {
            return Self::open(&settings.name, &settings.path, folder);
        }
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let mut list = Self::unread(&settings.name, Path::new(""), folder);
        list.path = list.index.with_extension("list");
        let remote = Remote::new(&settings.url, settings.bytes_max, list.path.clone())?;
        let every = Duration::from_secs(settings.refresh_seconds);
        list.remote = Some((remote, Schedule { every, due: Mutex::new(now) }));
        // At the first start there is no copy yet: the list is empty until it is fetched.
        if list.path.exists() {
            list.reload()?;
        }
        Ok(list)
    }

    /// Fetches the list if it comes from a URL and is due. Says whether there was a new one.
    async fn fetch(&self, tls: &HopTls, clock: &Clock) -> anyhow::Result<bool> {
        let Some((remote, schedule)) = &self.remote else { return Ok(false) };
        {
            let mut due = schedule.due.lock().unwrap_or_else(PoisonError::into_inner);
            let now = clock.now();
            if *due > now {
                return Ok(false);
            }
            *due = now + schedule.every;
        }
        let fetched = remote.fetch(tls).await;
        if fetched.is_err() {
            // Sooner than at the next turn: the error may pass soon.
            let mut due = schedule.due.lock().unwrap_or_else(PoisonError::into_inner);
            *due = clock.now() + schedule.every.min(RETRY_AFTER);
        }
        let Some(fresh) = fetched.with_context(|| mask(&remote.url))? else { return Ok(false) };
        tokio::task::block_in_place(|| {
            let mut entries = self.read(&fresh.path)?;
            let (count, bad) = (entries.hashes.len(), entries.bad);
            ensure!(count > bad || bad == 0, "{bad} lines are no entries, {count} are: no list");
            remote.adopt(&fresh)?;
            entries.stamp = Some(stamp(&self.path)?);
            self.entries.store(Arc::new(entries));
            Ok(true)
        })
    }

    /// A list from a file; `folder` takes the index of a large one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(name: &str, path: &Path, folder: &Path) -> anyhow::Result<Self> {
        let list = Self::unread(name, path, folder);
        list.reload()?;
        Ok(list)
    }

    fn unread(name: &str, path: &Path, folder: &Path) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let file: String = name.chars().map(plain).collect();
        LocalList {
            name: name.to_owned(),
            path: path.to_owned(),
            index: folder.join(format!("{file}.index")),
            entries: ArcSwap::default(),
            remote: None,
        }
    }

    /// Reads the file again if it changed. Says whether it did.
    ///
    /// # Errors
    /// If the file cannot be read; the old entries stay.
    pub fn reload(&self) -> anyhow::Result<bool> {
        let named = || format!("local_list {}: {}", self.name, self.path.display());
        if self.remote.is_some() && !self.path.exists() {
            return Ok(false);
        }
        let stamp = stamp(&self.path).with_context(named)?;
        if self.entries.load().stamp == Some(stamp) {
            return Ok(false);
        }
        let mut entries = self.read(&self.path).with_context(named)?;
        entries.stamp = Some(stamp);
        let (count, bad) = (entries.hashes.len(), entries.bad);
        tracing::info!(list = self.name, count, bad, "local list read");
        self.entries.store(Arc::new(entries));
        Ok(true)
    }

    fn read(&self, path: &Path) -> anyhow::Result<Entries> {
        let mut entries = Entries::default();
        let mut hashes = Vec::new();
        let mut lines = BufReader::new(File::open(path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let text = line.split(|b| *b == b'#').next().unwrap_or_default().trim_ascii();
            if text.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(text).ok().filter(|t| t.len() <= LINE_BYTES_MAX);
            let entry = text.and_then(|text| entries.entry(text));
            match entry {
                Some(hash) if hashes.len() < ENTRIES_MAX => hashes.push(hash),
                _ => entries.bad += 1,
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
        entries.hashes = match hashes.len() >= MAPPED_FROM {
            true => Hashes::Mapped(self.map(&hashes)?),
            false => Hashes::Held(hashes),
        };
        Ok(entries)
    }

    /// Writes the index beside the old one, puts it in its place and maps it.
    fn map(&self, hashes: &[u64]) -> anyhow::Result<Mmap> {
        let fresh = self.index.with_extension("new");
        if let Some(folder) = fresh.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut out = BufWriter::new(File::create(&fresh)?);
        for hash in hashes {
            out.write_all(&hash.to_le_bytes())?;
        }
        out.into_inner().map_err(|e| e.into_error())?.sync_all()?;
        fs::rename(&fresh, &self.index)?;
        let file = File::open(&self.index)?;
        // SAFETY: the file is in our data folder and is never written again: a new index is a new
        // file that is renamed over it, and the map keeps the old one.
        Ok(unsafe { Mmap::map(&file)? })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.load().hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address, host, mail address or hash is listed.
    pub fn has(&self, text: &str) -> bool {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => self.has_address(address),
            Err(_) if text.contains('@') => self.has_mail_address(text),
            Err(_) => self.has_host(text) || self.has_hash(text),
        }
    }

    /// The address is listed, alone or with a network.
    pub fn has_address(&self, address: IpAddr) -> bool {
        let entries = self.entries.load();
        let address = address.to_canonical();
        let lengths = if address.is_ipv4() { &entries.lengths_v4 } else { &entries.lengths_v6 };
        lengths.iter().any(|bits| entries.hashes.contains(network_hash(address, *bits)))
    }

    /// The host is listed, or a domain above it.
    pub fn has_host(&self, host: &str) -> bool {
        let entries = self.entries.load();
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let mut name = host.as_str();
        loop {
            if entries.hashes.contains(hash('h', name)) {
                return true;
            }
            match name.split_once('.') {
                Some((_, parent)) => name = parent,
                None => return false,
            }
        }
    }

    /// The mail address is listed, or its domain as `@domain`, or the domain as a host.
    pub fn has_mail_address(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        let Some((_, domain)) = address.rsplit_once('@') else { return false };
        let entries = self.entries.load();
        entries.hashes.contains(hash('m', &address))
            || entries.hashes.contains(hash('m', &format!("@{domain}")))
            || self.has_host(domain)
    }

    /// The hash (hexadecimal) is listed.
    pub fn has_hash(&self, hex: &str) -> bool {
        self.entries.load().hashes.contains(hash('x', &hex.to_ascii_lowercase()))
    }
}

/// Time and size of a file.
fn stamp(path: &Path) -> anyhow::Result<(SystemTime, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.modified()?, metadata.len()))
}

impl Entries {
    /// The hash of an entry: an address or network, a mail address, a hash of 32 hexadecimal digits
    /// at least, or a host. None if it is none of them.
    fn entry(&mut self, text: &str) -> Option<u64> {
        let lower = text.to_lowercase();
        let (base, bits) = match lower.split_once('/') {
            Some((base, bits)) => (base, Some(bits.parse::<u8>().ok()?)),
            None => (lower.as_str(), None),
        };
        if let Ok(address) = base.parse::<IpAddr>() {
            let (width, lengths) = match address {
                IpAddr::V4(_) => (32, &mut self.lengths_v4),
                IpAddr::V6(_) => (128, &mut self.lengths_v6),
            };
            let bits = bits.unwrap_or(width);
            if bits > width {
                return None;
            }
            lengths.insert(bits);
            return Some(network_hash(address, bits));
        }
        if lower.contains('@') {
            return Some(hash('m', &lower));
        }
        if lower.len() >= 32 && lower.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Some(hash('x', &lower));
        }
        let host = lower.strip_prefix("*.").unwrap_or(&lower).trim_end_matches('.');
        let host = gauntlet_mail::address::ascii_domain(host)?;
        let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        (host.contains('.') && host.bytes().all(fine)).then(|| hash('h', &host))
    }
}

fn network_hash(address: IpAddr, bits: u8) -> u64 {
    let masked = match address {
        IpAddr::V4(ip) => {
            let shift = 32 - u32::from(bits.min(32));
            u128::from((u64::from(ip.to_bits()) >> shift) << shift)
        }
        IpAddr::V6(ip) => {
            let shift = 128 - u32::from(bits.min(128));
            ip.to_bits().checked_shr(shift).and_then(|b| b.checked_shl(shift)).unwrap_or(0)
        }
    };
    let family = if address.is_ipv4() { '4' } else { '6' };
    hash(family, &format!("{masked:x}/{bits}"))
}

fn hash(kind: char, text: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    let mut utf8 = [0; 4];
    hasher.update(kind.encode_utf8(&mut utf8).as_bytes());
    hasher.update(text.as_bytes());
    let digest = hasher.finalize();
    let bytes = digest.as_bytes().iter().take(8);
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_all_kinds_and_reload() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.txt");
        fs::write(
            &path,
            "# ours\n192.0.2.1\n198.51.100.0/24 # a net\n2001:db8::/32\nBad.Example\n*.wild.example\n\
             eve@c.example\n@d.example\nd41d8cd98f00b204e9800998ecf8427e\nno entry!\n1.2.3.4/99\n\u{e9}.example\n",
        )
        .unwrap();
        let list = LocalList::open("ours", &path, folder.path()).unwrap();
        assert_eq!((list.len(), list.entries.load().bad), (9, 2));
        let ip = |text: &str| list.has_address(text.parse().unwrap());
        assert!(ip("192.0.2.1") && ip("198.51.100.77") && ip("2001:db8:5::1"));
        assert!(!ip("192.0.2.2") && !ip("198.51.101.1") && !ip("2001:db9::1"));
        assert!(list.has_host("BAD.example.") && list.has_host("x.y.bad.example"));
        assert!(list.has_host("a.wild.example") && !list.has_host("example") && !list.has_host(""));
        assert!(list.has_mail_address("Eve@C.example") && list.has_mail_address("x@d.example"));
        assert!(
            list.has_mail_address("x@sub.bad.example") && !list.has_mail_address("x@c.example")
        );
        assert!(list.has_hash("D41D8CD98F00B204E9800998ECF8427E") && !list.has_hash("00"));
        assert!(!list.reload().unwrap());
        fs::write(&path, "203.0.113.1\n").unwrap();
        assert!(list.reload().unwrap());
        assert!(list.has_address("203.0.113.1".parse().unwrap()) && !list.has_host("bad.example"));
        fs::remove_file(&path).unwrap();
        assert!(list.reload().is_err());
        assert!(list.has_address("203.0.113.1".parse().unwrap()), "the old entries stay");
    }

    #[test]
    fn large_lists_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.txt");
        let lines: String = (0..300_000).map(|n| format!("host{n}.example\n")).collect();
        fs::write(&path, lines).unwrap();
        let list = LocalList::open("large", &path, folder.path()).unwrap();
        assert!(matches!(list.entries.load().hashes, Hashes::Mapped(_)));
        assert_eq!(list.len(), 300_000);
        assert!(list.has_host("www.host299999.example") && list.has_host("host0.example"));
        assert!(!list.has_host("host300000.example"));
    }
}
