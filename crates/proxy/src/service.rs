//! A request's way: checks, judge, server, and back.

mod release;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use gauntlet_web::pac::Speaks;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::ext::ReasonPhrase;
use hyper::header::{
    ALLOW, ALT_SVC, CONNECTION, EXPECT, HeaderValue, LOCATION, PROXY_AUTHORIZATION, RANGE, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use crate::access_log::{AccessLog, Peer};
use crate::asking;
use crate::auth::Logins;
use crate::body::{AnyBody, Watched, empty, hold, release_on_continue};
use crate::client::{self, Client};
use crate::counters::Counters;
use crate::error_page::{self, About, Form};
use crate::exchange::{Delivered, Exchange, Notes, deliver, detached};
use crate::forward::{self, Forwarder, Received};
use crate::headers::{self, Forwards, Framing};
use crate::inspect::inspect;
use crate::judge::{BlockReason, Decision, Inspect, Judge, ResponseDecision, ResponseHead};
use crate::meter::Metered;
use crate::pac;
use crate::pool::Key;
use crate::refusal::Refusal;
use crate::relay::relay;
use crate::request::{Kind, WebRequest};
use crate::settings::Settings;
use crate::smuggling;
use crate::stop::{Phase, Stop};
use crate::stream::Stream;
use crate::tls::{Inside, Interceptor, Route};
use crate::tunnel::Pipes;

/// What answers requests.
pub(crate) struct Service {
    pub(crate) settings: Arc<Settings>,
    pub(crate) judge: Arc<dyn Judge>,
    pub(crate) log: Arc<dyn AccessLog>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) forwarder: Forwarder,
    /// What clients of explicit listeners speak with the proxy itself.
    pub(crate) speaks: Speaks,
    /// None: nobody is asked who they are.
    pub(crate) logins: Option<Arc<Logins>>,
    /// None: tunnels are not decrypted.
    pub(crate) interceptor: Option<Arc<Interceptor>>,
    /// What carries tunnels; it serves the requests inside by this service again.
    pub(crate) carry: Carry,
    /// By which the kernel moves bytes of tunnels.
    pub(crate) pipes: Pipes,
    pub(crate) stop: Stop,
    pub(crate) references: References,
}

/// A tunnel that a client was promised.
pub(crate) struct Tunnel {
    /// Its line of the log.
    pub(crate) exchange: Exchange,
    pub(crate) client: Arc<Client>,
    /// The CONNECT, or what stands for it.
    pub(crate) web: WebRequest,
    /// The connection to the server; none: it is made when it is needed.
    pub(crate) server: Option<Box<dyn Stream>>,
    /// It was refused, and the client is to see a page that says why.
    pub(crate) refusal: Option<Refusal>,
    /// The client named the host; else only an address is known.
    pub(crate) is_named: bool,
}

