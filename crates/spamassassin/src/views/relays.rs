//! The relays of a message as SpamAssassin parses the Received fields: newest first, split into
//! trusted and untrusted, internal and external relays.

mod formats;
pub(crate) mod ip;
mod networks;
mod pattern;
mod received;
mod words;

use std::borrow::Cow;
use std::net::IpAddr;

use self::received::Outcome;
use super::mime::MimeTree;
use super::perl::trim;

pub(crate) use self::ip::{addresses_in, is_private};
pub use self::networks::{Networks, TrustSettings};

/// Most Received fields that are parsed.
const RELAYS_MAX: usize = 500;

/// One relay: a client that delivered the message to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relay {
    /// Address of the client, as text.
    pub ip: Vec<u8>,
    /// The parsed address, if it is valid.
    pub address: Option<IpAddr>,
    /// The client's name by reverse DNS; empty if not known.
    pub rdns: Vec<u8>,
    /// The client's HELO name.
    pub helo: Vec<u8>,
    /// The server that received the message.
    pub by: Vec<u8>,
    /// The answer of the ident protocol (RFC 1413).
    pub ident: Vec<u8>,
    /// Envelope sender, if the field names one.
    pub envfrom: Option<Vec<u8>>,
    /// The receiver's queue id of the message.
    pub id: Vec<u8>,
    /// How the client authenticated; empty if it did not.
    pub auth: Vec<u8>,
    /// The address is not on the public internet.
    pub private: bool,
    /// The receiver looks names up and found none.
    pub no_reverse_dns: bool,
    /// There is no name, but the receiver may not have looked one up.
    pub rdns_not_in_headers: bool,
    /// Received by an internal relay.
    pub internal: bool,
    /// A mail submission server for users: all before it is trusted.
    pub msa: bool,
}

impl Relay {
    /// The client's name by reverse DNS in lower case.
    pub fn lc_rdns(&self) -> Vec<u8> {
        self.rdns.to_ascii_lowercase()
    }

    /// The client's HELO name, in lower case.
    pub fn lc_helo(&self) -> Vec<u8> {
        self.helo.to_ascii_lowercase()
    }

    /// The receiving server, in lower case.
    pub fn lc_by(&self) -> Vec<u8> {
        self.by.to_ascii_lowercase()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let envfrom = self.envfrom.as_deref().filter(|f| *f != b"0").unwrap_or_default();
        let internal: &[u8] = if self.internal { b"1" } else { b"0" };
        let msa: &[u8] = if self.msa { b"1" } else { b"0" };
        let fields: [(&[u8], &[u8]); 10] = [
            (b"[ ip=", &self.ip),
            (b" rdns=", &self.rdns),
            (b" helo=", &self.helo),
            (b" by=", &self.by),
            (b" ident=", &self.ident),
            (b" envfrom=", envfrom),
            (b" intl=", internal),
            (b" id=", &self.id),
            (b" auth=", &self.auth),
            (b" msa=", msa),
        ];
        for (name, value) in fields {
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b" ]");
    }
}

/// All relays of a message, newest first.
#[derive(Debug, Default)]
pub struct Relays {
    all: Vec<Relay>,
    /// Number of trusted relays: trust that has ended does not begin again.
    trusted: usize,
    /// Number of internal relays, which are trusted too.
    internal: usize,
    /// Number of fields that could not be parsed.
    pub unparseable: u32,
    /// Index among the Received fields of the last trusted one; -1 if there is none.
    pub last_trusted_index: i32,
    /// Index among the Received fields of the last internal one; -1 if there is none.
    pub last_internal_index: i32,
    /// `X-Spam-Relays-Trusted`: the pseudo header that rules read.
    pub trusted_text: Vec<u8>,
    /// `X-Spam-Relays-Untrusted`, in the same form.
    pub untrusted_text: Vec<u8>,
    /// `X-Spam-Relays-Internal`, in the same form.
    pub internal_text: Vec<u8>,
    /// `X-Spam-Relays-External`, in the same form.
    pub external_text: Vec<u8>,
}

/// A relay's address as a label of DNS lists, e.g. `4.3.2.1`; empty if it has none.
pub(crate) fn reversed_ip(relay: &Relay) -> Vec<u8> {
    relay.address.map_or_else(Vec::new, |address| ip::reversed(address).into_bytes())
}

fn text_of(relays: &[Relay]) -> Vec<u8> {
    let mut out = Vec::with_capacity(relays.len() * 160);
    for relay in relays {
        if !out.is_empty() {
            out.push(b' ');
        }
        relay.write(&mut out);
    }
    out
}

