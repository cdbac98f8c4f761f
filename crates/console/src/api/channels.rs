//! The channels that the node follows, and what is done with their versions.

use axum::response::Response;
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::node::ChannelOrder;
use crate::pages::channels::{act, version, version_given};
use crate::request::RequestContext;

/// `GET /api/v1/channels`.
pub(super) fn list(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "channels": app.state.node.channels() }))
}

fn order(
    app: &App,
    request: &RequestContext,
    order: ChannelOrder<'_>,
) -> Result<Response, RequestError> {
    let text = act(app, request, request.param("name"), order)?;
    done(&json!({ "done": text }))
}

/// `POST /api/v1/channels/{name}/promote`.
pub(super) fn promote(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    order(app, request, ChannelOrder::Promote(version_given(request)?))
}

/// `POST /api/v1/channels/{name}/reject`.
pub(super) fn reject(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let reason = request.field("reason");
    order(app, request, ChannelOrder::Reject(version_given(request)?, reason))
}

/// `POST /api/v1/channels/{name}/rollback`.
pub(super) fn roll_back(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let reason = request.field("reason");
    order(app, request, ChannelOrder::RollBack(version(request)?, reason))
}

/// `POST /api/v1/channels/{name}/pin`.
pub(super) fn pin(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    order(app, request, ChannelOrder::Pin(version_given(request)?))
}

/// `DELETE /api/v1/channels/{name}/pin`.
pub(super) fn unpin(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    order(app, request, ChannelOrder::Unpin)
}
