//! Forms by which people ask for release of what is blocked.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::Service;
use crate::asking;
use crate::body::AnyBody;
use crate::client::Client;
use crate::error_page;
use crate::exchange::Exchange;
use crate::refusal::Refusal;
use crate::releases::{self, FORM_BYTES_MAX};
use crate::request::without_user;

impl Service {
    /// The answer to a form; none if the request brings none. It is asked for on the site that
    /// was blocked, so this comes before the judge.
    pub(super) async fn take_form(
        &self,
        client: &Client,
        exchange: &mut Exchange,
        request: &mut Request<Incoming>,
    ) -> Result<Option<Response<AnyBody>>, Refusal> {
        if !releases::is_form(request) {
            return Ok(None);
        }
        let Some(desk) = self.judge.desk().map(Arc::clone) else { return Ok(None) };
        exchange.record.url = without_user(request.uri());
        let body = Limited::new(request.body_mut(), FORM_BYTES_MAX).collect();
        let wait_max = Duration::from_secs(self.settings.times.header_seconds_max);
        let read = tokio::time::timeout(wait_max, body).await;
        let read = read.ok().and_then(Result::ok).ok_or(Refusal::RequestBody)?;
        let note = &mut exchange.record.note;
        let taken = asking::take(desk, client.address, read.to_bytes(), note).await;
        Ok(Some(error_page::taken(&taken, &self.settings.name)))
    }
}
