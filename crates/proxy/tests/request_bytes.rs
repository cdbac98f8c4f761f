//! Any bytes as what a client sends. Shared with the fuzz target
//! `fuzz/fuzz_targets/proxy_request.rs`.

use std::net::SocketAddr;
use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_proxy::request::Kind;
use gauntlet_proxy::request_bytes::{Accepted, requests};
use gauntlet_proxy::settings::Settings;

/// Feeds the bytes to an explicit proxy, and to a transparent one; gives the number of requests
/// that are not refused.
pub(crate) fn feed(input: &[u8]) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let settings = Arc::new(Settings::default());
    let server = SocketAddr::from(([192, 0, 2, 80], 8080));
    let mut accepted = 0;
    for original in [None, Some(server)] {
        let (all, _) = runtime.block_on(requests(input, original, &settings));
        for request in all.into_iter().flatten() {
            assert!(original.is_none_or(|server| {
                server.port() == request.web.port || request.web.kind == Kind::Connect
            }));
            check(&request);
            accepted += 1;
        }
    }
    accepted
}

/// What a judge sees is what the server gets, in one reading.
fn check(accepted: &Accepted) {
    let Accepted { web, headers } = accepted;
    let url = web.url.as_str();
    assert_eq!(canonical(url).as_ref(), Some(&web.url), "{url}");
    assert!(web.port > 0 && !web.host().is_empty());
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    assert!(web.host().bytes().all(is_plain) && web.host().len() <= 255, "{url}");
    let fields = |name: &str| headers.get_all(name).iter().count();
    assert_eq!(headers["host"].to_str().unwrap(), web.authority());
    assert!(fields("host") == 1 && fields("content-length") <= 1 && fields("cookie") <= 1000);
    for gone in ["transfer-encoding", "proxy-authorization", "keep-alive", "http2-settings"] {
        assert_eq!(fields(gone), 0, "{gone}");
    }
    assert_eq!(fields("upgrade"), usize::from(web.kind == Kind::Upgrade));
}
