//! What a start would refuse to open: the stores are asked, as they are asked by a start, and
//! change nothing.

use std::path::{Path, PathBuf};

use gauntlet_learning::signatures::SignaturesError;
use gauntlet_learning::{Corrections, CorrectionsError, signatures};
use gauntlet_store::users::lost::check_not_lost;
use gauntlet_store::{History, Policies, Quarantine, StoreError, UserDatabase, WebReleases};

use super::Report;
use crate::admin::policy_source;
use crate::config::Config;

/// Says of every store that a start opens whether it would be refused. What is said already is not
/// said again: files of another version.
pub(super) fn check(config: &Config, report: &mut Report) {
    let data = &config.node.data;
    note(report, check_not_lost(data).and_then(|()| UserDatabase::check(&data.join("console"))));
    note(report, Quarantine::check(&data.join("quarantine")));
    note(report, History::check(&history(data)));
    let has_console = !config.console.address.is_empty();
    // Without a console only the policy's own versions are read, where no file has it.
    if has_console || config.array.is_on() || config.policy.path.as_os_str().is_empty() {
        note(report, Policies::check(&policy_source::folder(config)));
    }
    if config.web_listeners().next().is_some() {
        note(report, WebReleases::check(&data.join("web")));
    }
    if let Err(error) = Corrections::read(data) {
        let may_pass = matches!(error, CorrectionsError::Io { .. });
        note_learned(report, &error.to_string(), may_pass);
    }
    if let Err(error) = signatures::load(data) {
        let may_pass = matches!(error, SignaturesError::Io { .. });
        note_learned(report, &error.to_string(), may_pass);
    }
}

/// Earlier versions had it in the data folder itself; a start moves it.
fn history(data: &Path) -> PathBuf {
    let folder = data.join("history");
    match !folder.join("history.db").exists() && data.join("history.db").exists() {
        true => data.to_owned(),
        false => folder,
    }
}

fn note(report: &mut Report, checked: Result<(), StoreError>) {
    match checked {
        Ok(()) | Err(StoreError::Newer { .. }) => {}
        Err(error) if error.is_damage() => report.refuse(error.to_string()),
        Err(error @ (StoreError::Lost { .. } | StoreError::Damaged { .. })) => {
            report.refuse(error.to_string());
        }
        // Busy, or not ours to read: a start may find it otherwise.
        Err(error) => report.attend(error.to_string()),
    }
}

/// A version that this program does not read is said with its file already.
fn note_learned(report: &mut Report, error: &str, may_pass: bool) {
    let named = |why: &String| why.split_once(": ").is_some_and(|(path, _)| error.contains(path));
    match may_pass {
        true => report.attend(error.to_owned()),
        false if report.refusals.iter().any(named) => {}
        false => report.refuse(error.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use gauntlet_mail::Envelope;
    use gauntlet_store::{QuarantineItem, Users};
    use gauntlet_verdict::Class;

    use super::super::{Outlook, Subject, look};
    use super::*;

    /// A data folder in which a node was, with a person and a held message.
    fn lived_in(data: &Path) {
        for folder in ["console", "history", "log", "policies", "quarantine"] {
            fs::create_dir_all(data.join(folder)).unwrap();
        }
        let users = Users::open(&data.join("console")).unwrap();
        users.create_first_administrator(1).unwrap();
        History::open(&data.join("history")).unwrap().know(&["ann@example.org".to_owned()], 1);
        Policies::open(&data.join("policies")).unwrap().save("a", None, "ada", "", 1).unwrap();
        let quarantine = Quarantine::open(&data.join("quarantine")).unwrap();
        quarantine.put(&item(), b"body").unwrap();
        rusqlite::Connection::open(data.join("log/2026-11-01.db"))
            .unwrap()
            .execute_batch("CREATE TABLE t(x); PRAGMA user_version = 5;")
            .unwrap();
    }

    fn item() -> QuarantineItem {
        QuarantineItem {
            id: "1".to_owned(),
            message: "1".to_owned(),
            folder: "held".to_owned(),
            recipients: vec!["ann@example.net".to_owned()],
            envelope: Envelope::default(),
            received_ms: 1,
            class: Class::Suspect,
            score: 0.0,
            subject: String::new(),
            from: String::new(),
            release: None,
        }
    }

    fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => files(&path, found),
                false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
            }
        }
    }

    /// The outlook, with what is refused. Nothing changes.
    fn seen(data: &Path) -> (Outlook, String) {
        let mut config = Config::default();
        config.node.data = data.to_owned();
        let [mut before, mut after] = [BTreeMap::new(), BTreeMap::new()];
        files(data, &mut before);
        let report = look(&Subject { config: &config, file: None, backup: None, now_ms: 2 });
        files(data, &mut after);
        assert!(before == after, "{:?}", after.keys());
        let report = report.unwrap();
        (report.outlook, report.refusals.join("\n"))
    }

    #[test]
    fn what_a_start_refuses_to_open_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        lived_in(data);
        // No backup is known of.
        assert_eq!(seen(data), (Outlook::Attention, String::new()));
        type Harm = fn(&Path);
        let empty: Harm = |path| fs::write(path, "").unwrap();
        let remove: Harm = |path| fs::remove_file(path).unwrap();
        let cut: Harm = |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(8_192).unwrap();
        };
        let text: Harm = |path| fs::write(path, [b'x'; 9_000]).unwrap();
        for (name, harms) in [
            ("console/users.db", &[empty, remove, cut, text][..]),
            ("quarantine/quarantine.db", &[empty, remove, cut, text]),
            ("history/history.db", &[cut, text]),
            ("policies/policies.db", &[cut, text]),
        ] {
            let path = data.join(name);
            let before = fs::read(&path).unwrap();
            for (at, harm) in harms.iter().enumerate() {
                harm(&path);
                let (outlook, refusals) = seen(data);
                assert_eq!(outlook, Outlook::Refused, "{name}, {at}");
                assert_eq!(refusals.lines().count(), 1, "{name}, {at}: {refusals}");
                assert!(refusals.contains(&path.display().to_string()), "{refusals}");
                fs::write(&path, &before).unwrap();
            }
        }
        for name in ["corrections/corrections.journal", "signatures/journal"] {
            let path = data.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, [b'x'; 900]).unwrap();
            let (outlook, refusals) = seen(data);
            assert_eq!(outlook, Outlook::Refused, "{name}");
            assert!(refusals.contains(name), "{refusals}");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(seen(data), (Outlook::Attention, String::new()));
    }

    #[test]
    fn a_first_start_and_a_start_without_held_mail_are_none_to_refuse() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(seen(folder.path()).0, Outlook::Attention);
        fs::create_dir_all(folder.path().join("quarantine")).unwrap();
        fs::write(folder.path().join("quarantine/quarantine.db"), "").unwrap();
        assert_eq!(seen(folder.path()).0, Outlook::Attention);
    }
}
