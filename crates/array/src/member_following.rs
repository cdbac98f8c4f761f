//! What a member does that takes more than one look: upgrades, messages that move, settings.

use crate::database::Session;
use crate::editions::{self, Edition, Kind};
use crate::error::ArrayError;
use crate::member::Member;
use crate::orders::{self, Outcome};
use crate::transfers;

impl Member {
    /// Goes on with an upgrade when it is its turn.
    pub(crate) async fn upgrade(
        &self,
        session: &Session,
        order: i64,
        seconds: u64,
        together: bool,
    ) -> Result<Option<Outcome>, ArrayError> {
        if !together && !orders::is_next_upgrade(session, order).await? {
            return Ok(None);
        }
        let local = self.local.clone();
        let step = tokio::task::spawn_blocking(move || local.upgrade(order, seconds)).await;
        Ok(step.unwrap_or_else(|error| {
            Some(Outcome { is_good: false, text: format!("it failed: {error}") })
        }))
    }

    /// Hands messages of the queue over to another node.
    pub(crate) async fn move_queue(
        &self,
        session: &Session,
        own: i16,
        to: &str,
        ids: Vec<String>,
    ) -> Result<Outcome, ArrayError> {
        let to_whom = transfers::node_of(session, to).await;
        if !matches!(to_whom, Ok(id) if id != own) {
            let text = to_whom.err().map_or_else(
                || "messages do not move to the node that has them".to_owned(),
                |error| error.to_string(),
            );
            return Ok(Outcome { is_good: false, text });
        }
        let ids = if ids.is_empty() { self.local.queued() } else { ids };
        let (mut moved, mut stay) = (0, Vec::new());
        for id in ids {
            let (local, to_whom) = (self.local.clone(), to.to_owned());
            let left = tokio::task::spawn_blocking(move || local.leave(&id, &to_whom)).await;
            match left.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(message) => {
                    transfers::offer(session, own, to, &message).await?;
                    moved += 1;
                }
                Err(why) => stay.push(why),
            }
        }
        let first = stay.first().map(|why| format!(": {why}")).unwrap_or_default();
        let text = match stay.len() {
            0 => format!("{moved} messages are handed over to {to}"),
            n => format!("{moved} messages are handed over to {to}; {n} not{first}"),
        };
        Ok(Outcome { is_good: moved > 0 || stay.is_empty(), text })
    }

    /// Hands over again what is leaving and in no row: the row went with a database that was set
    /// back, or by a deletion of an earlier attempt that came late. Whoever has it already says so.
    pub(crate) async fn offer_again(&self, session: &Session, own: i16) -> Result<(), ArrayError> {
        let local = self.local.clone();
        let leaving = tokio::task::spawn_blocking(move || local.leaving()).await;
        let leaving = leaving.unwrap_or_default();
        if leaving.is_empty() {
            return Ok(());
        }
        let offered = transfers::offered(session, own).await?;
        for (id, to) in leaving {
            let is_gone = transfers::node_of(session, &to).await.is_err();
            if is_gone && session.is_closed() {
                continue;
            }
            let (local, to_whom, text) = (self.local.clone(), to.clone(), id.clone());
            let left = tokio::task::spawn_blocking(move || local.leave(&text, &to_whom)).await;
            let Ok(Ok(message)) = left else { continue };
            if is_gone {
                // It left the array, and takes nothing in any more.
                if transfers::take_back(session, &message.token).await? {
                    tracing::warn!(id, to, "a node left the array: its message goes on from here");
                    let local = self.local.clone();
                    let _done = tokio::task::spawn_blocking(move || local.keep(message.id)).await;
                }
            } else if !offered.contains(&message.token) {
                transfers::offer(session, own, &to, &message).await?;
            }
        }
        Ok(())
    }

    /// Takes in what other nodes hand over.
    pub(crate) async fn take_in(&self, session: &Session, id: i16) -> Result<(), ArrayError> {
        loop {
            let (tokens, bodies): (Vec<String>, Vec<Vec<u8>>) =
                transfers::arriving(session, id).await?.into_iter().unzip();
            if tokens.is_empty() {
                return Ok(());
            }
            let local = self.local.clone();
            let taken = tokio::task::spawn_blocking(move || local.take_in(bodies)).await;
            let mut waits = false;
            for (token, answer) in tokens.iter().zip(taken.unwrap_or_default()) {
                match answer {
                    Some(answer) => transfers::answer(session, token, &answer).await?,
                    None => waits = true,
                }
            }
            if waits {
                return Ok(());
            }
        }
    }

    /// Follows what other nodes say of messages that left this one.
    pub(crate) async fn follow_answers(
        &self,
        session: &Session,
        id: i16,
    ) -> Result<(), ArrayError> {
        let mut tokens = Vec::new();
        let mut answers = Vec::new();
        for (token, message, answer) in transfers::answered(session, id).await? {
            tokens.push(token);
            answers.push((message, answer));
        }
        if tokens.is_empty() {
            return Ok(());
        }
        let local = self.local.clone();
        // Before the rows go: a node that forgets what it was told keeps its messages for ever.
        match tokio::task::spawn_blocking(move || local.left(&answers)).await {
            Ok(()) => transfers::forget(session, &tokens).await,
            Err(_) => Ok(()),
        }
    }

    /// Whether this is the edition of its number that the node has seen: a database that was set
    /// back gives the same numbers again.
    pub(crate) fn is_known(&self, kind: Kind, edition: &Edition) -> bool {
        let path = self.options.folder.join(format!("{}.made", kind.name()));
        let made = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<i64>().ok());
        // Earlier builds did not note it.
        made.is_none_or(|made| made == edition.made_ms)
    }

    /// Notes that the node has this edition.
    ///
    /// # Errors
    /// If that could not be made durable.
    pub(crate) fn note_known(&self, kind: Kind, edition: &Edition) -> Result<(), ArrayError> {
        let path = self.options.folder.join(format!("{}.made", kind.name()));
        let text = edition.made_ms.to_string();
        if std::fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
            return Ok(());
        }
        let written = gauntlet_store::files::write_durably(&path, text.as_bytes());
        Ok(written.map_err(gauntlet_store::StoreError::io(&path, "write"))?)
    }

    /// Takes over the settings.
    pub(crate) async fn follow_settings(&self, session: &Session) -> Result<(), ArrayError> {
        let found = editions::in_force(session, Kind::Settings, &self.own).await?;
        let number = found.as_ref().map_or(0, |edition| edition.number);
        let is_known = found.as_ref().is_none_or(|edition| self.is_known(Kind::Settings, edition));
        let (local, edition) = (self.local.clone(), found.clone());
        let applied = tokio::task::spawn_blocking(move || {
            let before = local.settings();
            let is_same = before == number && is_known;
            (before, if is_same { Ok(()) } else { local.apply_settings(found.as_ref()) })
        });
        let (before, applied) = applied.await.unwrap_or_else(|e| (0, Err(e.to_string())));
        if let (Ok(()), Some(edition)) = (&applied, &edition) {
            self.note_known(Kind::Settings, edition)?;
        }
        let mut state = self.lock();
        match applied {
            Ok(()) => {
                if before != number || !is_known {
                    tracing::info!(number, before, "the array's settings are in force");
                }
                (state.settings, state.settings_error) = (number, String::new());
            }
            Err(error) => {
                if state.settings_error != error {
                    let hint = "this node goes on with what it has";
                    tracing::error!(number, error, hint, "the array's settings are not in force");
                }
                (state.settings, state.settings_error) = (before, error);
            }
        }
        Ok(())
    }
}
