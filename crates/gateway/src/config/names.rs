//! Hosts, domains, addresses and networks in settings: values that read, but that no mail would
//! ever match, or no connection reach.

use gauntlet_smtp::address;
use gauntlet_verdict::lists::check_entry;

use super::address::server_address;
use super::error::ConfigError;
use super::settings::Config;
use crate::network::Network;

/// Whether this is a host and a port, as next hops are written: `mail.example.org:25`,
/// `192.0.2.1:25`, `[2001:db8::1]:25`.
pub fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
        let is_port = port.bytes().all(|b| b.is_ascii_digit());
        let is_port = is_port && port.parse::<u16>().is_ok_and(|port| port > 0);
        !host.is_empty() && host.bytes().all(name) && is_port
    })
}

fn is_domain(text: &str) -> bool {
    address::is_domain(text.as_bytes())
}

/// Whether this is a domain, or `*.` and the one whose subdomains it means.
fn is_domain_pattern(text: &str) -> bool {
    is_domain(text.strip_prefix("*.").unwrap_or(text))
}

fn is_address(text: &str) -> bool {
    address::is_mailbox(text.as_bytes())
}

/// Whether a list of recipients may hold this: an address, `@domain`, or `postmaster`, which needs
/// no domain (RFC 5321 section 4.5.1).
pub(crate) fn is_recipient(text: &str) -> bool {
    text.eq_ignore_ascii_case("postmaster")
        || text.strip_prefix('@').map_or_else(|| is_address(text), is_domain)
}

/// Refuses names, domains, recipients and next hops that nothing would match or reach.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    check_node(config)?;
    check_ours(config)?;
    check_next_hops(config)?;
    check_networks(config)?;
    check_lists(config)?;
    let odd = config.dns.servers.iter().find(|server| server_address(server).is_none());
    if let Some(server) = odd {
        let message = format!(
            "{server:?} is no address or address:port; write it as 192.0.2.53 or [2001:db8::53]:53"
        );
        return Err(ConfigError::invalid("dns.servers", message));
    }
    Ok(())
}

/// The node's name stands in HELO, Received and Message-ID fields.
fn check_node(config: &Config) -> Result<(), ConfigError> {
    let name = &config.node.name;
    if name.is_empty() || (name.is_ascii() && is_domain(name)) {
        return Ok(());
    }
    let message = format!(
        "{name:?} is no host name; write its full name, letters, digits, '-' and '.' only, such as \
         mx.example.org"
    );
    Err(ConfigError::invalid("node.name", message))
}

/// Whose mail is ours.
fn check_ours(config: &Config) -> Result<(), ConfigError> {
    if let Some(domain) = config.domains.local.iter().find(|domain| !is_domain_pattern(domain)) {
        let mend = match domain.trim().trim_start_matches('@').trim_end_matches('.') {
            "*" => {
                "name each domain; \"*.example.org\" takes the subdomains of one, and an empty list \
                 every domain (on loopback addresses only)"
                    .to_owned()
            }
            plain if is_domain_pattern(plain) => format!("write {plain:?}"),
            _ => "write it as \"example.org\", or \"*.example.org\" for the subdomains".to_owned(),
        };
        let message = format!("{domain:?} is no domain, and no mail would be for it; {mend}");
        return Err(ConfigError::invalid("domains.local", message));
    }
    if let Some(odd) = config.recipients.known.iter().find(|known| !is_recipient(known)) {
        let message = format!(
            "{odd:?} is no address, and no mail would be for it; write it as \"ann@example.org\", or \
             \"@example.org\" for all of a domain"
        );
        return Err(ConfigError::invalid("recipients.known", message));
    }
    Ok(())
}

/// Where mail goes, and when it is tried again.
fn check_next_hops(config: &Config) -> Result<(), ConfigError> {
    let route = &config.route;
    let single = [("route.next_hop", &route.next_hop), ("route.smart_host", &route.smart_host)];
    let single = single.into_iter().filter(|(_, host)| !host.is_empty());
    let hosts = config.next_hop.iter().flat_map(|hop| &hop.hosts);
    for (key, host) in single.chain(hosts.map(|host| ("next_hop.hosts", host))) {
        if !is_host_and_port(host) {
            let message =
                format!("{host:?} is no host and port; write it as \"mail.example.org:25\"");
            return Err(ConfigError::invalid(key, message));
        }
    }
    for pattern in config.next_hop.iter().flat_map(|hop| &hop.r#for) {
        if is_domain_pattern(pattern) || is_address(pattern) {
            continue;
        }
        let mend = match pattern.trim() {
            "*" => "what no table takes goes where route.next_hop and route.smart_host say",
            _ => "write it as \"example.org\", \"*.example.org\" or \"boss@example.org\"",
        };
        let message = format!("{pattern:?} is no domain and no address; {mend}");
        return Err(ConfigError::invalid("next_hop.for", message));
    }
    if config.sender.retry_seconds.contains(&0) {
        let message = "has a 0: mail would be tried without a pause; use 1 at least";
        return Err(ConfigError::invalid("sender.retry_seconds", message));
    }
    Ok(())
}

