//! Why a request was not answered with what it asked for.

use std::time::Duration;

use crate::node::NodeError;
use crate::text::translatable;
use axum::http::StatusCode;
use gauntlet_store::StoreError;

/// The kinds of failure, each with its answer.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// No user is signed in, or the session is over.
    SignIn,
    /// A token that is unknown, expired or revoked.
    Token,
    /// The token has not this scope.
    Scope(&'static str),
    /// The role, or a missing form token, does not allow it.
    Forbidden(&'static str),
    /// There is no such thing.
    NotFound(&'static str),
    /// The request makes no sense; says why.
    Bad(String),
    /// The body is larger than [`crate::request::FORM_BYTES_MAX`].
    TooLarge,
    /// Passwords or codes were tried too often: to be tried again after this time.
    Wait(Duration),
    /// Too much is asked at once: to be tried again soon.
    Busy,
    /// A store failed. The page says little; the log says all.
    Store(StoreError),
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { .. } => RequestError::Bad(error.to_string()),
            other => RequestError::Store(other),
        }
    }
}

impl From<NodeError> for RequestError {
    fn from(error: NodeError) -> Self {
        RequestError::Bad(error.to_string())
    }
}

impl From<Duration> for RequestError {
    fn from(wait: Duration) -> Self {
        RequestError::Wait(wait)
    }
}

impl RequestError {
    /// Status code and a sentence to show.
    pub(crate) fn answer(&self) -> (StatusCode, String) {
        match self {
            RequestError::SignIn => {
                (StatusCode::UNAUTHORIZED, translatable("Sign in first.").to_owned())
            }
            RequestError::Token => {
                let why = translatable(
                    "This token is unknown, expired or revoked. `gauntlet token new` makes one.",
                );
                (StatusCode::UNAUTHORIZED, why.to_owned())
            }
            RequestError::Scope(scope) => {
                (StatusCode::FORBIDDEN, format!("The token has not the scope {scope}."))
            }
            RequestError::Forbidden(why) => (StatusCode::FORBIDDEN, (*why).to_owned()),
            RequestError::NotFound(what) => (StatusCode::NOT_FOUND, (*what).to_owned()),
            RequestError::Bad(why) => (StatusCode::BAD_REQUEST, why.clone()),
            RequestError::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                translatable(
                    "The request is larger than 1,048,576 bytes, the most that is read: send less \
                     at once.",
                )
                .to_owned(),
            ),
            RequestError::Wait(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                translatable("Too many attempts. Wait a while, then try again.").to_owned(),
            ),
            RequestError::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                translatable("The console is busy. Try again shortly.").to_owned(),
            ),
            RequestError::Store(StoreError::Remote { retry: true, .. }) => (
                StatusCode::SERVICE_UNAVAILABLE,
                translatable(
                    "That cannot be asked for now: the database of the array, or another process \
                     of the node, does not answer. Try again shortly.",
                )
                .to_owned(),
            ),
            RequestError::Store(_) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                translatable("The store could not be read. The node's own log says why.")
                    .to_owned(),
            ),
        }
    }
}
