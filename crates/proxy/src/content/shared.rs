//! What all inspectors of a judge share.

use std::sync::Arc;

use gauntlet_phrases::{Count, ScoreOptions};

use super::scan::{Held, ScanDownload};
use super::shadow::PageShadow;
use crate::settings::content::{ContentSettings, PhraseCount};

/// What all inspectors of a judge share.
pub(super) struct Shared {
    pub(super) settings: ContentSettings,
    pub(super) scanner: Option<Arc<dyn ScanDownload>>,
    pub(super) held: Arc<Held>,
    /// Lists of phrases that are tried on a share of the pages.
    pub(super) shadow: PageShadow,
}

impl Shared {
    /// What looks at downloads, if it has anything to look for.
    pub(super) fn scanner(&self) -> Option<&Arc<dyn ScanDownload>> {
        self.scanner.as_ref().filter(|scanner| scanner.is_on())
    }

    pub(super) fn score_options(&self) -> ScoreOptions {
        let count = match self.settings.phrase_count {
            PhraseCount::Once => Count::Once,
            PhraseCount::Every => Count::Every,
        };
        ScoreOptions { limit: self.settings.phrase_limit, count }
    }
}
