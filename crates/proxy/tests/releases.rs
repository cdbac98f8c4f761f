//! Asking for release of what is blocked, and what passes by a release.

use std::sync::{Arc, Mutex, RwLock};

use gauntlet_proxy::access_log::Outcome;
use gauntlet_proxy::releases::{Releases, read_form};
use gauntlet_urlfilter::UrlLists;
use gauntlet_web::release::{ReleaseRequest, ReleasedFor, WebException, WebExceptions};

use crate::common::{Origin, Output, Proxy, by_policy, text};
use crate::tls_parts::{Pki, TlsOrigin, judged};

pub(crate) const POLICY: &str = "[[web_rule]]\nname = \"no games\"\n\
    when.url.path = \"/games*\"\ndo = { block = \"No games.\" }\n\
    [[web_rule]]\nname = \"secret\"\nwhen.url.host = \"www.good.example\"\n\
    do = { block = \"Secret.\" }\n\
    [[web_rule]]\nname = \"texts\"\nwhen.content.type = \"text/*\"\n\
    do = { block = \"No texts.\" }\n";

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) asked: Mutex<Vec<ReleaseRequest>>,
    exceptions: RwLock<Arc<WebExceptions>>,
}

impl Queue {
    fn release(&self, target: &str) {
        let (target, by) = (target.parse().unwrap(), "ann".to_owned());
        let released_for = ReleasedFor::Everybody;
        let exception = WebException { number: 7, target, released_for, until_ms: None, by };
        *self.exceptions.write().unwrap() = Arc::new(WebExceptions::new([exception], 1));
    }
}

impl Releases for Queue {
    fn exceptions(&self) -> Arc<WebExceptions> {
        Arc::clone(&self.exceptions.read().unwrap())
    }

    fn ask(&self, request: ReleaseRequest) -> bool {
        self.asked.lock().unwrap().push(request);
        true
    }
}

/// Arguments of curl that send the form on a page.
pub(crate) fn form(page: &Output) -> Vec<String> {
    let inputs = page.text.split("<input type=\"hidden\" name=\"").skip(1);
    let pairs = inputs.map(|input| {
        let (name, rest) = input.split_once('"').unwrap();
        let value = rest.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
        format!("{name}={}", value.replace("&amp;", "&"))
    });
    pairs.flat_map(|pair| ["--data-urlencode".to_owned(), pair]).collect()
}

