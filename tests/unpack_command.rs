//! `gauntlet unpack`, and what unpacking changes in `gauntlet scan` and a node.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Node, Smtp};

const SAMPLE: &str = "samples/attachments/zip-in-zip.eml";

/// `read.txt`, `run.exe` and `last.txt`, each in a block of its own, the second encrypted with
/// `secret`; headers are clear.
const LATER_BLOCK_ENCRYPTED: &str = "\
N3q8ryccAARucHUBVgAAAAAAAACnAAAAAAAAAIE0IHoBABROb3RoaW5nIHRvIHNlZSBoZXJlLgoA\n\
7Bk6WQMLsViErY/667qPWN8CgQDMKM7XSXjLQid8E94BABhBbmQgdGhpcyBpcyBjbGVhciBhZ2Fp\n\
bi4KAAEEBgADCRkgHQoBrByXO1udDtTDKVbHAAcLAwABISEBFgIkBvEHASLI/yc6Fn+U2sUkjM7f\n\
9p5RX+q/CI+8g19TxiHDsgxt+wHIISEBFgEAASEhARYMFRsXGQAICgHLp+BgySE3LeL1mhkAAAUD\n\
ETUAcgBlAGEAZAAuAHQAeAB0AAAAcgB1AG4ALgBlAHgAZQAAAGwAYQBzAHQALgB0AHgAdAAAAAAA";

fn gauntlet(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args).env_remove("GAUNTLET_CONFIG");
    command.output().expect("gauntlet runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_tree_is_printed_and_extracted() {
    let printed = gauntlet(&["unpack", SAMPLE]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    let path = "zip-in-zip.eml/documents.zip/invoice.zip/invoice.com";
    assert!(text(&printed).contains(path), "{}", text(&printed));
    assert!(text(&printed).contains("engine_finding: gauntlet: EICAR-Test-File"));
    let printed = gauntlet(&["unpack", "--json", SAMPLE]);
    let json: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let objects = json["objects"].as_array().unwrap();
    assert_eq!(objects.last().unwrap()["path"], path);
    assert_eq!(objects.last().unwrap()["md5"], "44d88612fea8a8f36de82e1278abb02f");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = || gauntlet(&["unpack", "--extract", out.to_str().unwrap(), SAMPLE]);
    assert_eq!(run().status.code(), Some(0));
    let mut names: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.last().unwrap(), "0005-invoice.com", "{names:?}");
    let again = run();
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten: {again:?}");
}

#[test]
fn names_of_archives_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    for name in ["../../escaped", "/tmp/absolute", "a\u{202e}txt.exe"] {
        let mut header = tar::Header::new_old();
        let bytes = name.as_bytes();
        header.as_old_mut().name[..bytes.len()].copy_from_slice(bytes);
        header.set_size(1);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        builder.append(&header, &b"x"[..]).unwrap();
    }
    builder.into_inner().unwrap();
    let out = folder.path().join("out");
    let printed =
        gauntlet(&["unpack", "--extract", out.to_str().unwrap(), archive.to_str().unwrap()]);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    assert!(text(&printed).contains("path_traversal") && !text(&printed).contains('\u{202e}'));
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 4);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing beside the folder");
}

#[test]
fn what_was_not_read_is_the_exit_code() {
    let printed = gauntlet(&["unpack", "--max-depth", "1", SAMPLE]);
    assert_eq!(printed.status.code(), Some(1));
    assert!(text(&printed).contains("NOT READ: too_deep"), "{}", text(&printed));
    assert_eq!(gauntlet(&["unpack", "no-such-file"]).status.code(), Some(2));
}

#[test]
fn malware_in_a_zip_in_a_zip_is_found() {
    let found = text(&gauntlet(&["scan", "--json", SAMPLE]));
    let json: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(json["class"], "malware", "{found}");
    let hits = json["hits"].as_array().unwrap();
    let hit = hits.iter().find(|hit| hit["rule"] == "OBJECT_MALWARE").expect("OBJECT_MALWARE");
    assert_eq!(hit["evidence"][0]["name"], "documents.zip/invoice.zip/invoice.com");
    let closed = text(&gauntlet(&["scan", "--json", "--no-unpack", SAMPLE]));
    let closed: serde_json::Value = serde_json::from_str(&closed).unwrap();
    assert_ne!(closed["class"], "malware");
}

#[test]
fn a_node_holds_what_lies_in_archives() {
    let mut node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let sample = std::fs::read(SAMPLE).unwrap();
    let crlf = String::from_utf8(sample).unwrap().replace('\n', "\r\n");
    let reply = client.send("a@b.example", &["bob@example.net"], crlf.as_bytes()).unwrap();
    let plain = b"From: a@b.example\r\nSubject: lunch\r\n\r\nToday at noon?\r\n";
    assert!(client.send("a@b.example", &["eve@example.net"], plain).unwrap().starts_with("250 "));
    node.wait_for_empty_queue();
    assert_eq!(node.maildir().len(), 1, "{reply}");
    node.stop();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let logged = log.search(&gauntlet_store::Query::default()).unwrap().messages;
    let records = logged.iter().map(|message| log.get(&message.id).unwrap().unwrap().record);
    let held = records.into_iter().find(|record| record.subject.starts_with("Invoice")).unwrap();
    assert_eq!(held.verdict.class.name(), "malware");
    let paths: Vec<&str> = held.facts.content.objects.iter().map(|o| o.path.as_str()).collect();
    assert_eq!(paths.last(), Some(&"documents.zip/invoice.zip/invoice.com"));
    assert!(held.verdict.costs.iter().any(|cost| &*cost.filter == "unpacking"));
}