/// Carries a tunnel to its end. The stream is none if the client has gone.
pub(crate) type Carry =
    fn(Arc<Service>, Tunnel, BoxFuture<'static, Option<Box<dyn Stream>>>) -> BoxFuture<'static, ()>;

/// What a request leads to.
enum Answer {
    /// A response.
    Response(Response<AnyBody>),
    /// A tunnel, which a client is told to use.
    Tunnel(OnUpgrade, Box<WebRequest>, Result<Option<Box<dyn Stream>>, Refusal>),
    /// A response after which the connection carries other bytes.
    Switch(Response<AnyBody>, OnUpgrade, BoxFuture<'static, Option<Box<dyn Stream>>>),
}

impl Service {
    /// Answers one request.
    pub(crate) async fn serve(
        self: Arc<Self>,
        client: Arc<Client>,
        request: Request<Incoming>,
    ) -> Response<Delivered> {
        let form = Form::wanted(request.headers());
        let mut exchange = self.exchange(&request, &client);
        match self.answer(&client, &mut exchange, request).await {
            Ok(Answer::Response(response)) => deliver(response, exchange),
            Ok(Answer::Switch(response, client, server)) => {
                exchange.answered(response.status().as_u16(), response.headers());
                tokio::spawn(self.switched(exchange, client, server));
                detached(response)
            }
            Ok(Answer::Tunnel(upgrade, web, server)) => {
                exchange.answered(StatusCode::OK.as_u16(), &HeaderMap::new());
                let (server, refusal) = match server {
                    Ok(server) => (server, None),
                    Err(refusal) => (None, Some(refusal)),
                };
                let is_named = true;
                let tunnel = Tunnel { exchange, client, web: *web, server, refusal, is_named };
                tokio::spawn((self.carry)(Arc::clone(&self), tunnel, upgraded(upgrade)));
                detached(Response::new(empty()))
            }
            Err(refusal) => {
                exchange.refused(&refusal);
                let refusal = refusal.without_note();
                let release = match form {
                    Form::Html => asking::form(self.judge.as_ref(), &refusal, &exchange.record),
                    Form::Text => None,
                };
                let about = About {
                    release,
                    url: &exchange.record.url,
                    client: client.address,
                    evidence: &exchange.record.note.evidence,
                    reference: &exchange.record.reference,
                    proxy: &self.settings.name,
                };
                let page = error_page::response(&refusal, &about, form);
                deliver(page, exchange)
            }
        }
    }

    /// Begins an exchange.
    pub(crate) fn exchange<B>(&self, request: &Request<B>, client: &Arc<Client>) -> Exchange {
        let (log, counters) = (Arc::clone(&self.log), Arc::clone(&self.counters));
        Exchange::new(request, client, log, counters, self.references.next())
    }

    async fn answer(
        &self,
        client: &Client,
        exchange: &mut Exchange,
        mut request: Request<Incoming>,
    ) -> Result<Answer, Refusal> {
        smuggling::check(&request)?;
        if let Some(answer) = self.take_form(client, exchange, &mut request).await? {
            return Ok(Answer::Response(answer));
        }
        let (route, is_inside) = match request.extensions_mut().remove() {
            None => (None, false),
            Some(Inside::Route(route)) => (Some(route), true),
            Some(Inside::Plain) => (None, true),
            Some(Inside::Refused(refusal)) => return Err(refusal),
        };
        smuggling::check(&request)?;
        let script = pac::answer(&request, &self.settings.pac, self.speaks, client.local);
        if let Some(script) = script.filter(|_| client.original.is_none()) {
            return Ok(Answer::Response(script));
        }
        let mut web = WebRequest::read(client.address, client.original, &request, &self.settings)?;
        note(exchange, &web);
        if headers::is_loop(request.headers(), &self.settings) {
            return Err(Refusal::Loop);
        }
        // A router hands over what is for servers, and tunnels are for proxies.
        let is_stray = web.original.is_some() && web.kind == Kind::Connect;
        if web.method == Method::TRACE || is_stray {
            return Err(Refusal::Method(web.method.to_string()));
        }
        self.log_in(client, is_inside, exchange, &request, &mut web).await?;
        if !is_inside {
            self.forwarder.check_port(&web)?;
        }
        let (decision, note) = self.judge.request(&web).into_parts();
        exchange.record.note = note;
        let inspector = match decision {
            Decision::Allow | Decision::Noted(..) => None,
            Decision::Inspect(inspector) => Some(inspector),
            Decision::Block(reason) => {
                return self.refuse(&web, request, Refusal::Blocked(reason));
            }
            Decision::Warn(reason, warning) => {
                return self.refuse(&web, request, Refusal::Warned(reason, warning));
            }
            Decision::Redirect(to) => return redirect(&to).map(Answer::Response),
        };
        self.meter(exchange, &web);
        exchange.record.peer = self.peer(&web);
        self.forwarder.verify_name(&web).await?;
        match web.kind {
            Kind::Connect => self.open_tunnel(web, exchange, request).await,
            Kind::Plain | Kind::Upgrade | Kind::Lookup => {
                self.pass(&web, route.as_ref(), exchange, request, inspector).await
            }
        }
    }

    /// Notes who asks. Within a tunnel it is who asked for the tunnel; clients that know nothing of
    /// the proxy cannot log in.
    async fn log_in<B>(
        &self,
        client: &Client,
        is_inside: bool,
        exchange: &mut Exchange,
        request: &Request<B>,
        web: &mut WebRequest,
    ) -> Result<(), Refusal> {
        let user = match &self.logins {
            Some(logins) if !is_inside && client.original.is_none() => {
                logins.check(client.address, request, &self.counters).await?
            }
            _ => client.user.clone(),
        };
        if let Some(user) = user {
            exchange.record.user = Some(user.to_string());
            web.user = Some(user.to_string());
            web.credentials = match is_inside {
                true => client.credentials.clone(),
                false => self.settings.login.pass_to_upstream.then(|| basic(request)).flatten(),
            };
        }
        Ok(())
    }

    /// What the request uses is counted from now on.
    fn meter(&self, exchange: &mut Exchange, web: &WebRequest) {
        exchange.metered = self.judge.meter(web).map(|meter| Metered::new(meter, web));
    }

    fn peer(&self, web: &WebRequest) -> Peer {
        match &self.settings.upstream {
            Some(upstream) => Peer::Parent(upstream.host.clone()),
            None => Peer::Direct(self.forwarder.target(web).0),
        }
    }

    /// A tunnel for a client that knows nothing of it; the request is the one that it would have
    /// made.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn intercepted_tunnel(
        &self,
        client: &Client,
        exchange: &mut Exchange,
        request: &Request<()>,
    ) -> Result<(WebRequest, Box<dyn Stream>), Refusal> {
        let web = WebRequest::read(client.address, client.original, request, &self.settings)?;
        note(exchange, &web);
        self.forwarder.check_port(&web)?;
        let (decision, note) = self.judge.request(&web).into_parts();
        exchange.record.note = note;
        match decision {
            Decision::Allow | Decision::Inspect(_) | Decision::Noted(..) => {}
            // Nobody sees a page with a form.
            Decision::Block(reason) | Decision::Warn(reason, _) => {
                return Err(Refusal::Blocked(reason));
            }
            Decision::Redirect(to) => {
                let text = "It is redirected, which only requests without TLS can be.".to_owned();
                let rule = format!("redirect: {to}");
                return Err(Refusal::Blocked(BlockReason { rule, text }));
            }
        }
        self.meter(exchange, &web);
        exchange.record.peer = self.peer(&web);
        self.forwarder.verify_name(&web).await?;
        let server = self.forwarder.tunnel(&web).await?;
        exchange.reached(server.address());
        Ok((web, server))
    }

    async fn open_tunnel(
        &self,
        web: WebRequest,
        exchange: &mut Exchange,
        mut request: Request<Incoming>,
    ) -> Result<Answer, Refusal> {
        // A tunnel that is decrypted uses the connections that are kept; if it is not, its own is
        // made then.
        let has_kept = self.interceptor.is_some() && self.forwarder.has_kept(&Key::of_tunnel(&web));
        let server = match has_kept {
            true => None,
            false => match self.forwarder.tunnel(&web).await {
                Ok(server) => Some(server),
                Err(refusal) => return self.refuse(&web, request, refusal),
            },
        };
        exchange.reached(server.as_ref().and_then(|server| server.address()));
        let client = hyper::upgrade::on(&mut request);
        Ok(Answer::Tunnel(client, Box::new(web), Ok(server)))
    }

    /// Refuses a request: a tunnel by a page within it if that can be, since browsers show none
    /// outside.
    fn refuse(
        &self,
        web: &WebRequest,
        mut request: Request<Incoming>,
        refusal: Refusal,
    ) -> Result<Answer, Refusal> {
        let is_shown = self.settings.tls.pages
            && self.interceptor.as_ref().is_some_and(|i| !i.is_exempted(web.client, web.host()));
        if web.kind != Kind::Connect || !is_shown {
            return Err(refusal);
        }
        let client = hyper::upgrade::on(&mut request);
        Ok(Answer::Tunnel(client, Box::new(web.clone()), Err(refusal)))
    }

    /// Passes a request on, and makes the answer of the response.
    async fn pass(
        &self,
        web: &WebRequest,
        route: Option<&Route>,
        exchange: &mut Exchange,
        mut request: Request<Incoming>,
        inspector: Option<Box<dyn Inspect>>,
    ) -> Result<Answer, Refusal> {
        let on_client = hyper::upgrade::on(&mut request);
        let (mut parts, incoming) = request.into_parts();
        if headers::count_forwards(&mut parts.headers, &parts.method) == Forwards::Here {
            return Ok(Answer::Response(options()));
        }
        headers::prepare_request(&mut parts.headers, web, &self.settings);
        self.judge.rewrite(web, &mut parts.headers, &mut parts.uri);
        let bytes = Some(Arc::clone(&exchange.bytes_in));
        let waits = Arc::new(AtomicBool::new(false));
        let body = Watched {
            inner: incoming,
            progress: None,
            bytes,
            waits: Some(Arc::clone(&waits)),
            ends_connection: false,
            stalled: None,
        };
        let is_part_asked_for = parts.headers.contains_key(RANGE);
        let mut outgoing = Request::new(empty());
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = parts.uri;
        *outgoing.headers_mut() = parts.headers;
        let notes = exchange.notes.clone();
        let released = self.set_body(&mut outgoing, body, inspector, &notes).await?;
        let sent = self.forwarder.send(web, route, outgoing).await;
        let received = sent.map_err(|refusal| whose_fault(refusal, &waits))?;
        exchange.reached(received.address);
        let status = received.response.status();
        self.forwarder.check_response(web, status, received.response.headers())?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.switch(received, on_client));
        }
        // A body that was never asked for keeps the server waiting for it.
        let ends_connection = released.is_some_and(|released| !released.load(Ordering::Relaxed));
        let response =
            self.respond(web, received, ends_connection, is_part_asked_for, &notes).await?;
        Ok(Answer::Response(match route {
            Some(_) => without_alternatives(response),
            None => response,
        }))
    }

    /// Sets the body of a request, held back if the client waits for `100 Continue`; then gives
    /// whether it was released.
    async fn set_body(
        &self,
        request: &mut Request<AnyBody>,
        body: Watched<Incoming>,
        inspector: Option<Box<dyn Inspect>>,
        notes: &Notes,
    ) -> Result<Option<Arc<AtomicBool>>, Refusal> {
        let expects = headers::expects_continue(request.headers());
        let expects = expects.map_err(|()| Refusal::Unsupported("this expectation"))?;
        if body.is_end_stream() || inspector.is_some() {
            request.headers_mut().remove(EXPECT);
        }
        if body.is_end_stream() {
            return Ok(None);
        }
        match inspector {
            Some(inspector) => {
                let held_max = self.settings.limits.held_bytes_max;
                if !inspector.keeps_length() {
                    request.headers_mut().remove(hyper::header::CONTENT_LENGTH);
                }
                *request.body_mut() = inspect(body, inspector, held_max, notes.clone()).await?;
                Ok(None)
            }
            None if expects => {
                let wait_max = Duration::from_secs(self.settings.times.continue_seconds_max);
                let (held, sender) = hold(body, wait_max);
                let released = held.released();
                *request.body_mut() = held.boxed_unsync();
                release_on_continue(request, sender);
                Ok(Some(released))
            }
            None => {
                *request.body_mut() = body.boxed_unsync();
                Ok(None)
            }
        }
    }

    async fn respond(
        &self,
        web: &WebRequest,
        received: Received,
        ends_connection: bool,
        is_part_asked_for: bool,
        notes: &Notes,
    ) -> Result<Response<AnyBody>, Refusal> {
        let (mut parts, body) = received.into_parts(ends_connection);
        let (status, version) = (parts.status, parts.version);
        let is_bodiless = web.method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
        let framing = match body.size_hint().exact() {
            _ if is_bodiless => None,
            Some(_) if status == StatusCode::NO_CONTENT => Some(Framing::Unknown),
            Some(n) => Some(Framing::Bytes(n)),
            None => Some(Framing::Unknown),
        };
        headers::prepare_response(&mut parts.headers, version, framing, &self.settings);
        let head = ResponseHead { status, headers: &parts.headers, is_part_asked_for };
        let body = match self.judge.response(web, &head) {
            ResponseDecision::Block(reason) => return Err(Refusal::Blocked(reason)),
            ResponseDecision::Inspect(inspector) if !is_bodiless => {
                if !inspector.keeps_length() {
                    parts.headers.remove(hyper::header::CONTENT_LENGTH);
                }
                let held_max = self.settings.limits.held_bytes_max;
                inspect(body, inspector, held_max, notes.clone()).await?
            }
            ResponseDecision::Pass | ResponseDecision::Inspect(_) => body.boxed_unsync(),
        };
        Ok(response(status, parts.headers, parts.extensions.remove(), body))
    }

    /// The server changes the protocol: so does the client's connection.
    fn switch(&self, mut received: Received, client: OnUpgrade) -> Answer {
        let server = hyper::upgrade::on(&mut received.response);
        let (mut parts, _) = received.into_parts(false);
        let upgrade = parts.headers.get(UPGRADE).cloned();
        let (version, framing) = (parts.version, Some(Framing::Unknown));
        headers::prepare_response(&mut parts.headers, version, framing, &self.settings);
        if let Some(upgrade) = upgrade {
            parts.headers.insert(UPGRADE, upgrade);
            parts.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        }
        let server = Box::pin(async { Some(forward::given_back(server.await.ok()?)) });
        Answer::Switch(response(parts.status, parts.headers, None, empty()), client, server)
    }

    /// Passes bytes both ways; what passed is logged when it ends.
    async fn switched(
        self: Arc<Self>,
        mut exchange: Exchange,
        client: OnUpgrade,
        server: BoxFuture<'static, Option<Box<dyn Stream>>>,
    ) {
        let (Ok(client), Some(server)) = (client.await, server.await) else {
            exchange.cut_by = Some("either side as it began");
            return;
        };
        self.counters.tunnels.add(1);
        self.relay(exchange, client::given_back(client), server).await;
    }

    /// The same, when both sides are there.
    pub(crate) async fn relay(
        &self,
        exchange: Exchange,
        client: Box<dyn Stream>,
        server: Box<dyn Stream>,
    ) {
        let idle_max = Duration::from_secs(self.settings.times.tunnel_idle_seconds_max);
        let stop = self.stop.clone().begun(Phase::Ended);
        let judge = self.judge.as_ref();
        relay(exchange, client, server, &self.pipes, judge, idle_max, stop).await;
    }
}

