//! ICAP requests that are not as they should be.
//!
//! `icap/NAME.icap` is what a client sends, byte by byte, with each line in its own LF for reading:
//! line ends become CRLF, and `<LF>`, `<CR>`, `<NUL>` stand for these bytes alone. `LENGTH` is the
//! number of bytes of the HTTP header behind the ICAP header. `NAME.expected` is the first lines of
//! the answers, and why. `GAUNTLET_BLESS=1` writes the expected files anew: read the difference
//! before you commit it.

use std::fs;
use std::path::Path;

use tokio::io::AsyncWriteExt;

use crate::common::{read_all, until};
use crate::icap_client::{ByPath, Icap, settings};

/// The bytes that a case stands for.
fn bytes(case: &str) -> String {
    let text = case.replace('\n', "\r\n");
    let text = text.replace("<LF>", "\n").replace("<CR>", "\r").replace("<NUL>", "\0");
    let length = text.split("\r\n\r\n").nth(1).map_or(0, |head| head.len() + 4);
    text.replace("LENGTH", &length.to_string())
}

/// What is answered until the connection ends, in the lines that matter.
async fn run(icap: &Icap, bytes: &str) -> String {
    let mut stream = icap.connect().await;
    // The service may end the connection before it has read everything.
    let _ = stream.write_all(bytes.as_bytes()).await;
    let _ = stream.shutdown().await;
    let answer = read_all(&mut stream).await;
    let is_wanted = |line: &&str| {
        line.contains("ICAP/1.0 ") || line.starts_with("X-Error: ") || line.starts_with("HTTP/1.1 ")
    };
    let lines: Vec<&str> = answer.lines().filter(is_wanted).collect();
    match lines.is_empty() {
        true => "closed without an answer\n".to_owned(),
        false => lines.join("\n") + "\n",
    }
}

#[tokio::test]
async fn every_case_is_answered_in_one_way() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/icap");
    let mut cases: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "icap"))
        .collect();
    cases.sort();
    assert!(cases.len() > 30, "the walk finds the cases");
    let icap = Icap::with(settings(), std::sync::Arc::new(ByPath)).await;
    let mut faults = Vec::new();
    for path in &cases {
        let said = run(&icap, &bytes(&fs::read_to_string(path).unwrap())).await;
        let expected = path.with_extension("expected");
        if std::env::var_os("GAUNTLET_BLESS").is_some() {
            fs::write(&expected, &said).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != said {
            faults.push(format!("{}:\n{said}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[tokio::test]
async fn what_is_too_much_is_refused_by_its_limit() {
    let icap = Icap::with(settings(), std::sync::Arc::new(ByPath)).await;
    let begin = "REQMOD icap://h/reqmod ICAP/1.0\r\n";
    let fields = |n: usize| "A: b\r\n".repeat(n);
    let head = format!("GET http://x/ HTTP/1.1\r\nHost: x\r\n{}\r\n", fields(201));
    let inner = format!("Encapsulated: req-hdr=0, null-body={}\r\n\r\n{head}", head.len());
    let bomb = "0\r\n".to_owned() + &fields(100_000);
    let body = "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n";
    let body = format!("Encapsulated: req-hdr=0, req-body={}\r\n\r\n{body}", body.len());
    for (request, why) in [
        (format!("{begin}{}\r\n", fields(100_000)), "a header has more than 65536 bytes"),
        (format!("{begin}{}\r\n", fields(201)), "a header has more than 200 fields"),
        (format!("{begin}A: {}", "b".repeat(100_000)), "a header has more than 65536 bytes"),
        (format!("{begin}{inner}"), "a header has more than 200 fields"),
        (
            format!("{begin}Encapsulated: req-hdr=0, null-body=65537\r\n\r\n"),
            "a header has more than 65536 bytes",
        ),
        (
            format!("{begin}Allow: 204\r\nPreview: 0\r\n{body}1;{}", "x".repeat(300)),
            "a chunk is malformed: the line of its size is too long",
        ),
        (format!("{begin}Preview: 0\r\n{body}{bomb}"), "a header has more than 65536 bytes"),
    ] {
        let said = run(&icap, &request).await;
        assert_eq!(said, format!("ICAP/1.0 400 Bad Request\nX-Error: {why}\n"));
    }
    until(|| (icap.counters.connections_now.get() == 0).then_some(())).await;
}