/// State of trust while the relays are walked.
struct Walk {
    trusted: bool,
    internal: bool,
    found_msa: bool,
}

impl Relays {
    /// Relays in front of the first that is not trusted, the nearest first.
    pub fn trusted(&self) -> &[Relay] {
        &self.all[..self.trusted]
    }

    /// All relays behind the trusted ones, the nearest first.
    pub fn untrusted(&self) -> &[Relay] {
        &self.all[self.trusted..]
    }

    /// Internal relays, of the receiving site.
    pub fn internal(&self) -> &[Relay] {
        &self.all[..self.internal]
    }

    /// All relays behind the internal ones, the nearest first.
    pub fn external(&self) -> &[Relay] {
        &self.all[self.internal..]
    }

    /// All relays, the nearest to us first.
    pub fn all(&self) -> &[Relay] {
        &self.all
    }

    /// Parses the relays of a message.
    pub fn read(tree: &MimeTree<'_>, settings: &TrustSettings) -> Relays {
        let mut relays =
            Relays { last_trusted_index: -1, last_internal_index: -1, ..Relays::default() };
        let mut walk = Walk { trusted: true, internal: true, found_msa: false };
        let mut sender: Option<Vec<u8>> = None;
        let mut may_fetch = true;
        for line in lines(tree, settings) {
            let saved = sender.take();
            let mut relay = match received::read(&line) {
                Outcome::Relay(relay) => *relay,
                other => {
                    match other {
                        Outcome::Unknown => relays.unparseable += 1,
                        Outcome::Scanner(from) => sender = from,
                        // Only trusted relays came before.
                        Outcome::Fetched if may_fetch => {
                            relays.all.clear();
                            (relays.trusted, relays.internal) = (0, 0);
                        }
                        _ => {}
                    }
                    relays.last_trusted_index += i32::from(walk.trusted);
                    relays.last_internal_index += i32::from(walk.internal);
                    continue;
                }
            };
            if saved.as_ref().is_some_and(|s| !s.is_empty() && s != b"0") {
                relay.envfrom = saved;
            }
            walk.step(&mut relay, settings);
            relay.internal = walk.internal;
            relays.last_trusted_index += i32::from(walk.trusted);
            relays.last_internal_index += i32::from(walk.internal);
            may_fetch = walk.trusted;
            relays.internal += usize::from(walk.internal);
            relays.trusted += usize::from(walk.trusted);
            relays.all.push(relay);
        }
        relays.trusted_text = text_of(relays.trusted());
        relays.untrusted_text = text_of(relays.untrusted());
        if relays.internal == relays.trusted {
            relays.internal_text.clone_from(&relays.trusted_text);
            relays.external_text.clone_from(&relays.untrusted_text);
        } else {
            relays.internal_text = text_of(relays.internal());
            relays.external_text = text_of(relays.external());
        }
        relays
    }
}

/// The fields to read: Received, then those that name only an address.
fn lines<'t>(
    tree: &'t MimeTree<'_>,
    settings: &'t TrustSettings,
) -> impl Iterator<Item = Cow<'t, [u8]>> {
    let root = tree.root();
    let received = root.fields.iter().filter(|f| f.is("received")).take(RELAYS_MAX);
    let originating = settings.originating_ip_headers.iter().filter_map(|name| {
        let address = ip::any_address(trim(root.value(name)))?;
        Some(Cow::Owned([b"from X-Originating-IP: ", address].concat()))
    });
    received.map(|f| Cow::Borrowed(f.value())).chain(originating)
}

impl Walk {
    /// Whether the relay is trusted and internal, given those before it.
    fn step(&mut self, relay: &mut Relay, settings: &TrustSettings) {
        if !self.trusted || self.found_msa {
            return;
        }
        let authenticated = !relay.auth.is_empty();
        let Some((trusted, internal)) = settings.networks() else {
            // Nothing configured: private addresses and authenticated clients extend trust.
            if !relay.private && !authenticated {
                self.trusted = false;
                self.internal = false;
            }
            return;
        };
        let within = |networks: &Networks| relay.address.is_some_and(|a| networks.contains(a));
        if !authenticated && !within(trusted) {
            self.trusted = false;
            self.internal = false;
            return;
        }
        if !authenticated && !within(internal) {
            self.internal = false;
        }
        if within(&settings.msa) {
            self.found_msa = true;
            relay.msa = true;
        }
    }
}
