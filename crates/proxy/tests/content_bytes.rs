//! Any bytes as the body of a response, in pieces of several sizes: nothing panics, and what passes
//! is what came. The fuzz target `web_content` drives the same.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_mail::url::canonical;
use gauntlet_phrases::{PhraseSet, Reader, Role};
use gauntlet_proxy::content::{ContentJudge, ContentSettings};
use gauntlet_proxy::judge::{AllowAll, Inspect, Judge, ResponseDecision, ResponseHead, Step};
use gauntlet_proxy::request::{Fields, Kind, WebRequest};
use gauntlet_proxy::settings::content::Action;
use hyper::{HeaderMap, Method, StatusCode, Version};

const CODINGS: [&str; 8] =
    ["", "gzip", "deflate", "br", "zstd", "gzip, br", "deflate, zstd, gzip", "compress"];
const TYPES: [&str; 9] = [
    "text/html",
    "text/html; charset=utf-16",
    "text/plain; charset=\"big5",
    "application/octet-stream",
    "image/png",
    "text/event-stream",
    "multipart/x-mixed-replace; boundary=B",
    "application/grpc",
    "",
];
const DISPOSITIONS: [&str; 3] = ["", "attachment; filename=a.exe", "inline; filename*=x'%zz"];

fn judge() -> ContentJudge {
    let fetch = |_: &Path| Ok(b"<casino><60>\n< a >,<b><50>\n<bad>\n".to_vec());
    let mut reader = Reader::new(&fetch);
    reader.read("list".as_ref(), Role::Banned);
    let set = PhraseSet::compile(&reader.finish()).ok().map(Arc::new);
    let content = ContentSettings {
        blocked_types: vec!["program".to_owned()],
        page_bytes_max: 64 << 10,
        on_unreadable: Action::Pass,
        judge_milliseconds_max: 60_000,
        ..ContentSettings::default()
    };
    ContentJudge::new(Arc::new(AllowAll), content, set, None)
}

fn request() -> Option<WebRequest> {
    Some(WebRequest {
        original: None,
        credentials: None,
        user: None,
        client: [192, 0, 2, 7].into(),
        method: Method::GET,
        version: Version::HTTP_11,
        kind: Kind::Plain,
        url: canonical("http://example.com/a.html?x")?,
        port: 80,
        fields: Fields::default(),
    })
}

fn headers(choice: u8) -> HeaderMap {
    let mut map = HeaderMap::new();
    let choice = usize::from(choice);
    let (coding, rest) = (CODINGS[choice % 8], choice / 8);
    let fields = [
        ("content-encoding", coding),
        ("content-type", TYPES[rest % 9]),
        ("content-disposition", DISPOSITIONS[rest / 9 % 3]),
    ];
    for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
        map.insert(name, value.parse().expect("a field"));
    }
    map
}

/// The first byte chooses the header, the others are the body.
pub(crate) fn feed(input: &[u8]) {
    let Some((choice, body)) = input.split_first() else { return };
    let (judge, Some(request), headers) = (judge(), request(), headers(*choice)) else { return };
    let (status, is_part_asked_for) = (StatusCode::OK, false);
    let head = ResponseHead { status, headers: &headers, is_part_asked_for };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    for piece in [1 << 20, 7, 1000] {
        let ResponseDecision::Inspect(inspector) = judge.response(&request, &head) else {
            continue;
        };
        let (passed, is_whole) = runtime.block_on(drive(inspector, body, piece));
        assert!(body.starts_with(&passed), "bytes were changed");
        assert!(!is_whole || passed.len() == body.len(), "bytes are missing");
    }
}

/// What passes, and whether all does.
async fn drive(mut inspector: Box<dyn Inspect>, body: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut passed = Vec::new();
    for piece in body.chunks(piece) {
        match inspector.data(Bytes::copy_from_slice(piece)).await {
            Step::Pass(bytes) => passed.extend_from_slice(&bytes),
            Step::Hold => {}
            Step::Block(_) => return (passed, false),
        }
    }
    loop {
        match inspector.end().await {
            Step::Pass(bytes) => passed.extend_from_slice(&bytes),
            Step::Hold => {}
            Step::Block(_) => return (passed, false),
        }
        if !inspector.is_waiting() {
            assert!(!inspector.notes().is_empty(), "the record says what it was");
            return (passed, true);
        }
    }
}

#[test]
fn nasty_bodies() {
    let bodies: [&[u8]; 15] = [
        b"",
        b"<",
        b"<html>casino",
        b"MZ",
        b"PK\x03\x04",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
        b"\x1f\x8b\x08\xff",
        b"\x78\x9c",
        b"\x28\xb5\x2f\xfd\x00",
        b"\x0b\x02\x80hello\x03",
        b"\xff\xfe<\0h\0t\0m\0l\0",
        b"data: x\n\n:\nPK\x03\x04",
        b"--B\r\nContent-Type: image/gif\r\n\r\nGIF89a0123456789\r\n--B--\r\n\0",
        b"\0\0\0\0\x03abc\x01\xff\xff\xff\xffMZ",
        &[0xff; 3000],
    ];
    for choice in 0..=u8::MAX {
        for body in bodies {
            feed(&[&[choice], body].concat());
        }
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..300_u32 {
        let bytes: Vec<u8> = (0..200 + round * 7)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                (seed >> 32) as u8
            })
            .collect();
        feed(&bytes);
    }
}
