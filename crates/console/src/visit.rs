//! A request on its way to its page: who it is from, whether they may, what they sent.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::RequestExt;
use axum::body::{Body, Bytes};
use axum::extract::{Form, Path, Query, Request};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use gauntlet_store::users::{Proof, Role, Scope, Session, Token, User, token_login};
use serde_json::Value;

use crate::api::Operation;

use crate::fault::Fault;
use crate::headers;
use crate::routes::{Access, Route};
use crate::server::{App, ConsoleState};
use crate::text::{Texts, noted, t};
use crate::{access, shell};

/// Fields of a form that are read.
const FIELDS_MAX: usize = 1200;
/// Bytes of a form.
pub(crate) const FORM_BYTES_MAX: usize = 1 << 20;

/// A sign-in at the provider of the single sign-on proves who somebody is for so many milliseconds.
const FRESH_MS: i64 = 5 * 60_000;
/// A request waits so long for others to be answered; then its client is asked to come again, so that slow pages
/// do not hold all connections.
const TURN_WAIT_MAX: Duration = Duration::from_secs(20);
/// Seconds after which to come again.
const BUSY_SECONDS: u64 = 5;

/// A request that may be answered.
pub(crate) struct Visit {
    /// Names in the route's path and their values.
    params: HashMap<String, String>,
    /// Fields of the query (GET) or the form (POST), in order.
    pub(crate) fields: Vec<(String, String)>,
    /// Who is signed in.
    pub(crate) session: Option<Session>,
    /// The program's token that was shown instead of a session: what is done stays within it.
    pub(crate) granted: Option<Token>,
    /// The session's token, as the browser sent it.
    pub(crate) token: Option<String>,
    /// The state of a single sign-on that the browser began.
    pub(crate) sign_in_state: Option<String>,
    /// Address of the browser.
    pub(crate) client: IpAddr,
    /// Unix time in milliseconds.
    pub(crate) now_ms: i64,
}

impl Visit {
    /// A name in the route's path.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// The first field of this name; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value.trim())
    }

    /// The first field of this name as a text of lines: with its spaces, ends of lines as `\n`, and one
    /// at the end.
    pub(crate) fn lines(&self, name: &str) -> String {
        let raw = self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value);
        let text = raw.replace("\r\n", "\n");
        let text = text.trim_end_matches('\n');
        if text.is_empty() { String::new() } else { format!("{text}\n") }
    }

    /// All fields of this name that are not empty.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.fields.iter().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value.trim()).filter(|v| !v.is_empty())
    }

    /// Login of who is signed in.
    pub(crate) fn who(&self) -> &str {
        self.session.as_ref().map_or("", |s| &s.user.login)
    }

    /// Role of who is signed in; the least if nobody is.
    pub(crate) fn role(&self) -> Role {
        self.session.as_ref().map_or(Role::User, |s| s.user.role)
    }

    /// Refuses what needs this scope beside the operation's own, if a program asks without it.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), Fault> {
        match &self.granted {
            Some(token) if !token.scopes.contains(&scope) => Err(Fault::Scope(scope.name())),
            _ => Ok(()),
        }
    }

    /// Refuses what is about an account to who came by a digest's link: it shows mail, and proves nothing.
    pub(crate) fn proved(&self) -> Result<(), Fault> {
        match &self.session {
            Some(session) if session.proof == Proof::Link => Err(Fault::Forbidden(noted(
                "You came by a link of a digest, which is for held mail only: sign in to change your account.",
            ))),
            _ => Ok(()),
        }
    }

    /// Who is signed in did so at the provider of the single sign-on a moment ago, for this session.
    pub(crate) fn is_freshly_signed_in(&self) -> bool {
        let fresh = |session: &Session| {
            session.proof == Proof::FreshSingleSignOn
                && self.now_ms.saturating_sub(session.begun_ms) < FRESH_MS
        };
        self.session.as_ref().is_some_and(fresh)
    }

    /// What forms must carry.
    pub(crate) fn csrf(&self) -> &str {
        self.session.as_ref().map_or("", |s| &s.csrf)
    }
}

