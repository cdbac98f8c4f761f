//! `gauntlet ca`: an authority is made once, shown, and used by a proxy.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn gauntlet(args: &[&str], folder: &Path) -> Output {
    let gauntlet = env!("CARGO_BIN_EXE_gauntlet");
    Command::new(gauntlet).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn an_authority_is_made_once_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let made = gauntlet(&["ca", "new", "--out", "ca", "--name", "Office", "--json"], folder.path());
    assert!(made.status.success(), "{}", text(&made.stderr));
    let json: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((&json["name"], &json["key"]), (&"Office".into(), &"ca/ca.key".into()));
    let key = folder.path().join("ca/ca.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    for path in ["ca", "ca/ca.pem"] {
        let shown = text(&gauntlet(&["ca", "show", path], folder.path()).stdout);
        assert!(shown.contains(json["sha256"].as_str().unwrap()), "{shown}");
        assert!(shown.contains("update-ca-certificates"), "{shown}");
    }
    let before = fs::read(&key).unwrap();
    let again = gauntlet(&["ca", "new", "--out", "ca"], folder.path());
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("exists already"), "{}", text(&again.stderr));
    assert_eq!(fs::read(&key).unwrap(), before);
}

#[test]
fn a_proxy_does_not_start_without_its_key() {
    let folder = tempfile::tempdir().unwrap();
    gauntlet(&["ca", "new", "--out", "ca", "--days", "2"], folder.path());
    let key = folder.path().join("ca/ca.key");
    let start = ["proxy", "--listen", "127.0.0.1:0", "--ca", "ca"];
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = gauntlet(&start, folder.path());
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("chmod 600"), "{}", text(&refused.stderr));
    fs::remove_file(&key).unwrap();
    let refused = gauntlet(&start, folder.path());
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    assert!(said.contains("ca/ca.key") && said.contains("gauntlet ca new"), "{said}");
}
