//! Every reading of an ambiguous message: the table of `docs/mime-readings.md` as messages.

use std::process::Command;

use crate::common::{Node, Smtp};

/// The harmless test file, put together here so that no scanner takes this program for it.
fn eicar() -> String {
    let parts =
        ["X5O!P%@AP[4\\PZX54(P^)7CC)7}", "$EICAR-STANDARD-", "ANTIVIRUS-TEST-FILE!", "$H+H*"];
    parts.concat()
}

/// What a defect hides: the message with a file in the place that only some programs see.
fn cases(file: &str) -> Vec<(&'static str, String)> {
    let data = base64_simd::STANDARD.encode_to_string(file);
    let part = format!(
        "Content-Type: application/octet-stream; name=minutes.bin\n\
         Content-Transfer-Encoding: base64\n\n{data}\n"
    );
    let multipart = "Content-Type: multipart/mixed; boundary=b\n\n";
    let text = "--b\nContent-Type: text/plain\n\nThe minutes are attached.\n";
    let outer = format!("{text}--b\n{part}--b--\n");
    let outer = base64_simd::STANDARD.encode_to_string(outer.replace('\n', "\r\n"));
    vec![
        (
            "duplicate_mime_header",
            format!(
                "Content-Type: text/plain\nContent-Type: multipart/mixed; boundary=b\n\n{text}--b\n{part}--b--\n"
            ),
        ),
        (
            "duplicate_boundary",
            format!(
                "Content-Type: multipart/mixed; boundary=a; boundary=b\n\n--a\n\ntext\n{text}--b\n{part}--b--\n--a--\n"
            ),
        ),
        (
            "boundary_prefix",
            format!(
                "{multipart}{text}--b\nContent-Type: multipart/mixed; boundary=bb\n\n--bb\n{part}--bb--\n--b--\n"
            ),
        ),
        ("text_after_boundary", format!("{multipart}{text}--boundary\n{part}--b--\n")),
        ("parts_in_preamble", format!("{multipart}{part}\n{text}--b--\n")),
        ("parts_after_close", format!("{multipart}{text}--b--\n--c\n{part}--c--\n")),
        (
            "parts_without_boundary",
            format!("Content-Type: multipart/mixed\n\n{text}--b\n{part}--b--\n"),
        ),
        (
            "container_encoding",
            format!(
                "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: base64\n\n{outer}\n"
            ),
        ),
        (
            "odd_transfer_encoding",
            format!("{multipart}{text}--b\n{}--b--\n", part.replace(": base64", ": \"base64\"")),
        ),
        (
            "odd_field_name",
            format!("{multipart}{text}--b\n{}--b--\n", part.replace("Encoding:", "Encoding :")),
        ),
        (
            "odd_separator",
            format!("{}{text}--b\n{part}--b--\n", multipart.replace("\n\n", "\n \n")),
        ),
        (
            "data_after_padding",
            format!(
                "{multipart}{text}--b\n{}--b--\n",
                part.replace(&data, &format!("QQ==\n{data}"))
            ),
        ),
    ]
}

fn mail(rest: &str) -> Vec<u8> {
    let head = "From: Ann <ann@partner.example>\nTo: bob@example.net\nSubject: Minutes\n\
                Date: Mon, 23 Nov 2026 09:00:00 +0000\nMessage-ID: <1@partner.example>\nMIME-Version: 1.0\n";
    format!("{head}{rest}").replace('\n', "\r\n").into_bytes()
}

fn verdict(message: &[u8], more: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.eml");
    std::fs::write(&path, message).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
    command.args(["scan", "--json"]).args(more).arg(&path).env_remove("GAUNTLET_CONFIG");
    let printed = command.output().expect("gauntlet runs");
    serde_json::from_slice(&printed.stdout).unwrap_or_else(|_| panic!("{printed:?}"))
}

fn has_defect(verdict: &serde_json::Value, name: &str) -> bool {
    verdict["defects"].as_array().unwrap().iter().any(|defect| defect["kind"] == name)
}

#[test]
fn malware_in_any_reading_is_found() {
    for (defect, rest) in cases(&eicar()) {
        let found = verdict(&mail(&rest), &[]);
        assert!(has_defect(&found, defect), "{defect}: {found}");
        assert_eq!(found["class"], "malware", "{defect}: {found}");
    }
}

#[test]
fn what_is_harmless_in_every_reading_is_not_held() {
    for (defect, rest) in cases("minutes of the meeting, nothing else") {
        let message = mail(&rest);
        let found = verdict(&message, &[]);
        assert!(has_defect(&found, defect), "{defect}: {found}");
        assert_ne!(found["class"], "unscannable", "{defect}: {found}");
        let closed = verdict(&message, &["--no-unpack"]);
        assert_eq!(closed["class"], "unscannable", "{defect}: nobody looked: {closed}");
    }
}

#[test]
fn names_of_programs_in_other_readings_count() {
    let rest = cases("MZ\u{90}\u{0}\u{3} a program")
        .swap_remove(5)
        .1
        .replace("minutes.bin", "minutes.pdf.exe");
    let text = verdict(&mail(&rest), &[]).to_string();
    assert!(text.contains("OBJECT_DOUBLE_EXTENSION"), "{text}");
    assert!(text.contains("reading base64 at byte"), "{text}");
}

#[test]
fn a_node_looks_at_every_reading() {
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    for (file, delivered) in [(eicar(), 0), ("minutes of the meeting".to_owned(), 1)] {
        // No part of the usual reading is a file.
        let rest = cases(&file).swap_remove(5).1;
        let reply = client.send("ann@partner.example", &["bob@example.net"], &mail(&rest)).unwrap();
        node.wait_for_empty_queue();
        assert_eq!(node.maildir().len(), delivered, "{reply}");
    }
}
