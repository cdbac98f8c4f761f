//! What a node's probes and traps have brought, to be published: signatures, entries of URL lists,
//! hints of order.
//!
//! | File | Made of | Left out |
//! |---|---|---|
//! | `signatures/probes` | signatures of the data folder | what resembles good mail; what is old |
//! | `urls/phishing/probes`, `urls/spam/probes` | sightings of the last days | `url_entries` says |
//! | `order/probes` | hits of the last day, anew each hour | |
//!
//! Good mail is what people of the node corrected to good, what it held and found or released as
//! good, messages that the publisher names, and the domains that mail of proven, known authors
//! named ([`gauntlet_learning::probes`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use gauntlet_engine::Scratch;
use gauntlet_engine::corrections::reports;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::fingerprint::Found;
use gauntlet_engine::signatures::known::{DAYS_DEFAULT, Report};
use gauntlet_engine::signatures::table::Entry;
use gauntlet_gateway::scan::probes::domains_of;
use gauntlet_inputs::messages;
use gauntlet_learning::probes::{GoodDomains, Sighting, read};
use gauntlet_learning::url_entries::{EntryRules, entries};
use gauntlet_learning::{Corrections, signatures};
use gauntlet_mail::Message;
use gauntlet_rules::HitRates;
use gauntlet_store::{Log, Quarantine, Query};
use gauntlet_verdict::Class;

/// Files of them in the folder that is published.
const SIGNATURES: &str = "signatures/probes";
const PHISHING: &str = "urls/phishing/probes";
const SPAM: &str = "urls/spam/probes";
const ORDER: &str = "order/probes";
/// Days that a message to a probe counts for an entry of a URL list, unless set otherwise.
pub(super) const URL_DAYS: u16 = 7;
/// Signatures that are published by probes: 64 MB. More is a table's to hold.
const ENTRIES_MAX: usize = 1_000_000;
/// Held mail of so many days is good mail, if it was found or released as such.
const HELD_DAYS: i64 = 7;
/// Held messages that are read in one round, and in all.
const HELD_ROUND_MAX: usize = 500;
const HELD_MAX: usize = 20_000;
/// Messages that the publisher names are read again after this.
const GOOD_AGAIN: Duration = Duration::from_secs(900);
/// Hints of order are of so many seconds, and are made again after this.
const ORDER_SECONDS: i64 = 86_400;
const ORDER_AGAIN: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 86_400_000;
const DAY_SECONDS: i64 = 86_400;

/// What is published of probes.
#[derive(Debug, Clone)]
pub(super) struct Sources<'s> {
    /// The node's data folder.
    pub(super) data: &'s Path,
    /// Good mail that the publisher names.
    pub(super) good: &'s [PathBuf],
    /// The node's log and held mail, if it is this process.
    pub(super) held: Option<(&'s Log, &'s Quarantine)>,
    /// What an entry of a URL list has to have.
    pub(super) rules: EntryRules,
    /// Days that a message counts for an entry of a URL list.
    pub(super) url_days: u16,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Written {
    /// Signatures of bad mail.
    pub(super) signatures: usize,
    /// Signatures that were left out because they resemble good mail.
    pub(super) resembling: usize,
    /// Entries of URL lists.
    pub(super) urls: usize,
    /// Hosts that were left out, for whatever reason.
    pub(super) urls_left_out: usize,
}

/// Good mail as it was read so far, kept from one round to the next.
#[derive(Debug, Default)]
pub(super) struct GoodMail {
    named: Option<(Instant, Known)>,
    held: Known,
    /// Held messages that were read.
    read: BTreeSet<String>,
}

/// What some good mail has.
#[derive(Debug, Default)]
struct Known {
    entries: Vec<Entry>,
    domains: BTreeSet<u64>,
}

impl Known {
    fn add(&mut self, raw: &[u8], today: u16, scratch: &mut Scratch) {
        let message = Message::parse(raw);
        let entry = |f: Found| Entry { fingerprint: f.fingerprint, bad: 0, good: 1, day: today };
        self.entries.extend(scratch.fingerprints(&message).into_iter().map(entry));
        self.domains.extend(domains_of(&message, None));
    }
}

/// Writes what the probes of a node brought into the folder that is published.
///
/// # Errors
/// If something cannot be read or written.
pub(super) fn write(
    sources: &Sources<'_>,
    known: &mut GoodMail,
    folder: &Path,
    now_s: i64,
) -> anyhow::Result<Written> {
    let today = u16::try_from(now_s / DAY_SECONDS).unwrap_or(u16::MAX);
    known.read(sources, today, now_s)?;
    let mut written = Written::default();
    write_signatures(sources.data, known, folder, today, &mut written)?;
    let sightings = read(sources.data, now_s - i64::from(sources.url_days) * DAY_SECONDS)?;
    write_urls(sources, known, folder, &sightings, &mut written)?;
    write_order(folder, &sightings, now_s)?;
    Ok(written)
}

