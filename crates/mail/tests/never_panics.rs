//! Whatever the bytes are, a message is a value: composed nasty messages, what a sender can make
//! large, and real mail when `GAUNTLET_CORPUS` names it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use gauntlet_mail::{DefectKind, Limits, Message};

/// Real messages that are read unless `GAUNTLET_TEST_ALL` is set: enough of each kind, in seconds.
const QUICK_FILES: usize = 1_500;

fn ask(raw: &[u8]) {
    crate::everything::ask(raw, &Limits::default());
    let narrow = Limits {
        depth_max: 2,
        parts_max: 5,
        headers_max: 4,
        parameters_max: 2,
        header_bytes_max: 200,
        decoded_bytes_max: 500,
        text_bytes_max: 100,
        urls_max: 2,
        authors_max: 1,
        relays_max: 1,
        defects_max: 3,
    };
    crate::everything::ask(raw, &narrow);
}

fn kinds(raw: &[u8]) -> Vec<DefectKind> {
    Message::parse(raw).defects().iter().map(|d| d.kind).collect()
}

/// All files below `folder`, in a fixed order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

#[test]
fn composed_nasty_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nasty");
    let seeds = files(&folder);
    assert!(seeds.len() >= 10, "the nasty messages are there");
    for seed in seeds {
        let raw = fs::read(&seed).expect("a readable seed");
        ask(&raw);
        let lf: Vec<u8> = raw.iter().copied().filter(|b| *b != b'\r').collect();
        ask(&lf);
        let crlf = lf.split(|b| *b == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        ask(&crlf);
        // Cut anywhere, a message is one still.
        let step = (raw.len() / 200).max(1);
        for end in (0..raw.len()).step_by(step) {
            crate::everything::ask(&raw[..end], &Limits::default());
        }
    }
}

#[test]
fn nested_five_thousand_deep() {
    let mut raw = Vec::new();
    for i in 0..5_000 {
        raw.extend(format!("Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n").bytes());
    }
    raw.extend(b"\nthe end");
    ask(&raw);
    assert!(kinds(&raw).contains(&DefectKind::TooDeep));
    let attached = "Content-Type: message/rfc822\n\n".repeat(5_000);
    ask(attached.as_bytes());
    assert!(kinds(attached.as_bytes()).contains(&DefectKind::TooDeep));
}

#[test]
fn ten_thousand_parts() {
    let mut raw = b"Content-Type: multipart/mixed; boundary=b\n\n".to_vec();
    for i in 0..10_000 {
        raw.extend(format!("--b\n\npart {i}\n").bytes());
    }
    ask(&raw);
    assert!(kinds(&raw).contains(&DefectKind::TooManyParts));
    let message = Message::parse(&raw);
    assert_eq!(message.parts().len(), usize::from(Limits::default().parts_max));
}

#[test]
fn endless_lines_and_no_blank_line() {
    const MEGABYTE: usize = 1 << 20;
    ask(&vec![b'a'; 4 * MEGABYTE]);
    ask(&[b"Subject: ".to_vec(), vec![b'x'; 4 * MEGABYTE]].concat());
    ask(&[b"Subject: ".to_vec(), b" folded\r\n".repeat(200_000)].concat());
    ask(&b"A: b\n".repeat(100_000));
    ask(&[b"a: b\n\n".to_vec(), vec![0; MEGABYTE]].concat());
    assert!(kinds(b"Subject: x\nTo: y\n").contains(&DefectKind::NoBodySeparator));
    assert!(kinds(&b"A: b\n".repeat(100_000)).contains(&DefectKind::TooManyHeaders));
}

#[test]
fn html_that_invites_quadratic_work() {
    const HALF: usize = 1 << 19;
    let pieces: [&[u8]; 16] = [
        b"<a href=\"",
        b"<a href='x\"",
        b"<!--",
        b"<!-- --",
        b"<title>",
        b"<script></scrip",
        b"<",
        b"</div>",
        b"<div>",
        b"<td><table><b>",
        b"<p><b>",
        b"<b style=\"(;\">",
        b"&",
        b"&#",
        b"<a href=x><img alt=a.b.c.d.e>",
        b"<style>url(",
    ];
    for piece in pieces {
        let body = piece.repeat(HALF / piece.len());
        ask(&[b"Content-Type: text/html\n\n".to_vec(), body].concat());
    }
    let sheet = format!("<style>{}</style>", "b{color:red;font:1px}".repeat(5_000));
    let body = [sheet.into_bytes(), b"<b>x".repeat(HALF / 4)].concat();
    ask(&[b"Content-Type: text/html\n\n".to_vec(), body].concat());
    let style = b"<p style=\"".to_vec();
    let body = [style, b"a:(;".repeat(HALF / 4), b"\">x".to_vec()].concat();
    ask(&[b"Content-Type: text/html\n\n".to_vec(), body].concat());
}

#[test]
fn text_and_fields_that_invite_quadratic_work() {
    const HALF: usize = 1 << 19;
    let pieces: [&[u8]; 10] = [
        b"a.",
        b"a.b@",
        b"http:",
        b"http://",
        b"http://a(",
        b"http://a.b).",
        b"www.",
        b"a-.",
        b"::",
        b"hxxp://a[.]",
    ];
    for piece in pieces {
        let body = piece.repeat(HALF / piece.len());
        ask(&[b"Subject: x\n\n".to_vec(), body].concat());
    }
    let fields: [(&str, &[u8]); 8] = [
        ("Subject", b"=?"),
        ("Subject", b"=?utf-8?q?a"),
        ("Subject", b"=?utf-8?q?=41?= "),
        ("From", b"(<\""),
        ("From", b"a@b,"),
        ("To", b"<"),
        ("Content-Type", b";a*1*=%41"),
        ("Content-Type", b"text/plain; charset=\"\\"),
    ];
    for (name, piece) in fields {
        let value = piece.repeat(200_000 / piece.len());
        ask(&[name.as_bytes(), b": ", &value, b"\n\nbody"].concat());
    }
}

#[test]
fn truncated_base64() {
    let head = b"Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n".to_vec();
    for cut in 0..8 {
        let mut raw = [head.clone(), b"aGVsbG8g".repeat(10_000)].concat();
        raw.truncate(raw.len() - cut);
        ask(&raw);
        let broken = kinds(&raw).contains(&DefectKind::BadBase64);
        assert_eq!(broken, !cut.is_multiple_of(4), "cut by {cut}");
    }
}

#[test]
fn real_mail() {
    let Some(corpus) = std::env::var_os("GAUNTLET_CORPUS") else {
        eprintln!("note: GAUNTLET_CORPUS is not set, no real mail is read");
        return;
    };
    let corpus = PathBuf::from(corpus);
    let sets = ["fixtures", "dev", "trec07p-30k"].map(|set| files(&corpus.join(set)));
    let mut paths: Vec<PathBuf> = sets.concat();
    assert!(!paths.is_empty(), "GAUNTLET_CORPUS holds mail");
    if std::env::var_os("GAUNTLET_TEST_ALL").is_none() {
        let step = (paths.len() / QUICK_FILES).max(1);
        paths = paths.into_iter().step_by(step).collect();
    }
    let (next, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Ok(raw) = fs::read(path) else { continue };
                    read.fetch_add(1, Ordering::Relaxed);
                    let asked = std::panic::catch_unwind(|| ask(&raw));
                    assert!(asked.is_ok(), "{} breaks a promise (see above)", path.display());
                }
            });
        }
    });
    let (read, all) = (read.into_inner(), paths.len());
    eprintln!("{read} real messages kept every promise");
    assert_eq!(read, all, "every message can be read");
}
