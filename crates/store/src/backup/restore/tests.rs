use std::os::unix::fs::PermissionsExt;

use super::super::{Step, back_up};
use super::*;

/// A data folder with a database, a key, held mail and a spool, and a backup of it.
fn made() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    for below in ["spool", "console", "quarantine/packs", "queue"] {
        fs::create_dir_all(data.join(below)).unwrap();
    }
    fs::write(data.join("spool/1.seg"), "waits").unwrap();
    fs::write(data.join("queue/arrivals"), "old").unwrap();
    fs::write(data.join("quarantine.keys"), "secret").unwrap();
    fs::write(data.join("quarantine/packs/1.pack"), vec![7; 300_000]).unwrap();
    let db = crate::database::open_write(&data.join("console/users.db"), &["CREATE TABLE t (x);"]);
    db.unwrap().execute("INSERT INTO t VALUES (7)", []).unwrap();
    back_up(&data, &backup, &[data.join("spool")], 5, &mut |_, _, _| {}).unwrap();
    (folder, data, backup)
}

fn plan<'a>(backup: &'a Path, data: &'a Path, keep: &'a [PathBuf]) -> Plan<'a> {
    let owner = Owner::user(0, 0);
    Plan { backup, data, replaces: false, keep, owner, stamp: "now" }
}