#[tokio::test]
async fn who_is_blocked_asks_and_what_is_released_passes() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let queue = Arc::new(Queue::default());
    let judge = by_policy(POLICY, UrlLists::default()).with_releases(queue.clone());
    let proxy = Proxy::judged(judge).await;
    let url = origin.url("/games?a=1&b=2");
    let Some(page) = proxy.curl(&["-i", "-H", "Accept: text/html", &url]).await else { return };
    assert!(page.text.contains("Ask for release"), "{}", page.text);
    let plain = proxy.curl(&[&url]).await.unwrap();
    assert!(!plain.text.contains("Ask for release"), "programs get text: {}", plain.text);
    let to = origin.url("/.well-known/gauntlet/release");
    let mut args = form(&page);
    args.extend(["--data-urlencode".to_owned(), "reason=I play for work".to_owned(), to.clone()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let answer = proxy.curl(&[&["-i"], &args[..]].concat()).await.unwrap();
    assert!(answer.text.starts_with("HTTP/1.1 200 "), "{}", answer.text);
    assert!(answer.text.contains("Your request was passed on"), "{}", answer.text);
    let asked = queue.asked.lock().unwrap().remove(0);
    assert_eq!((asked.url.as_str(), asked.rule.as_str()), (url.as_str(), "no games"));
    assert_eq!((asked.reason.as_str(), asked.client.as_str()), ("I play for work", "127.0.0.1"));
    let reference = proxy.log.all()[0].reference.clone();
    assert_eq!(asked.reference, reference);
    assert!(proxy.log.all()[2].note.evidence.contains(&reference));

    let forged = proxy.curl(&["-i", "-d", "reason=x&token=0", &to]).await.unwrap();
    assert!(forged.text.starts_with("HTTP/1.1 403 "), "{}", forged.text);
    assert_eq!(origin.connections(), 0, "nothing of this is for the server");

    queue.release(&origin.url("/games"));
    let out = proxy.curl(&[&url]).await.unwrap();
    assert_eq!(out.text, "a page", "by its path, and by its type");
    let record = proxy.log.all().pop().unwrap();
    assert_eq!((record.outcome, &record.note.action), (Outcome::Passed, &"released"));
    assert_eq!(record.note.rules, ["release 7", "no games"]);
    assert!(record.note.evidence.starts_with("released by ann: "), "{}", record.note.evidence);
    let out = proxy.curl(&["-i", &origin.url("/gamesome")]).await.unwrap();
    assert!(out.text.starts_with("HTTP/1.1 403 "), "a segment ends there: {}", out.text);
}

#[tokio::test]
async fn rules_about_responses_can_be_asked_about() {
    let origin = Origin::start(|_| async {
        let mut response = text("a page");
        response.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        response
    })
    .await;
    let queue = Arc::new(Queue::default());
    let judge = by_policy(POLICY, UrlLists::default()).with_releases(queue.clone());
    let proxy = Proxy::judged(judge).await;
    let args = ["-H", "Accept: text/html", &origin.url("/")];
    let Some(page) = proxy.curl(&args).await else { return };
    assert!(page.text.contains("No texts.") && page.text.contains("Ask for release"));
    queue.release("127.0.0.1");
    assert_eq!(proxy.curl(&args).await.unwrap().text, "a page");
}

#[tokio::test]
async fn a_page_within_a_tunnel_has_the_form_too() {
    let pki = Pki::new();
    let origin = TlsOrigin::echo(&pki.certificate(&["www.good.example"])).await;
    let queue = Arc::new(Queue::default());
    let judge = by_policy(POLICY, UrlLists::default()).with_releases(queue.clone());
    let proxy = judged(pki.decrypting(), judge).await;
    let url = origin.url("www.good.example", "/x");
    let ca = pki.ca();
    let args = ["--cacert", &ca, "-H", "Accept: text/html", &url];
    let Some(page) = proxy.curl(&args).await else { return };
    assert!(page.text.contains("Secret."), "{}", page.text);
    let to = origin.url("www.good.example", "/.well-known/gauntlet/release");
    let mut sent = form(&page);
    sent.extend(["-d", "reason=x", "--cacert", &ca, &to].map(str::to_owned));
    let sent: Vec<&str> = sent.iter().map(String::as_str).collect();
    let answer = proxy.curl(&sent).await.unwrap();
    assert!(answer.text.contains("Your request was passed on"), "{}", answer.text);
    assert_eq!(queue.asked.lock().unwrap()[0].rule, "secret");
}

#[tokio::test]
async fn a_form_that_is_too_large_or_never_ends_is_refused() {
    let origin = Origin::start(|_| async { text("a page") }).await;
    let judge = by_policy(POLICY, UrlLists::default()).with_releases(Arc::<Queue>::default());
    let proxy = Proxy::judged(judge).await;
    let (to, large) = (origin.url("/.well-known/gauntlet/release"), "x".repeat(20_000));
    let Some(out) = proxy.curl(&["-i", "-d", &large, &to]).await else { return };
    assert!(out.text.contains("HTTP/1.1 408 "), "{}", out.text);
    let without = Proxy::judged(by_policy("", UrlLists::default())).await;
    let out = without.curl(&["-d", "a=b", &to]).await.unwrap();
    assert_eq!(out.text, "a page", "without a queue it is a path like any other");
    assert!(read_form(large.as_bytes()).len() == 1);
}
