//! Signing in at the provider of a single sign-on, and coming back.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use maud::{PreEscaped, html};

use super::sign_in::{next, with_cookie};
use crate::fault::Fault;
use crate::oidc::OidcOptions;
use crate::server::App;
use crate::text::{noted, t};
use crate::visit::{self, Visit};
use crate::{access, format, shell};

const OFF: Fault = Fault::NotFound(noted("There is no single sign-on here."));

fn options(app: &App) -> Result<&OidcOptions, Fault> {
    app.state.oidc.as_deref().ok_or(OFF)
}

/// `GET /sign-in/oidc`: to the provider.
pub(crate) fn begin(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let options = options(app)?;
    let fresh = visit.field("prove") == "yes";
    let (address, state) = app.sign_ins.begin(app, options, next(visit), fresh, visit.now_ms)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let cookie = access::state_cookie(&state, app.state.options.https);
    let unfit = |_| Fault::Bad(noted("The provider's address makes no sense.").to_owned());
    response
        .headers_mut()
        .insert(header::LOCATION, HeaderValue::from_str(&address).map_err(unfit)?);
    response
        .headers_mut()
        .insert(header::SET_COOKIE, HeaderValue::from_str(&cookie).map_err(unfit)?);
    Ok(response)
}

/// `GET /sign-in/oidc/back`: with a code, from the provider.
pub(crate) fn back(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let options = options(app)?;
    let state = visit.field("state");
    // The browser that began it: nobody can be signed in as somebody else by a link.
    let own = visit.sign_in_state.as_deref().is_some_and(|own| access::same(own, state));
    if !own || state.is_empty() {
        let why = noted("This sign-in was not begun in this browser, or is over. Begin again.");
        return Err(Fault::Bad(why.to_owned()));
    }
    // RFC 9207: an answer of another provider is none.
    let issuer = visit.field("iss").trim_end_matches('/');
    if !issuer.is_empty() && issuer != options.issuer.trim_end_matches('/') {
        let why = noted("This answer is of another provider. Begin again.");
        return Err(Fault::Bad(why.to_owned()));
    }
    let error = visit.field("error");
    if !error.is_empty() {
        let shown: String = format::plain(error).chars().take(60).collect();
        return Err(Fault::Bad(format!("The provider says: {shown}. Begin again.")));
    }
    let code = visit.field("code");
    let welcome = app.sign_ins.finish(app, options, state, code, visit.now_ms)?;
    let users = &app.state.users;
    if let Some(old) = &visit.token {
        users.end_session(old)?;
    }
    let login = &welcome.user.login;
    let started = users.start_session_with(login, welcome.proof, "", visit.now_ms)?;
    users.note(visit.now_ms, login, "sign-in", &format!("single sign-on, {}", visit.client))?;
    // A page, not a redirection: one that comes from another site would not carry the new cookie.
    let body = html! {
        meta http-equiv="refresh" content={ "0;url=" (welcome.next) };
        section.card.narrow { h1 { (t("Signed in")) } p { a href=(welcome.next) { (t("Go on")) } } }
    };
    let page = visit::page(StatusCode::OK, shell::bare(t("Signed in"), &PreEscaped(body.0)));
    Ok(with_cookie(page, &started.token, app.state.options.https))
}
