//! Authorization: the session or token of a request, and whether its route allows it.

use axum::http::{HeaderMap, header};
use gauntlet_store::users::{Proof, Role, Session, Token, User, token_login};

use crate::access;
use crate::api::Operation;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::route::{Access, Route};
use crate::state::ConsoleState;
use crate::text::translatable;

/// The program that shows a token, as an administrator within the token's scopes.
fn authenticate_token(
    state: &ConsoleState,
    operation: &Operation,
    headers: &HeaderMap,
    now_ms: i64,
) -> Result<Option<(Session, Token)>, RequestError> {
    let Some(shown) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let secret = shown
        .to_str()
        .ok()
        .and_then(|s| s.split_once(' '))
        .filter(|(kind, _)| kind.eq_ignore_ascii_case("bearer"));
    let secret = secret.map_or("", |(_, secret)| secret.trim());
    let token = state.users.token(secret, now_ms)?.ok_or(RequestError::Token)?;
    if let Some(scope) = operation.scope.filter(|s| !token.scopes.contains(s)) {
        return Err(RequestError::Scope(scope.name()));
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
pub(crate) fn authorize(
    state: &ConsoleState,
    route: &Route,
    operation: Option<&Operation>,
    mut request: RequestContext,
    headers: &HeaderMap,
) -> Result<RequestContext, RequestError> {
    if let Some(operation) = operation {
        // No browser sends a token by itself: nothing more is to be checked.
        if let Some((session, token)) =
            authenticate_token(state, operation, headers, request.now_ms)?
        {
            (request.session, request.granted) = (Some(session), Some(token));
            return Ok(request);
        }
    }
    if let Some(token) = &request.token {
        let ms = |seconds| i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        let idle_ms = ms(state.options.session_seconds);
        let age_ms = ms(state.options.session_age_seconds_max);
        let now_ms = request.now_ms;
        request.session = match is_background(route, headers) {
            true => state.users.peek_session(token, now_ms, idle_ms, age_ms)?,
            false => state.users.session(token, now_ms, idle_ms, age_ms)?,
        };
    }
    if route.method.changes() && !is_same_origin(headers) {
        return Err(RequestError::Forbidden(translatable("This form came from another site.")));
    }
    if route.access == Access::Public {
        return Ok(request);
    }
    let Some(session) = &request.session else { return Err(RequestError::SignIn) };
    if !route.access.allows(session.user.role) {
        return Err(RequestError::Forbidden(translatable("Your role does not allow this.")));
    }
    if route.access == Access::Account {
        request.require_full_sign_in()?;
    }
    if session.user.must_change && route.access != Access::SignedIn {
        return Err(RequestError::Forbidden(translatable(
            "Choose a password of your own first, under Account.",
        )));
    }
    if route.method.changes() {
        let in_header = headers.get("x-csrf-token").and_then(|v| v.to_str().ok());
        let given = in_header.unwrap_or_else(|| request.field("csrf"));
        if !access::same(given, &session.csrf) {
            return Err(RequestError::Forbidden(translatable(
                "This form is out of date. Reload the page.",
            )));
        }
    }
    Ok(request)
}

/// A page that is open renews its list by script, every few seconds: that must not keep a session
/// alive that nobody uses. Browsers say so themselves (Fetch Metadata: no page, frame or picture is
/// to be shown).
fn is_background(route: &Route, headers: &HeaderMap) -> bool {
    let for_script = headers.get("sec-fetch-dest").is_some_and(|to| to == "empty");
    for_script && !route.method.changes()
}

/// The browser says that the request comes from a page of ours, or there is no browser.
///
/// `Sec-Fetch-Site` is believed first: no page can set it, and under our `no-referrer` policy the
/// `Origin` of our own forms is `null`.
fn is_same_origin(headers: &HeaderMap) -> bool {
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
