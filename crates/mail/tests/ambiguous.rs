//! Messages that mail programs read in different ways are known as such, each kind by its own
//! defect; harmless neighbours are not.

use std::path::Path;

use gauntlet_mail::{DefectKind, Limits, Message};

fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    std::fs::read(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn hidden(raw: &[u8]) -> Vec<String> {
    let message = Message::parse(raw);
    let defects = message.defects();
    let hidden = defects.iter().filter(|d| d.kind.hides_content());
    let mut names: Vec<String> = hidden.map(|d| d.kind.name()).collect();
    names.dedup();
    names
}

#[test]
fn each_kind_has_its_sample_and_its_defect() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("samples/").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(kind) = name.strip_prefix("ambiguous-").and_then(|n| n.strip_suffix(".eml"))
        else {
            continue;
        };
        let kind = kind.replace('-', "_");
        let raw = std::fs::read(entry.path()).expect("a readable sample");
        assert!(hidden(&raw).contains(&kind), "{name}: {:?}", hidden(&raw));
        let crlf = String::from_utf8_lossy(&raw).replace('\n', "\r\n");
        assert!(hidden(crlf.as_bytes()).contains(&kind), "{name} with CRLF: {:?}", hidden(&raw));
        found.push(kind);
    }
    assert_eq!(found.len(), 22, "{found:?}");
}

#[test]
fn harmless_neighbours_are_not_ambiguous() {
    for name in ["epilogue-footer", "same-field-twice", "identity-misspelt", "unclosed"] {
        let raw = sample(&format!("ham-mime-{name}.eml"));
        assert_eq!(hidden(&raw), [""; 0], "{name}");
    }
    let harmless = [
        // A signature behind the end, and a second end.
        "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n--b--\n-----BEGIN PGP SIGNATURE-----\n\
         \niQEzBAABCAAdFiEEabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV\n\
         iQEzBAABCAAdFiEEabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV\n-----END PGP SIGNATURE-----\n",
        "Content-Type: multipart/mixed; boundary=b\n\nThis is a multi-part message in MIME format.\n--b\n\nx\n--b--\n",
        // Quoted-printable over a multipart whose parts have nothing of the kind.
        "Content-Type: multipart/mixed; boundary=b\nContent-Transfer-Encoding: quoted-printable\n\n--b\n\nx\n--b--\n",
        "Content-Type: text\n\nx\n",
        "Content-Transfer-Encoding: \"7bit\"\n\nx\n",
        "Subject: x\n\nLet us begin 644 times\nbegin the meeting\n",
    ];
    for raw in harmless {
        assert_eq!(hidden(raw.as_bytes()), [""; 0], "{raw}");
    }
}

#[test]
fn further_readings_of_the_same_kinds() {
    let cases = [
        (
            "Content-Type: multipart/mixed; boundary=a; boundary*=utf-8''b\n\n--a\n\n--a--\n",
            "duplicate_boundary",
        ),
        ("Content-Type: multipart/mixed; boundary=a \"b\"\n\n--a\n\n--a--\n", "odd_boundary"),
        ("Content-Type: multipart/mixed boundary=a\n\n--a\n\n--a--\n", "odd_content_type"),
        ("Content-Type: multipart; boundary=a\n\n--a\n\n--a--\n", "odd_content_type"),
        ("Content-Type: \"multipart/mixed\"; boundary=a\n\n--a\n\n--a--\n", "odd_content_type"),
        (
            "Content-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\nTVqQ\n",
            "duplicate_mime_header",
        ),
        ("Content-Transfer-Encoding: base64;\n\nTVqQ\n", "odd_transfer_encoding"),
        ("Content-Transfer-Encoding: base64 (x)\n\nTVqQ\n", "odd_transfer_encoding"),
        ("Content-Transfer-Encoding: x-rot13\n\nuryyb\n", "odd_transfer_encoding"),
        ("Subject: a\n\nb\r--c\rContent-Type: text/html\n", "parts_after_bare_return"),
        ("Content-Transfer-Encoding: x-uuencode\n\nTVqQ\n", "odd_transfer_encoding"),
        ("Content-Transfer-Encoding: base\u{b5}64\n\nTVqQ\n", "odd_transfer_encoding"),
        ("Content-Transfer-Encoding: base64\0\n\nTVqQ\n", "control_in_parameter"),
        ("Content-Type: text/plain\rContent-Type: text/html\n\nx\n", "control_in_parameter"),
        (
            "Content-Type: multipart/mixed; boundary=\"\"\n\n--\n\nx\n----\n",
            "parts_without_boundary",
        ),
        (
            "Content-Type: multipart/mixed; boundary=a\n\n--a\n\nx\n--a   b\n\ny\n--a--\n",
            "text_after_boundary",
        ),
        (
            "Content-Type: multipart/mixed; boundary=a\n\n--a\nfoo\nbar\nContent-Type: text/html\n\n--a--\n",
            "odd_separator",
        ),
        (
            "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nFrom: a@b\nSubject: x\n\nhi\n",
            "container_encoding",
        ),
        (
            "Content-Type: text/plain\n\nbegin-base64 644 a.exe\nTVqQAAMAAAAEAAAA\n====\n",
            "uuencoded_file",
        ),
    ];
    for (raw, kind) in cases {
        assert!(
            hidden(raw.as_bytes()).contains(&kind.to_owned()),
            "{raw}: {:?}",
            hidden(raw.as_bytes())
        );
    }
}

/// Defects have a limit; small ones before it must not hide that something was not judged.
#[test]
fn many_small_defects_do_not_push_out_one_that_matters() {
    let mut raw = String::from("Content-Type: multipart/mixed; boundary=b\n\n");
    for _ in 0..100 {
        raw += "--b\nContent-Type: x\n\n\0=\n";
    }
    raw += "--b\nContent-Type: message/partial\n\nx\n--b--\n";
    let message = Message::parse(raw.as_bytes());
    let defects = message.defects();
    assert_eq!(defects.len(), usize::from(Limits::default().defects_max));
    assert!(defects.iter().any(|d| d.kind == DefectKind::PartialMessage));
}

#[test]
fn files_that_are_messages_are_read() {
    let raw = sample("program-attached-message-file.eml");
    let message = Message::parse(&raw);
    let names: Vec<&str> = message.parts().iter().flat_map(|p| p.file_names()).collect();
    assert_eq!(names, ["offer.eml", "setup.exe"]);
    // By what it begins with, too, whatever it is called.
    let raw = "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: application/octet-stream; name=x\n\n\
        Subject: y\nContent-Type: application/zip; name=a.exe\n\nz\n--b--\n";
    let message = Message::parse(raw.as_bytes());
    assert_eq!(message.parts().last().and_then(|p| p.file_name()), Some("a.exe"));
    let report = raw.replace("application/octet-stream", "message/delivery-status");
    assert_eq!(Message::parse(report.as_bytes()).parts().len(), 2, "a report is no message");
}