/// Answers a request of this route.
pub(crate) async fn answer(
    app: Arc<App>,
    route: &'static Route,
    operation: Option<&'static Operation>,
    client: IpAddr,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let client = app.state.proxies.client(client, request.headers());
    let answered = async {
        let https = app.state.options.https;
        let (visit, headers) = read(client, https, request).await?;
        // Whoever watches the node hears of it however long pages take.
        let turns = if route.is_for_machines() { &app.machines } else { &app.pages };
        let turn = tokio::time::timeout(TURN_WAIT_MAX, turns.acquire());
        let Ok(Ok(_turn)) = turn.await else { return Err(Fault::Busy) };
        let app = app.clone();
        let made = tokio::task::spawn_blocking(move || {
            let visit = admit(&app.state, route, operation, visit, &headers)?;
            if let Some(operation) = operation {
                operation.check(&visit)?;
            }
            (route.page)(&app, &visit)
        });
        made.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a page of the console failed");
            Err(Fault::Bad(noted("This page failed. The node's own log says why.").to_owned()))
        })
    };
    let response = match answered.await {
        Ok(response) => response,
        Err(fault) => refuse(&path, &query, &fault),
    };
    let mut response = spoken(response, &app.state.texts);
    headers::secure(response.headers_mut());
    response
}

/// The answer where there is no page.
pub(crate) fn not_found(path: &str, texts: &Texts) -> Response {
    let fault = Fault::NotFound(noted("There is no such page."));
    let mut response = spoken(refuse(path, "", &fault), texts);
    headers::secure(response.headers_mut());
    response
}

/// The answer where there is a page, but not for this method.
pub(crate) fn wrong_method(path: &str, texts: &Texts) -> Response {
    let why = noted("This address takes another method.");
    let response = if path.starts_with("/api/") {
        json(StatusCode::METHOD_NOT_ALLOWED, &serde_json::json!({ "error": why }))
    } else {
        page(
            StatusCode::METHOD_NOT_ALLOWED,
            shell::bare(t("Not possible"), &shell::refusal(t(why))),
        )
    };
    let mut response = spoken(response, texts);
    headers::secure(response.headers_mut());
    response
}

async fn read(
    client: IpAddr,
    https: bool,
    mut request: Request,
) -> Result<(Visit, HeaderMap), Fault> {
    let headers = request.headers().clone();
    let params = request.extract_parts::<Path<HashMap<String, String>>>().await;
    let Path(params) = params.map_err(|e| Fault::Bad(e.body_text()))?;
    let fields = match *request.method() {
        Method::POST | Method::PUT => fields_of_body(&headers, request).await?,
        _ => {
            let query = request.extract_parts::<Query<Vec<(String, String)>>>().await;
            query.map_err(|e| Fault::Bad(e.body_text()))?.0
        }
    };
    if fields.len() > FIELDS_MAX {
        return Err(Fault::Bad(format!("more than {FIELDS_MAX} fields")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let token = access::token(&headers, https).map(str::to_owned);
    let sign_in_state = access::state(&headers, https).map(str::to_owned);
    let (session, granted) = (None, None);
    let visit = Visit { params, fields, session, granted, token, sign_in_state, client, now_ms };
    Ok((visit, headers))
}

/// The fields of a form, or of a JSON object.
async fn fields_of_body(
    headers: &HeaderMap,
    request: Request,
) -> Result<Vec<(String, String)>, Fault> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(Vec::new()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let form = request.extract::<Form<Vec<(String, String)>>, _>().await;
        return Ok(form.map_err(|e| Fault::Bad(e.body_text()))?.0);
    }
    let body = request.extract::<Bytes, _>().await.map_err(|e| Fault::Bad(e.body_text()))?;
    let object: serde_json::Map<String, Value> = serde_json::from_slice(&body)
        .map_err(|e| Fault::Bad(format!("The body is no JSON object: {e}")))?;
    let mut fields = Vec::new();
    for (name, value) in object {
        let values = match value {
            Value::Array(values) => values,
            one => vec![one],
        };
        for value in values {
            let text = match value {
                Value::String(text) => text,
                Value::Number(number) => number.to_string(),
                _ => {
                    let why = "a text, a number, or an array of them is expected";
                    return Err(Fault::Bad(format!("{}: {why}", name.escape_debug())));
                }
            };
            fields.push((name.clone(), text));
        }
    }
    Ok(fields)
}

/// The program that shows a token, as an administrator within the token's scopes.
fn program(
    state: &ConsoleState,
    operation: &Operation,
    headers: &HeaderMap,
    now_ms: i64,
) -> Result<Option<(Session, Token)>, Fault> {
    let Some(shown) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let secret = shown
        .to_str()
        .ok()
        .and_then(|s| s.split_once(' '))
        .filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let secret = secret.map_or("", |(_, secret)| secret.trim());
    let token = state.users.token(secret, now_ms)?.ok_or(Fault::Token)?;
    if let Some(scope) = operation.scope.filter(|s| !token.scopes.contains(s)) {
        return Err(Fault::Scope(scope.name()));
    }
    let user = User {
        login: token_login(&token.name),
        role: Role::Administrator,
        folders: Vec::new(),
        addresses: Vec::new(),
        must_change: false,
        created_ms: token.created_ms,
    };
    let (csrf, proof, begun_ms) = (String::new(), Proof::Password, token.created_ms);
    Ok(Some((Session { user, csrf, proof, begun_ms }, token)))
}

/// Finds the session, and refuses who may not.
fn admit(
    state: &ConsoleState,
    route: &Route,
    operation: Option<&Operation>,
    mut visit: Visit,
    headers: &HeaderMap,
) -> Result<Visit, Fault> {
    if let Some(operation) = operation {
        // No browser sends a token by itself: nothing more is to be checked.
        if let Some((session, token)) = program(state, operation, headers, visit.now_ms)? {
            (visit.session, visit.granted) = (Some(session), Some(token));
            return Ok(visit);
        }
    }
    if let Some(token) = &visit.token {
        let ms = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        let idle_ms = ms(state.options.session_seconds);
        let age_ms = ms(state.options.session_age_seconds_max);
        let now_ms = visit.now_ms;
        visit.session = match is_by_itself(route, headers) {
            true => state.users.peek_session(token, now_ms, idle_ms, age_ms)?,
            false => state.users.session(token, now_ms, idle_ms, age_ms)?,
        };
    }
    if route.method.changes() && !from_here(headers) {
        return Err(Fault::Forbidden(noted("This form came from another site.")));
    }
    if route.access == Access::Public {
        return Ok(visit);
    }
    let Some(session) = &visit.session else { return Err(Fault::SignIn) };
    if !route.access.allows(session.user.role) {
        return Err(Fault::Forbidden(noted("Your role does not allow this.")));
    }
    if route.access == Access::Account {
        visit.proved()?;
    }
    if session.user.must_change && route.access != Access::Anybody {
        return Err(Fault::Forbidden(noted("Choose a password of your own first, under Account.")));
    }
    if route.method.changes() {
        let in_header = headers.get("x-csrf-token").and_then(|v| v.to_str().ok());
        let given = in_header.unwrap_or_else(|| visit.field("csrf"));
        if !access::same(given, &session.csrf) {
            return Err(Fault::Forbidden(noted("This form is out of date. Reload the page.")));
        }
    }
    Ok(visit)
}

/// A page that is open renews its list by script, every few seconds: that must not keep a session alive that
/// nobody uses. Browsers say so themselves (Fetch Metadata: no page, frame or picture is to be shown).
fn is_by_itself(route: &Route, headers: &HeaderMap) -> bool {
    let for_script = headers.get("sec-fetch-dest").is_some_and(|to| to == "empty");
    for_script && !route.method.changes()
}

/// The browser says that the request comes from a page of ours, or there is no browser.
///
/// `Sec-Fetch-Site` is believed first: no page can set it, and under our `no-referrer` policy the
/// `Origin` of our own forms is `null`.
fn from_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|v| v.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    match (text("origin"), text("host")) {
        (None, _) => true,
        (Some(origin), Some(host)) => {
            origin.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host))
        }
        (Some(_), None) => false,
    }
}

