//! Who may come in, how often, and who has to wait: rates, greylisting, and who is let in when the
//! node is nearly full.
//!
//! Clients of `receiver.exempt_networks` and clients that logged in pass all of it. Networks are
//! /24 of IPv4 and /64 of IPv6.

use std::net::IpAddr;
use std::sync::Arc;

use gauntlet_mail::Envelope;
use gauntlet_policy::Rates;
use gauntlet_policy::condition::RateKey;
use gauntlet_store::history::{GreylistDecision, network_key};
use gauntlet_store::{GreylistRules, History};

use crate::config::{Config, GreylistSettings, RateSettings};
use crate::inbound::rates::Window;
use crate::network::Network;

pub mod sharing;

/// Keys remembered in each count.
const KEYS_MAX: usize = 100_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
/// Messages, decayed, from which a network is known.
const KNOWN_FROM: f64 = 3.0;
/// Share of spam up to which a known network is a good one.
const GOOD_SHARE_MAX: f64 = 0.1;

/// Counts clients, networks and senders. The limits are in the settings' [`RateRules`]; counts
/// outlive a reload. Share it as `Arc<RateLimiter>`.
#[derive(Debug)]
pub struct RateLimiter {
    history: Arc<History>,
    connections: Window,
    messages: Window,
    /// What policies ask for: messages of the last hour.
    policy: Window,
    /// Messages of the last hour to listeners for traps.
    traps: Window,
}

/// How often clients may come, and who has to wait.
#[derive(Debug, Clone)]
pub struct RateRules {
    exempt: Vec<Network>,
    rates: RateSettings,
    greylist: GreylistSettings,
}

impl RateRules {
    /// Of these settings.
    ///
    /// # Errors
    /// If a network is malformed.
    pub fn of(config: &Config) -> anyhow::Result<Self> {
        let networks = config.receiver.exempt_networks.iter().map(|n| n.parse::<Network>());
        let exempt = networks
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| anyhow::anyhow!("receiver.exempt_networks: {e}"))?;
        Ok(RateRules { exempt, rates: config.rates.clone(), greylist: config.greylist.clone() })
    }

    /// None of this applies to the client.
    pub fn is_exempt(&self, client: IpAddr) -> bool {
        self.exempt.iter().any(|network| network.contains(client))
    }

    /// How greylisting works, for forgetting clients that did not come again.
    pub fn greylist_rules(&self) -> GreylistRules {
        self.greylist.rules()
    }
}

impl RateLimiter {
    /// A limiter that has counted nothing yet.
    pub fn new(history: Arc<History>) -> Self {
        RateLimiter {
            history,
            connections: Window::shared(MINUTE, KEYS_MAX),
            messages: Window::shared(HOUR, KEYS_MAX),
            policy: Window::shared(HOUR, KEYS_MAX),
            traps: Window::new(HOUR, 1),
        }
    }

