//! What a judge decides is what happens.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gauntlet_proxy::Parts;
use gauntlet_proxy::access_log::Outcome;
use gauntlet_proxy::judge::{
    BlockReason, Decision, Inspect, Judge, ResponseDecision, ResponseHead, Step,
};
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::request::WebRequest;
use gauntlet_proxy::resolve::Resolve;
use gauntlet_proxy::settings::Settings;
use gauntlet_urlfilter::formats::Format;
use gauntlet_urlfilter::sources::collect;
use gauntlet_urlfilter::{Role, UrlList, UrlLists, compile};
use hyper::Request;
use hyper::body::Incoming;
use tokio::io::AsyncWriteExt;

use crate::common::{Origin, Proxy, by_lists, by_policy, read_until, settings, text};

/// A list of these lines, compiled.
pub(crate) fn list(name: &str, lines: &str) -> UrlLists {
    let folder = tempfile::tempdir().unwrap();
    let (source, compiled) = (folder.path().join("list.txt"), folder.path().join("list.urls"));
    std::fs::write(&source, lines).unwrap();
    let sources = collect(&source, None, Some("phishing")).unwrap();
    compile(&sources.files, &compiled).unwrap();
    let list = UrlList::open(&compiled, name, Role::Match).unwrap();
    UrlLists::new(vec![list.into()])
}

#[tokio::test]
async fn lists_are_swapped_while_requests_pass() {
    let judge = Arc::new(by_lists(list("a", "blocked.example\n")));
    let proxy = Proxy::judged(Shared(judge.clone())).await;
    let origin = Origin::start(|_| async { text("a page") }).await;
    let Some(out) = proxy.curl(&[&origin.url("/bad/page")]).await else { return };
    assert_eq!(out.code, 0, "{}", out.errors);
    let host = origin.url("");
    judge.replace_lists(list("b", &format!("{}/bad\n", host.trim_end_matches('/'))));
    let status = ["-o", "/dev/null", "-w", "%{http_code}"];
    for (path, code) in [("/bad/page", "403"), ("/bad?x", "403"), ("/badly", "200")] {
        let out = proxy.curl(&[&status[..], &[&origin.url(path)]].concat()).await.unwrap();
        assert_eq!(out.text, code, "{path}");
    }
    judge.replace_lists(UrlLists::default());
    let out = proxy.curl(&[&status[..], &[&origin.url("/bad/page")]].concat()).await.unwrap();
    assert_eq!(out.text, "200");
}

/// The address is proven, the name is what the client says.
#[test]
fn the_address_of_an_intercepted_connection_is_asked_for_as_well_as_the_name() {
    let judge = by_lists(list("hosts", "blocked.example\n10.77.2.3\nx.example/a\n"));
    let ask = |server: &str, name: &str| {
        let (client, server) = ([192, 0, 2, 7].into(), server.parse().unwrap());
        let tunnel = WebRequest::named(client, server, name).unwrap();
        let request = Request::builder().uri("/a").header("host", name).body(()).unwrap();
        let request = WebRequest::seen(client, server, &request, &Settings::default()).unwrap();
        [tunnel, request].map(|web| match judge.request(&web).into_parts() {
            (Decision::Block(_), note) => note.evidence,
            (Decision::Allow, note) => note.listed.len().to_string(),
            _ => panic!("{name} at {server}"),
        })
    };
    assert_eq!(ask("10.77.2.2:80", "site.example"), ["0", "0"]);
    for server in ["10.77.2.3:443", "[::ffff:10.77.2.3]:443", "[64:ff9b::10.77.2.3]:443"] {
        for name in ["site.example", "10.77.2.3"] {
            assert_eq!(ask(server, name), ["hosts: host 10.77.2.3"; 2], "{server} {name}");
        }
    }
    let both = ask("10.77.2.3:443", "blocked.example");
    assert_eq!(both, ["hosts: domain blocked.example"; 2]);

    // A name that is allowed does not allow the address, and expressions are for what is asked.
    let (lists, folder) = (list("hosts", "10.77.2.3\n"), tempfile::tempdir().unwrap());
    let compiled = |name: &str, lines: &str, format, role| {
        let source = folder.path().join(format!("{name}.txt"));
        std::fs::write(&source, lines).unwrap();
        let sources = collect(&source, Some(format), Some("x")).unwrap();
        let out = folder.path().join(format!("{name}.urls"));
        compile(&sources.files, &out).unwrap();
        Arc::new(UrlList::open(&out, name, role).unwrap())
    };
    let good = compiled("good", "good.example\n", Format::Plain, Role::Allow);
    let numbers = compiled("numbers", "^http://[0-9.]+/\n", Format::SquidRegexes, Role::Match);
    let judge = by_lists(lists.with(good).with(numbers));
    for (server, is_blocked) in [("10.77.2.3:80", true), ("10.77.2.2:80", false)] {
        let request = Request::builder().uri("/").header("host", "good.example").body(()).unwrap();
        let (client, server) = ([192, 0, 2, 7].into(), server.parse().unwrap());
        let web = WebRequest::seen(client, server, &request, &Settings::default()).unwrap();
        let decision = judge.request(&web).into_parts().0;
        assert_eq!(matches!(decision, Decision::Block(_)), is_blocked, "{server}");
    }
}

