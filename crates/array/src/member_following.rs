//! What a member does that takes more than one look: upgrades, messages that move, editions.

use std::path::PathBuf;

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

    /// What this node has of the array before it asks: it goes by that without the database, too.
    pub(crate) fn recall_editions(&self) {
        let settings = self.local.settings();
        let since = |kind: Kind| self.noted(kind).map_or(0, |(_, since_ms)| since_ms);
        let mut state = self.lock();
        state.policy = self.known_policy().unwrap_or(0);
        state.policy_since_ms = since(Kind::Policy);
        state.settings = settings;
        state.settings_since_ms = since(Kind::Settings);
    }

    /// The file with the number of the array's policy that this node has.
    fn policy_file(&self) -> PathBuf {
        self.options.folder.join("policy.json")
    }

    fn known_policy(&self) -> Option<i64> {
        std::fs::read(self.policy_file()).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
    }

    /// The file that says which edition of a kind this node has, and since when.
    fn note_file(&self, kind: Kind) -> PathBuf {
        self.options.folder.join(format!("{}.made", kind.name()))
    }

    /// When the edition was made that this node has, by the database's clock, and since when it has
    /// it, by its own; 0 where an earlier build did not note that.
    fn noted(&self, kind: Kind) -> Option<(i64, i64)> {
        let text = std::fs::read_to_string(self.note_file(kind)).ok()?;
        let mut numbers = text.split(' ').map(|word| word.parse().ok());
        let made_ms = numbers.next()??;
        Some((made_ms, numbers.next().flatten().unwrap_or(0)))
    }

    /// Whether this is the edition of its number that the node has seen: a database that was set
    /// back gives the same numbers again.
    fn is_known(&self, kind: Kind, edition: &Edition) -> bool {
        // Earlier builds did not note it.
        self.noted(kind).is_none_or(|(made_ms, _)| made_ms == edition.made_ms)
    }

    /// Notes that the node has this edition. Returns since when, in Unix milliseconds.
    ///
    /// # Errors
    /// If that could not be made durable.
    fn note_known(&self, kind: Kind, edition: &Edition) -> Result<i64, ArrayError> {
        match self.noted(kind) {
            Some((made_ms, since_ms)) if made_ms == edition.made_ms => return Ok(since_ms),
            _ => {}
        }
        let (path, since_ms) = (self.note_file(kind), self.clock.unix_ms());
        let text = format!("{} {since_ms}", edition.made_ms);
        let written = gauntlet_store::files::write_durably(&path, text.as_bytes());
        written.map_err(gauntlet_store::StoreError::io(&path, "write"))?;
        Ok(since_ms)
    }

    /// The array has no edition of this kind for this node any more.
    fn forget_known(&self, kind: Kind) {
        let _it_may_not_be_there = std::fs::remove_file(self.note_file(kind));
    }

    /// Takes over the policy.
    pub(crate) async fn follow_policy(&self, session: &Session) -> Result<(), ArrayError> {
        let known = self.known_policy();
        let found = editions::in_force(session, Kind::Policy, &self.own).await?;
        let Some(edition) = found else {
            // What it has is its own now, after a restart without the database, too.
            let _it_may_not_be_there = std::fs::remove_file(self.policy_file());
            self.forget_known(Kind::Policy);
            let mut state = self.lock();
            (state.policy, state.policy_since_ms) = (0, 0);
            state.policy_error.clear();
            return Ok(());
        };
        let number = edition.number;
        if known != Some(number) || !self.is_known(Kind::Policy, &edition) {
            let (local, wanted) = (self.local.clone(), edition.clone());
            let applied = tokio::task::spawn_blocking(move || local.apply_policy(&wanted)).await;
            if let Err(error) = applied.unwrap_or_else(|error| Err(error.to_string())) {
                let mut state = self.lock();
                if state.policy_error != error {
                    tracing::error!(
                        number,
                        error,
                        "the array's policy is not in force on this node"
                    );
                }
                state.policy_error = error;
                return Ok(());
            }
            tracing::info!(number, "the array's policy is in force");
            let path = self.policy_file();
            let written =
                gauntlet_store::files::write_durably(&path, number.to_string().as_bytes());
            written.map_err(gauntlet_store::StoreError::io(&path, "write"))?;
        }
        let since_ms = self.note_known(Kind::Policy, &edition)?;
        let mut state = self.lock();
        (state.policy, state.policy_since_ms) = (number, since_ms);
        state.policy_error.clear();
        Ok(())
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
        let since_ms = match (&applied, &edition) {
            (Ok(()), Some(edition)) => Some(self.note_known(Kind::Settings, edition)?),
            (Ok(()), None) => {
                self.forget_known(Kind::Settings);
                Some(0)
            }
            (Err(_), _) => None,
        };
        let mut state = self.lock();
        state.settings_since_ms = since_ms.unwrap_or(state.settings_since_ms);
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
