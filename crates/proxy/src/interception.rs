//! A tunnel from its first bytes to its end: passed on as it is, decrypted, or ended.
//!
//! ```text
//! first bytes ─▶ plan ─┬▶ relay       bytes as they are
//!                      ├▶ plain       HTTP without TLS ─▶ inside
//!                      ├▶ end         an alert, and no more
//!                      └▶ intercept ─▶ verify the server ─▶ inside: requests, each judged
//! ```
//!
//! Without an authority nothing is decrypted: a tunnel is judged by the host of CONNECT and by the
//! name in the ClientHello. With one, the server is verified first, with everything that a client
//! without a proxy would verify but Certificate Transparency; only then anything of it passes. Of a
//! server that cannot be verified the client gets a page that says why.

mod first;
mod plan;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hyper::http::uri::Scheme;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::access_log::Outcome;
use crate::client::Client;
use crate::client_hello::may_be_tls;
use crate::connection::serve_stream;
use crate::first_bytes::Protocol;
use crate::pool::Key;
use crate::refusal::Refusal;
use crate::service::{Service, Tunnel};
use crate::settings::ClientCertificate;
use crate::stop::Phase;
use crate::stream::Stream;
use crate::tls::{ClientFailure, HTTP1, HTTP2, Interceptor, Lesson, Replay, Route, Tunneled};

use first::{First, first};
use plan::{Passed, Plan, Planner, is_http};

/// A fatal alert (RFC 8446 section 6) in a record of its own: `access_denied`, `decode_error`.
const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];
const DECODE_ERROR: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// How long a tunnel that ends may take to say so.
const GOODBYE: Duration = Duration::from_secs(1);

/// Carries a tunnel to its end. The stream is none if the client has gone.
///
/// It is boxed since requests within tunnels are served by the same service.
pub(crate) fn carry(
    service: Arc<Service>,
    tunnel: Tunnel,
    stream: BoxFuture<'static, Option<Box<dyn Stream>>>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Some(stream) = stream.await else { return };
        let stop = service.stop.clone().begun(Phase::Ended);
        service.counters.tunnels.add(1);
        tokio::select! {
            () = Carrier { service, tunnel, speaks_tls: false, negotiates: false }.run(stream) => {}
            () = stop => {}
        }
    })
}

struct Carrier {
    service: Arc<Service>,
    tunnel: Tunnel,
    /// So that an alert can be understood.
    speaks_tls: bool,
    /// The client offers a protocol that is chosen from.
    negotiates: bool,
}

impl Carrier {
    async fn run(mut self, mut stream: Box<dyn Stream>) {
        let times = &self.service.settings.times;
        let idle_max = Duration::from_secs(times.tunnel_idle_seconds_max);
        let hello_max = Duration::from_secs(times.header_seconds_max);
        let server = self.tunnel.server.as_mut();
        let (bytes, said) = match first(&mut stream, server, idle_max, hello_max).await {
            First::Client(bytes, said) => (bytes, said),
            First::Nobody => {
                self.tunnel.exchange.cut_by = Some("the time limit: nothing passed");
                return;
            }
            First::Server(bytes) => return self.server_first(stream, bytes).await,
        };
        self.speaks_tls = !bytes.is_empty() && may_be_tls(&bytes);
        let plan = self.plan(said);
        let stream = Replay::new(bytes, stream);
        match plan {
            Plan::Relay(passed) => self.relay(stream, passed).await,
            Plan::End(refusal) => self.end(stream, &refusal).await,
            // In a box of its own: what passes is not to carry the space that HTTP needs inside.
            Plan::Page(name, refusal) => {
                Box::pin(self.intercept(stream, name, Some(refusal))).await;
            }
            Plan::Plain(refusal) => Box::pin(self.plain(stream, refusal)).await,
            Plan::Intercept(name) => Box::pin(self.intercept(stream, name, None)).await,
            Plan::Ask(name, protocols) => Box::pin(self.ask(stream, name, &protocols)).await,
        }
    }