/// Every name has these addresses.
struct Fixed(Vec<IpAddr>);

impl Resolve for Fixed {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[tokio::test]
async fn a_name_does_not_lead_to_a_listed_address() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let url = format!("name.example:{}", origin.address.port());
    let requests = [
        format!("GET http://{url}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
        format!("CONNECT {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ];
    let hosts = || list("hosts", "127.0.0.1\n127.0.0.3\n");
    let good = || {
        let folder = tempfile::tempdir().unwrap();
        let (source, compiled) = (folder.path().join("good"), folder.path().join("good.urls"));
        std::fs::write(&source, "name.example\n").unwrap();
        let sources = collect(&source, Some(Format::Plain), None).unwrap();
        compile(&sources.files, &compiled).unwrap();
        Arc::new(UrlList::open(&compiled, "good", Role::Allow).unwrap())
    };
    let expressions = list("e", "/^http:..127[.]0[.]0[.]1/\n");
    let warns =
        "[[web_rule]]\nname = \"w\"\nwhen.url.list = \"hosts\"\ndo = { warn = { text = \"?\" } }\n";
    let (block, warn) = (gauntlet_policy::Policy::DEFAULT, warns);
    for (policy, lists, addresses, listed_addresses, status) in [
        (block, hosts(), &[[127, 0, 0, 1]][..], true, 403),
        (warn, hosts(), &[[127, 0, 0, 1]], true, 403),
        (block, hosts(), &[[127, 0, 0, 3], [127, 0, 0, 1]], true, 403),
        (block, list("hosts", "127.0.0.3\n"), &[[127, 0, 0, 3], [127, 0, 0, 1]], true, 200),
        (block, hosts().with(good()), &[[127, 0, 0, 1]], true, 200),
        (block, hosts(), &[[127, 0, 0, 1]], false, 200),
        (block, expressions, &[[127, 0, 0, 1]], true, 200),
    ] {
        let resolver = Fixed(addresses.iter().map(|a| IpAddr::from(*a)).collect());
        let parts = Parts {
            judge: Arc::new(by_policy(policy, lists)),
            resolver: Some(Arc::new(resolver)),
            ..Parts::default()
        };
        let proxy = Proxy::with(Settings { listed_addresses, ..settings() }, parts).await;
        for request in &requests {
            let mut stream = proxy.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let head = read_until(&mut stream, "\r\n\r\n").await;
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{addresses:?}: {head}");
            if status == 403 {
                read_until(&mut stream, "An address of this host is on the list hosts.").await;
            }
        }
        if status == 403 {
            let record = proxy.record().await;
            let refusal = if policy == block { "blocked" } else { "warned" };
            assert_eq!((record.refusal, record.rule.is_some()), (Some(refusal), true));
            let entry = "hosts: host 127.0.0.1 (127.0.0.1 is an address of name.example)";
            let action = if policy == block { "block" } else { "warn" };
            assert_eq!((record.note.evidence.as_str(), record.note.action), (entry, action));
            assert_eq!(record.note.category, "phishing");
            let listed: Vec<_> = record.note.listed.iter().map(|l| l.list.as_str()).collect();
            assert_eq!(listed, ["hosts"]);
            assert_eq!(record.server_address, Some([127, 0, 0, 1].into()));
        }
    }
}

/// A judge whose lists the test replaces.
struct Shared(Arc<PolicyJudge>);

impl Judge for Shared {
    fn request(&self, request: &WebRequest) -> Decision {
        self.0.request(request)
    }
}

#[tokio::test]
async fn a_blocked_host_gets_a_page_that_says_why() {
    let proxy = Proxy::judged(by_lists(list("hosts", "blocked.example\n"))).await;
    let url = "http://www.blocked.example:8080/";
    let Some(out) = proxy.curl(&["-i", "-H", "Accept: text/html", url]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{}", out.text);
    let record = proxy.record().await;
    for part in [
        "content-type: text/html; charset=utf-8\r\n",
        "proxy-status: gauntlet; error=http_request_denied; details=\"blocked\"\r\n",
        "<dd>Addresses on a list of URLs are blocked</dd>",
        "<dd>127.0.0.1</dd>",
        record.reference.as_str(),
    ] {
        assert!(out.text.contains(part), "{part}: {}", out.text);
    }
    assert_eq!((record.outcome, record.refusal), (Outcome::Denied, Some("blocked")));
    assert_eq!(record.note.rules, ["Addresses on a list of URLs are blocked"]);
    assert_eq!(record.note.category, "phishing");
    assert_eq!(record.note.evidence, "hosts: domain blocked.example");
    assert!(record.squid().contains(" TCP_DENIED/403 "), "{}", record.squid());
    assert_eq!(proxy.counters.refusals("blocked"), 1);

    let out = proxy.curl(&["-v", "https://blocked.example:8443/"]).await.unwrap();
    assert_eq!(out.code, 56, "{}", out.errors);
    assert!(out.errors.contains("403"), "{}", out.errors);
}

/// By the path: redirects, or inspects.
struct ByPath;

impl Judge for ByPath {
    fn request(&self, request: &WebRequest) -> Decision {
        match request.url.path_and_query() {
            "/moved" => Decision::Redirect("http://elsewhere.example/".to_owned()),
            "/upload" => Decision::Inspect(Box::new(Words { holds: true, held: Vec::new() })),
            _ => Decision::Allow,
        }
    }

    fn response(&self, request: &WebRequest, head: &ResponseHead<'_>) -> ResponseDecision {
        match request.url.path_and_query() {
            "/whole" | "/large" => {
                ResponseDecision::Inspect(Box::new(Words { holds: true, held: Vec::new() }))
            }
            "/stream" => {
                ResponseDecision::Inspect(Box::new(Words { holds: false, held: Vec::new() }))
            }
            _ if head.headers.contains_key("x-bad") => ResponseDecision::Block(reason()),
            _ => ResponseDecision::Pass,
        }
    }
}

fn reason() -> BlockReason {
    BlockReason { rule: "words".to_owned(), text: "It has a bad word.".to_owned() }
}

/// Blocks what has `bad` in it: at the end, or as the word comes.
struct Words {
    holds: bool,
    held: Vec<u8>,
}

impl Inspect for Words {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(async move {
            if self.holds {
                self.held.extend_from_slice(&data);
                return Step::Hold;
            }
            // What waits does not stop other connections.
            tokio::task::yield_now().await;
            match data.windows(3).any(|w| w == b"bad") {
                true => Step::Block(reason()),
                false => Step::Pass(data),
            }
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        let held = Bytes::from(std::mem::take(&mut self.held));
        let is_bad = held.windows(3).any(|w| w == b"bad");
        Box::pin(async move { if is_bad { Step::Block(reason()) } else { Step::Pass(held) } })
    }
}

/// A response of these pieces, one frame each.
fn pieces(pieces: &'static [&'static str]) -> hyper::Response<crate::common::Body> {
    use http_body_util::{BodyExt, StreamBody};
    let frames = futures_util::stream::unfold(pieces, |rest| async move {
        // Each piece is written before the next is there.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let (first, rest) = rest.split_first()?;
        Some((Ok::<_, Infallible>(hyper::body::Frame::data(Bytes::from(*first))), rest))
    });
    let body = StreamBody::new(frames).map_err(|never| match never {});
    hyper::Response::new(body.boxed_unsync())
}

#[tokio::test]
async fn a_judge_redirects_and_blocks_responses() {
    let proxy = Proxy::judged(ByPath).await;
    let origin = Origin::start(|_request| async {
        let mut answer = text("x");
        answer.headers_mut().insert("x-bad", "1".parse().unwrap());
        answer
    })
    .await;
    let Some(out) = proxy.curl(&["-i", &origin.url("/moved")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 302 Found\r\n"), "{}", out.text);
    assert!(out.text.contains("location: http://elsewhere.example/\r\n"), "{}", out.text);
    let out = proxy.curl(&["-i", &origin.url("/")]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert!(out.text.contains("It has a bad word."), "{}", out.text);
}

#[tokio::test]
async fn what_is_held_whole_is_a_page_if_it_is_bad() {
    let proxy = Proxy::judged(ByPath).await;
    let bad = Origin::start(|_request| async { pieces(&["one ", "bad ", "word"]) }).await;
    let good = Origin::start(|_request| async { pieces(&["two ", "good ", "words"]) }).await;
    let Some(out) = proxy.curl(&["-i", &bad.url("/whole")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert!(!out.text.contains("one bad"), "{}", out.text);
    let out = proxy.curl(&[&good.url("/whole")]).await.unwrap();
    assert_eq!(out.text, "two good words");
}

#[tokio::test]
async fn what_is_bad_after_a_part_has_gone_is_cut() {
    let proxy = Proxy::judged(ByPath).await;
    let origin = Origin::start(|_request| async { pieces(&["one ", "bad ", "word"]) }).await;
    let Some(out) = proxy.curl(&[&origin.url("/stream")]).await else { return };
    assert_eq!(out.text, "one ");
    assert_eq!(out.code, 18, "curl must see that it is not whole: {}", out.errors);
    let record = proxy.record().await;
    assert_eq!((record.outcome, record.refusal), (Outcome::Aborted, Some("blocked")));
}

#[tokio::test]
async fn a_bad_upload_never_reaches_the_server() {
    let (proxy, origin) = (Proxy::judged(ByPath).await, Origin::echo().await);
    let url = origin.url("/upload");
    let Some(out) = proxy.curl(&["-i", "-d", "a bad word", &url]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert_eq!(origin.connections(), 0);
    let out = proxy.curl(&["-d", "a good word", &url]).await.unwrap();
    assert!(out.text.ends_with("\n\na good word\n"), "{}", out.text);
    assert!(out.text.contains("content-length: 11\n"), "{}", out.text);
}

#[tokio::test]
async fn what_is_too_large_to_be_held_is_not_passed() {
    let mut settings = crate::common::settings();
    settings.limits.held_bytes_max = 8;
    let judge = std::sync::Arc::new(ByPath);
    let parts = gauntlet_proxy::Parts { judge, ..Default::default() };
    let proxy = Proxy::with(settings, parts).await;
    let origin = Origin::start(|_request| async { pieces(&["two ", "good ", "words"]) }).await;
    let Some(out) = proxy.curl(&["-i", &origin.url("/large")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 502 "), "{}", out.text);
    assert_eq!(proxy.counters.refusals("too_large_to_inspect"), 1);
}

#[tokio::test]
async fn who_is_warned_says_why_and_goes_on() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let policy = "[[web_rule]]\nname = \"ask\"\nwhen.url.path = \"/games*\"\n\
                  do = { warn = { text = \"Games at work?\", minutes = 5 } }\n";
    let proxy = Proxy::judged(by_policy(policy, UrlLists::default())).await;
    let url = origin.url("/games?level=1");
    let Some(out) = proxy.curl(&["-i", "-H", "Accept: text/html", &url]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert!(out.text.contains("Games at work?") && out.text.contains("5 minutes"), "{}", out.text);
    let token = out.text.split("name=\"token\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap();
    let action = out.text.split("action=\"").nth(1).unwrap().split('"').next().unwrap();
    let wrong = format!("{action}?token=0&reason=x");
    let out = proxy.curl(&["-o", "/dev/null", "-w", "%{http_code}", &wrong]).await.unwrap();
    assert_eq!(out.text, "200", "who has no token asks the server as any other request does");
    for reason in ["", "&reason=", "&reason=+%20%00"] {
        let none = format!("{action}?token={token}{reason}");
        let out = proxy.curl(&["-o", "/dev/null", "-w", "%{http_code}", &none]).await.unwrap();
        assert_eq!(out.text, "200", "without a reason nobody goes on: {reason}");
    }
    let form = format!("{action}?token={token}&reason=a+test%21");
    let out = proxy.curl(&["-L", "-w", " %{http_code} %{url_effective}", &form]).await.unwrap();
    assert_eq!(out.text, format!("a page 200 {url}"));
    let records = proxy.log.all();
    let note = &records[5].note;
    assert_eq!(note.rules, ["ask"]);
    assert_eq!(note.evidence, "goes on for 5 minutes; reason given: a test!");
}

#[tokio::test]
async fn rules_about_responses_block_and_limit() {
    let origin = Origin::start(|request: Request<Incoming>| async move {
        let mut response = text(vec![b'x'; 3_000]);
        let kind = if request.uri().path() == "/video" { "video/mp4" } else { "text/plain" };
        response.headers_mut().insert("content-type", kind.parse().unwrap());
        response
    })
    .await;
    let policy = "[[web_rule]]\nname = \"video\"\nwhen.content.type = \"video/*\"\n\
                  do = { block = \"No videos.\" }\n\
                  [[web_rule]]\nname = \"slow\"\nwhen.url.path = \"/slow\"\n\
                  do = { limit_rate = 1024 }\n";
    let proxy = Proxy::judged(by_policy(policy, UrlLists::default())).await;
    let status = ["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
    for (path, expected) in [("/video", "403"), ("/slow", "200 3000"), ("/", "200 3000")] {
        let out = proxy.curl(&[&status[..], &[&origin.url(path)]].concat()).await;
        let Some(out) = out else { return };
        assert!(out.text.starts_with(expected), "{path}: {}", out.text);
    }
    assert_eq!(proxy.log.all()[1].note.rules, ["slow"]);
}

#[tokio::test]
async fn a_program_is_recognised_whatever_else_it_says() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let policy = "[[web_rule]]\nname = \"evil\"\nwhen.client.program = \"*evil*\"\n\
                  do = { block = \"No.\" }\n";
    let proxy = Proxy::judged(by_policy(policy, UrlLists::default())).await;
    for agent in [&b"evil/1"[..], b"evil/1 \xfc", b"\xc3\xbcber evil", b"x\r\nUser-Agent: evil"] {
        let head = format!("GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: ", origin.url("/"));
        let request = [head.as_bytes(), agent, b"\r\nConnection: close\r\n\r\n"].concat();
        let answer = proxy.talk(request).await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{agent:?}: {answer}");
    }
}

#[tokio::test]
async fn clients_of_other_networks_are_refused() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let client_networks = vec!["192.0.2.0/24".parse().unwrap()];
    let proxy = Proxy::start(Settings { client_networks, ..settings() }).await;
    let Some(out) = proxy.curl(&["-i", &origin.url("/")]).await else { return };
    assert!(out.text.starts_with("HTTP/1.1 403 "), "{}", out.text);
    assert!(out.text.contains("Your address may not use this proxy."), "{}", out.text);
    assert_eq!((proxy.counters.refusals("client"), origin.connections()), (1, 0));
    let record = proxy.record().await;
    assert!(out.text.contains(&record.reference) && record.reference.len() == 12, "{record:?}");
    let (_, page) = out.text.split_once("\r\n\r\n").unwrap();
    assert_eq!(record.bytes_out, page.len() as u64);
}
