//! Quotas of people, by a clock that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use gauntlet_proxy::Parts;
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::quotas::Quotas;
use gauntlet_urlfilter::UrlLists;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{Origin, Proxy, by_policy, read_until, settings, text, until};

/// Thursday, 26 November 2026, 14:30 UTC.
const NOW: i64 = 1_795_703_400;

/// A proxy with a clock.
struct Site {
    proxy: Proxy,
    quotas: Arc<Quotas>,
    clock: Arc<AtomicI64>,
    origin: Origin,
}

fn judge(policy: &str, quotas: &Arc<Quotas>, clock: &Arc<AtomicI64>) -> PolicyJudge {
    let clock = Arc::clone(clock);
    by_policy(policy, UrlLists::default())
        .with_quotas(Arc::clone(quotas))
        .with_clock(Box::new(move || clock.load(Ordering::SeqCst)))
}

impl Site {
    async fn start(policy: &str) -> Self {
        let (quotas, clock) = (Arc::new(Quotas::new(1000)), Arc::new(AtomicI64::new(NOW)));
        let judge = Arc::new(judge(policy, &quotas, &clock));
        let proxy = Proxy::with(settings(), Parts { judge, ..Parts::default() }).await;
        let origin = Origin::start(|_| async { text("x".repeat(1000)) }).await;
        Site { proxy, quotas, clock, origin }
    }

    async fn get(&self, path: &str) -> String {
        let url = self.origin.url(path);
        let request = format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        self.proxy.talk(request).await
    }

    /// The status of a request.
    async fn status(&self, path: &str) -> u16 {
        let answer = self.get(path).await;
        answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    fn wait(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn two_minutes_a_day_are_two_minutes_with_requests() {
    let site = Site::start(
        "[[web_quota]]\nname = \"Play\"\nwhen.url.path = \"/play*\"\nminutes = 2\n\
         [[web_rule]]\nname = \"played\"\nwhen.quota = \"Play\"\n\
         do = { block = \"Enough for today.\" }\n",
    )
    .await;
    for _ in 0..5 {
        assert_eq!(site.status("/play").await, 200);
        site.wait(11);
    }
    // An hour without a request is not counted.
    site.wait(3600);
    assert_eq!(site.status("/play/more").await, 200);
    site.wait(3600);
    let page = site.get("/play").await;
    assert!(page.starts_with("HTTP/1.1 403"), "{page}");
    let expected = "Enough for today. Play: 2 of 2 minutes this day; it begins anew on \
                    Fri 00:00 UTC.";
    assert!(page.contains(expected), "{page}");
    assert_eq!(site.status("/work").await, 200, "what is not counted is not blocked");
    assert!(site.quotas.all().contains(&("quota_requests_refused".to_owned(), 1)));
    // After midnight.
    site.wait(10 * 3600);
    assert_eq!(site.status("/play").await, 200);
}

#[tokio::test]
async fn bytes_count_both_ways_and_a_restart_keeps_them() {
    let policy = "[[web_quota]]\nname = \"All\"\nbytes = 2000\nperiod = \"hour\"\n\
                  [[web_rule]]\nname = \"r\"\nwhen.quota = \"All\"\ndo = { block = \"Full.\" }\n";
    let site = Site::start(policy).await;
    assert_eq!(site.status("/").await, 200);
    assert_eq!(site.status("/").await, 200);
    let bytes = || site.quotas.changed_entries().map(|all| all[0].bytes);
    assert_eq!(until(|| bytes().filter(|bytes| *bytes == 2000)).await, 2000);
    assert_eq!(site.status("/").await, 403);
    // Another proxy takes what was kept.
    site.quotas.not_written();
    let kept = site.quotas.changed_entries().unwrap();
    let again = Arc::new(Quotas::new(1000));
    again.restore(kept);
    let judge = Arc::new(judge(policy, &again, &site.clock));
    let proxy = Proxy::with(settings(), Parts { judge, ..Parts::default() }).await;
    let site = Site { proxy, quotas: again, ..site };
    assert_eq!(site.status("/").await, 403);
    site.wait(1800);
    assert_eq!(site.status("/").await, 200, "the next hour");
}

#[tokio::test]
async fn a_tunnel_ends_when_its_quota_is_used_up() {
    let site = Site::start(
        "[[web_quota]]\nname = \"T\"\nbytes = 100\n\
         [[web_rule]]\nname = \"r\"\nwhen.quota = \"T\"\ndo = { block = \"Full.\" }\n",
    )
    .await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 64];
        while let Ok(n @ 1..) = stream.read(&mut buffer).await {
            stream.write_all(&buffer[..n]).await.unwrap();
        }
    });
    let mut client = site.proxy.connect().await;
    let connect = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    client.write_all(connect.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    for _ in 0..4 {
        // No begin of a request.
        client.write_all(&[b'@'; 30]).await.unwrap();
        read_until(&mut client, &"@".repeat(30)).await;
    }
    // It is looked at every ten seconds.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(crate::common::PATIENCE, client.read_to_end(&mut rest)).await;
    ended.expect("the tunnel ends").unwrap();
    let record = until(|| site.proxy.log.at(0)).await;
    assert_eq!((record.refusal, record.bytes_in, record.bytes_out), (Some("blocked"), 120, 120));
    let entries = until(|| site.quotas.changed_entries()).await;
    assert_eq!(entries[0].bytes, 240);
    let mut again = site.proxy.connect().await;
    again.write_all(connect.as_bytes()).await.unwrap();
    let answer = read_until(&mut again, "T: 240 bytes of 100 bytes this day").await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn a_rule_may_slow_down_and_say_nothing() {
    let site = Site::start(
        "[[web_quota]]\nname = \"Q\"\nminutes = 1\n\
         [[web_rule]]\nname = \"slow\"\nwhen = { quota = \"Q\", url.path = \"/a\" }\n\
         do = { limit_rate = \"1 MB\" }\n\
         [[web_rule]]\nname = \"warn\"\nwhen = { quota = \"Q\", url.path = \"/b\" }\n\
         do = { warn = { text = \"Much already.\" } }\n",
    )
    .await;
    assert_eq!(site.status("/a").await, 200);
    site.wait(60);
    assert_eq!(site.status("/a").await, 200);
    let rules = site.proxy.log.all()[1].note.rules.clone();
    assert_eq!(rules, ["slow"]);
    let page = site.get("/b").await;
    assert!(page.contains("Much already. Q: 1 of 1 minutes"), "{page}");
}