fn run(plan: &Plan<'_>) -> Result<Restored, BackupError> {
    restore(plan, &mut |_, _, _| {})
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_backup_is_restored_whole_and_private_where_nothing_is() {
    let (folder, _, backup) = made();
    let mut steps = Vec::new();
    let new = folder.path().join("new");
    let restored = restore(&plan(&backup, &new, &[]), &mut |step, done, total| {
        assert!(done <= total);
        steps.push(step);
    });
    let restored = restored.unwrap();
    assert_eq!((restored.files, restored.aside, restored.has_hashes), (4, None, true));
    assert!(steps.contains(&Step::Verify) && steps.contains(&Step::Copy));
    assert_eq!(fs::read(new.join("quarantine/packs/1.pack")).unwrap(), vec![7; 300_000]);
    assert!(!new.join(MARKER).exists() && !new.join("spool").exists());
    assert_eq!([mode(&new), mode(&new.join("console"))], [0o700; 2]);
    assert_eq!(
        [mode(&new.join("quarantine.keys")), mode(&new.join("console/users.db"))],
        [0o600; 2]
    );
    // Once more, over it: only if that is wanted.
    let again = run(&plan(&backup, &new, &[])).unwrap_err();
    assert!(matches!(again, BackupError::NotEmpty { .. }), "{again}");
}

#[test]
fn what_is_there_is_moved_aside_and_mail_under_way_comes_along() {
    let (_folder, data, backup) = made();
    fs::write(data.join("queue/arrivals"), "new").unwrap();
    fs::write(data.join("quarantine.keys"), "spoiled").unwrap();
    let keep = ["spool", "queue", "none"].map(PathBuf::from);
    let forced = Plan { replaces: true, ..plan(&backup, &data, &keep) };
    let lock = lock_at(&data).unwrap();
    assert!(matches!(run(&forced), Err(BackupError::Running { .. })));
    drop(lock);
    let restored = run(&forced).unwrap();
    let aside = restored.aside.unwrap();
    assert!(aside.ends_with("data.before-restore-now"), "{aside:?}");
    assert_eq!(restored.kept, ["spool", "queue"].map(PathBuf::from));
    assert_eq!(fs::read(data.join("spool/1.seg")).unwrap(), b"waits");
    assert_eq!(fs::read(data.join("queue/arrivals")).unwrap(), b"new");
    assert_eq!(fs::read(data.join("quarantine.keys")).unwrap(), b"secret");
    assert_eq!(fs::read(aside.join("quarantine.keys")).unwrap(), b"spoiled");
    assert!(!aside.join("spool").exists() && !data.join(MARKER).exists());
}

#[test]
fn every_damage_of_a_backup_is_named_and_stops_the_restore() {
    let (folder, data, backup) = made();
    let pack = backup.join("quarantine/packs/1.pack");
    let whole = fs::read(&pack).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    type Damage<'a> = Box<dyn Fn() + 'a>;
    let cases: [(&str, Damage<'_>); 4] = [
        ("content", Box::new(|| fs::write(&pack, flipped(150_000)).unwrap())),
        ("299999 bytes, 300000", Box::new(|| fs::write(&pack, &whole[1..]).unwrap())),
        ("missing", Box::new(|| fs::remove_file(&pack).unwrap())),
        ("opened", Box::new(|| std::os::unix::fs::symlink("/etc/passwd", &pack).unwrap())),
    ];
    for (said, damage) in cases {
        damage();
        let new = folder.path().join("new");
        let error = run(&plan(&backup, &new, &[])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("quarantine/packs/1.pack") && text.contains(said), "{text}");
        assert!(!new.exists(), "{said}: nothing was made");
        let forced = Plan { replaces: true, ..plan(&backup, &data, &[]) };
        run(&forced).unwrap_err();
        assert!(data.join("spool/1.seg").exists());
    }
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, &whole).unwrap();
    // The description itself, at any byte.
    let description = backup.join(super::super::MANIFEST);
    let text = fs::read(&description).unwrap();
    for at in (0..text.len()).step_by(11) {
        let mut bytes = text.clone();
        bytes[at] ^= 1;
        fs::write(&description, &bytes).unwrap();
        if let Ok(found) = Backup::read(&backup) {
            panic!("a byte at {at} was changed: {found:?}");
        }
    }
    fs::remove_file(&description).unwrap();
    let error = run(&plan(&backup, &folder.path().join("new"), &[])).unwrap_err();
    assert!(matches!(error, BackupError::Incomplete { .. }), "{error}");
    fs::write(&description, r#"{"format":3}"#).unwrap();
    let error = run(&plan(&backup, &folder.path().join("new"), &[])).unwrap_err();
    assert!(matches!(error, BackupError::Newer { found: 3, .. }), "{error}");
}

#[test]
fn a_backup_of_the_first_format_is_restored_after_its_databases_were_looked_at() {
    let (folder, _, backup) = made();
    let description = backup.join(super::super::MANIFEST);
    let made = Backup::read(&backup).unwrap();
    let old = serde_json::json!({
        "version": "0.1.0", "begun_ms": 5, "databases": made.databases, "files": made.files,
        "bytes": made.bytes,
    });
    fs::write(&description, old.to_string()).unwrap();
    let restored = run(&plan(&backup, &folder.path().join("new"), &[])).unwrap();
    assert_eq!((restored.files, restored.has_hashes), (4, false));
    assert!(folder.path().join("new/console/users.db").exists());
    fs::write(backup.join("console/users.db"), vec![0; 8_192]).unwrap();
    let error = run(&plan(&backup, &folder.path().join("other"), &[])).unwrap_err().to_string();
    assert!(error.contains("console/users.db") || error.contains("backup.json"), "{error}");
}

#[test]
fn an_interrupted_restore_keeps_nodes_away_and_is_finished_by_the_next() {
    let (folder, data, backup) = made();
    let marker = Marker {
        backup: backup.clone(),
        is_whole: false,
        aside: None,
        keep: vec!["spool".into()],
        owner: Owner::user(0, 0),
    };
    // Killed while it copied into an empty place.
    let new = folder.path().join("new");
    fs::create_dir(&new).unwrap();
    marker.write(&new).unwrap();
    fs::write(new.join("quarantine.keys"), "sec").unwrap();
    fs::write(new.join("left"), "over").unwrap();
    let error = refuse_unfinished(&new).unwrap_err().to_string();
    assert!(error.contains("interrupted") && error.contains("gauntlet restore"), "{error}");
    run(&plan(&backup, &new, &[])).unwrap();
    assert!(!new.join("left").exists() && refuse_unfinished(&new).is_ok());
    // Killed before the exchange: what was copied goes, what is in use stays.
    let beside = exchange::beside(&data, "then");
    fs::create_dir(&beside).unwrap();
    marker.write(&beside).unwrap();
    // Killed after the exchange, before mail under way was brought along.
    let aside = exchange::beside(&data, "now");
    let forced = Plan { replaces: true, ..plan(&backup, &data, &[]) };
    run(&forced).unwrap();
    assert!(!beside.exists() && aside.join("spool/1.seg").exists());
    Marker { is_whole: true, aside: Some(aside.clone()), ..marker }.write(&data).unwrap();
    refuse_unfinished(&data).unwrap_err();
    let restored = run(&plan(&backup, &data, &[])).unwrap();
    assert_eq!(restored.finished, Some(backup));
    assert_eq!(fs::read(data.join("spool/1.seg")).unwrap(), b"waits");
    assert!(refuse_unfinished(&data).is_ok() && !aside.join("spool").exists());
}
