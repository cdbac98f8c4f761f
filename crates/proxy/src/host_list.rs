//! A judge that blocks hosts by a list, subdomains included.

use std::collections::HashSet;
use std::io::{self, BufRead, Read};

use gauntlet_mail::url::canonical;

use crate::judge::{BlockReason, Decision, Judge};
use crate::request::WebRequest;

/// Bytes of a line; longer ones name no host.
const LINE_BYTES_MAX: u64 = 1024;

/// Hosts that are blocked.
#[derive(Debug, Default)]
pub struct HostList {
    name: String,
    hosts: HashSet<String>,
}

impl HostList {
    /// Reads one host a line; empty lines and what follows `#` do not count. A line in the form of
    /// `/etc/hosts` (`0.0.0.0 example.com`) counts by its last word.
    ///
    /// # Errors
    /// If reading fails, or a line names no host.
    pub fn read(name: &str, mut input: impl BufRead) -> io::Result<Self> {
        let mut hosts = HashSet::new();
        let mut line = String::new();
        for number in 1u64.. {
            line.clear();
            if (&mut input).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                break;
            }
            let text = line.split('#').next().unwrap_or_default();
            let Some(word) = text.split_whitespace().next_back() else { continue };
            let Some(host) = host_of(word) else {
                let text = format!("{name}, line {number}: {word:?} is no host name");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            hosts.insert(host);
        }
        Ok(HostList { name: name.to_owned(), hosts })
    }

    /// Hosts in the list.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Nothing is blocked.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The entry that blocks a host: itself or a domain above it.
    fn entry(&self, host: &str) -> Option<&str> {
        let dots = host.match_indices('.').map(|(dot, _)| &host[dot + 1..]);
        std::iter::once(host).chain(dots).find_map(|name| self.hosts.get(name)).map(String::as_str)
    }
}

fn host_of(word: &str) -> Option<String> {
    if word.contains(['/', '@', '?']) {
        return None;
    }
    Some(canonical(&format!("http://{word}/"))?.host().to_owned())
}

impl Judge for HostList {
    fn request(&self, request: &WebRequest) -> Decision {
        match self.entry(request.url.host()) {
            None => Decision::Allow,
            Some(entry) => Decision::Block(BlockReason {
                rule: format!("{}: {entry}", self.name),
                text: "This site is on a list of sites that are not allowed here.".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_those_below_it_are_found() {
        let text = "# ads\nads.example\n0.0.0.0 Tracker.Example.com # hosts\n\n192.0.2.1\n";
        let list = HostList::read("ads", text.as_bytes()).unwrap();
        assert_eq!(list.len(), 3);
        assert_eq!(list.entry("a.b.ads.example"), Some("ads.example"));
        assert_eq!(list.entry("tracker.example.com"), Some("tracker.example.com"));
        assert_eq!(list.entry("example.com"), None);
        assert_eq!(list.entry("bads.example"), None);
    }

    #[test]
    fn a_line_that_names_no_host_is_named() {
        let error = HostList::read("l", &b"ok.example\nhttp://x/y\n"[..]).unwrap_err().to_string();
        assert_eq!(error, "l, line 2: \"http://x/y\" is no host name");
    }
}
