//! What all inspectors of a judge share.

use std::sync::Arc;

use gauntlet_phrases::{Count, ScoreOptions};

use super::scan::{Held, ScanDownload};
use crate::settings::content::{ContentSettings, PhraseCount};

/// What all inspectors of a judge share.
pub(super) struct Shared {
    pub(super) settings: ContentSettings,
    pub(super) scanner: Option<Arc<dyn ScanDownload>>,
    pub(super) held: Arc<Held>,
}

impl Shared {
    pub(super) fn score_options(&self) -> ScoreOptions {
        let count = match self.settings.phrase_count {
            PhraseCount::Once => Count::Once,
            PhraseCount::Every => Count::Every,
        };
        ScoreOptions { limit: self.settings.phrase_limit, count }
    }
}