    fn plan(&mut self, said: Protocol) -> Plan {
        let refusal = self.tunnel.refusal.take();
        if let Protocol::Tls(hello) = &said {
            let is_ours = |protocol: &Vec<u8>| protocol == HTTP1 || protocol == HTTP2;
            self.negotiates = hello.alpn.iter().any(is_ours);
        }
        let planner = self.planner();
        match (said, refusal) {
            (Protocol::Tls(hello), None) => planner.with_tls(&hello),
            (Protocol::Tls(hello), Some(refusal)) => planner.refused(&hello, refusal),
            (Protocol::Http, Some(refusal)) => Plan::Plain(Some(refusal)),
            (_, Some(refusal)) => Plan::End(refusal),
            (Protocol::Http, None) => planner.http(),
            (Protocol::Other, None) => planner.without_tls(),
            (Protocol::Malformed(why), None) if !self.speaks_tls => {
                Plan::End(Refusal::Malformed(why))
            }
            (Protocol::Malformed(_) | Protocol::NeedsMore, None) => Plan::End(Refusal::ClientHello),
        }
    }

    fn planner(&self) -> Planner<'_> {
        Planner {
            judge: self.service.judge.as_ref(),
            settings: &self.service.settings.tls,
            interceptor: self.service.interceptor.as_deref(),
            web: &self.tunnel.web,
            is_named: self.tunnel.is_named,
        }
    }

    /// The server spoke first: whatever it is, it is no TLS.
    async fn server_first(mut self, stream: Box<dyn Stream>, bytes: Vec<u8>) {
        match self.planner().without_tls() {
            Plan::Relay(passed) => {
                if let Some(server) = self.tunnel.server.take() {
                    self.tunnel.server = Some(Box::new(Replay::new(bytes, server)));
                }
                self.relay(stream, passed).await;
            }
            Plan::End(refusal) => self.end(stream, &refusal).await,
            // Nothing else is planned for that.
            Plan::Plain(_) | Plan::Intercept(_) | Plan::Ask(..) | Plan::Page(..) => {}
        }
    }

    /// Passes on what the server says is another protocol than HTTP, and decrypts the rest.
    async fn ask(mut self, stream: impl Stream + 'static, name: String, protocols: &[Vec<u8>]) {
        let selected = match self.server().await {
            Ok(server) => self.service.forwarder.selected(server, &name, protocols).await,
            Err(refusal) => return self.end(stream, &refusal).await,
        };
        match selected {
            Ok(selected) if selected.as_deref().is_none_or(is_http) => {
                self.intercept(stream, name, None).await;
            }
            // A server that does not want these gets to say so to the client itself.
            Ok(_) | Err(_) => match self.planner().without_tls() {
                Plan::Relay(passed) => self.relay(stream, passed).await,
                _ => self.end(stream, &Refusal::NotHttp).await,
            },
        }
    }

    /// The connection to the server that is there, or a new one.
    async fn server(&mut self) -> Result<Box<dyn Stream>, Refusal> {
        match self.tunnel.server.take() {
            Some(server) => Ok(server),
            // Seldom, and larger than all the rest.
            None => Box::pin(self.service.forwarder.tunnel(&self.tunnel.web)).await,
        }
    }

    async fn relay(mut self, stream: impl Stream, passed: Passed) {
        let counters = &self.service.counters;
        match passed {
            Passed::Undecrypted => {}
            Passed::NotHttp => counters.tls_not_http.add(1),
            Passed::Setting | Passed::Judge | Passed::Constraints => counters.tls_bypassed.add(1),
            Passed::Learned(_) => counters.tls_bypassed_learned.add(1),
        }
        self.tunnel.exchange.record.tunnel = Some(passed.name());
        match self.server().await {
            Ok(server) => {
                self.tunnel.exchange.reached(server.address());
                self.service.relay(self.tunnel.exchange, Box::new(stream), server).await;
            }
            Err(refusal) => self.end(stream, &refusal).await,
        }
    }

    /// Ends a tunnel by an alert: nothing else could be said to a client that speaks TLS.
    async fn end(mut self, mut stream: impl Stream, refusal: &Refusal) {
        let exchange = &mut self.tunnel.exchange;
        exchange.refused(refusal);
        exchange.record.outcome = exchange.end_of_whole();
        let alert = match refusal {
            Refusal::ClientHello => DECODE_ERROR,
            _ => ACCESS_DENIED,
        };
        let goodbye = async {
            if self.speaks_tls {
                stream.write_all(&alert).await?;
            }
            stream.shutdown().await?;
            // Closed with bytes that nobody read, the connection would be reset before the client
            // saw the alert.
            let mut buffer = [0; 1024];
            while stream.read(&mut buffer).await? > 0 {}
            std::io::Result::Ok(())
        };
        // A client that does not listen misses nothing.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    /// Verifies the server, then speaks with the client in its name.
    async fn intercept(
        mut self,
        stream: impl Stream + 'static,
        name: String,
        refusal: Option<Refusal>,
    ) {
        let Some(interceptor) = self.service.interceptor.clone() else { return };
        let web = &self.tunnel.web;
        let (host, port) = self.service.forwarder.target(web);
        let route = Route { host, port, name };
        let refusal = match refusal {
            Some(refusal) => Some(refusal),
            None => match self.verify(&interceptor, &route).await {
                Ok(()) => None,
                Err(Unverified::Bypass) => {
                    let passed = Passed::Learned(Lesson::ClientCertificate);
                    return self.relay(stream, passed).await;
                }
                Err(Unverified::Refused(refusal)) => Some(refusal),
            },
        };
        let wait_max = Duration::from_secs(self.service.settings.times.header_seconds_max);
        let client = self.tunnel.client.address;
        let accepting = interceptor.accept(stream, &route.name, self.negotiates, wait_max);
        match accepting.await {
            Ok(stream) => {
                interceptor.learned.succeeded(client, &route.name);
                self.service.counters.tls_intercepted.add(1);
                self.tunnel.exchange.record.tunnel = Some("intercepted");
                self.inside(stream, Tunneled { scheme: Scheme::HTTPS, route, refusal }).await;
            }
            Err(failure) => {
                let is_rejected = failure == ClientFailure::Rejected;
                if is_rejected && interceptor.learned.failed(client, &route.name, Instant::now()) {
                    self.service.counters.tls_learned.add(1);
                    let host = &route.name;
                    tracing::warn!(%client, host, "client breaks handshakes off: not decrypted");
                }
                let exchange = &mut self.tunnel.exchange;
                exchange.record.tunnel = Some("client_handshake_failed");
                exchange.refused(&Refusal::ClientHandshake);
                exchange.record.outcome = exchange.end_of_whole();
            }
        }
    }

    /// Makes sure that the server is who it says.
    async fn verify(&mut self, interceptor: &Interceptor, route: &Route) -> Result<(), Unverified> {
        let key = Key::of_route(route);
        if self.service.forwarder.has_kept(&key) {
            return Ok(());
        }
        let server = self.server().await.map_err(Unverified::Refused)?;
        let forwarder = &self.service.forwarder;
        let (refusal, asks) = match forwarder.verify(key, server).await {
            Ok(verified) => (None, verified.asks_for_certificate),
            Err(unsecured) => (Some(unsecured.refusal), unsecured.asks_for_certificate),
        };
        match refusal {
            // Its certificate is looked at before it gets none of the client.
            Some(Refusal::Certificate(fault)) => {
                Err(Unverified::Refused(Refusal::Certificate(fault)))
            }
            // Why a handshake failed in which it got none is plain enough.
            _ if asks => Err(self.asked_for_certificate(interceptor, &route.name)),
            Some(refusal) => Err(Unverified::Refused(refusal)),
            None => Ok(()),
        }
    }

    fn asked_for_certificate(&self, interceptor: &Interceptor, host: &str) -> Unverified {
        if self.service.settings.tls.client_certificate == ClientCertificate::Block {
            return Unverified::Refused(Refusal::ClientCertificate);
        }
        interceptor.learned.asks_for_certificate(host, Instant::now());
        self.service.counters.tls_learned.add(1);
        tracing::warn!(host, "server asks for a certificate of the client: not decrypted");
        Unverified::Bypass
    }

    /// Serves requests without TLS, which would pass unseen as bytes.
    async fn plain(mut self, stream: impl Stream + 'static, refusal: Option<Refusal>) {
        let web = &self.tunnel.web;
        if let Some(server) = self.tunnel.server.take() {
            self.service.forwarder.keep(web, server).await;
        }
        let name = web.host().to_owned();
        let route = Route { host: name.clone(), port: web.port, name };
        self.tunnel.exchange.record.tunnel = Some("plain_http");
        self.inside(stream, Tunneled { scheme: Scheme::HTTP, route, refusal }).await;
    }

    /// Serves what is inside.
    async fn inside(mut self, stream: impl Stream + 'static, tunneled: Tunneled) {
        let exchange = &mut self.tunnel.exchange;
        exchange.record.outcome = Outcome::Tunnel;
        let times = &self.service.settings.times;
        let client = Arc::new(Client::inside(&self.tunnel.client, &self.tunnel.web, times));
        serve_stream(stream, client, Arc::clone(&self.service), Some(Arc::new(tunneled))).await;
    }
}

/// Why a tunnel is not decrypted after all.
enum Unverified {
    /// It passes as it is.
    Bypass,
    /// The client gets a page.
    Refused(Refusal),
}
