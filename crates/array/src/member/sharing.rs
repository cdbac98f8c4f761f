//! What a member shares of its node's state.

use std::time::Duration;

use super::{Member, PAUSE_MAX};
use crate::database::Session;
use crate::error::ArrayError;
use crate::shipping::Shipper;
use crate::state::{Exchange, SharedParts};

impl Member {
    /// Shares these parts of the node's state, too.
    #[must_use]
    pub fn sharing(self, parts: SharedParts) -> Self {
        for part in &parts.parts {
            self.lock().shared.entry(part.kind().name()).or_default();
        }
        Member { shared: Some(parts), ..self }
    }

    /// Begins to exchange by this session, if state is shared.
    pub(super) async fn begin_exchange(
        &self,
        session: &Session,
        id: i16,
    ) -> Result<Option<Exchange>, ArrayError> {
        let Some(parts) = &self.shared else { return Ok(None) };
        let mut states = self.lock().shared.clone();
        let begun = Exchange::begin(session, id, (parts, self.clock.clone()), &mut states).await;
        self.lock().shared = states;
        begun.map(Some)
    }

    /// Exchanges shared state once. Returns how long to wait before the next time.
    pub(super) async fn share(
        &self,
        session: &Session,
        exchange: &mut Exchange,
    ) -> Result<Duration, ArrayError> {
        let mut states = self.lock().shared.clone();
        let stepped = exchange.step(session, &mut states).await;
        self.lock().shared = states;
        let every = self.shared.as_ref().map_or(PAUSE_MAX, |parts| parts.every);
        Ok(if stepped? { Duration::ZERO } else { every })
    }

    /// Ships and shares what there is when the node ends.
    pub(super) async fn ship_last(
        &self,
        session: &Session,
        shipper: &mut Shipper,
        exchange: Option<&mut Exchange>,
    ) -> Result<(), ArrayError> {
        self.ship(session, shipper).await?;
        let Some(exchange) = exchange else { return Ok(()) };
        let mut states = self.lock().shared.clone();
        exchange.send(session, &mut states, true).await.map(drop)
    }
}