impl GoodMail {
    fn read(&mut self, sources: &Sources<'_>, today: u16, now_s: i64) -> anyhow::Result<()> {
        let mut scratch = Scratch::default();
        if self.named.as_ref().is_none_or(|(at, _)| at.elapsed() >= GOOD_AGAIN) {
            let mut named = Known::default();
            for path in sources.good {
                messages::walk(path, &mut |raw| named.add(raw, today, &mut scratch))?;
            }
            self.named = Some((Instant::now(), named));
        }
        let Some((log, held)) = sources.held else { return Ok(()) };
        let since_ms = now_s * 1_000 - HELD_DAYS * DAY_MS;
        let query = Query { since_ms: Some(since_ms), limit: HELD_ROUND_MAX, ..Query::default() };
        let good = Query { classes: vec![Class::Ham, Class::Bulk], ..query.clone() };
        let released = Query { event: "released".to_owned(), ..query };
        for query in [good, released] {
            for summary in log.search(&query).context("the message log")?.messages {
                if self.read.len() >= HELD_MAX {
                    *self = GoodMail { named: self.named.take(), ..GoodMail::default() };
                }
                if self.read.contains(&summary.id) {
                    continue;
                }
                if let Some(raw) = held.body(&summary.id).ok().flatten() {
                    self.held.add(&raw, today, &mut scratch);
                }
                self.read.insert(summary.id);
            }
        }
        Ok(())
    }

    fn all(&self) -> impl Iterator<Item = &Known> {
        self.named.iter().map(|(_, known)| known).chain([&self.held])
    }

    /// What good mail looks like: one person's word is enough here.
    fn signatures(&self, data: &Path) -> anyhow::Result<KnownSignatures> {
        let said = reports(&Corrections::read(data)?);
        let mut reports: Vec<Report> = said.into_iter().filter(|report| !report.spam).collect();
        reports.iter_mut().for_each(|report| report.reporter = 0);
        let entries: Vec<Entry> = self.all().flat_map(|known| known.entries.clone()).collect();
        Ok(KnownSignatures::new(None, &entries, &reports, DAYS_DEFAULT))
    }
}

fn write_signatures(
    data: &Path,
    known: &GoodMail,
    folder: &Path,
    today: u16,
    written: &mut Written,
) -> anyhow::Result<()> {
    let good = known.signatures(data)?;
    let mut entries = Vec::new();
    for entry in bad_mail(data, today)? {
        let found = [Found { fingerprint: entry.fingerprint, part: 0 }];
        match good.resembles(&found, today).is_empty() {
            true => entries.push(entry),
            false => written.resembling += 1,
        }
    }
    // In one order, whatever the table's is: what did not change is the same file.
    entries.sort_by_key(Entry::to_bytes);
    let path = place(folder, SIGNATURES)?;
    signatures::write_file(&path, &entries).with_context(|| path.display().to_string())?;
    written.signatures = entries.len();
    Ok(())
}

fn write_urls(
    sources: &Sources<'_>,
    known: &GoodMail,
    folder: &Path,
    sightings: &[Sighting],
    written: &mut Written,
) -> anyhow::Result<()> {
    // Without it every domain would pass: no entry is made then.
    let mut good = GoodDomains::read(sources.data)?;
    good.add(known.all().flat_map(|known| known.domains.iter().copied()), 0);
    let made = entries(sightings, &sources.rules, |domain| good.has(domain));
    written.urls = made.phishing.len() + made.spam.len();
    written.urls_left_out = made.left_out.values().sum();
    tracing::debug!(left_out = ?made.left_out, "entries of URL lists");
    // Both are there even if they are empty, so that what nodes call them stays the same.
    for (name, lines) in [(PHISHING, &made.phishing), (SPAM, &made.spam)] {
        let mut text = String::from("# where mail to probes leads\n");
        lines.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
        write_text(&place(folder, name)?, &text)?;
    }
    Ok(())
}

fn write_order(folder: &Path, sightings: &[Sighting], now_s: i64) -> anyhow::Result<()> {
    let path = place(folder, ORDER)?;
    let changed = std::fs::metadata(&path).and_then(|about| about.modified());
    let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    if age.is_some_and(|age| age < ORDER_AGAIN) {
        return Ok(());
    }
    let mut rates = HitRates::default();
    for sighting in sightings.iter().filter(|s| s.at_s >= now_s - ORDER_SECONDS) {
        rates.add(sighting.rules.iter().map(String::as_str));
    }
    if rates.messages() == 0 {
        return Ok(());
    }
    write_text(&path, &rates.to_string())
}

/// Where a file of this name is written, its folder made.
fn place(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(path)
}

fn write_text(path: &Path, text: &str) -> anyhow::Result<()> {
    gauntlet_store::files::write_durably(path, text.as_bytes())
        .with_context(|| path.display().to_string())
}

