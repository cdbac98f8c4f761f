//! Opens the files of a message for `gauntlet policy explain` and `test`, as a node does.

use std::sync::OnceLock;

use gauntlet_content::Tree;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::scan::unpacking::{Unpacking, is_ambiguous};
use gauntlet_mail::Message;

use crate::content_process;

/// Starts the process that unpacks when a message has files.
pub(super) struct Unpacker {
    config: Config,
    started: OnceLock<Option<Unpacking>>,
}

impl Unpacker {
    /// With the limits and the malware engines of this configuration.
    pub(super) fn new(config: Config) -> Self {
        Unpacker { config, started: OnceLock::new() }
    }

    /// The files of a message, and everything in them. Empty if it has no files, or if nothing can
    /// be unpacked here, which is said.
    pub(super) fn tree(&self, message: &Message<'_>) -> Tree {
        let asks = !self.config.engine.is_empty();
        if !asks && message.files().is_empty() && !is_ambiguous(message.defects()) {
            return Tree::default();
        }
        let start = || match content_process::start_unpacking(&self.config, 1) {
            Ok(unpacking) => Some(unpacking),
            Err(error) => {
                eprintln!("files are not opened: {error:#}");
                None
            }
        };
        let unpacking = self.started.get_or_init(start);
        unpacking.as_ref().map(|u| u.tree(message, message.raw())).unwrap_or_default()
    }
}
