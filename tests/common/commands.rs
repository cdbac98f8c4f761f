//! Commands of the program that several tests run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::message;

/// Has our own load generator show a service a message of ours and the test pattern in turn: half
/// is called spam, half passes, nothing fails.
pub(crate) fn drive(protocol: &str, place: &str, pattern: &str) {
    let mail = tempfile::tempdir().unwrap();
    std::fs::write(mail.path().join("a.eml"), message("a", 5_000)).unwrap();
    std::fs::write(mail.path().join("b.eml"), pattern).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["bench", "send", "--protocol", protocol, place])
        .arg(mail.path())
        .args(["--json", "--messages", "40", "--seconds", "40", "--no-calibration"])
        .args(["--warm-up", "0"])
        .output()
        .unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let outcomes = value["subjects"][0]["rounds"][0]["outcomes"].as_array().unwrap().clone();
    let count = |what: &str| {
        let of = outcomes.iter().filter(|o| o["outcome"] == what);
        of.map(|o| o["messages"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((count("spam"), count("passed"), count("failed")), (20, 20, 0), "{value}");
}

/// Compiles a list of URLs, as its name says, in a folder that the node may read.
pub(crate) fn compile_urls(folder: &Path, name: &str, lines: &str, args: &[&str]) -> PathBuf {
    std::fs::create_dir_all(folder.join("urls")).unwrap();
    let (source, out) = (folder.join(format!("{name}.txt")), folder.join(format!("urls/{name}")));
    std::fs::write(&source, lines).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["urls", "compile"])
        .args(args)
        .args([Path::new("--out"), &out, &source])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    out
}
