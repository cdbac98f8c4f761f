//! `gauntlet scan` as a user runs it: the program itself, its output and its exit codes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::yesterday;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scan(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.current_dir(root()).arg("scan").args(["--now", "1795250000"]).args(args);
    command.output().expect("the program runs")
}

/// The JSON lines without what may differ between runs.
fn lines(output: &Output) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let parse = |line| {
        let mut value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let object = value.as_object_mut().expect("an object");
        object.remove("cost_us");
        object.remove("costs");
        value
    };
    text.lines().map(parse).collect()
}

/// Folders to scan: the samples, and real mail where there is some.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![root().join("samples")];
    match std::env::var_os("GAUNTLET_CORPUS") {
        Some(corpus) => folders.push(Path::new(&corpus).join("fixtures")),
        None => eprintln!("GAUNTLET_CORPUS is not set: only the samples are scanned"),
    }
    folders
}

#[test]
fn the_same_bytes_at_any_number_of_threads() {
    for folder in folders() {
        let folder = folder.to_string_lossy().into_owned();
        let one = lines(&scan(&["--json", "--threads", "1", &folder]));
        assert!(one.len() >= 40);
        for threads in ["2", "8"] {
            let other = lines(&scan(&["--json", "--threads", threads, &folder]));
            assert!(one == other, "{folder} differs with {threads} threads");
        }
    }
}

/// `-c` judges by the lists, thresholds and limits of that configuration.
#[test]
fn a_configuration_says_who_and_what_is_blocked() {
    let folder = std::env::temp_dir().join(format!("scan-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a writable folder");
        path.to_string_lossy().into_owned()
    };
    let mail = |from: &str, text: &str| {
        format!(
            "From: {from}\r\nSubject: Minutes\r\nDate: {} 00:10:00 +0000\r\n\
            Message-ID: <1@example.org>\r\n\r\nHello Bob,\r\n{text}\r\n",
            yesterday()
        )
    };
    let link = file("link.eml", &mail("a@example.org", "see http://www.bad.example/x"));
    let sender = file("sender.eml", &mail("a@bad.example", "see you"));
    let plain = file("plain.eml", &mail("a@example.org", "see you"));
    let config = file("block.toml", "[lists]\nblock = [\"bad.example\"]\n");
    let narrow = file("narrow.toml", "[limits]\ntext_bytes_max = 10\n");
    let wrong = file("wrong.toml", "[lists]\nblock = [\"a b\"]\n");
    let class = |args: &[&str]| lines(&scan(args))[0]["class"].as_str().map(str::to_owned);
    for (message, expected) in [(&link, "spam"), (&sender, "spam"), (&plain, "ham")] {
        assert_eq!(class(&["--json", message]).as_deref(), Some("ham"), "{message}");
        let found = class(&["--json", "-c", &config, message]);
        assert_eq!(found.as_deref(), Some(expected), "{message}");
    }
    assert_eq!(class(&["--json", "-c", &narrow, &plain]).as_deref(), Some("unscannable"));
    assert_eq!(scan(&["-c", &wrong, &plain]).status.code(), Some(2));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn no_filter_fails_on_real_mail() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("GAUNTLET_CORPUS is not set: no real mail is scanned");
        return;
    };
    for set in ["fixtures", "dev"] {
        let folder = Path::new(&corpus).join(set).to_string_lossy().into_owned();
        let found = lines(&scan(&["--json", &folder]));
        assert!(found.len() > 1_000);
        for line in found {
            let failed = line["defects"].to_string().contains("filter_failed");
            assert!(!failed, "a filter failed on {}", line["file"]);
        }
    }
}

#[test]
fn a_list_is_answered_line_by_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("list");
    let text = "samples/spam-gtube.eml\n\nno/such/file.eml\nsamples/ham-lunch.eml\r\n";
    std::fs::write(&list, text).expect("a list");
    let output = scan(&["--json", "--files-from", &list.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "one could not be read");
    let found = lines(&output);
    let files: Vec<_> = found.iter().map(|l| l["file"].as_str().unwrap_or_default()).collect();
    assert_eq!(files, ["samples/spam-gtube.eml", "no/such/file.eml", "samples/ham-lunch.eml"]);
    assert_eq!(found[0]["class"], "spam");
    assert!(found[1]["error"].as_str().is_some_and(|e| e.contains("No such file")));
    assert_eq!(found[2]["class"], "ham");
    assert!(found[0]["hits"][0]["evidence"][0]["text"].is_string());
}

#[test]
fn exit_codes() {
    let code = |args: &[&str]| scan(args).status.code();
    assert_eq!(code(&["samples/ham-lunch.eml"]), Some(0));
    assert_eq!(code(&["samples/no-such.eml"]), Some(1));
    assert_eq!(code(&["--no-such-option"]), Some(2));
    assert_eq!(code(&["--fail-on", "malware", "samples/spam-gtube.eml"]), Some(0));
    assert_eq!(code(&["--fail-on", "spam", "samples/malware-eicar.eml"]), Some(3));
}

#[test]
fn explanations_quote_the_evidence_and_say_what_would_have_changed() {
    let output = scan(&["--explain", "samples/spam-gtube.eml"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("spam, score 1000"), "{text}");
    assert!(text.contains("GTUBE") && text.contains("would be ham without GTUBE"), "{text}");
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .current_dir(root())
        .args(["scan", "--json", "samples", "samples", "samples", "samples"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let mut errors = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut errors).expect("UTF-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(!errors.contains("panicked") && !errors.contains("Broken pipe"), "{errors}");
}

/// `policy explain` judges a message as `scan` does unless it is told who receives it.
#[test]
fn a_policy_is_explained_for_the_same_findings() {
    let folder = tempfile::tempdir().expect("a writable folder");
    let path = folder.path().join("m.eml");
    let text = "From: Shop <shop@shop.example>\r\nTo: Ann <ann@example.org>\r\nSubject: Your order\r\n\
                Date: Fri, 20 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@shop.example>\r\n\
                Content-Type: text/html\r\n\r\n\
                <a href=\"https://shop.example/?u=ann%40example.org\">your order</a>\r\n";
    std::fs::write(&path, text).expect("a writable folder");
    let path = path.to_string_lossy().into_owned();
    let found = &lines(&scan(&["--json", &path]))[0];
    assert!(found["hits"].to_string().contains("URL_HAS_RECIPIENT"), "{found}");
    let explained = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(["policy", "explain", "--json", &path]).args(args);
        let output = command.output().expect("the program runs");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        value["score"].as_f64().expect("points")
    };
    let points = found["score"].as_f64().expect("points");
    for args in [&[][..], &["--to", "ann@example.org"]] {
        assert!((explained(args) - points).abs() < 0.05, "{args:?}: {}", explained(args));
    }
    // The link is not about whoever else receives it.
    assert!((explained(&["--to", "bob@example.org"]) - points).abs() > 0.1);
}