#[test]
fn a_disk_image_is_read_by_bsdtar() {
    let Some(bsdtar) = crate::common::program("bsdtar") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.iso");
    std::fs::write(folder.path().join("run.exe"), b"MZ\x90\0").unwrap();
    let made = Command::new(bsdtar)
        .args(["-c", "-f", image.to_str().unwrap(), "--format", "iso9660", "run.exe"])
        .current_dir(folder.path())
        .status();
    assert!(made.unwrap().success());
    let printed = gauntlet(&["unpack", "--json", image.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let last = json["objects"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (last["kind"].as_str(), last["size"].as_u64()),
        (Some("windows_program"), Some(4)),
        "{json}"
    );
}

/// Decompression bombs of the corpus: recognised within 64 MB of memory.
#[test]
fn bombs_of_the_corpus_stay_within_64_megabytes() {
    let Some(corpus) = crate::common::corpus() else { return };
    let folder = corpus.join("fixtures/synth-nasty");
    for name in ["gzipbomb-100MB.eml", "zipbomb-10MB.eml", "zipbomb-nested-5GB.eml"] {
        let path = folder.join(name);
        let path = path.to_str().unwrap();
        let printed = gauntlet(&["unpack", "--json", "--max-memory", "67108864", path]);
        let tree = text(&printed);
        assert!(tree.contains("\"bomb\""), "{name}: {tree}");
        assert!(!tree.contains("\"decoder_failed\""), "{name}: {tree}");
        assert!(!tree.contains("\"out_of_time\""), "{name}: {tree}");
    }
}

/// Files of ClamAV's own collection that do not lead to its sample here: yoda's Crypter, whose
/// decryption is not followed to its end, and PESpin, which takes the emulator for a debugger.
const NOT_UNPACKED: [&str; 2] = ["clam-pespin.exe", "clam-yc.exe"];

#[test]
fn the_sample_of_clamav_is_found_in_its_collection() {
    let folder = std::path::Path::new("/usr/share/clamav-testfiles");
    if !folder.is_dir() {
        assert!(std::env::var_os("CI").is_none(), "clamav-testfiles is missing");
        eprintln!("skipped: clamav-testfiles is not installed");
        return;
    }
    let unpacked = |path: &std::path::Path| {
        let printed = gauntlet(&["unpack", "--json", path.to_str().unwrap()]);
        serde_json::from_slice::<serde_json::Value>(&printed.stdout).unwrap()
    };
    let sample = unpacked(&folder.join("clam.exe"))["objects"][0]["sha256"].clone();
    let leads_there = |path: &std::path::PathBuf| {
        unpacked(path)["objects"].as_array().unwrap().iter().any(|o| o["sha256"] == sample)
    };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut missing: Vec<String> = files
        .filter(|path| !leads_there(path))
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    missing.sort();
    assert_eq!(missing, NOT_UNPACKED);
}

#[test]
fn a_7z_whose_later_block_is_encrypted_opens_by_the_password_in_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.eml");
    let path = path.to_str().unwrap();
    let hits = |words: &str| {
        let message = format!(
            "From: Ann <ann@example.org>\nTo: bob@example.net\nSubject: the files\n\
             MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\
             Content-Type: text/plain\n\nDear Bob,\n{words}\n--b\n\
             Content-Type: application/x-7z-compressed; name=a.7z\n\
             Content-Transfer-Encoding: base64\n\n{LATER_BLOCK_ENCRYPTED}\n--b--\n"
        );
        std::fs::write(path, message).unwrap();
        let verdict = text(&gauntlet(&["scan", "--json", path]));
        let verdict: serde_json::Value = serde_json::from_str(&verdict).unwrap();
        let hits = verdict["hits"].as_array().unwrap().iter();
        let names = hits.map(|h| h["rule"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("OBJECT_")).collect::<Vec<String>>()
    };
    let closed = hits("these are the files.");
    assert!(closed.iter().any(|rule| rule == "OBJECT_ENCRYPTED"), "{closed:?}");
    let opened = hits("the password is secret");
    assert!(opened.iter().any(|rule| rule == "OBJECT_PASSWORD_IN_TEXT"), "{opened:?}");
    assert!(!opened.iter().any(|rule| rule == "OBJECT_ENCRYPTED"), "{opened:?}");

    let sizes = |options: &[&str]| {
        let printed = gauntlet(&[&["unpack", "--json"], options, &[path]].concat());
        let tree: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
        let objects = tree["objects"].as_array().unwrap().iter();
        let inside = objects.filter(|o| o["path"].as_str().unwrap().contains("a.7z/"));
        (printed.status.code(), inside.map(|o| o["size"].as_u64().unwrap()).collect::<Vec<_>>())
    };
    assert_eq!(sizes(&[]), (Some(1), vec![21, 0, 25]), "the clear ones are read");
    assert_eq!(sizes(&["--password", "secret"]), (Some(0), vec![21, 23, 25]));
}

/// Macros of oletools' documents: the file, what it has, and names that run by themselves.
const MACROS: [(&str, &str, &[&str]); 12] = [
    ("encrypted/autostart-encrypt-standardpassword.xls", "vba_macros", &["Auto_Open"]),
    ("encrypted/autostart-encrypt-standardpassword.xlsb", "vba_macros", &["Auto_Open"]),
    ("encrypted/autostart-encrypt-standardpassword.xlsm", "vba_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.slk", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.xls", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.xlsb", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.xlsm", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.xlt", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro.xltm", "xlm_macros", &["Auto_Open"]),
    ("excel4-macros/excel4_sample_macro_excel5_format.xls", "xlm_macros", &["Auto_Open"]),
    (
        "oleform/oleform-PR314.docm",
        "vba_macros",
        &[
            "Frame1_Click",
            "ListBox1_Click",
            "TabStrip1_Change",
            "TextBox2_Change",
            "UserForm_Click",
        ],
    ),
    ("olevba/sample_with_vba.ppt", "vba_macros", &["Action_Click"]),
];

/// Documents of oletools with links by DDE, in folder `msodde`. What is in archives is encrypted.
const LINKS: [&str; 12] = [
    "dde-in-csv.csv",
    "dde-in-excel2003.xml",
    "dde-in-word2003.xml.zip",
    "dde-in-word2007.xml.zip",
    "dde-test-from-office2003.doc.zip",
    "dde-test-from-office2013-utf_16le-korean.doc.zip",
    "dde-test-from-office2016.doc.zip",
    "dde-test.docm",
    "dde-test.docx",
    "dde-test.xlsb",
    "dde-test.xlsm",
    "dde-test.xlsx",
];

/// The trees of all test files of oletools, with their paths below the folder; none without them.
fn trees_of_oletools() -> Option<Vec<(String, serde_json::Value)>> {
    let corpus = crate::common::corpus()?;
    let folder = corpus.join("fixtures/oletools/tests/test-data");
    let (mut files, mut folders) = (Vec::new(), vec![folder.clone()]);
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path());
        let (below, here): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(below);
        files.extend(here);
    }
    files.sort();
    let mut args = vec!["unpack", "--json", "--password", "infected-test"];
    args.extend(files.iter().map(|path| path.to_str().unwrap()));
    let printed = text(&gauntlet(&args));
    let trees: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(trees.len(), files.len());
    let name = |file: &Path| file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
    Some(files.iter().map(|file| name(file)).zip(trees).collect())
}

/// The details of the properties of a kind, in all objects.
fn details<'t>(tree: &'t serde_json::Value, kind: &str) -> Vec<&'t str> {
    let objects = tree["objects"].as_array().unwrap().iter();
    let properties = objects.filter_map(|o| o["properties"].as_array()).flatten();
    let of_kind = properties.filter(|p| p["kind"] == kind);
    of_kind.map(|p| p["detail"].as_str().unwrap_or_default()).collect()
}