fn refuse(path: &str, query: &str, fault: &Fault) -> Response {
    let mut response = refusal(path, query, fault);
    let seconds = match fault {
        Fault::Wait(wait) => Some(wait.as_secs() + 1),
        Fault::Busy => Some(BUSY_SECONDS),
        _ => None,
    };
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn refusal(path: &str, query: &str, fault: &Fault) -> Response {
    if let Fault::Store(error) = fault {
        tracing::error!(%error, path, "the console could not answer");
    }
    let (status, text) = fault.answer();
    if path.starts_with("/api/") {
        let mut response = json(status, &serde_json::json!({ "error": text }));
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        return response;
    }
    if matches!(fault, Fault::SignIn) {
        let back = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        return redirect(&format!("/sign-in?next={}", crate::format::percent(&back)));
    }
    page(status, shell::bare(t("Not possible"), &shell::refusal(t(&text))))
}

/// A page whose phrases are not words yet.
#[derive(Clone)]
struct Unspoken(String);

/// An HTML answer; [`spoken`] fills it.
pub(crate) fn page(status: StatusCode, markup: maud::Markup) -> Response {
    let mut response = respond(status, "text/html; charset=utf-8", Body::empty());
    response.extensions_mut().insert(Unspoken(markup.into_string()));
    response
}

/// With a page's phrases put into words.
fn spoken(mut response: Response, texts: &Texts) -> Response {
    if let Some(Unspoken(page)) = response.extensions_mut().remove() {
        *response.body_mut() = Body::from(texts.speak(&page));
    }
    response
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let text = serde_json::to_string(value).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"));
    respond(status, "application/json", Body::from(text))
}

/// An answer of this type.
pub(crate) fn respond(status: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Sends the browser to a page of ours, by GET.
pub(crate) fn redirect(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, to);
    response
}
