//! A request as handlers see it: who sent it, and its fields; and how that is read.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::{Form, Path, Query, Request};
use axum::http::{HeaderMap, Method, header};
use gauntlet_store::users::{Proof, Role, Scope, Session, Token};
use serde_json::Value;

use crate::access;
use crate::error::RequestError;
use crate::text::translatable;

/// Fields of a form that are read.
const FIELDS_MAX: usize = 1200;
/// Bytes of a form.
pub(crate) const FORM_BYTES_MAX: usize = 1 << 20;

/// A sign-in at the provider of the single sign-on proves who the user is for so many milliseconds.
const FRESH_MS: i64 = 5 * 60_000;

/// A request that may be answered.
pub(crate) struct RequestContext {
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

impl RequestContext {
    /// Nobody's request with these fields, for what reads fields.
    pub(crate) fn of_fields(&self, fields: Vec<(String, String)>) -> Self {
        RequestContext {
            params: HashMap::new(),
            fields,
            session: None,
            granted: None,
            token: None,
            sign_in_state: None,
            client: self.client,
            now_ms: self.now_ms,
        }
    }

    /// A name in the route's path.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// The first field of this name; empty if there is none.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value.trim())
    }

    /// The role that the field `role` names.
    pub(crate) fn role_field(&self) -> Result<Role, RequestError> {
        let role = self.field("role").parse::<Role>();
        role.map_err(|error| RequestError::Bad(error.to_string()))
    }

    /// The first field of this name as a text of lines: with its spaces, ends of lines as `\n`, and
    /// one at the end.
    pub(crate) fn lines(&self, name: &str) -> String {
        let raw = self.fields.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value);
        let text = raw.replace("\r\n", "\n");
        let text = text.trim_end_matches('\n');
        if text.is_empty() { String::new() } else { format!("{text}\n") }
    }

    /// All fields of this name that are not empty.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.fields.iter().filter(move |(n, _)| n == name);
        named.map(|(_, value)| value.trim()).filter(|v| !v.is_empty())
    }

    /// Login of who is signed in.
    pub(crate) fn login(&self) -> &str {
        self.session.as_ref().map_or("", |s| &s.user.login)
    }

    /// Role of the signed-in user; the least if there is none.
    pub(crate) fn role(&self) -> Role {
        self.session.as_ref().map_or(Role::User, |s| s.user.role)
    }

    /// Refuses what needs this scope beside the operation's own, if a program asks without it.
    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), RequestError> {
        match &self.granted {
            Some(token) if !token.scopes.contains(&scope) => Err(RequestError::Scope(scope.name())),
            _ => Ok(()),
        }
    }

    /// Refuses what is about an account to who came by a digest's link: it shows mail, and proves
    /// nothing.
    pub(crate) fn require_full_sign_in(&self) -> Result<(), RequestError> {
        match &self.session {
            Some(session) if session.proof == Proof::Link => {
                Err(RequestError::Forbidden(translatable(
                    "You are signed in by a link of a digest, which is for held mail only: sign in with your password to change your account.",
                )))
            }
            _ => Ok(()),
        }
    }

    /// Who is signed in did so at the provider of the single sign-on a moment ago, for this
    /// session.
    pub(crate) fn is_recent_sign_in(&self) -> bool {
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

/// Of a body that is not read.
const NO_TYPE: &str = "the body has no Content-Type: application/json, or \
                       application/x-www-form-urlencoded for a form";

/// Reads path, fields and cookies; the session is looked up later.
pub(crate) async fn read(
    client: IpAddr,
    https: bool,
    mut request: Request,
) -> Result<(RequestContext, HeaderMap), RequestError> {
    let headers = request.headers().clone();
    let params = request.extract_parts::<Path<HashMap<String, String>>>().await;
    let Path(params) = params.map_err(|e| RequestError::Bad(e.body_text()))?;
    let fields = match *request.method() {
        Method::POST | Method::PUT => {
            let uri = request.uri();
            if uri.path().starts_with("/api/") && uri.query().is_some_and(|q| !q.is_empty()) {
                let why = "POST and PUT take their fields in the body, not in the query";
                return Err(RequestError::Bad(why.to_owned()));
            }
            fields_of_body(&headers, request).await?
        }
        _ => {
            let query = request.extract_parts::<Query<Vec<(String, String)>>>().await;
            query.map_err(|e| RequestError::Bad(e.body_text()))?.0
        }
    };
    if fields.len() > FIELDS_MAX {
        return Err(RequestError::Bad(format!("more than {FIELDS_MAX} fields")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let token = access::token(&headers, https).map(str::to_owned);
    let sign_in_state = access::state(&headers, https).map(str::to_owned);
    let (session, granted) = (None, None);
    let request =
        RequestContext { params, fields, session, granted, token, sign_in_state, client, now_ms };
    Ok((request, headers))
}

/// The fields of a form, or of a JSON object.
async fn fields_of_body(
    headers: &HeaderMap,
    request: Request,
) -> Result<Vec<(String, String)>, RequestError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else {
        let body = request.extract::<Bytes, _>().await;
        return match body.map_err(|e| RequestError::Bad(e.body_text()))?.is_empty() {
            true => Ok(Vec::new()),
            false => Err(RequestError::Bad(NO_TYPE.to_owned())),
        };
    };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let form = request.extract::<Form<Vec<(String, String)>>, _>().await;
        return Ok(form.map_err(|e| RequestError::Bad(e.body_text()))?.0);
    }
    let body = request.extract::<Bytes, _>().await.map_err(|e| RequestError::Bad(e.body_text()))?;
    let object: serde_json::Map<String, Value> = serde_json::from_slice(&body)
        .map_err(|e| RequestError::Bad(format!("The body is no JSON object: {e}")))?;
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
                    return Err(RequestError::Bad(format!("{}: {why}", name.escape_debug())));
                }
            };
            fields.push((name.clone(), text));
        }
    }
    Ok(fields)
}
