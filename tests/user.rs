//! `gauntlet user`: people come, change their password and go.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn user(data: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .arg("user")
        .args(args)
        .arg("--data")
        .arg(data)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let _it_may_not_read = child.stdin.take().expect("its input").write_all(input.as_bytes());
    child.wait_with_output().expect("its output")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn people_come_and_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    let added = user(data, &["add", "ada", "--role", "administrator"], "");
    assert!(added.status.success(), "{}", text(&added.stderr));
    assert!(text(&added.stdout).starts_with("one-time password of ada: "));
    let args = ["add", "rita", "--role", "reviewer", "--folder", "suspect", "--password-stdin"];
    assert!(user(data, &args, "a long password\n").status.success());
    let listed = text(&user(data, &["list"], "").stdout);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].starts_with("ada") && lines[0].contains("administrator"), "{listed}");
    assert!(lines[1].contains("reviewer") && lines[1].ends_with("suspect"), "{listed}");
    let json = text(&user(data, &["list", "--json"], "").stdout);
    assert!(json.lines().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    assert!(!json.contains("argon2"), "{json}");
    assert!(user(data, &["passwd", "rita"], "").status.success());
    assert!(user(data, &["remove", "rita"], "").status.success());
}

#[test]
fn passwords_of_mail_programs_are_made_and_revoked() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    user(data, &["add", "ada", "--password-stdin"], "a long password\n");
    let app = |args: &[&str]| user(data, &[&["app-password"], args].concat(), "");
    let made = app(&["new", "ada", "phone"]);
    let secret = text(&made.stdout).trim().to_owned();
    assert!(made.status.success() && secret.len() == 20, "{}", text(&made.stderr));
    let listed = text(&app(&["list", "ada"]).stdout);
    assert!(listed.starts_with("phone") && listed.contains("never used"), "{listed}");
    assert!(!text(&app(&["list", "ada", "--json"]).stdout).contains(&secret));
    assert!(app(&["revoke", "ada", "phone"]).status.success());
    // While a one-time password waits, an app password lets nobody in: who makes one is warned.
    user(data, &["add", "bob"], "");
    let waiting = app(&["new", "bob", "phone"]);
    assert!(waiting.status.success() && text(&waiting.stderr).contains("535"), "{waiting:?}");
    assert!(made.stderr.is_empty(), "{}", text(&made.stderr));
    for (args, why) in [
        (["new", "eve", "phone"], "no user \"eve\""),
        (["revoke", "ada", "phone"], "has no app password"),
        (["new", "ada", "a b"], "is no name"),
    ] {
        let output = app(&args);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    user(data, &["add", "ada", "--role", "administrator"], "");
    let wrong: [(&[&str], &str, &str); 7] = [
        (&["add", "ADA"], "", "there is a user"),
        (&["add", "a b"], "", "visible ASCII"),
        (&["add", "eve", "--role", "boss"], "", "the roles are"),
        (&["add", "eve", "--password-stdin"], "short\n", "10 characters"),
        (&["passwd", "eve"], "", "no user \"eve\""),
        (&["remove", "eve"], "", "no user \"eve\""),
        (&["remove", "ada"], "", "last administrator"),
    ];
    for (args, input, expected) in wrong {
        let output = user(data, args, input);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(expected), "{args:?}: {said}");
    }
    let nowhere = user(&data.join("nowhere"), &["list"], "");
    assert!(text(&nowhere.stderr).contains("no such folder"));
}
