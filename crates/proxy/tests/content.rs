//! Content of responses: pages by their words, types, downloads, what cannot be judged.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gauntlet_phrases::{PhraseSet, Reader, Role};
use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::{AccessRecord, Outcome};
use gauntlet_proxy::content::{ContentJudge, ContentSettings, Download, ScanDownload, ScanVerdict};
use gauntlet_proxy::judge::AllowAll;
use gauntlet_proxy::settings::content::{Action, Fail, Partial};
use hyper::{Request, Response};

use crate::common::{Body, Origin, Proxy, settings, text};

/// Phrases of these lines.
pub(crate) fn phrases(lines: &str) -> Option<Arc<PhraseSet>> {
    let lines = lines.as_bytes().to_vec();
    let fetch = move |_: &std::path::Path| Ok(lines.clone());
    let mut reader = Reader::new(&fetch);
    reader.read("list".as_ref(), Role::Banned);
    Some(Arc::new(PhraseSet::compile(&reader.finish()).unwrap()))
}

pub(crate) const WORDS: &str = "#listcategory: \"Gambling\"\n< casino ><60>\n< poker ><60>\n";

pub(crate) async fn proxy(
    content: ContentSettings,
    phrases: Option<Arc<PhraseSet>>,
    scanner: Option<Arc<dyn ScanDownload>>,
) -> Proxy {
    content.check().unwrap();
    let judge = Arc::new(ContentJudge::new(Arc::new(AllowAll), content, phrases, scanner));
    Proxy::with(settings(), Parts { judge, ..Parts::default() }).await
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A response with these fields.
fn answer(body: impl Into<Bytes>, fields: &[(&'static str, &str)]) -> Response<Body> {
    let mut response = text(body);
    for (name, value) in fields {
        response.headers_mut().append(*name, value.parse().unwrap());
    }
    response
}

/// Answers by the path.
async fn origin(make: impl Fn(&str) -> Response<Body> + Clone + Send + 'static) -> Origin {
    Origin::start(move |request: Request<hyper::body::Incoming>| {
        let response = make(request.uri().path());
        async move { response }
    })
    .await
}

async fn last(proxy: &Proxy, count: usize) -> AccessRecord {
    crate::common::until(|| proxy.log.at(count - 1)).await
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const BAD: &str = "<html><title>x</title><p>The Casino has <b>poker</b>.</html>";
const GOOD: &str = "<html><title>x</title><p>The casino is closed.</html>";
const HTML: (&str, &str) = ("content-type", "text/html");

#[tokio::test]
async fn pages_are_blocked_by_their_words_with_a_page_that_says_why() {
    let proxy = proxy(ContentSettings::default(), phrases(WORDS), None).await;
    let origin = origin(|path| match path {
        "/good" => answer(GOOD, &[HTML]),
        "/bad" => answer(BAD, &[HTML]),
        "/gzip" => answer(gzip(BAD.as_bytes()), &[HTML, ("content-encoding", "gzip")]),
        // A type that lies: browsers may take the bytes for what they are.
        "/lies" => answer(BAD, &[("content-type", "image/png")]),
        "/untyped" => answer(BAD, &[]),
        "/utf-16" => answer(utf16(&format!("\u{feff}{BAD}")), &[]),
        "/utf-16-text" => answer(utf16("\u{feff}A casino with poker"), &[]),
        "/utf-16-lies" => {
            answer(utf16(&format!("\u{feff}{BAD}")), &[("content-type", "image/png")])
        }
        "/utf-16-declared" => answer(
            utf16(&BAD.replace("ok", "o<i></i>k")),
            &[("content-type", "text/html; charset=utf-16le")],
        ),
        "/script" => answer(BAD.replace('<', " "), &[("content-type", "text/javascript")]),
        _ => answer(gzip(&gzip(BAD.as_bytes())), &[HTML, ("content-encoding", "gzip, gzip")]),
    })
    .await;
    let Some(out) = proxy.curl(&[&origin.url("/good")]).await else { return };
    assert_eq!(out.text, GOOD);
    for path in [
        "/bad",
        "/gzip",
        "/lies",
        "/untyped",
        "/nested",
        "/utf-16",
        "/utf-16-text",
        "/utf-16-lies",
        "/utf-16-declared",
    ] {
        let out = proxy.curl(&["-i", &origin.url(path)]).await.unwrap();
        assert!(out.text.starts_with("HTTP/1.1 403 "), "{path}: {}", out.text);
        assert!(out.text.contains("It seems to be about: Gambling."), "{path}: {}", out.text);
        assert!(out.text.contains("content: phrases: 120 points, 100 allowed"), "{}", out.text);
        assert!(!out.text.contains("The Casino"), "{path}");
    }
    let out = proxy.curl(&[&origin.url("/script")]).await.unwrap();
    assert!(out.text.contains("Casino"), "{}", out.text);
    let record = last(&proxy, 1).await;
    assert_eq!(record.outcome, Outcome::Passed);
    assert!(
        record.notes.contains(&"phrases 60 of 100, below limit (\"casino\" +60)".to_owned()),
        "{:?}",
        record.notes
    );
    let record = last(&proxy, 2).await;
    assert_eq!((record.outcome, record.refusal), (Outcome::Denied, Some("blocked")));
    assert!(record.notes.iter().any(|note| note.contains("\"poker\" +60")), "{:?}", record.notes);
    let lies = last(&proxy, 4).await;
    assert_eq!(lies.notes[0], "type image/png, by its bytes text/html");
}

#[tokio::test]
async fn the_client_gets_what_passes_as_it_came() {
    let proxy = proxy(ContentSettings::default(), phrases(WORDS), None).await;
    let page = GOOD.repeat(3000);
    let packed = gzip(page.as_bytes());
    let sent = packed.clone();
    let origin = origin(move |_| {
        answer(sent.clone(), &[HTML, ("content-encoding", "gzip"), ("etag", "\"1\"")])
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let file = file.to_str().unwrap();
    if proxy.curl(&["-o", file, &origin.url("/")]).await.is_none() {
        return;
    }
    assert!(std::fs::read(file).unwrap() == packed);
    let out = proxy.curl(&["--compressed", &origin.url("/")]).await.unwrap();
    assert!(out.text == page);
    let out = proxy.curl(&["-I", &origin.url("/")]).await.unwrap();
    let length = format!("content-length: {}\r\n", packed.len());
    assert!(out.text.starts_with("HTTP/1.1 200 ") && out.text.contains(&length), "{}", out.text);
}

#[tokio::test]
async fn types_and_names_are_blocked() {
    let content = ContentSettings {
        blocked_types: vec!["application/x-dosexec".to_owned(), "video/*".to_owned()],
        blocked_extensions: vec!["scr".to_owned()],
        size_max: 100_000,
        ..ContentSettings::default()
    };
    let proxy = proxy(content, None, None).await;
    let origin = origin(|path| match path {
        "/program" => answer(&b"MZ\x90\0 a program"[..], &[("content-type", "image/png")]),
        "/video" => answer("a video", &[("content-type", "Video/mp4")]),
        "/two" => answer("x", &[("content-type", "text/plain"), ("content-type", "video/mp4")]),
        "/list" => answer("x", &[("content-type", "text/plain, video/mp4")]),
        "/named-twice" => {
            let second = ("content-disposition", "attachment; filename=a.scr");
            answer("x", &[("content-disposition", "inline"), second])
        }
        "/named" => answer("x", &[("content-disposition", "attachment; filename=\"a.SCR\"")]),
        "/a.scr" => answer("x", &[]),
        "/large" => answer(vec![b'x'; 200_000], &[]),
        // A page whose address only looks like a file.
        "/page.scr" => answer(GOOD, &[HTML]),
        _ => answer("fine", &[]),
    })
    .await;
    for (path, rule) in [
        ("/program", "content: blocked_types: application/x-dosexec (type image/png, by its"),
        ("/video", "content: blocked_types: video/* (type video/mp4"),
        ("/two", "content: blocked_types: video/* (type text/plain and video/mp4"),
        ("/list", "content: blocked_types: video/* (type text/plain and video/mp4"),
        ("/named", "content: blocked_extensions: scr"),
        ("/named-twice", "content: blocked_extensions: scr"),
        ("/a.scr", "content: blocked_extensions: scr"),
        ("/large", "content: size_max"),
    ] {
        let Some(out) = proxy.curl(&["-i", &origin.url(path)]).await else { return };
        assert!(out.text.starts_with("HTTP/1.1 403 "), "{path}: {}", out.text);
        assert!(out.text.contains(rule), "{path}: {}", out.text);
    }
    for path in ["/", "/page.scr"] {
        let out = proxy.curl(&["-o", "/dev/null", "-w", "%{http_code}", &origin.url(path)]).await;
        assert_eq!(out.unwrap().text, "200", "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_judged_follows_the_settings_and_is_told() {
    let zeros = gzip(&vec![b'a'; 20 << 20]);
    let page = GOOD.repeat(2000);
    let (bomb, broken) = (zeros.clone(), b"no gzip at all, but long enough to be seen".to_vec());
    let origin = origin(move |path| match path {
        "/bomb" => answer(bomb.clone(), &[HTML, ("content-encoding", "gzip")]),
        "/broken" => answer(broken.clone(), &[HTML, ("content-encoding", "gzip")]),
        "/unknown" => answer("x", &[HTML, ("content-encoding", "compress")]),
        "/long" => answer(page.clone(), &[HTML]),
        _ => answer(format!("{BAD}{page}"), &[HTML]),
    })
    .await;
    let small = ContentSettings { page_bytes_max: 4096, ..ContentSettings::default() };
    let lenient = proxy(
        ContentSettings { on_unreadable: Action::Pass, ..small.clone() },
        phrases(WORDS),
        None,
    )
    .await;
    let strict =
        proxy(ContentSettings { on_too_large: Action::Block, ..small }, phrases(WORDS), None).await;
    let code = ["-o", "/dev/null", "-w", "%{http_code}"];
    for (count, (path, of_lenient)) in [
        ("/bomb", "403"),
        ("/broken", "200"),
        ("/unknown", "200"),
        ("/long", "200"),
        // What is bad within the part that was read is blocked.
        ("/bad", "403"),
    ]
    .into_iter()
    .enumerate()
    {
        let url = origin.url(path);
        let Some(out) = lenient.curl(&[&code[..], &[&url]].concat()).await else { return };
        assert_eq!(out.text, of_lenient, "{path}");
        let out = strict.curl(&[&code[..], &[&url]].concat()).await.unwrap();
        assert_eq!(out.text, "403", "{path}");
        let record = last(&lenient, count + 1).await;
        let is_told = record.notes.iter().any(|note| note.starts_with("not judged whole: "));
        assert_eq!(is_told, of_lenient == "200", "{path}: {:?}", record.notes);
    }
    let rule = last(&strict, 1).await.rule.unwrap();
    assert_eq!(rule, "content: decompression bomb (ratio_max)");
    let rule = last(&strict, 2).await.rule.unwrap();
    assert_eq!(rule, "content: unreadable: the content coding is broken: gzip");
}

#[tokio::test]
async fn bombs_of_every_coding_are_blocked() {
    // 16 MiB of zeros in 14 bytes.
    let brotli = b"\x9f\xff\xff\xff\xf8\x27\x00\xe2\xb1\x40\x20\xf7\xfe\x1f";
    let zeros = vec![0; 16 << 20];
    let zstd = {
        let mut packed = vec![0; 1 << 20];
        let n = zstd_safe::compress(&mut packed[..], &zeros, 3).unwrap();
        packed.truncate(n);
        packed
    };
    let (once, twice) = (gzip(&zeros), gzip(&gzip(&zeros)));
    let origin = origin(move |path| match path {
        "/gzip" => answer(once.clone(), &[HTML, ("content-encoding", "gzip")]),
        "/twice" => answer(twice.clone(), &[HTML, ("content-encoding", "gzip, gzip")]),
        "/br" => answer(brotli.to_vec(), &[HTML, ("content-encoding", "br")]),
        _ => answer(zstd.clone(), &[HTML, ("content-encoding", "zstd")]),
    })
    .await;
    // Whatever may pass because it cannot be judged, this may not.
    let lenient = ContentSettings {
        on_unreadable: Action::Pass,
        on_too_large: Action::Pass,
        ..ContentSettings::default()
    };
    let proxy = proxy(lenient, phrases(WORDS), None).await;
    for (count, path) in ["/gzip", "/twice", "/br", "/zstd"].into_iter().enumerate() {
        let url = origin.url(path);
        let Some(out) = proxy.curl(&["-o", "/dev/null", "-w", "%{http_code}", &url]).await else {
            return;
        };
        assert_eq!(out.text, "403", "{path}");
        let rule = last(&proxy, count + 1).await.rule.unwrap();
        assert_eq!(rule, "content: decompression bomb (ratio_max)", "{path}");
    }
}

#[tokio::test]
async fn parts_and_conditions() {
    let origin = Origin::start(|request: Request<hyper::body::Incoming>| async move {
        if request.headers().contains_key("if-none-match") {
            let mut response = answer("", &[HTML]);
            *response.status_mut() = hyper::StatusCode::NOT_MODIFIED;
            return response;
        }
        let is_video = request.uri().path() == "/video";
        let media_type = if is_video { ("content-type", "video/mp4") } else { HTML };
        if !request.headers().contains_key("range") {
            return answer("whole", &[media_type]);
        }
        let mut response = answer("ho", &[media_type, ("content-range", "bytes 1-2/5")]);
        *response.status_mut() = hyper::StatusCode::PARTIAL_CONTENT;
        response
    })
    .await;
    let player = ["-H", "Sec-Fetch-Dest: video"];
    for (partial, page, of_player, note) in [
        (Partial::Strip, "whole200", "ho206", "not judged: a part (206) of sound or pictures"),
        (Partial::Pass, "ho206", "ho206", "not judged: a part (206)"),
        (Partial::Block, "403", "403", ""),
    ] {
        let content = ContentSettings { partial, ..ContentSettings::default() };
        let proxy = proxy(content, phrases(WORDS), None).await;
        let ask = ["-r", "1-2", "-w", "%{http_code}"];
        let Some(out) = proxy.curl(&[&ask[..], &[&origin.url("/")]].concat()).await else { return };
        assert!(out.text.ends_with(page), "{partial:?}: {}", out.text);
        let url = origin.url("/video");
        let out = proxy.curl(&[&ask[..], &player[..], &[&url]].concat()).await.unwrap();
        assert!(out.text.ends_with(of_player), "{partial:?}: {}", out.text);
        if !note.is_empty() {
            assert_eq!(last(&proxy, 2).await.notes, [note]);
        }
        let fresh = ["-H", "If-None-Match: x", "-w", "%{http_code}", &origin.url("/")];
        assert_eq!(proxy.curl(&fresh).await.unwrap().text, "304", "{partial:?}");
    }
}

/// Says what it is told to, after a while.
struct Scanner {
    verdict: ScanVerdict,
    pause: Duration,
    seen: Arc<AtomicUsize>,
}

impl ScanDownload for Scanner {
    fn scan(&self, download: Download) -> BoxFuture<'static, ScanVerdict> {
        self.seen.fetch_add(download.bytes.len(), Ordering::SeqCst);
        let (verdict, pause) = (self.verdict.clone(), self.pause);
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            verdict
        })
    }
}

fn scanner(verdict: ScanVerdict, pause: Duration) -> (Arc<dyn ScanDownload>, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    (Arc::new(Scanner { verdict, pause, seen: Arc::clone(&seen) }), seen)
}

fn found() -> ScanVerdict {
    ScanVerdict::Found { name: "Test.Virus".to_owned() }
}

/// 300 KB that begin as a ZIP does.
fn archive() -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.extend((0..300_000_u32).map(|n| (n % 251) as u8));
    bytes
}

async fn archives() -> Origin {
    origin(|path| match path {
        "/packed" => answer(
            gzip(&archive()),
            &[("content-encoding", "gzip"), ("content-type", "application/zip")],
        ),
        _ => answer(archive(), &[("content-type", "application/zip")]),
    })
    .await
}

#[tokio::test]
async fn downloads_are_scanned_whole_and_decoded() {
    let origin = archives().await;
    let (clean, seen) = scanner(ScanVerdict::Clean, Duration::ZERO);
    let proxy_clean = proxy(ContentSettings::default(), None, Some(clean)).await;
    let size = ["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
    let ask = |path: &str| [&size[..], &[&origin.url(path)]].concat().join("\n");
    for path in ["/plain", "/packed"] {
        let before = seen.load(Ordering::SeqCst);
        let args = ask(path);
        let args: Vec<&str> = args.split('\n').collect();
        let Some(out) = proxy_clean.curl(&args).await else { return };
        assert!(out.text.starts_with("200 "), "{path}: {}", out.text);
        assert_eq!(seen.load(Ordering::SeqCst) - before, archive().len(), "{path}");
    }
    let ask = ["-o", "/dev/null", "-w", "%{size_download}", &origin.url("/")];
    assert_eq!(proxy_clean.curl(&ask).await.unwrap().text, archive().len().to_string());
    let record = last(&proxy_clean, 1).await;
    assert_eq!(record.outcome, Outcome::Passed);
    assert!(record.notes.contains(&"scan: clean".to_owned()), "{:?}", record.notes);

    let (bad, _) = scanner(found(), Duration::ZERO);
    let proxy_bad = proxy(ContentSettings::default(), None, Some(bad)).await;
    let out = proxy_bad.curl(&["-i", &origin.url("/")]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert!(out.text.contains("content: scan: Test.Virus"), "{}", out.text);
}

#[tokio::test]
async fn a_scanner_that_fails_follows_the_setting() {
    let origin = archives().await;
    let failed = || ScanVerdict::Failed("clamd: not reachable".to_owned());
    for (fail, pause, code) in [
        (Fail::Closed, 0, "403"),
        (Fail::Open, 0, "200"),
        // One that gives no answer in time.
        (Fail::Closed, 60, "403"),
        (Fail::Open, 60, "200"),
    ] {
        let content = ContentSettings { fail, scan_seconds_max: 1, ..ContentSettings::default() };
        let (scanner, _) = scanner(failed(), Duration::from_secs(pause));
        let proxy = proxy(content, None, Some(scanner)).await;
        let ask = ["-o", "/dev/null", "-w", "%{http_code}", &origin.url("/")];
        let Some(out) = proxy.curl(&ask).await else { return };
        assert_eq!(out.text, code, "{fail:?} {pause}");
        let record = last(&proxy, 1).await;
        let told = format!("{:?} {:?}", record.rule, record.notes);
        assert!(told.contains("the scan failed: "), "{told}");
    }
}

#[tokio::test]
async fn a_bomb_is_blocked_whatever_is_set_and_what_cannot_be_read_is_not_to_be_tried_again() {
    let origin = archives().await;
    for (verdict, fail, code, told) in [
        (ScanVerdict::Bomb("a.zip".to_owned()), Fail::Open, "403", "decompression bomb: a.zip"),
        (ScanVerdict::Bomb("a.zip".to_owned()), Fail::Closed, "403", "decompression bomb: a.zip"),
        (ScanVerdict::Unreadable("encrypted".to_owned()), Fail::Open, "200", "encrypted"),
        (ScanVerdict::Unreadable("encrypted".to_owned()), Fail::Closed, "403", "encrypted"),
    ] {
        let content = ContentSettings { fail, ..ContentSettings::default() };
        let (scanner, _) = scanner(verdict, Duration::ZERO);
        let proxy = proxy(content, None, Some(scanner)).await;
        let Some(out) = proxy.curl(&["-i", &origin.url("/")]).await else { return };
        assert!(out.text.starts_with(&format!("HTTP/1.1 {code} ")), "{told}: {}", out.text);
        assert!(!out.text.contains("Try again"), "{}", out.text);
        let record = last(&proxy, 1).await;
        let noted = format!("{:?} {:?}", record.rule, record.notes);
        assert!(noted.contains(told), "{noted}");
    }
}

#[tokio::test]
async fn trickle_keeps_a_client_patient_but_never_gives_the_end() {
    let origin = archives().await;
    let content = ContentSettings {
        trickle_after_seconds: 0,
        trickle_every_seconds: 1,
        trickle_bytes: 100_000,
        held_back_bytes: 50_000,
        ..ContentSettings::default()
    };
    let (bad, _) = scanner(found(), Duration::from_secs(4));
    let proxy_bad = proxy(content.clone(), None, Some(bad)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let args = ["-o", file.to_str().unwrap(), "-w", "%{time_starttransfer}", &origin.url("/")];
    let Some(out) = proxy_bad.curl(&args).await else { return };
    assert_eq!(out.code, 18, "curl must see that it is not whole: {}", out.errors);
    let got = std::fs::read(&file).unwrap();
    assert!(archive().starts_with(&got) && !got.is_empty(), "{}", got.len());
    assert!(got.len() <= archive().len() - 50_000, "{}", got.len());
    let first: f64 = out.text.parse().unwrap();
    assert!(first < 3.0, "the first bytes come before the verdict: {first}");
    let record = last(&proxy_bad, 1).await;
    assert_eq!((record.outcome, record.refusal), (Outcome::Aborted, Some("blocked")));

    let (clean, _) = scanner(ScanVerdict::Clean, Duration::from_secs(3));
    let proxy_clean = proxy(content.clone(), None, Some(clean)).await;
    let ask = ["-o", file.to_str().unwrap(), &origin.url("/")];
    assert_eq!(proxy_clean.curl(&ask).await.unwrap().code, 0);
    assert!(std::fs::read(&file).unwrap() == archive());
    // Without it nothing goes before the verdict.
    let (bad, _) = scanner(found(), Duration::from_secs(2));
    let proxy_still = proxy(ContentSettings { trickle: false, ..content }, None, Some(bad)).await;
    let out = proxy_still.curl(&["-i", &origin.url("/")]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
}

#[tokio::test]
async fn what_is_larger_than_a_scanner_takes_follows_the_setting() {
    let origin = archives().await;
    for (on_too_large, code) in [(Action::Pass, "200"), (Action::Block, "403")] {
        let content =
            ContentSettings { on_too_large, scan_bytes_max: 10_000, ..ContentSettings::default() };
        let (scanner, seen) = scanner(ScanVerdict::Clean, Duration::ZERO);
        let proxy = proxy(content, None, Some(scanner)).await;
        for path in ["/", "/packed"] {
            let ask = ["-o", "/dev/null", "-w", "%{http_code}", &origin.url(path)];
            let Some(out) = proxy.curl(&ask).await else { return };
            assert_eq!(out.text, code, "{on_too_large:?} {path}");
        }
        assert_eq!(seen.load(Ordering::SeqCst), 0);
        if on_too_large == Action::Pass {
            let notes = last(&proxy, 1).await.notes;
            assert!(notes.contains(&"not judged whole: scan_bytes_max".to_owned()), "{notes:?}");
        }
    }
}
