//! What is done with a tunnel whose first bytes are known.

use std::net::IpAddr;
use std::time::Instant;

use crate::client_hello::ClientHello;
use crate::judge::{BlockReason, Decision, Judge, TlsDecision};
use crate::refusal::Refusal;
use crate::request::{WebRequest, bracketed};
use crate::settings::{TlsSettings, TunnelPolicy};
use crate::tls::{HTTP1, HTTP2, Interceptor, Lesson};

/// What is done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Bytes pass as they are.
    Relay(Passed),
    /// It ends.
    End(Refusal),
    /// It carries requests without TLS, which are judged as any others; or it was refused, and each
    /// of them is answered with a page.
    Plain(Option<Refusal>),
    /// It is decrypted, as the server of this name.
    Intercept(String),
    /// It may be another protocol than HTTP, which the server says: it is decrypted, as the server
    /// of this name, unless that takes one of these.
    Ask(String, Vec<Vec<u8>>),
    /// It is decrypted, and every request is answered with a page.
    Page(String, Refusal),
}

/// Why a tunnel passes as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Nothing is decrypted here.
    Undecrypted,
    /// No TLS, or TLS for another protocol than HTTP.
    NotHttp,
    /// A setting names the host.
    Setting,
    /// The judge says so.
    Judge,
    /// The authority may not issue a certificate for it.
    Constraints,
    /// It was learned.
    Learned(Lesson),
}

impl Passed {
    /// The name in the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Passed::Undecrypted => "undecrypted",
            Passed::NotHttp => "not_http",
            Passed::Setting => "bypass",
            Passed::Judge => "bypass_by_rule",
            Passed::Constraints => "bypass_by_constraints",
            Passed::Learned(Lesson::Failures) => "bypass_after_failures",
            Passed::Learned(Lesson::ClientCertificate) => "bypass_for_client_certificate",
        }
    }
}

/// What a plan is made by.
pub(crate) struct Planner<'a> {
    pub(crate) judge: &'a dyn Judge,
    pub(crate) settings: &'a TlsSettings,
    pub(crate) interceptor: Option<&'a Interceptor>,
    /// The CONNECT, or what stands for it.
    pub(crate) web: &'a WebRequest,
    /// The client named the host; else only an address is known.
    pub(crate) is_named: bool,
}