/// Senders and hosts that are always ham or spam.
fn check_lists(config: &Config) -> Result<(), ConfigError> {
    let lists = [("lists.allow", &config.lists.allow), ("lists.block", &config.lists.block)];
    for (key, entries) in lists {
        // Blank entries and notes are skipped when the list is read.
        let entries = entries.iter().map(|entry| entry.trim());
        let mut entries = entries.filter(|entry| !entry.is_empty() && !entry.starts_with('#'));
        if let Some(error) = entries.find_map(|entry| check_entry(entry).err()) {
            return Err(ConfigError::invalid(key, error.to_string()));
        }
    }
    Ok(())
}

/// Networks in CIDR form, of every setting that has some and of no other check.
fn check_networks(config: &Config) -> Result<(), ConfigError> {
    let of_listeners = config.listener.iter().flat_map(|listener| {
        [
            ("listener.networks", &listener.networks),
            ("listener.proxy_from", &listener.proxy_from),
            ("listener.xclient_from", &listener.xclient_from),
        ]
    });
    let of_services = config.service.iter().flat_map(|service| {
        [
            ("service.networks", &service.networks),
            ("service.outbound_networks", &service.outbound_networks),
        ]
    });
    let of_node = [
        ("receiver.exempt_networks", &config.receiver.exempt_networks),
        ("facts.our_networks", &config.facts.our_networks),
    ];
    for (key, networks) in of_listeners.chain(of_services).chain(of_node) {
        if let Some(problem) = networks.iter().find_map(|n| n.parse::<Network>().err()) {
            return Err(ConfigError::invalid(key, problem.to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::Loaded;

    /// What is wrong with this file.
    fn said(text: &str) -> String {
        let path = std::path::Path::new("gauntlet.toml");
        Loaded::load_text(text, path, Vec::new()).expect_err(text).to_string()
    }

    #[test]
    fn what_no_mail_would_match_is_refused_with_the_mend() {
        for (text, wanted) in [
            ("[domains]\nlocal = [\"@ours.test\"]", "write \"ours.test\""),
            ("[domains]\nlocal = [\"ours.test \"]", "write \"ours.test\""),
            ("[domains]\nlocal = [\"ours.test.\"]", "write \"ours.test\""),
            ("[domains]\nlocal = [\"*\"]", "name each domain"),
            ("[domains]\nlocal = [\"\"]", "is no domain"),
            ("[recipients]\nknown = [\"ann\"]", "recipients.known: \"ann\" is no address"),
            ("[recipients]\nknown = [\"@\"]", "is no address"),
            ("[recipients]\nknown = [\" ann@ours.test\"]", "is no address"),
            ("[[next_hop]]\nfor = [\"a b\"]\nhosts = [\"a:25\"]", "next_hop.for: \"a b\""),
            ("[[next_hop]]\nfor = [\"*\"]\nhosts = [\"a:25\"]", "route.next_hop"),
            ("[[next_hop]]\nfor = [\"a.test\"]\nhosts = [\"a\"]", "next_hop.hosts: \"a\" is no"),
            ("[route]\nnext_hop = \"mail.example.org\"", "route.next_hop: \"mail.example.org\" is"),
            ("[route]\nnext_hop = \"127.0.0.1:99999\"", "is no host and port"),
            ("[route]\nsmart_host = \"smart:0\"", "route.smart_host: \"smart:0\" is no host"),
            ("[sender]\nretry_seconds = [60, 0]", "sender.retry_seconds: has a 0"),
            ("[node]\nname = \"bad name\"", "node.name: \"bad name\" is no host name"),
            ("[dns]\nservers = [\"not an ip\"]", "dns.servers: \"not an ip\" is no address"),
            ("[[listener]]\nnetworks = [\"10.0.0.0/33\"]", "listener.networks: \"10.0.0.0/33\""),
            ("[receiver]\nexempt_networks = [\"x\"]", "receiver.exempt_networks: \"x\""),
            ("[lists]\nallow = [\"@com\"]", "lists.allow: the list entry \"@com\" means every"),
            ("[lists]\nblock = [\"0.0.0.0/0\"]", "lists.block: the list entry \"0.0.0.0/0\" is a"),
            ("[facts]\nour_networks = [\"x\"]", "facts.our_networks: \"x\""),
        ] {
            let error = said(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn what_mail_can_match_is_taken() {
        let text = "[node]\nname = \"mx_1.example.org\"\n[domains]\nlocal = [\"example.org\", \
                    \"*.example.org\", \"localhost\", \"bücher.example\", \"[192.0.2.1]\"]\n\
                    [recipients]\nknown = [\"ann@example.org\", \"@example.org\", \"postmaster\", \
                    \"\\\"a b\\\"@example.org\"]\n[route]\nnext_hop = \"[::1]:25\"\nsmart_host = \
                    \"smart:587\"\n[[next_hop]]\nfor = [\"*.example.org\", \"boss@example.org\"]\n\
                    hosts = [\"192.0.2.1:25\", \"mail_1.example.org:2525\"]\n[dns]\nservers = \
                    [\"127.0.0.1\", \"[::1]:54\"]\n";
        let loaded = Loaded::load_text(text, std::path::Path::new("gauntlet.toml"), Vec::new());
        assert_eq!(loaded.map(|_| ()), Ok(()));
    }
}
