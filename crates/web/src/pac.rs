//! Proxy auto-configuration: the JavaScript by which browsers learn of the proxy (PAC), also under
//! the name that they look for by themselves (WPAD).

use std::net::{IpAddr, Ipv6Addr};

use gauntlet_mail::Network;
use serde::{Deserialize, Serialize};

/// The media type of the file.
pub const MEDIA_TYPE: &str = "application/x-ns-proxy-autoconfig";

/// Under which paths it is served.
pub const PATHS: [&str; 2] = ["/proxy.pac", "/wpad.dat"];

/// What browsers are told. Hosts without a dot are always reached directly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pac {
    /// Host and port of the proxy; empty for those under which a browser asked for the file.
    pub proxy: String,
    /// Networks whose addresses are reached directly. Names are not looked up for it: every
    /// request would wait for the DNS.
    pub direct_networks: Vec<String>,
    /// Domains that are reached directly, with all below them.
    pub direct_domains: Vec<String>,
    /// Without an answer of the proxy, browsers connect directly, and unfiltered.
    pub fallback: bool,
}

impl Pac {
    /// Whether every value can stand in the script.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |text: &str| Err(format!("{text:?} is no host and port, or no domain"));
        if !self.proxy.is_empty() && !is_proxy(&self.proxy) {
            return wrong(&self.proxy);
        }
        for text in &self.direct_networks {
            text.parse::<Network>().map_err(|e| e.to_string())?;
        }
        match self.direct_domains.iter().find(|domain| !is_domain(domain)) {
            Some(domain) => wrong(domain),
            None => Ok(()),
        }
    }
}

/// What browsers speak with the proxy itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP.
    Plain,
    /// HTTP over TLS.
    Tls,
}

/// The script, which sends browsers to this proxy (`host:port`); none if that is no host and port.
pub fn script(pac: &Pac, proxy: &str, speaks: Speaks) -> Option<String> {
    let proxy = if pac.proxy.is_empty() { proxy } else { &pac.proxy };
    if !is_proxy(proxy) {
        return None;
    }
    let mut script = String::from(
        "function FindProxyForURL(url, host) {\n\
         \x20 host = host.toLowerCase().replace(/\\.$|^\\[|\\]$/g, \"\");\n\
         \x20 var isIPv6 = host.indexOf(\":\") >= 0;\n\
         \x20 if (!isIPv6 && isPlainHostName(host)) return \"DIRECT\";\n",
    );
    for domain in pac.direct_domains.iter().filter(|domain| is_domain(domain)) {
        let domain = domain.trim_matches('.').to_ascii_lowercase();
        script.push_str(&format!(
            "  if (host === \"{domain}\" || dnsDomainIs(host, \".{domain}\")) return \"DIRECT\";\n"
        ));
    }
    let (v4, v6) = conditions(&pac.direct_networks);
    let mut networks = |guard: &str, conditions: &[String]| {
        if !conditions.is_empty() {
            let any = conditions.join(" ||\n      ");
            script.push_str(&format!("  if ({guard} && (\n      {any}\n  )) return \"DIRECT\";\n"));
        }
    };
    // `isInNet` looks names up, so that it is asked about addresses alone.
    networks("/^[0-9]+(\\.[0-9]+){3}$/.test(host)", &v4);
    // Not all browsers have `isInNetEx`.
    networks("isIPv6 && typeof isInNetEx === \"function\"", &v6);
    let fallback = if pac.fallback { "; DIRECT" } else { "" };
    let word = match speaks {
        Speaks::Plain => "PROXY",
        Speaks::Tls => "HTTPS",
    };
    script.push_str(&format!("  return \"{word} {proxy}{fallback}\";\n}}\n"));
    Some(script)
}

/// The conditions for networks of IPv4 and of IPv6.
fn conditions(networks: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for network in networks {
        let (address, bits) = network.trim().split_once('/').unwrap_or((network.trim(), ""));
        match (address.parse(), bits.parse::<u32>().ok()) {
            (Ok(IpAddr::V4(address)), bits) => {
                let bits = bits.unwrap_or(32).min(32);
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                let mask = IpAddr::from(mask.to_be_bytes());
                v4.push(format!("isInNet(host, \"{address}\", \"{mask}\")"));
            }
            (Ok(IpAddr::V6(address)), bits) => {
                let bits = bits.unwrap_or(128).min(128);
                v6.push(format!("isInNetEx(host, \"{address}/{bits}\")"));
            }
            (Err(_), _) => {}
        }
    }
    (v4, v6)
}

/// A host and a port, of which nothing ends the text that they stand in.
fn is_proxy(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match name {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_plain),
    };
    is_host && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|p| p > 0)
}

fn is_domain(text: &str) -> bool {
    text.bytes().all(is_plain) && !text.trim_matches('.').is_empty()
}

fn is_plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pac() -> Pac {
        Pac {
            direct_networks: vec!["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()],
            direct_domains: vec!["Intranet.example.".to_owned()],
            ..Pac::default()
        }
    }

    #[test]
    fn the_script_has_what_the_settings_say() {
        let expected = r#"function FindProxyForURL(url, host) {
  host = host.toLowerCase().replace(/\.$|^\[|\]$/g, "");
  var isIPv6 = host.indexOf(":") >= 0;
  if (!isIPv6 && isPlainHostName(host)) return "DIRECT";
  if (host === "intranet.example" || dnsDomainIs(host, ".intranet.example")) return "DIRECT";
  if (/^[0-9]+(\.[0-9]+){3}$/.test(host) && (
      isInNet(host, "10.0.0.0", "255.0.0.0")
  )) return "DIRECT";
  if (isIPv6 && typeof isInNetEx === "function" && (
      isInNetEx(host, "fd00::/8")
  )) return "DIRECT";
  return "PROXY proxy.example:3128";
}
"#;
        let plain = script(&pac(), "proxy.example:3128", Speaks::Plain);
        assert_eq!(plain.as_deref(), Some(expected));
        let tls = script(&pac(), "proxy.example:3128", Speaks::Tls).unwrap();
        assert_eq!(tls, expected.replace("PROXY ", "HTTPS "));
        let fallback = Pac { proxy: "[::1]:1".to_owned(), fallback: true, ..Pac::default() };
        let script = script(&fallback, "proxy.example:3128", Speaks::Plain).unwrap();
        assert!(script.ends_with("  return \"PROXY [::1]:1; DIRECT\";\n}\n"), "{script}");
    }

    #[test]
    fn nothing_that_a_client_sends_ends_the_text_that_it_stands_in() {
        for host in ["", "a", "a:0", "a:x", "a\":1", "a\\:1", "a;b:1", "a b:1", "u@a:1", "a:1/"] {
            assert_eq!(script(&pac(), host, Speaks::Plain), None, "{host:?}");
        }
    }

    #[test]
    fn values_that_cannot_stand_in_a_script_are_named() {
        assert_eq!(pac().check(), Ok(()));
        for wrong in [
            Pac { proxy: "a".to_owned(), ..Pac::default() },
            Pac { direct_domains: vec!["a\"b".to_owned()], ..Pac::default() },
            Pac { direct_domains: vec![".".to_owned()], ..Pac::default() },
            Pac { direct_networks: vec!["10.0.0.0/33".to_owned()], ..Pac::default() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