    /// The client may open one more session, or the bland text of the 421 that it gets.
    ///
    /// # Errors
    /// The rate that is too high.
    pub fn admit_connection(
        &self,
        rules: &RateRules,
        client: IpAddr,
        now_s: i64,
    ) -> Result<(), &'static str> {
        if rules.is_exempt(client) {
            return Ok(());
        }
        let over = |key: String, max: u32| max > 0 && self.connections.count(&key, now_s) > max;
        if over(format!("c {client}"), rules.rates.client_connections_per_minute) {
            return Err("too many connections a minute from your address");
        }
        if over(network_key(client), rules.rates.network_connections_per_minute) {
            return Err("too many connections a minute from your network");
        }
        Ok(())
    }

    /// The client may send one more message from this sender, or the bland text of the 450 it gets.
    ///
    /// # Errors
    /// The rate that is too high.
    pub fn admit_message(
        &self,
        rules: &RateRules,
        client: IpAddr,
        sender: &str,
        now_s: i64,
    ) -> Result<(), &'static str> {
        if rules.is_exempt(client) {
            return Ok(());
        }
        let over = |key: String, max: u32| max > 0 && self.messages.count(&key, now_s) > max;
        if over(format!("c {client}"), rules.rates.client_messages_per_hour) {
            return Err("too many messages an hour from your address");
        }
        if over(network_key(client), rules.rates.network_messages_per_hour) {
            return Err("too many messages an hour from your network");
        }
        let sender = sender.to_lowercase();
        if !sender.is_empty() && over(format!("s {sender}"), rules.rates.sender_messages_per_hour) {
            return Err("too many messages an hour from this sender");
        }
        Ok(())
    }

    /// Traps may take one more message, or the bland text of the 450.
    ///
    /// # Errors
    /// If they took enough in the last hour.
    pub fn admit_to_traps(&self, per_hour_max: u32, now_s: i64) -> Result<(), &'static str> {
        match self.traps.count("all", now_s) > per_hour_max {
            true => Err("too many messages an hour"),
            false => Ok(()),
        }
    }

    /// How long this client has to wait before it may deliver from this sender to this recipient,
    /// in seconds; none if it may now. A client known for good mail never waits.
    pub async fn wait_for(
        self: &Arc<Self>,
        rules: &RateRules,
        client: IpAddr,
        sender: &str,
        recipient: &str,
        now_s: i64,
    ) -> Option<u32> {
        if !rules.greylist.enabled || rules.is_exempt(client) {
            return None;
        }
        let waits = rules.greylist_rules();
        let (rate_limiter, sender, recipient) =
            (self.clone(), sender.to_owned(), recipient.to_owned());
        let asked = tokio::task::spawn_blocking(move || {
            if rate_limiter.has_good_history(client, now_s) {
                return GreylistDecision::Pass;
            }
            rate_limiter.history.greylist(&waits, client, &sender, &recipient, now_s)
        });
        match asked.await {
            Ok(GreylistDecision::Wait { seconds }) => Some(seconds),
            Ok(GreylistDecision::Pass) | Err(_) => None,
        }
    }

    /// The client's network is known, and for good mail; or the client is exempt.
    pub fn is_good(&self, rules: &RateRules, client: IpAddr, now_s: i64) -> bool {
        rules.is_exempt(client) || self.has_good_history(client, now_s)
    }

    fn has_good_history(&self, client: IpAddr, now_s: i64) -> bool {
        self.history.lookup(&network_key(client), now_s).is_some_and(|known| {
            known.volume() >= KNOWN_FROM && known.spam_share() <= GOOD_SHARE_MAX
        })
    }

    /// Counts a message and says what policies may ask: how many there were in the hour before
    /// `received_at` of its sender, each recipient and its client, this one included. What an
    /// exempt client sends counts by its sender only: an MTA in front of this node brings
    /// everybody's mail, and asking it to come again later only moves the queue there.
    pub fn policy_rates(&self, rules: &RateRules, envelope: &Envelope) -> Rates {
        let mut rates = Rates::default();
        let mut count = |by: RateKey, letter: char, value: String| {
            let count = self.policy.count(&format!("{letter} {value}"), envelope.received_at);
            rates.per_hour.insert((by, value), count);
        };
        if !envelope.mail_from.is_empty() {
            count(RateKey::Sender, 's', envelope.mail_from.to_lowercase());
        }
        if envelope.client_ip.is_some_and(|client| rules.is_exempt(client)) {
            return rates;
        }
        if let Some(client) = envelope.client_ip {
            count(RateKey::Client, 'c', client.to_string());
        }
        let mut recipients: Vec<String> =
            envelope.rcpt_to.iter().map(|to| to.to_lowercase()).collect();
        recipients.sort_unstable();
        recipients.dedup();
        for recipient in recipients {
            count(RateKey::Recipient, 'r', recipient);
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rates: RateSettings) -> (RateLimiter, RateRules, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let history = Arc::new(History::open(folder.path()).unwrap());
        let config = Config { rates, ..Config::default() };
        (RateLimiter::new(history), RateRules::of(&config).unwrap(), folder)
    }

    #[test]
    fn rates_by_client_network_and_sender() {
        let rates = RateSettings {
            client_connections_per_minute: 2,
            network_connections_per_minute: 3,
            client_messages_per_hour: 100,
            network_messages_per_hour: 0,
            sender_messages_per_hour: 2,
        };
        let (limiter, rules, _folder) = limiter(rates);
        let ip = |n: u8| IpAddr::from([192, 0, 2, n]);
        assert!(limiter.admit_connection(&rules, ip(1), 0).is_ok());
        assert!(limiter.admit_connection(&rules, ip(1), 0).is_ok());
        assert!(limiter.admit_connection(&rules, ip(1), 0).unwrap_err().contains("address"));
        assert!(limiter.admit_connection(&rules, ip(2), 0).is_ok());
        assert!(limiter.admit_connection(&rules, ip(3), 0).unwrap_err().contains("network"));
        assert!(limiter.admit_connection(&rules, ip(3), 300).is_ok());
        for _ in 0..100 {
            assert!(
                limiter.admit_connection(&rules, IpAddr::from([127, 0, 0, 1]), 0).is_ok(),
                "exempt"
            );
        }
        assert!(limiter.admit_message(&rules, ip(1), "A@x.example", 0).is_ok());
        assert!(limiter.admit_message(&rules, ip(9), "a@x.example", 0).is_ok());
        assert!(
            limiter.admit_message(&rules, ip(1), "a@X.example", 0).unwrap_err().contains("sender")
        );
        assert!(
            (0..50).all(|_| limiter.admit_message(&rules, ip(1), "", 0).is_ok()),
            "bounces have no sender"
        );
    }

    #[test]
    fn known_senders_are_good_until_they_are_not() {
        let (limiter, rules, _folder) = limiter(RateSettings::default());
        let client = IpAddr::from([192, 0, 2, 1]);
        assert!(!limiter.is_good(&rules, client, 0));
        for _ in 0..5 {
            limiter.history.record(&[network_key(client)], false, 0);
        }
        assert!(limiter.is_good(&rules, client, 0));
        for _ in 0..5 {
            limiter.history.record(&[network_key(client)], true, 0);
        }
        assert!(!limiter.is_good(&rules, client, 0));
    }

    #[test]
    fn policies_see_the_hour_before_the_message() {
        let (limiter, rules, _folder) = limiter(RateSettings::default());
        let mut envelope = Envelope {
            client_ip: Some(IpAddr::from([192, 0, 2, 1])),
            mail_from: "Ann@x.example".into(),
            rcpt_to: vec!["b@y.example".into(), "B@y.example".into()],
            received_at: 7_200,
            ..Envelope::default()
        };
        for _ in 0..4 {
            limiter.policy_rates(&rules, &envelope);
        }
        let rates = limiter.policy_rates(&rules, &envelope);
        let of = |by: RateKey, value: &str| rates.per_hour.get(&(by, value.to_owned())).copied();
        assert_eq!(of(RateKey::Sender, "ann@x.example"), Some(5));
        assert_eq!(of(RateKey::Recipient, "b@y.example"), Some(5), "once a message");
        assert_eq!(of(RateKey::Client, "192.0.2.1"), Some(5));
        envelope.received_at += 2 * HOUR;
        let later = limiter.policy_rates(&rules, &envelope).per_hour;
        assert!(later.values().all(|n| *n == 1), "{later:?}");
        envelope.client_ip = Some(IpAddr::from([127, 0, 0, 1]));
        let ours = limiter.policy_rates(&rules, &envelope).per_hour;
        let keys: Vec<RateKey> = ours.keys().map(|k| k.0).collect();
        assert_eq!(keys, [RateKey::Sender], "an exempt client counts by its sender only");
    }
}
