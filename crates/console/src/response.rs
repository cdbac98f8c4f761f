//! Responses: HTML pages, JSON, redirects, and refusals. Pages are localized last.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::error::RequestError;
use crate::text::{Texts, t, translatable};
use crate::{headers, layout};

/// Seconds after which to come again.
const BUSY_SECONDS: u64 = 5;

/// A page whose phrases are not words yet.
#[derive(Clone)]
struct Unlocalized(String);

/// An HTML answer; [`localize`] fills it.
pub(crate) fn page(status: StatusCode, markup: maud::Markup) -> Response {
    let mut response = respond(status, "text/html; charset=utf-8", Body::empty());
    response.extensions_mut().insert(Unlocalized(markup.into_string()));
    response
}

/// With a page's phrases put into words.
pub(crate) fn localize(mut response: Response, texts: &Texts) -> Response {
    if let Some(Unlocalized(page)) = response.extensions_mut().remove() {
        *response.body_mut() = Body::from(texts.localize(&page));
    }
    response
}

/// Answers with a value as JSON.
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

/// The response to a request that failed; JSON under `/api/`.
pub(crate) fn refuse(path: &str, query: &str, error: &RequestError) -> Response {
    let mut response = refusal(path, query, error);
    let seconds = match error {
        RequestError::Wait(wait) => Some(wait.as_secs() + 1),
        RequestError::Busy => Some(BUSY_SECONDS),
        _ => None,
    };
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn refusal(path: &str, query: &str, error: &RequestError) -> Response {
    if let RequestError::Store(error) = error {
        tracing::error!(%error, path, "the console could not answer");
    }
    let (status, text) = error.answer();
    if path.starts_with("/api/") {
        let mut response = json(status, &serde_json::json!({ "error": text }));
        if status == StatusCode::UNAUTHORIZED {
            let how = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
        }
        return response;
    }
    if matches!(error, RequestError::SignIn) {
        let back = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        return redirect(&format!("/sign-in?next={}", crate::format::percent(&back)));
    }
    page(status, layout::bare(t("Not possible"), &layout::refusal(t(&text))))
}

/// The answer where there is no page.
pub(crate) fn not_found(path: &str, texts: &Texts) -> Response {
    let error = RequestError::NotFound(translatable("There is no such page."));
    let mut response = localize(refuse(path, "", &error), texts);
    headers::secure(response.headers_mut());
    response
}

/// The answer to a request whose body was not read.
pub(crate) fn too_large(path: &str, texts: &Texts) -> Response {
    let mut response = localize(refuse(path, "", &RequestError::TooLarge), texts);
    headers::secure(response.headers_mut());
    response
}

/// The answer where there is a page, but not for this method.
pub(crate) fn wrong_method(path: &str, texts: &Texts) -> Response {
    let why = translatable("This address takes another method.");
    let response = if path.starts_with("/api/") {
        json(StatusCode::METHOD_NOT_ALLOWED, &serde_json::json!({ "error": why }))
    } else {
        page(
            StatusCode::METHOD_NOT_ALLOWED,
            layout::bare(t("Not possible"), &layout::refusal(t(why))),
        )
    };
    let mut response = localize(response, texts);
    headers::secure(response.headers_mut());
    response
}
