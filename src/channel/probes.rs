//! Signatures of mail of probe accounts, as a node has learned them, to be published.
//!
//! What resembles good mail is never published: mail that people of the node corrected to good, and
//! messages that the publisher names. A signature is published as long as a node would believe it.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gauntlet_engine::Scratch;
use gauntlet_engine::corrections::reports;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::fingerprint::Found;
use gauntlet_engine::signatures::known::{DAYS_DEFAULT, Report};
use gauntlet_engine::signatures::table::Entry;
use gauntlet_inputs::messages;
use gauntlet_learning::{Corrections, signatures};
use gauntlet_mail::Message;

/// File of them in the folder that is published.
const FILE: &str = "signatures/probes";
/// Signatures that are published by probes: 64 MB. More is a table's to hold.
const ENTRIES_MAX: usize = 1_000_000;

/// Writes the signatures of a node's data folder into the folder that is published. Returns how
/// many there are, and how many were left out because they resemble good mail.
///
/// # Errors
/// If they cannot be read or written.
pub(super) fn write(
    data: &Path,
    good: &[PathBuf],
    folder: &Path,
    today: u16,
) -> anyhow::Result<(usize, usize)> {
    let good = good_mail(data, good, today)?;
    let (mut entries, mut resembling) = (Vec::new(), 0);
    for entry in bad_mail(data, today)? {
        let found = [Found { fingerprint: entry.fingerprint, part: 0 }];
        match good.resembles(&found, today).is_empty() {
            true => entries.push(entry),
            false => resembling += 1,
        }
    }
    // In one order, whatever the table's is: what did not change is the same file.
    entries.sort_by_key(Entry::to_bytes);
    let path = folder.join(FILE);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    signatures::write_file(&path, &entries).with_context(|| path.display().to_string())?;
    Ok((entries.len(), resembling))
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

/// Mail that is known to be good: one person's word is enough here.
fn good_mail(data: &Path, paths: &[PathBuf], today: u16) -> anyhow::Result<KnownSignatures> {
    let said = reports(&Corrections::read(data)?);
    let mut reports: Vec<Report> = said.into_iter().filter(|report| !report.spam).collect();
    reports.iter_mut().for_each(|report| report.reporter = 0);
    let (mut scratch, mut entries) = (Scratch::default(), Vec::new());
    for path in paths {
        messages::walk(path, &mut |raw| {
            let found = scratch.fingerprints(&Message::parse(raw));
            let entry =
                |f: Found| Entry { fingerprint: f.fingerprint, bad: 0, good: 1, day: today };
            entries.extend(found.into_iter().map(entry));
        })?;
    }
    Ok(KnownSignatures::new(None, &entries, &reports, DAYS_DEFAULT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_learning::signatures::SignatureWriter;

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
        let (all, _) = write(&data, &[], &out, today).unwrap();
        let first = std::fs::read(out.join(FILE)).unwrap();
        let good = folder.path().join("good.eml");
        std::fs::write(&good, &list).unwrap();
        let (kept, resembling) = write(&data, &[good], &out, today).unwrap();
        assert!(
            kept > 0 && resembling > 0 && kept + resembling == all,
            "{kept} {resembling} {all}"
        );
        let (_, entries) = signatures::open_file(&out.join(FILE)).unwrap();
        assert!(entries.iter().all(|entry| entry.bad == 2), "one of two near duplicates");
        write(&data, &[], &out, today).unwrap();
        assert_eq!(std::fs::read(out.join(FILE)).unwrap(), first);
    }
}
