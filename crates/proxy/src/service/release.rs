//! Forms by which people ask for release of what is blocked.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::Service;
use crate::access_log::AccessRecord;
use crate::body::AnyBody;
use crate::client::Client;
use crate::error_page;
use crate::exchange::Exchange;
use crate::refusal::Refusal;
use crate::releases::{self, Blocked, FORM_BYTES_MAX, ReleaseForm, Taken};

impl Service {
    /// The form for the page of a block; none if nobody may ask for it.
    pub(super) fn release_form(
        &self,
        refusal: &Refusal,
        record: &AccessRecord,
    ) -> Option<ReleaseForm> {
        let Refusal::Blocked(reason) = refusal else { return None };
        let desk = self.judge.desk().filter(|_| self.judge.is_releasable(&reason.rule))?;
        Some(desk.form(&Blocked {
            client: record.client,
            user: record.user.as_deref().unwrap_or_default(),
            url: &record.url,
            rule: &reason.rule,
            reference: &record.reference,
        }))
    }

    /// The answer to such a form; none if the request brings none. It is asked for on the site that
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
        exchange.record.url = request.uri().to_string();
        let body = Limited::new(request.body_mut(), FORM_BYTES_MAX).collect();
        let wait_max = Duration::from_secs(self.settings.times.header_seconds_max);
        let read = tokio::time::timeout(wait_max, body).await;
        let read = read.ok().and_then(Result::ok).ok_or(Refusal::RequestBody)?;
        let (address, form) = (client.address, read.to_bytes());
        let taken = tokio::task::spawn_blocking(move || desk.take(address, &form)).await;
        let taken = taken.unwrap_or(Taken::Full);
        if let Taken::Passed { reference } = &taken {
            exchange.record.note.evidence = format!("asks for release of {reference}");
        }
        Ok(Some(error_page::taken(&taken, &self.settings.name)))
    }
}