#[test]
fn documents_of_oletools_tell_their_links_by_dde_and_no_other_document_has_some() {
    let Some(trees) = trees_of_oletools() else { return };
    let linked = trees.iter().filter(|(_, tree)| !details(tree, "dde").is_empty());
    let names: Vec<&str> = linked.map(|(name, _)| name.as_str()).collect();
    // Those of other folders are copies, some encrypted.
    assert!(names.iter().all(|name| name.contains("dde-")), "{names:?}");
    let known: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("msodde/")).collect();
    assert_eq!(known, LINKS);
    for (name, tree) in trees.iter().filter(|(name, _)| name.starts_with("msodde/dde-")) {
        let all = details(tree, "dde");
        let is_known = all.iter().any(|link| link.contains("cmd") && link.contains("calc"));
        assert!(is_known, "{name}: {all:?}");
    }
}

#[test]
fn documents_of_oletools_tell_their_macros_and_no_other_document_has_some() {
    let Some(trees) = trees_of_oletools() else { return };
    let mut found = Vec::new();
    for (name, tree) in &trees {
        let mut names = details(tree, "auto_exec");
        names.sort_unstable();
        names.dedup();
        for kind in ["vba_macros", "xlm_macros"] {
            if !details(tree, kind).is_empty() {
                let unread = tree["objects"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|o| o["defects"] != serde_json::Value::Null);
                assert!(!unread, "{name}: {tree}");
                found.push((name.clone(), kind, names.clone()));
            }
        }
    }
    let expected: Vec<_> = MACROS
        .iter()
        .map(|(name, kind, names)| ((*name).to_owned(), *kind, names.to_vec()))
        .collect();
    assert_eq!(found, expected);
}