/// What a node has learned of probes and nobody called good, each once.
fn bad_mail(data: &Path, today: u16) -> anyhow::Result<Vec<Entry>> {
    let (table, journal) = signatures::load(data)?;
    let of_table = table.iter().flat_map(|table| {
        (0..table.len()).filter_map(|number| table.entry(number)).collect::<Vec<_>>()
    });
    let lives = |entry: &Entry| {
        let is_new = u32::from(entry.day) + u32::from(DAYS_DEFAULT) >= u32::from(today);
        is_new && entry.bad > 0 && entry.good == 0
    };
    let entries: Vec<Entry> = of_table.chain(journal).filter(lives).collect();
    ensure!(entries.len() <= ENTRIES_MAX, "{} signatures, {ENTRIES_MAX} at most", entries.len());
    // Those of near duplicates are one.
    Ok(KnownSignatures::new(None, &entries, &[], DAYS_DEFAULT).recent().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_learning::probes::{add_good_domains, append, domain_id};
    use gauntlet_learning::signatures::SignatureWriter;

    fn sources<'s>(data: &'s Path, good: &'s [PathBuf]) -> Sources<'s> {
        Sources { data, good, held: None, rules: EntryRules::default(), url_days: 7 }
    }

    fn written(data: &Path, good: &[PathBuf], out: &Path, today: u16) -> Written {
        let now_s = i64::from(today) * DAY_SECONDS;
        write(&sources(data, good), &mut GoodMail::default(), out, now_s).unwrap()
    }

    fn message(words: &str) -> Vec<u8> {
        let text = format!("{words}\r\n").repeat(12);
        format!("From: a@example.org\r\nSubject: {words}\r\n\r\n{text}").into_bytes()
    }

    fn learn(data: &Path, raw: &[u8], day: u16) {
        let found = Scratch::default().fingerprints(&Message::parse(raw));
        let entry = |f: Found| Entry { fingerprint: f.fingerprint, bad: 1, good: 0, day };
        let entries: Vec<Entry> = found.into_iter().map(entry).collect();
        assert!(!entries.is_empty());
        let mut writer = SignatureWriter::open(data, DAYS_DEFAULT).unwrap();
        writer.append(&entries, day).unwrap();
    }

    #[test]
    fn what_resembles_good_mail_or_is_old_is_not_published() {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (folder.path().join("data"), folder.path().join("out"));
        let spam = message("buy these fine replica watches of our shop before the night is over");
        let list = message("the minutes of the garden club and what was planted in its beds");
        let old = message("a prince of a far country wishes to send you a chest of his gold");
        let today = 20_600;
        for raw in [&spam, &spam, &list] {
            learn(&data, raw, today - 1);
        }
        learn(&data, &old, today - DAYS_DEFAULT - 1);
        let all = written(&data, &[], &out, today);
        let first = std::fs::read(out.join(SIGNATURES)).unwrap();
        let good = folder.path().join("good.eml");
        std::fs::write(&good, &list).unwrap();
        let some = written(&data, &[good], &out, today);
        let (kept, resembling) = (some.signatures, some.resembling);
        assert!(kept > 0 && resembling > 0 && kept + resembling == all.signatures, "{some:?}");
        let (_, entries) = signatures::open_file(&out.join(SIGNATURES)).unwrap();
        assert!(entries.iter().all(|entry| entry.bad == 2), "one of two near duplicates");
        written(&data, &[], &out, today);
        assert_eq!(std::fs::read(out.join(SIGNATURES)).unwrap(), first);
    }

    #[test]
    fn urls_of_several_senders_become_entries_unless_good_mail_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (folder.path().join("data"), folder.path().join("out"));
        let today = 20_600;
        let sighting = |n: i64| Sighting {
            at_s: i64::from(today) * DAY_SECONDS - n,
            network: format!("n 192.0.{n}.0/24"),
            sender: format!("sender{n}.example"),
            class: "phishing".to_owned(),
            urls: vec!["http://evil.com/in".to_owned(), "http://garden.org/".to_owned()],
            rules: vec!["LURE".to_owned()],
        };
        let old = Sighting { at_s: 0, ..sighting(3) };
        append(&data, &[sighting(0), sighting(1), old], 1 << 20).unwrap();
        assert_eq!(written(&data, &[], &out, today).urls, 0, "the third is old");
        append(&data, &[sighting(2)], 1 << 20).unwrap();
        assert_eq!(written(&data, &[], &out, today).urls, 2);
        let good = folder.path().join("good.eml");
        std::fs::write(&good, "From: a@b.example\r\n\r\nhttp://www.garden.org/beds\r\n").unwrap();
        assert_eq!(written(&data, &[good], &out, today).urls, 1);
        add_good_domains(&data, &[domain_id("garden.org")], today).unwrap();
        let some = written(&data, &[], &out, today);
        assert_eq!((some.urls, some.urls_left_out), (1, 1));
        let text = std::fs::read_to_string(out.join(PHISHING)).unwrap();
        assert!(text.ends_with("\nevil.com/in\n") && text.lines().count() == 2, "{text}");
        assert_eq!(std::fs::read_to_string(out.join(SPAM)).unwrap().lines().count(), 1);
        let order = std::fs::read_to_string(out.join(ORDER)).unwrap();
        assert_eq!(order, "messages 2\nhit LURE 2\n", "of the first round");
        std::fs::write(data.join("probes/good-domains"), "damaged").unwrap();
        let error = write(&sources(&data, &[]), &mut GoodMail::default(), &out, 0).unwrap_err();
        assert!(error.to_string().contains("good-domains"), "{error}");
    }
}
