//! A real ICAP client: Squid, started for each test in a folder of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gauntlet_proxy::access_log::Outcome;
use gauntlet_urlfilter::UrlLists;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};

use crate::common::{Body, Origin, Output, PATIENCE, by_lists, by_policy, program, text, until};
use crate::icap_client::{ByPath, Icap, settings};
use crate::judging::list;
use crate::releases::{POLICY, Queue, form};

struct Squid {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Squid {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Squid {
    /// Squid with these services and with what else its configuration is to have; none if it is
    /// missing.
    async fn start(services: &str) -> Option<Self> {
        let squid = program("squid")?;
        // Another test may take the port before Squid does: then it ends, and has another one.
        for _ in 0..5 {
            let mut squid = Squid::try_start(&squid, services);
            let log = squid.folder.path().join("cache.log");
            let is_up = until(|| {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let has_ended = squid.child.try_wait().unwrap().is_some();
                match said.contains("Accepting HTTP Socket connections") {
                    true => Some(true),
                    false => has_ended.then_some(false),
                }
            });
            if is_up.await {
                return Some(squid);
            }
        }
        panic!("Squid does not start");
    }

    fn try_start(program: &Path, services: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Started by root, Squid becomes the user `proxy`, who writes here.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let root = folder.path().display();
        let config = format!(
            "http_port 127.0.0.1:{port}\n\
             visible_hostname squid.test\n\
             pid_filename {root}/squid.pid\n\
             cache_log {root}/cache.log\n\
             access_log stdio:{root}/access.log\n\
             coredump_dir {root}\n\
             netdb_filename none\n\
             cache_effective_user proxy\n\
             shutdown_lifetime 0 seconds\n\
             cache deny all\n\
             http_access allow all\n\
             icap_enable on\n\
             icap_service_failure_limit -1\n\
             icap_service_revival_delay 1\n\
             adaptation_send_client_ip on\n\
             {services}\n"
        );
        let file = folder.path().join("squid.conf");
        std::fs::write(&file, config).unwrap();
        // Squids of the same name share memory.
        let name = format!("gauntlet{port}");
        let child = Command::new(program)
            .args(["-N", "-n", &name, "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Squid { child, port, folder }
    }

    async fn curl(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program("curl").expect("curl beside Squid"));
        let seconds = PATIENCE.as_secs().to_string();
        command.args(["-sS", "--noproxy", "", "--max-time", &seconds, "-x"]);
        command.arg(format!("http://127.0.0.1:{}", self.port)).args(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        Output {
            code: output.status.code().unwrap_or(-1),
            text: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What Squid says about its ICAP services, for a test that fails.
    fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("cache.log")).unwrap_or_default()
    }
}

/// Both services of an ICAP server.
fn both(icap: &Icap, options: &str) -> String {
    let address = icap.address;
    format!(
        "icap_service req reqmod_precache icap://{address}/reqmod {options}\n\
         icap_service resp respmod_precache icap://{address}/respmod {options}\n\
         adaptation_access req allow all\n\
         adaptation_access resp allow all\n"
    )
}

/// A server of files: `/numbers` has some, `/large` 64 MiB, `/stream` two pieces with a pause, and
/// a POST gets its body back.
async fn origin() -> Origin {
    Origin::start(|request: Request<Incoming>| async move {
        match request.uri().path() {
            "/numbers" => text(numbers()),
            "/large" => large(),
            "/stream" => slow(&["one ", "bad ", "word"]),
            "/whole" => slow(&["one ", "bad ", "word"]),
            _ if request.method() == "POST" => {
                let body = request.into_body().collect().await.map(|b| b.to_bytes());
                text(body.unwrap_or_else(|_| Bytes::from_static(b"the body broke off")))
            }
            path => text(format!("a page at {path}")),
        }
    })
    .await
}

fn numbers() -> String {
    (0..100_000).map(|n| format!("{n}\n")).collect()
}

const LARGE_BYTES: usize = 64 << 20;

fn large() -> Response<Body> {
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let frames = futures_util::stream::unfold(LARGE_BYTES >> 20, move |left| {
        let piece = piece.clone();
        async move { Some((Ok(Frame::data(piece)), left.checked_sub(1)?)) }
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

fn slow(pieces: &'static [&'static str]) -> Response<Body> {
    let frames = futures_util::stream::unfold(pieces, |rest| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (first, rest) = rest.split_first()?;
        Some((Ok(Frame::data(Bytes::from(*first))), rest))
    });
    Response::new(StreamBody::new(frames).boxed_unsync())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn squid_gets_pages_blocks_and_204() {
    let origin = origin().await;
    let bad = format!("blocked.example\n{}/bad\n", origin.address);
    let mut settings = settings();
    settings.icap.preview_bytes = 0;
    let icap = Icap::with(settings, Arc::new(by_lists(list("l", &bad)))).await;
    let Some(squid) = Squid::start(&both(&icap, "bypass=off")).await else { return };
    let out = squid.curl(&[&origin.url("/numbers")]).await;
    assert!(out.text == numbers(), "{}: {}", out.errors, squid.said());
    let (request, response) = (icap.counters.reqmod.get(), icap.counters.respmod.get());
    assert_eq!((request, response), (1, 1), "{}", squid.said());
    assert_eq!(icap.counters.unmodified.get(), 2, "both by 204");
    assert_eq!(icap.counters.echoed.get(), 0);

    let html = ["-i", "-H", "Accept: text/html"];
    for url in [origin.url("/bad/x"), "http://www.blocked.example/".to_owned()] {
        let out = squid.curl(&[&html[..], &[&url]].concat()).await;
        assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{}", out.text);
        assert!(out.text.contains("<title>This page is blocked</title>"), "{}", out.text);
        assert!(out.text.contains("<dd>127.0.0.1</dd>"), "{}", out.text);
    }
    let out = squid.curl(&["-v", "https://blocked.example/"]).await;
    assert_eq!(out.code, 56, "{}", out.errors);
    assert!(out.errors.contains("403"), "{}", out.errors);
    assert_eq!(icap.counters.blocked.get(), 3);

    // Bodies of requests: within Squid's buffer, and beyond it.
    for bytes in [1000, 3 << 20] {
        let body = "p".repeat(bytes);
        let file = squid.folder.path().join("body");
        std::fs::write(&file, &body).unwrap();
        let data = format!("@{}", file.display());
        let out = squid.curl(&["--data-binary", &data, &origin.url("/post")]).await;
        assert!(out.text == body, "{} bytes of {bytes}: {}", out.text.len(), out.errors);
    }
    assert_eq!(icap.counters.errors.get(), 0, "{}", squid.said());
    let records = icap.log.all();
    let denied = records.iter().filter(|r| r.outcome == Outcome::Denied).count();
    assert_eq!(denied, 3);
    // Squid's own connections are used again.
    assert!(icap.counters.connections.get() < icap.counters.reqmod.get(), "{:?}", icap.counters);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_blocked_behind_squid_asks_for_release() {
    let origin = origin().await;
    for preview_bytes in [0, 1024] {
        let queue = Arc::new(Queue::default());
        let judge = by_policy(POLICY, UrlLists::default()).with_releases(queue.clone());
        let mut settings = settings();
        settings.icap.preview_bytes = preview_bytes;
        let icap = Icap::with(settings, Arc::new(judge)).await;
        let Some(squid) = Squid::start(&both(&icap, "bypass=off")).await else { return };
        let url = origin.url("/games");
        let page = squid.curl(&["-H", "Accept: text/html", &url]).await;
        assert!(page.text.contains("Ask for release"), "{}", page.text);
        let mut args = form(&page);
        let reason = format!("reason={}", "I play for work. ".repeat(20));
        let to = origin.url("/.well-known/gauntlet/release");
        args.extend(["--data-urlencode".to_owned(), reason, to.clone()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = squid.curl(&args).await;
        assert!(answer.text.contains("Your request was passed on"), "{}", answer.text);
        let asked = queue.asked.lock().unwrap().remove(0);
        assert_eq!((asked.url.as_str(), asked.client.as_str()), (url.as_str(), "127.0.0.1"));
        // Longer than any form.
        let file = squid.folder.path().join("long");
        std::fs::write(&file, "reason=x&".repeat(10_000)).unwrap();
        let data = format!("@{}", file.display());
        let answer = squid.curl(&["-i", "--data-binary", &data, &to]).await;
        assert!(answer.text.starts_with("HTTP/1.1 408 "), "{}", answer.text);
        assert_eq!(origin.connections(), 0, "nothing of this is for the server");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn squid_without_204_gets_everything_back() {
    let origin = origin().await;
    let icap = Icap::judged(ByPath).await;
    let services = both(&icap, "bypass=off") + "icap_206_enable off\nicap_preview_enable off\n";
    let Some(squid) = Squid::start(&services).await else { return };
    let out = squid.curl(&[&origin.url("/numbers")]).await;
    assert!(out.text == numbers(), "{}: {}", out.errors, squid.said());
    assert!(icap.counters.echoed.get() >= 1, "{:?}", icap.counters);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_stream_through_squid() {
    let origin = origin().await;
    let icap = Icap::judged(ByPath).await;
    let services = both(&icap, "bypass=off") + "icap_preview_enable off\n";
    let Some(squid) = Squid::start(&services).await else { return };
    let args = ["-o", "/dev/null", "-w", "%{size_download}", &origin.url("/large")];
    let out = squid.curl(&args).await;
    assert_eq!(out.text, LARGE_BYTES.to_string(), "{}: {}", out.errors, squid.said());
    let bytes = u64::try_from(LARGE_BYTES).unwrap();
    until(|| (icap.counters.bytes_to_clients.get() >= bytes).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_an_inspector_blocks_are_replaced_or_cut() {
    let origin = origin().await;
    let icap = Icap::judged(ByPath).await;
    let Some(squid) = Squid::start(&both(&icap, "bypass=off")).await else { return };
    let out = squid.curl(&["-i", &origin.url("/whole")]).await;
    assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{}", out.text);
    assert!(out.text.contains("It has a bad word."), "{}", out.text);
    assert!(icap.counters.continued.get() + icap.counters.unmodified.get() >= 1);
    let out = squid.curl(&["-i", "-d", "a bad word", &origin.url("/upload")]).await;
    assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{}", out.text);
    let out = squid.curl(&["-d", "a good word", &origin.url("/upload")]).await;
    assert_eq!(out.text, "a good word", "{}", squid.said());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_turns_bad_on_its_way_is_cut() {
    let origin = origin().await;
    let mut settings = settings();
    settings.icap.preview_bytes = 0;
    let icap = Icap::with(settings, Arc::new(ByPath)).await;
    let Some(squid) = Squid::start(&both(&icap, "bypass=off")).await else { return };
    let out = squid.curl(&[&origin.url("/stream")]).await;
    assert_eq!(out.text, "one ", "{}: {}", out.errors, squid.said());
    assert_eq!(out.code, 18, "curl must see that it is not whole: {}", out.errors);
    assert_eq!(icap.counters.cut.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_service_squid_does_as_its_bypass_says() {
    let origin = origin().await;
    for (bypass, status) in [("bypass=on", "200"), ("bypass=off", "500")] {
        let mut icap = Icap::judged(ByPath).await;
        let Some(squid) = Squid::start(&both(&icap, bypass)).await else { return };
        let url = origin.url("/bad");
        let args = ["-o", "/dev/null", "-w", "%{http_code}", &url];
        assert_eq!(squid.curl(&args).await.text, "403", "{}", squid.said());
        tokio::time::timeout(PATIENCE, icap.stop()).await.unwrap().unwrap();
        assert_eq!(squid.curl(&args).await.text, status, "{bypass}: {}", squid.said());
    }
}
