//! Safe search by names: search engines have hosts of their own for it, to which their usual names
//! are led. It works for tunnels, too, since client and server speak with each other as ever.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_mail::url::canonical;

use crate::resolve::Resolve;
use crate::settings::content::{ContentSettings, YouTube};

/// Looks up the safe host in place of the usual one.
pub struct SafeSearchResolver {
    inner: Arc<dyn Resolve>,
    safe_search: bool,
    youtube: YouTube,
}

impl SafeSearchResolver {
    /// A resolver around `inner`; none if the settings have no safe search.
    pub fn new(inner: Arc<dyn Resolve>, settings: &ContentSettings) -> Option<Self> {
        let (safe_search, youtube) = (settings.safe_search, settings.youtube);
        let is_wanted = safe_search || youtube != YouTube::Off;
        is_wanted.then(|| SafeSearchResolver { inner, safe_search, youtube })
    }

    /// The host that is looked up for this one.
    fn safe<'h>(&self, host: &'h str) -> &'h str {
        let youtube = match self.youtube {
            YouTube::Off => None,
            YouTube::Moderate => Some("restrictmoderate.youtube.com"),
            YouTube::Strict => Some("restrict.youtube.com"),
        };
        if let Some(safe) = youtube.filter(|_| YOUTUBE.contains(&host)) {
            return safe;
        }
        match host {
            _ if !self.safe_search => host,
            "www.bing.com" => "strict.bing.com",
            "duckduckgo.com" | "www.duckduckgo.com" => "safe.duckduckgo.com",
            _ if is_google(host) => "forcesafesearch.google.com",
            host => host,
        }
    }
}

/// The names that YouTube documents; others of its names are for pictures and videos.
const YOUTUBE: [&str; 5] = [
    "www.youtube.com",
    "m.youtube.com",
    "youtubei.googleapis.com",
    "youtube.googleapis.com",
    "www.youtube-nocookie.com",
];

/// `www.google.` and a country's domain, or these without `www`.
fn is_google(host: &str) -> bool {
    let bare = host.strip_prefix("www.").unwrap_or(host);
    let is_domain =
        || canonical(&format!("https://{bare}/")).map(|url| url.registrable_domain() == bare);
    bare.starts_with("google.") && is_domain() == Some(true)
}

impl Resolve for SafeSearchResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.inner.resolve(self.safe(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::SystemResolver;

    #[test]
    fn usual_names_lead_to_safe_ones() {
        let settings = ContentSettings {
            safe_search: true,
            youtube: YouTube::Moderate,
            ..ContentSettings::default()
        };
        let inner: Arc<dyn Resolve> = Arc::new(SystemResolver::new(1));
        let resolver = SafeSearchResolver::new(Arc::clone(&inner), &settings).unwrap();
        for (host, safe) in [
            ("www.google.com", "forcesafesearch.google.com"),
            ("www.google.co.uk", "forcesafesearch.google.com"),
            ("google.de", "forcesafesearch.google.com"),
            ("mail.google.com", "mail.google.com"),
            ("www.google.evil.example", "www.google.evil.example"),
            ("www.bing.com", "strict.bing.com"),
            ("duckduckgo.com", "safe.duckduckgo.com"),
            ("m.youtube.com", "restrictmoderate.youtube.com"),
            ("i.ytimg.com", "i.ytimg.com"),
        ] {
            assert_eq!(resolver.safe(host), safe);
        }
        assert!(SafeSearchResolver::new(inner, &ContentSettings::default()).is_none());
    }
}
