//! Opens the files of a message for `gauntlet policy explain` and `test`, as a node does.

use std::sync::{Arc, OnceLock};

use gauntlet_content::Tree;
use gauntlet_gateway::config::ContentSettings;
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_mail::Message;

use crate::content_process;

/// Starts the process that unpacks when a message has files.
#[derive(Default)]
pub(super) struct Unpacker(OnceLock<Option<Unpacking>>);

impl Unpacker {
    /// The files of a message, and everything in them; within the limits that a node has without a
    /// configuration. Empty if it has no files, or if nothing can be unpacked here, which is said.
    pub(super) fn tree(&self, message: &Message<'_>) -> Tree {
        if message.files().is_empty() {
            return Tree::default();
        }
        let unpacking = self.0.get_or_init(|| {
            let settings = ContentSettings::default();
            let limits = gauntlet_content::process::supervisor::Settings {
                memory_bytes_max: settings.worker_memory_bytes_max,
                ..Default::default()
            };
            match content_process::start(&limits, 1) {
                Ok(pool) => Some(Unpacking::new(&settings, Arc::new(pool))),
                Err(error) => {
                    eprintln!("files are not opened: {error:#}");
                    None
                }
            }
        });
        unpacking.as_ref().map(|u| u.tree(message)).unwrap_or_default()
    }
}
