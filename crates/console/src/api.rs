//! The API for programs: what the pages do, as JSON under `/api/v1/`.
//!
//! [`OPERATIONS`] is the table; requests come with a token of `gauntlet token new`, or with the
//! session of a signed-in user. `docs/api.md` is for those who use it.

mod alerts;
mod channels;
mod document;
mod fields;
mod mail;
mod node;
mod operation;
mod personal;
mod policies;
mod queue;
mod releases;
mod table;
mod users;
mod web;

use axum::http::StatusCode;
use axum::response::Response;

pub use document::document;
pub use operation::{Field, Kind, Operation};
pub use table::OPERATIONS;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;

/// `GET /api/openapi.json`.
fn show(_: &App, _: &RequestContext) -> Result<Response, RequestError> {
    Ok(response::json(StatusCode::OK, &document()))
}

/// The answer to something that was done.
fn done(value: &impl serde::Serialize) -> Result<Response, RequestError> {
    Ok(response::json(StatusCode::OK, value))
}
