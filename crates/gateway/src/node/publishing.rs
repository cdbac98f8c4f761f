//! Who signs what a node publishes in a channel.

use gauntlet_channel::repository::{KeyFolder, Signer};

use super::Node;
use crate::admin::channel_signing::check_keys;

impl Node {
    /// Who signs what this node publishes: the secrets process; without one, the keys themselves.
    ///
    /// # Errors
    /// A key of the root lies beside the others, or the secrets process does not answer.
    pub fn channel_signer(&self) -> anyhow::Result<Box<dyn Signer>> {
        if let Some(secrets) = &self.secrets {
            return secrets.channel_signer();
        }
        let config = self.config();
        check_keys(&config.channel_publish)?;
        Ok(Box::new(KeyFolder::new(&config.channel_publish.keys)))
    }
}
