//! GTUBE is found as a mail program shows it and as it came: through tags, character references,
//! soft line breaks, in the Subject and in attachments.

use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::Class;

/// Put together here, so that no scanner takes this file for what it stands for.
fn gtube() -> String {
    ["XJS*C4JDBQADN1.", "NSBN3*2IDNEN*", "GTUBE-STANDARD-ANTI-UBE-TEST", "-EMAIL*C.34X"].concat()
}

#[test]
fn gtube_is_found_however_it_is_written() {
    let snapshot = Snapshot::build(&gauntlet_engine::Settings::default()).expect("a snapshot");
    let head = "From: a@b.example\nDate: Sat, 21 Nov 2026 10:00:00 +0000\nMessage-ID: <1@b>\n";
    let (left, right) = (&gtube()[..30], &gtube()[30..]);
    let html = |body: &str| format!("{head}Subject: x\nContent-Type: text/html\n\n<p>{body}</p>\n");
    let references: String = gtube().bytes().map(|b| format!("&#{b};")).collect();
    let base64 = base64_simd::STANDARD.encode_to_string(gtube());
    let cases = [
        ("plain", format!("{head}Subject: x\n\n{}\n", gtube())),
        ("a tag within", html(&format!("{left}<b></b>{right}"))),
        ("an empty element within", html(&format!("{left}<span>{right}</span>"))),
        ("a comment within", html(&format!("{left}<!-- x -->{right}"))),
        ("a line break within", html(&format!("{left}<br>{right}"))),
        ("references", html(&references)),
        ("a zero width space", html(&format!("{left}&#8203;{right}"))),
        ("a soft hyphen", html(&format!("{left}&shy;{right}"))),
        ("folded", format!("{head}Subject: x\n\n{left}\n{right}\n")),
        (
            "quoted-printable",
            format!(
                "{head}Subject: x\nContent-Transfer-Encoding: quoted-printable\n\n{left}=\n{right}\n"
            ),
        ),
        ("the Subject", format!("{head}Subject: {}\n\nx\n", gtube())),
        ("an encoded Subject", format!("{head}Subject: =?us-ascii?b?{base64}?=\n\nx\n")),
        ("another field", format!("{head}Subject: x\nX-Note: {}\n\nx\n", gtube())),
        (
            "a text attached",
            format!(
                "{head}Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b\n\
                 Content-Type: application/octet-stream; name=a.txt\n\
                 Content-Transfer-Encoding: base64\n\n{base64}\n--b--\n"
            ),
        ),
        (
            "a preamble",
            format!(
                "{head}Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n{}\n--b\n\nx\n--b--\n",
                gtube()
            ),
        ),
        (
            "behind much text",
            format!("{head}Subject: x\n\n{}\n{}\n", "text ".repeat(500_000), gtube()),
        ),
    ];
    for (name, raw) in cases {
        let message = Message::parse(raw.as_bytes());
        let verdict = scan(
            &message,
            &Envelope::default(),
            &Facts::default(),
            &snapshot,
            &mut Scratch::default(),
        );
        assert!(verdict.hit("GTUBE").is_some(), "{name}");
        assert!(matches!(verdict.class, Class::Spam | Class::Unscannable), "{name}");
    }
}
