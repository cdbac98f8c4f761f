//! Held mail of a member: shipped beside everything else, by a connection of its own.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::{Member, PAUSE_MAX, PAUSE_MIN};
use crate::database::Session;
use crate::error::ArrayError;
use crate::held_shipping::HeldShipper;
use crate::{held_sweep, schema};

/// Objects that one sweep removes at most.
const SWEPT_MAX: u32 = 10_000;

impl Member {
    /// Ships held mail until the database fails. By a connection of its own: what waits for an
    /// object store that hangs holds up neither the log nor policies and orders.
    pub(super) async fn follow_held(&self, id: i16) -> ArrayError {
        let Some(held) = &self.held else { return std::future::pending().await };
        let session = match schema::session(&self.database).await {
            Ok(session) => session,
            Err(error) => return error,
        };
        let mut shipper = HeldShipper::new(held.quarantine.clone(), &self.own);
        let (mut failures, mut sweep) = (PAUSE_MIN, Instant::now());
        loop {
            let pause = match self.ship_held(&session, id, &mut shipper).await {
                Ok(Some(pause)) => {
                    failures = PAUSE_MIN;
                    pause
                }
                // Growing, as for the database: most failures are over in a moment.
                Ok(None) => {
                    let longer = (failures * 2).min(PAUSE_MAX);
                    std::mem::replace(&mut failures, longer)
                }
                Err(error) => return error,
            };
            if self.options.log_days.is_some() && sweep <= Instant::now() {
                if let Err(error) = self.sweep(&session).await {
                    return error;
                }
                sweep = Instant::now() + self.options.counts_every;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.held_changed.notified() => {}
            }
        }
    }

    /// Ships held mail once. Returns how long to wait before the next time, none if the object
    /// store did not take it: one that is away stops nothing else.
    async fn ship_held(
        &self,
        session: &Session,
        id: i16,
        shipper: &mut HeldShipper,
    ) -> Result<Option<Duration>, ArrayError> {
        let Some(held) = &self.held else { return Ok(Some(PAUSE_MAX)) };
        let stepped = shipper.step(id, session, &held.objects).await;
        let quarantine = held.quarantine.clone();
        let backlog = self.blocking(move || quarantine.backlog()).await?;
        let mut state = self.lock();
        state.held_behind = backlog.changes;
        match stepped {
            Ok(shipped) => {
                state.objects_error.clear();
                state.shipped_held += shipped.map_or(0, |shipped| shipped.items);
                let more = shipped.is_some_and(|shipped| shipped.is_full);
                Ok(Some(if more { Duration::ZERO } else { self.options.ship_every }))
            }
            Err(error) if error.is_of_objects() => {
                let text = error.to_string();
                if state.objects_error != text {
                    tracing::warn!(error = text, "held mail waits on this node for its array");
                }
                state.objects_error = text;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes objects that no held message needs.
    async fn sweep(&self, session: &Session) -> Result<(), ArrayError> {
        let Some(held) = &self.held else { return Ok(()) };
        match held_sweep::sweep(session, &held.objects, SWEPT_MAX).await {
            Ok(_) => Ok(()),
            // The next sweep goes on.
            Err(error) if error.is_of_objects() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Works to the end of it while held mail is shipped, even if that fails meanwhile: an order that
/// is carried out is to be noted.
pub(super) async fn beside(
    work: impl Future<Output = Result<(), ArrayError>>,
    mut held: Pin<&mut impl Future<Output = ArrayError>>,
) -> Result<(), ArrayError> {
    tokio::pin!(work);
    let mut failed = None;
    let worked = loop {
        tokio::select! {
            worked = &mut work => break worked,
            error = &mut held, if failed.is_none() => failed = Some(error),
        }
    };
    worked.and(failed.map_or(Ok(()), Err))
}
