//! How many corrections the clients of a service may send.
//!
//! What one reporter says counts 20 messages at most; but who a reporter is, the client says
//! (`User:`). So names are bounded: so many users of one client are counted by themselves, all
//! others together. And so is the number of messages an hour, of a client and of a user.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use crate::config::ServiceSettings;
use crate::inbound::rates::Window;
use crate::memory::network_of;

const HOUR: i64 = 3_600;
/// Keys remembered in each count.
const KEYS_MAX: usize = 20_000;
/// Clients whose users are remembered; users of further ones are counted together.
const CLIENTS_MAX: usize = 1_000;

/// Counts the corrections of clients.
#[derive(Debug)]
pub(super) struct LearnLimits {
    by_client: Window,
    by_user: Window,
    hasher: RandomState,
    /// Users of each client that are counted by themselves.
    users: Mutex<HashMap<IpAddr, HashSet<u64>>>,
}

impl Default for LearnLimits {
    fn default() -> Self {
        LearnLimits {
            by_client: Window::new(HOUR, KEYS_MAX),
            by_user: Window::new(HOUR, KEYS_MAX),
            hasher: RandomState::new(),
            users: Mutex::default(),
        }
    }
}

impl LearnLimits {
    /// Counts one more message; the user that it counts for, if that is one of those with a count
    /// of their own. A client of IPv6 is its /64; all that come by a socket of the file system are
    /// one.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(super) fn admit<'a>(
        &self,
        settings: &ServiceSettings,
        client: Option<IpAddr>,
        user: Option<&'a str>,
        now_s: i64,
    ) -> Result<Option<&'a str>, &'static str> {
        let client = match client.map(|ip| ip.to_canonical()) {
            Some(ip @ IpAddr::V4(_)) => ip,
            Some(ip @ IpAddr::V6(_)) => network_of(ip),
            None => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        let most = settings.learn_per_client_per_hour_max;
        if self.by_client.count(&client.to_string(), now_s) > most {
            return Err(
                "this client sent too many corrections this hour (learn_per_client_per_hour_max)",
            );
        }
        let user = user.filter(|user| {
            let name = self.hasher.hash_one(user);
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            if users.len() >= CLIENTS_MAX && !users.contains_key(&client) {
                return false;
            }
            let own = users.entry(client).or_default();
            let known = own.contains(&name);
            known || (own.len() < settings.learn_users_per_client_max as usize && own.insert(name))
        });
        let key = format!("{client} {}", user.unwrap_or_default());
        if self.by_user.count(&key, now_s) > settings.learn_per_user_per_hour_max {
            return Err(
                "this user sent too many corrections this hour (learn_per_user_per_hour_max)",
            );
        }
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_bounded_and_so_is_what_they_teach() {
        let settings = ServiceSettings {
            learn_per_client_per_hour_max: 12,
            learn_per_user_per_hour_max: 4,
            learn_users_per_client_max: 2,
            ..ServiceSettings::default()
        };
        let learn_limits = LearnLimits::default();
        let (one, two) = ("192.0.2.1".parse().ok(), "192.0.2.2".parse().ok());
        let ask = |client, user, at| learn_limits.admit(&settings, client, user, at);
        assert_eq!(ask(one, Some("ann"), 0), Ok(Some("ann")));
        assert_eq!(ask(one, Some("bob"), 0), Ok(Some("bob")));
        assert_eq!(ask(one, Some("eve"), 0), Ok(None), "a third is counted with all others");
        assert_eq!(ask(two, Some("eve"), 0), Ok(Some("eve")), "another client has its own");
        for n in 0..3 {
            assert!(ask(one, Some("ann"), 0).is_ok(), "{n}");
        }
        assert!(ask(one, Some("ann"), 0).unwrap_err().contains("user"));
        for name in ["x", "y", "z"] {
            assert_eq!(ask(one, Some(name), 0), Ok(None));
        }
        assert!(ask(one, None, 0).unwrap_err().contains("user"), "all others are one");
        assert!(ask(one, Some("bob"), 0).is_ok());
        assert!(ask(one, Some("bob"), 0).unwrap_err().contains("client"));
        assert_eq!(ask(one, Some("ann"), 3 * HOUR), Ok(Some("ann")));
    }
}
