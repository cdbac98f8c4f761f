//! Answers that are kept.

use std::sync::Arc;
use std::time::Duration;

use gauntlet_web::settings::DnsSettings;
use hickory_resolver::proto::op::Message;
use moka::sync::Cache as Kept;
use tokio::time::Instant;

use crate::dns::message::{self, Key};

/// Answers by their questions; the least used go first.
pub(crate) struct Cache {
    kept: Kept<Key, Arc<Answer>>,
    seconds_max: u32,
}

struct Answer {
    message: Message,
    at: Instant,
    seconds: u32,
}

impl Cache {
    pub(crate) fn new(settings: &DnsSettings) -> Self {
        let seconds_max = settings.cache_seconds_max;
        let kept = Kept::builder()
            .max_capacity(settings.cache_entries_max)
            .time_to_live(Duration::from_secs(seconds_max.into()))
            .build();
        Cache { kept, seconds_max }
    }

    /// An answer whose time is not over, with what is left of its TTLs.
    pub(crate) fn get(&self, key: &Key) -> Option<Message> {
        let answer = self.kept.get(key)?;
        let age = u32::try_from(answer.at.elapsed().as_secs()).unwrap_or(u32::MAX);
        (age < answer.seconds).then(|| message::aged(answer.message.clone(), age))
    }

    /// Keeps an answer, if it may be kept.
    pub(crate) fn put(&self, key: Key, message: &Message) {
        let Some(seconds) = message::time_to_live(message).filter(|seconds| *seconds > 0) else {
            return;
        };
        let seconds = seconds.min(self.seconds_max);
        let answer = Answer { message: message.clone(), at: Instant::now(), seconds };
        self.kept.insert(key, Arc::new(answer));
    }
}