/// No answer in time is the client's fault if the rest of its body did not come.
fn whose_fault(refusal: Refusal, waits: &AtomicBool) -> Refusal {
    match refusal {
        Refusal::ResponseTimeout if waits.load(Ordering::Relaxed) => Refusal::RequestBody,
        other => other,
    }
}

/// The client's side of a tunnel; none if it has gone.
fn upgraded(upgrade: OnUpgrade) -> BoxFuture<'static, Option<Box<dyn Stream>>> {
    Box::pin(async { Some(client::given_back(upgrade.await.ok()?)) })
}

/// Without the offer to come by another way (RFC 7838), such as QUIC past this proxy.
fn without_alternatives(mut response: Response<AnyBody>) -> Response<AnyBody> {
    response.headers_mut().remove(ALT_SVC);
    response
}

/// The field with Basic credentials, which another proxy can read as well.
fn basic<B>(request: &Request<B>) -> Option<HeaderValue> {
    let mut field = request.headers().get(PROXY_AUTHORIZATION)?.clone();
    let scheme = field.as_bytes().split(|b| *b == b' ').next()?;
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    field.set_sensitive(true);
    Some(field)
}

/// Notes what the log says about a request.
fn note(exchange: &mut Exchange, web: &WebRequest) {
    let record = &mut exchange.record;
    record.url = match web.kind {
        Kind::Connect => web.authority(),
        Kind::Plain | Kind::Upgrade | Kind::Lookup => web.url.as_str().to_owned(),
    };
    record.referer = web.fields.referer.clone();
    record.user_agent = web.fields.user_agent.clone();
}

/// A response of its parts: its version is hyper's to choose by what the client speaks.
fn response(
    status: StatusCode,
    headers: HeaderMap,
    reason: Option<ReasonPhrase>,
    body: AnyBody,
) -> Response<AnyBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    reason.map(|reason| response.extensions_mut().insert(reason));
    response
}

/// The answer to OPTIONS that is for this proxy.
fn options() -> Response<AnyBody> {
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS, CONNECT");
    response.headers_mut().insert(ALLOW, methods);
    response
}

pub(crate) fn redirect(to: &str) -> Result<Response<AnyBody>, Refusal> {
    let location = HeaderValue::try_from(to);
    let location = location.map_err(|_| Refusal::Malformed("a rule redirects to no address"))?;
    let mut response = Response::new(empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, location);
    Ok(response)
}

/// Makes references: short, and never the same twice in practice.
#[derive(Debug, Default)]
pub(crate) struct References {
    count: AtomicU64,
    seed: RandomState,
}

impl References {
    pub(crate) fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let hash = self.seed.hash_one((count, now));
        format!("{:012x}", hash & 0xffff_ffff_ffff)
    }
}
