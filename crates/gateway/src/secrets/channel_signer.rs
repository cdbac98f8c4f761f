//! The publisher's keys, which are in the secrets process, as the channel's repository sees them.

use std::sync::Arc;

use gauntlet_channel::error::Error;
use gauntlet_channel::metadata::{Envelope, RoleName, Root};
use gauntlet_channel::repository::Signer;

use super::{Request, Secrets};

impl Secrets {
    /// Who signs for the channel of the configuration.
    ///
    /// # Errors
    /// A key of the root lies beside the others, or the process does not answer.
    pub(crate) fn channel_signer(self: &Arc<Self>) -> anyhow::Result<Box<dyn Signer>> {
        self.call::<()>(&Request::CheckChannelKeys)?;
        Ok(Box::new(RemoteSigner(self.clone())))
    }

    fn sign_channel(
        &self,
        role: RoleName,
        signed: String,
    ) -> anyhow::Result<Vec<(String, String)>> {
        self.call(&Request::SignChannel { role: role.name().to_owned(), signed })
    }
}

/// Has the secrets process sign.
struct RemoteSigner(Arc<Secrets>);

impl Signer for RemoteSigner {
    fn sign(&self, role: RoleName, root: &Root, envelope: &mut Envelope) -> Result<(), Error> {
        let bytes = envelope.canonical().and_then(|bytes| String::from_utf8(bytes).ok());
        let text = bytes.ok_or_else(|| Error::malformed(role.name(), "no canonical form"))?;
        let refused = |error: anyhow::Error| Error::Refused(format!("{error:#}"));
        let signed = self.0.sign_channel(role, text).map_err(refused)?;
        let named = &root.role(role)?.keyids;
        let ours: Vec<_> = signed.into_iter().filter(|(id, _)| named.contains(id)).collect();
        if ours.is_empty() {
            let role = role.name();
            let why =
                format!("no key of the role {role} in channel_publish.keys that the root names");
            return Err(Error::Refused(why));
        }
        ours.into_iter().for_each(|(id, sig)| envelope.add_signature(id, sig));
        Ok(())
    }

    fn place(&self) -> String {
        "channel_publish.keys".to_owned()
    }
}
