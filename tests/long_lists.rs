//! `--limit` and `--max` of commands: what is asked for is printed, or the command says what it
//! can.

use std::path::Path;
use std::process::{Command, Output};

use gauntlet_mail::Envelope;
use gauntlet_store::quarantine::QuarantineItem;
use gauntlet_store::{Quarantine, Users};
use gauntlet_verdict::Class;

const MANY: usize = 620;

fn gauntlet(data: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .env_remove("GAUNTLET_CONFIG")
        .args(arguments)
        .arg("--data")
        .arg(data)
        .output()
        .unwrap()
}

fn lines(data: &Path, arguments: &[&str]) -> usize {
    let output = gauntlet(data, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count()
}

fn item(n: usize) -> QuarantineItem {
    QuarantineItem {
        id: format!("q{n}"),
        message: format!("m{n}"),
        folder: "suspect".to_owned(),
        recipients: vec!["bob@home.example".to_owned()],
        envelope: Envelope::default(),
        received_ms: n as i64,
        class: Class::Spam,
        score: 7.5,
        subject: "x".to_owned(),
        from: "eve@away.example".to_owned(),
        release: None,
    }
}

#[test]
fn limits_above_a_page_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let users = Users::open(&data.join("console")).unwrap();
    for n in 0..MANY {
        users.note(n as i64, "ada", "read", "x").unwrap();
    }
    let quarantine = Quarantine::open(&data.join("quarantine")).unwrap();
    let items: Vec<QuarantineItem> = (0..MANY).map(item).collect();
    let with_bodies: Vec<(&QuarantineItem, &[u8])> = items.iter().map(|i| (i, &b"x"[..])).collect();
    quarantine.put_many(&with_bodies).unwrap();
    drop((users, quarantine));
    for (limit, expected) in [("1", 1), ("499", 499), ("501", 501), ("1000", MANY)] {
        for command in [&["quarantine", "list", "--limit"][..], &["activity", "--limit"]] {
            assert_eq!(lines(data, &[command, &[limit]].concat()), expected, "{command:?} {limit}");
        }
    }
}

#[test]
fn limits_that_cannot_be_kept_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (command, most) in [
        (&["quarantine", "list", "--limit"][..], "1000000"),
        (&["activity", "--limit"], "1000000"),
        (&["messages", "--limit"], "1000000"),
        (&["queue", "list", "--max"], "10000"),
    ] {
        for limit in ["0", "1000001"] {
            let output = gauntlet(folder.path(), &[command, &[limit]].concat());
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{command:?} {limit}: {error}");
            assert!(error.contains(most), "{command:?} {limit}: {error}");
        }
    }
}
