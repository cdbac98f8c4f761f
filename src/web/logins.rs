//! Logins to the proxy by the node's users: as mail programs log in, with the same limits.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_gateway::Node;
use gauntlet_gateway::config::Config;
use gauntlet_proxy::auth::passwords::Passwords;
use gauntlet_proxy::auth::{LoginError, Logins};

/// The node's users.
struct NodeUsers(Arc<Node>);

impl Passwords for NodeUsers {
    fn check(
        &self,
        client: IpAddr,
        login: String,
        password: String,
    ) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async move {
            let user = self.0.logins().verify(client, login, password).await?;
            Some(user.login.as_str().into())
        })
    }

    fn generation(&self) -> u64 {
        self.0.logins().users().password_changes()
    }
}

/// Who checks logins, if the settings ask for them.
///
/// # Errors
/// If a file of users cannot be used.
pub(super) fn logins(node: &Arc<Node>, config: &Config) -> Result<Option<Arc<Logins>>, LoginError> {
    let settings = &config.proxy.login;
    if !settings.is_on() {
        return Ok(None);
    }
    let users = Box::new(NodeUsers(Arc::clone(node)));
    Ok(Some(Arc::new(Logins::new(settings, Some(users))?)))
}
