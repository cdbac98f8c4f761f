//! Signing in at the provider of a single sign-on, and coming back.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{PreEscaped, html};

use super::sign_in::{next, with_cookie};
use crate::app::App;
use crate::error::RequestError;
use crate::oidc::RelyingParty;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};
use crate::{access, format, layout};

const OFF: RequestError = RequestError::NotFound(translatable("There is no single sign-on here."));

fn relying_party(app: &App) -> Result<RelyingParty<'_>, RequestError> {
    app.relying_party().ok_or(OFF)
}

/// `GET /sign-in/oidc`: to the provider.
pub(crate) fn begin(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let party = relying_party(app)?;
    let fresh = request.field("prove") == "yes";
    let (address, state) = app.sign_ins.begin(&party, next(app, request), fresh, request.now_ms)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let cookie = access::state_cookie(&state, app.state.options.https);
    let unfit =
        |_| RequestError::Bad(translatable("The provider's address is malformed.").to_owned());
    response
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_str(&address).map_err(unfit)?);
    response
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::from_str(&cookie).map_err(unfit)?);
    Ok(response)
}

/// `GET /sign-in/oidc/back`: with a code, from the provider.
pub(crate) fn back(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let party = relying_party(app)?;
    let state = request.field("state");
    // Only the browser that began it: a link cannot sign its victim in to another account.
    let own = request.sign_in_state.as_deref().is_some_and(|own| access::same(own, state));
    if !own || state.is_empty() {
        let why = translatable(
            "This sign-in was not begun in this browser, or has expired. Begin again.",
        );
        return Err(RequestError::Bad(why.to_owned()));
    }
    // RFC 9207: an answer of another provider is none.
    let issuer = request.field("iss").trim_end_matches('/');
    if !issuer.is_empty() && issuer != party.options.issuer.trim_end_matches('/') {
        let why = translatable("This answer is of another provider. Begin again.");
        return Err(RequestError::Bad(why.to_owned()));
    }
    let error = request.field("error");
    if !error.is_empty() {
        let shown: String = format::plain(error).chars().take(60).collect();
        return Err(RequestError::Bad(format!("The provider says: {shown}. Begin again.")));
    }
    let code = request.field("code");
    let authenticated = app.sign_ins.finish(&party, state, code, request.now_ms)?;
    let users = &app.state.users;
    if let Some(old) = &request.token {
        users.end_session(old)?;
    }
    let login = &authenticated.user.login;
    let started = users.start_session_with(login, authenticated.proof, "", request.now_ms)?;
    users.note(request.now_ms, login, "sign-in", &format!("single sign-on, {}", request.client))?;
    // A page, not a redirection: one that comes from another site would not carry the new cookie.
    let body = html! {
        meta http-equiv="refresh" content={ "0;url=" (authenticated.next) };
        section.card.narrow { h1 { (t("Signed in")) } p { a href=(authenticated.next) { (t("Continue")) } } }
    };
    let page = response::page(StatusCode::OK, layout::bare(t("Signed in"), &PreEscaped(body.0)));
    Ok(with_cookie(page, &started.token, app.state.options.https))
}
