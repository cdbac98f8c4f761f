//! Asking for release, whichever way the page of a block came: from the proxy itself, or by ICAP.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::access_log::AccessRecord;
use crate::judge::Judge;
use crate::reason::Note;
use crate::refusal::Refusal;
use crate::releases::{Blocked, Desk, ReleaseForm, Taken};

/// The form for the page of a refusal; none if nobody may ask for release of it.
pub(crate) fn form(
    judge: &dyn Judge,
    refusal: &Refusal,
    record: &AccessRecord,
) -> Option<ReleaseForm> {
    let Refusal::Blocked(reason) = refusal else { return None };
    let desk = judge.desk().filter(|_| judge.is_releasable(&reason.rule))?;
    Some(desk.form(&Blocked {
        client: record.client,
        user: record.user.as_deref().unwrap_or_default(),
        url: &record.url,
        rule: &reason.rule,
        reference: &record.reference,
    }))
}

/// Takes a form that a client sent, as [`Desk::take`] does, without waiting for the disk.
pub(crate) async fn take(desk: Arc<Desk>, client: IpAddr, form: Bytes, note: &mut Note) -> Taken {
    let taken = tokio::task::spawn_blocking(move || desk.take(client, &form)).await;
    let taken = taken.unwrap_or(Taken::Full);
    if let Taken::Passed { reference } = &taken {
        note.evidence = format!("asks for release of {reference}");
    }
    taken
}