impl Planner<'_> {
    /// The plan for a tunnel that begins with a request of HTTP.
    pub(crate) fn http(&self) -> Plan {
        match self.settings.not_http {
            TunnelPolicy::Allow => Plan::Plain(None),
            TunnelPolicy::Block => Plan::End(Refusal::NotHttp),
        }
    }

    /// The plan for a tunnel that begins with neither TLS nor HTTP.
    pub(crate) fn without_tls(&self) -> Plan {
        match self.settings.not_http {
            TunnelPolicy::Allow => Plan::Relay(Passed::NotHttp),
            TunnelPolicy::Block => Plan::End(Refusal::NotHttp),
        }
    }

    /// The plan for a tunnel that was refused already: a page, if it can be shown.
    pub(crate) fn refused(&self, hello: &ClientHello, refusal: Refusal) -> Plan {
        let name = hello.sni.as_deref().unwrap_or(self.web.host());
        let shows = self.interceptor.is_some_and(|interceptor| {
            speaks_http(hello)
                && self.settings.pages
                && !self.is_exempted(interceptor, name)
                && interceptor.certificates.authority().may_issue(name)
        });
        match shows {
            true => Plan::Page(name.to_owned(), refusal),
            false => Plan::End(refusal),
        }
    }

    /// The plan for a tunnel that begins with TLS.
    pub(crate) fn with_tls(&self, hello: &ClientHello) -> Plan {
        let named = match self.named(hello) {
            Ok(named) => named,
            Err(refusal) => return Plan::End(refusal),
        };
        let by_address = match self.by_address(hello) {
            Ok(by_address) => by_address,
            Err(refusal) => return Plan::End(refusal),
        };
        let web = named.as_ref().unwrap_or(self.web);
        let mut redirects = false;
        for asked in named.iter().chain(&by_address) {
            let (decision, note) = self.judge.request(asked).into_parts();
            let refusal = match decision {
                Decision::Allow | Decision::Inspect(_) | Decision::Noted(..) => continue,
                Decision::Block(reason) => Refusal::Blocked(reason),
                Decision::Warn(reason, warning) => Refusal::Warned(reason, warning),
                Decision::Redirect(_) => {
                    redirects = true;
                    continue;
                }
            };
            return self.refused(hello, refusal.noted(note));
        }
        let is_hidden = hello.ech && self.is_named && web.host() != self.web.host();
        if is_hidden && self.settings.ech == TunnelPolicy::Block {
            return self.refused(hello, Refusal::EncryptedHello);
        }
        let plan = self.decrypts(hello, web);
        match plan {
            // Requests inside would be redirected, and nobody can look inside.
            Plan::Relay(_) if redirects => Plan::End(Refusal::Blocked(redirected())),
            plan => plan,
        }
    }

    /// The request as it would be for the name in the ClientHello, if that is another one.
    fn named(&self, hello: &ClientHello) -> Result<Option<WebRequest>, Refusal> {
        let Some(name) = hello.sni.as_deref().filter(|name| *name != self.web.host()) else {
            return Ok(None);
        };
        let web = self.web.with_host(name).map_err(|_| Refusal::ClientHello)?;
        // Another form of the name would be judged as another host than the server takes it for.
        match web.host() == name {
            true => Ok(Some(web)),
            false => Err(Refusal::ClientHello),
        }
    }

    /// The request as it would be for an address that the ClientHello has in place of a name, which
    /// RFC 6066 section 3 does not permit. Servers may go by it all the same.
    fn by_address(&self, hello: &ClientHello) -> Result<Option<WebRequest>, Refusal> {
        let host = self.web.host().trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let is_other = |address: &IpAddr| host.map(|ip| ip.to_canonical()) != Some(*address);
        let Some(address) = hello.address.map(|ip| ip.to_canonical()).filter(is_other) else {
            return Ok(None);
        };
        let web = self.web.with_host(&bracketed(address)).map_err(|_| Refusal::ClientHello)?;
        Ok(Some(web))
    }

    fn decrypts(&self, hello: &ClientHello, web: &WebRequest) -> Plan {
        match self.decrypts_http(hello, web) {
            plan if speaks_http(hello) => plan,
            Plan::Relay(_) => self.without_tls(),
            // A server that takes none of these may speak HTTP all the same.
            Plan::Intercept(host) => Plan::Ask(host, hello.alpn.clone()),
            plan => plan,
        }
    }

    fn decrypts_http(&self, hello: &ClientHello, web: &WebRequest) -> Plan {
        let Some(interceptor) = self.interceptor else {
            return Plan::Relay(Passed::Undecrypted);
        };
        let host = web.host();
        if self.is_exempted(interceptor, host) {
            return Plan::Relay(Passed::Setting);
        }
        match self.judge.tls(web) {
            TlsDecision::Intercept => {}
            TlsDecision::Block(reason) => return self.refused(hello, Refusal::Blocked(reason)),
            TlsDecision::Bypass if self.is_bypassed_by_both_names(web) => {
                return Plan::Relay(Passed::Judge);
            }
            TlsDecision::Bypass => {}
        }
        if !interceptor.certificates.authority().may_issue(host) {
            return Plan::Relay(Passed::Constraints);
        }
        match interceptor.learned.lesson(web.client, host, Instant::now()) {
            Some(lesson) => Plan::Relay(Passed::Learned(lesson)),
            None => Plan::Intercept(host.to_owned()),
        }
    }

    /// An exemption counts for both names that a client says: else whoever wants to be unseen would
    /// connect to a server of their own with the name of a bank in the ClientHello.
    fn is_exempted(&self, interceptor: &Interceptor, host: &str) -> bool {
        let bypass = &interceptor.bypass;
        bypass.has(host) && (!self.is_named || bypass.has(self.web.host()))
    }

    /// The same for an exemption by the judge, who said so of `web`.
    fn is_bypassed_by_both_names(&self, web: &WebRequest) -> bool {
        web.host() == self.web.host()
            || !self.is_named
            || matches!(self.judge.tls(self.web), TlsDecision::Bypass)
    }
}

/// The client would speak HTTP, as far as it says.
fn speaks_http(hello: &ClientHello) -> bool {
    hello.alpn.is_empty() || hello.alpn.iter().any(|protocol| is_http(protocol))
}

/// Names of HTTP over TLS (IANA's registry of ALPN).
pub(crate) fn is_http(protocol: &[u8]) -> bool {
    [HTTP2, HTTP1, b"http/1.0", b"http/0.9"].contains(&protocol)
}

fn redirected() -> BlockReason {
    let text = "A rule sends this address elsewhere, which a tunnel cannot be.".to_owned();
    BlockReason { rule: "redirect".to_owned(), text }
}
