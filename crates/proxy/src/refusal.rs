//! Every reason why a client does not get what it asked for: a name that the log, the counters and
//! the page share, the status, and the error of RFC 9209.

mod certificate;

use std::net::IpAddr;

use hyper::StatusCode;

use crate::reason::Note;
pub use crate::reason::{BlockReason, Warning};
pub use certificate::CertificateFault;

/// What a client may log in by: values of `Proxy-Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenges(pub Vec<String>);

/// Why a request is not answered by the server that it is for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The judge blocked it.
    #[error("{}", .0.text)]
    Blocked(BlockReason),
    /// The judge warns, and the person may go on.
    #[error("{}", .0.text)]
    Warned(BlockReason, Warning),
    /// One of the others, found later than the request was judged: with what the log and the page
    /// say about it instead.
    #[error("{0}")]
    Noted(Box<Refusal>, Box<Note>),
    /// The request breaks the protocol, or different programs would read it differently.
    #[error("The request is malformed: {0}.")]
    Malformed(&'static str),
    /// A URI beyond `limits.uri_bytes_max`.
    #[error("The address is longer than {0} bytes.")]
    UriTooLong(usize),
    /// A header beyond `limits.header_fields_max` or `limits.header_bytes_max`.
    #[error("The request has too many or too large header fields.")]
    HeaderTooLarge,
    /// TRACE would show a server's credentials to scripts.
    #[error("The method {0} is not passed on.")]
    Method(String),
    /// Not `http`, or an expectation or coding that is not known.
    #[error("The proxy does not support {0}.")]
    Unsupported(&'static str),
    /// A port out of `connect_ports` or `plain_ports`.
    #[error("Port {0} may not be reached through this proxy.")]
    Port(u16),
    /// The server's addresses are not of the internet, and the settings do not allow them. The
    /// first of them is for the log alone: the page is read by people outside, too.
    #[error("The server is in a network that may not be reached through this proxy.")]
    Destination(IpAddr),
    /// The name does not have the address that the client connected to
    /// (`transparent.verify_names`).
    #[error("The name does not belong to the server that was asked.")]
    NameMismatch,
    /// The request has come through this proxy before.
    #[error("The request came back to this proxy: it would go in circles.")]
    Loop,
    /// The name has no address, or the DNS gave no answer.
    #[error("The name of the server could not be found.")]
    NameNotFound,
    /// Look-up and connect together took too long.
    #[error("The server could not be reached in time.")]
    ConnectTimeout,
    /// The server refused the connection.
    #[error("The server refused the connection.")]
    ConnectRefused,
    /// No route, or another error of the network.
    #[error("The server could not be reached.")]
    Unreachable,
    /// No response in time.
    #[error("The server did not answer in time.")]
    ResponseTimeout,
    /// The server closed the connection without a response.
    #[error("The server closed the connection without an answer.")]
    Closed,
    /// The response breaks the protocol.
    #[error("The answer of the server could not be understood.")]
    Protocol,
    /// The body of the response has a transfer coding other than `chunked`.
    #[error("The answer of the server is coded in a way that was not asked for.")]
    TransferCoding,
    /// The next proxy refused a tunnel or our credentials.
    #[error("The next proxy refused the request with status {0}.")]
    Upstream(u16),
    /// An inspector held more than `limits.held_bytes_max`.
    #[error("The content is too large to be inspected.")]
    TooLargeToInspect,
    /// The client's body was not as it should be, or did not come.
    #[error("The rest of the request did not arrive.")]
    RequestBody,
    /// The client's address is in none of `client_networks`.
    #[error("Your address may not use this proxy.")]
    Client,
    /// Nobody has logged in, or nothing that was offered says who it is.
    #[error("You have to log in to use this proxy.")]
    Login(Challenges),
    /// Login or password are wrong.
    #[error("This login and password are not known.")]
    LoginFailed(Challenges),
    /// More failed logins than `login.failures_max` from the client's address; within so many
    /// seconds.
    #[error("Too many logins from your address have failed.")]
    LoginLimit(u64),
    /// More connections than `limits.connections_max` or `limits.client_connections_max`.
    #[error("There are too many connections.")]
    Connections,
    /// The server's certificate does not prove who it is.
    #[error("The certificate of the server cannot be trusted: {0}.")]
    Certificate(CertificateFault),
    /// The server and the proxy have no TLS in common, or the server breaks its rules.
    #[error("No secure connection to the server could be made.")]
    TlsHandshake,
    /// The server ended the handshake by this alert.
    #[error("The server refused a secure connection (alert {0}).")]
    TlsAlert(String),
    /// The server asks for a certificate of the client, which the proxy does not have.
    #[error("The server asks for a certificate of yours, which this proxy cannot show.")]
    ClientCertificate,
    /// A request for another server than the one of its connection (RFC 9110 section 15.5.20).
    #[error("The request is for another server than its connection.")]
    Misdirected,
    /// A tunnel whose ClientHello is malformed, too large, or does not come.
    #[error("The tunnel begins with TLS that is malformed or incomplete.")]
    ClientHello,
    /// A tunnel whose ClientHello is encrypted.
    #[error("The name of the server is encrypted, so that it cannot be checked.")]
    EncryptedHello,
    /// A tunnel that carries no HTTP over TLS.
    #[error("The tunnel carries something that cannot be inspected.")]
    NotHttp,
    /// The client broke the handshake with us off: it may not know our authority.
    #[error("The client ended the secure connection to this proxy.")]
    ClientHandshake,
}

impl Refusal {
    /// The same with what a judge says about it, if it says anything.
    pub(crate) fn noted(self, note: Note) -> Self {
        match note == Note::default() {
            true => self,
            false => Refusal::Noted(Box::new(self), Box::new(note)),
        }
    }

    /// The refusal itself, for who has kept the note.
    pub(crate) fn without_note(self) -> Self {
        match self {
            Refusal::Noted(refusal, _) => *refusal,
            refusal => refusal,
        }
    }

    /// The name in counters and in the log.
    pub fn name(&self) -> &'static str {
        match self {
            Refusal::Blocked(_) => "blocked",
            Refusal::Warned(..) => "warned",
            Refusal::Noted(refusal, _) => refusal.name(),
            Refusal::Malformed(_) => "malformed",
            Refusal::UriTooLong(_) => "uri_too_long",
            Refusal::HeaderTooLarge => "header_too_large",
            Refusal::Method(_) => "method",
            Refusal::Unsupported(_) => "unsupported",
            Refusal::Port(_) => "port",
            Refusal::Destination(_) => "destination",
            Refusal::NameMismatch => "name_mismatch",
            Refusal::Loop => "loop",
            Refusal::NameNotFound => "name_not_found",
            Refusal::ConnectTimeout => "connect_timeout",
            Refusal::ConnectRefused => "connect_refused",
            Refusal::Unreachable => "unreachable",
            Refusal::ResponseTimeout => "response_timeout",
            Refusal::Closed => "closed",
            Refusal::Protocol => "protocol",
            Refusal::TransferCoding => "transfer_coding",
            Refusal::Upstream(_) => "upstream",
            Refusal::TooLargeToInspect => "too_large_to_inspect",
            Refusal::RequestBody => "request_body",
            Refusal::Client => "client",
            Refusal::Login(_) => "login",
            Refusal::LoginFailed(_) => "login_failed",
            Refusal::LoginLimit(_) => "login_limit",
            Refusal::Connections => "connections",
            Refusal::Certificate(fault) => fault.name(),
            Refusal::TlsHandshake => "tls_handshake",
            Refusal::TlsAlert(_) => "tls_alert",
            Refusal::ClientCertificate => "client_certificate",
            Refusal::Misdirected => "misdirected",
            Refusal::ClientHello => "client_hello",
            Refusal::EncryptedHello => "encrypted_hello",
            Refusal::NotHttp => "not_http",
            Refusal::ClientHandshake => "client_handshake",
        }
    }

    /// The status of the answer. A destination that is refused is 403 and not 502 as RFC 9209
    /// recommends: it is a rule of this site, and asking again is of no use.
    pub fn status(&self) -> StatusCode {
        match self {
            Refusal::Noted(refusal, _) => refusal.status(),
            Refusal::Blocked(_)
            | Refusal::Warned(..)
            | Refusal::Port(_)
            | Refusal::Client
            | Refusal::Destination(_)
            | Refusal::NameMismatch
            | Refusal::EncryptedHello
            | Refusal::NotHttp => StatusCode::FORBIDDEN,
            Refusal::Malformed(_) | Refusal::ClientHello | Refusal::ClientHandshake => {
                StatusCode::BAD_REQUEST
            }
            Refusal::Login(_) | Refusal::LoginFailed(_) => {
                StatusCode::PROXY_AUTHENTICATION_REQUIRED
            }
            Refusal::LoginLimit(_) => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Refusal::UriTooLong(_) => StatusCode::URI_TOO_LONG,
            Refusal::HeaderTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Refusal::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Refusal::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
            Refusal::ConnectTimeout | Refusal::ResponseTimeout => StatusCode::GATEWAY_TIMEOUT,
            Refusal::RequestBody => StatusCode::REQUEST_TIMEOUT,
            Refusal::Connections => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Loop
            | Refusal::NameNotFound
            | Refusal::ConnectRefused
            | Refusal::Unreachable
            | Refusal::Closed
            | Refusal::Protocol
            | Refusal::TransferCoding
            | Refusal::Upstream(_)
            | Refusal::TooLargeToInspect
            | Refusal::Certificate(_)
            | Refusal::TlsHandshake
            | Refusal::TlsAlert(_)
            | Refusal::ClientCertificate => StatusCode::BAD_GATEWAY,
        }
    }

    /// The error type of `Proxy-Status` (RFC 9209 section 2.3).
    pub fn proxy_status(&self) -> &'static str {
        match self {
            Refusal::Noted(refusal, _) => refusal.proxy_status(),
            Refusal::Blocked(_)
            | Refusal::Warned(..)
            | Refusal::Port(_)
            | Refusal::Method(_)
            | Refusal::Client
            | Refusal::Login(_)
            | Refusal::LoginFailed(_)
            | Refusal::LoginLimit(_)
            | Refusal::NameMismatch
            | Refusal::TooLargeToInspect
            | Refusal::EncryptedHello
            | Refusal::NotHttp => "http_request_denied",
            Refusal::Malformed(_)
            | Refusal::UriTooLong(_)
            | Refusal::HeaderTooLarge
            | Refusal::Unsupported(_)
            | Refusal::RequestBody
            | Refusal::Misdirected
            | Refusal::ClientHello
            | Refusal::ClientHandshake => "http_request_error",
            Refusal::Destination(_) => "destination_ip_prohibited",
            Refusal::Loop => "proxy_loop_detected",
            Refusal::NameNotFound => "dns_error",
            Refusal::ConnectTimeout => "connection_timeout",
            Refusal::ConnectRefused => "connection_refused",
            Refusal::Unreachable => "destination_ip_unroutable",
            Refusal::ResponseTimeout => "http_response_timeout",
            Refusal::Closed => "http_response_incomplete",
            Refusal::Protocol => "http_protocol_error",
            Refusal::TransferCoding => "http_response_transfer_coding",
            Refusal::Upstream(_) => "destination_unavailable",
            Refusal::Connections => "connection_limit_reached",
            Refusal::Certificate(_) => "tls_certificate_error",
            Refusal::TlsHandshake => "tls_protocol_error",
            Refusal::TlsAlert(_) | Refusal::ClientCertificate => "tls_alert_received",
        }
    }

    /// What the person at the browser can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refusal::Noted(refusal, _) => refusal.remedy(),
            Refusal::Blocked(_)
            | Refusal::Port(_)
            | Refusal::Client
            | Refusal::Destination(_)
            | Refusal::NameMismatch
            | Refusal::EncryptedHello
            | Refusal::NotHttp => {
                "If you need it for your work, give the reference below to your administrator."
            }
            Refusal::Login(_) => {
                "Your program asks for your login and password, or has a setting for them."
            }
            Refusal::LoginFailed(_) => {
                "Try again. If you have forgotten your password, ask your administrator."
            }
            Refusal::Warned(..) => "If you need it for your work, say why and go on.",
            Refusal::NameNotFound => "Check the spelling of the address.",
            Refusal::ConnectTimeout
            | Refusal::ConnectRefused
            | Refusal::Unreachable
            | Refusal::ResponseTimeout
            | Refusal::Closed
            | Refusal::Connections
            | Refusal::LoginLimit(_)
            | Refusal::RequestBody => "Try again in a few minutes.",
            Refusal::Loop | Refusal::Upstream(_) => {
                "The proxies of this site are not set up correctly: tell your administrator."
            }
            Refusal::Certificate(CertificateFault::Revoked) => {
                "Its owner or issuer has declared it invalid: its key may be in other hands. Do not \
                 enter passwords; if it is a server of your own, tell your administrator."
            }
            Refusal::Certificate(CertificateFault::RevocationUnknown) => {
                "Tell your administrator: the proxy needs a current list of the revoked \
                 certificates of its issuer."
            }
            Refusal::Certificate(_) => {
                "Somebody may be impersonating the server, or its owner has to renew its \
                 certificate. Do not enter passwords; if it is a server of your own, tell your administrator."
            }
            Refusal::ClientCertificate => {
                "Tell your administrator: the server has to be exempted from inspection."
            }
            Refusal::TooLargeToInspect => "Ask your administrator to fetch it for you.",
            Refusal::Malformed(_)
            | Refusal::UriTooLong(_)
            | Refusal::HeaderTooLarge
            | Refusal::Method(_)
            | Refusal::Unsupported(_)
            | Refusal::Protocol
            | Refusal::TransferCoding
            | Refusal::TlsHandshake
            | Refusal::TlsAlert(_)
            | Refusal::Misdirected
            | Refusal::ClientHello
            | Refusal::ClientHandshake => {
                "The program or the server has to be corrected; trying again does not help."
            }
        }
    }

    /// The rule that blocked, if one did.
    pub fn rule(&self) -> Option<&str> {
        match self {
            Refusal::Blocked(reason) | Refusal::Warned(reason, _) => Some(&reason.rule),
            Refusal::Noted(refusal, _) => refusal.rule(),
            _ => None,
        }
    }

    /// All names, for counters.
    pub const NAMES: [&'static str; 43] = [
        "blocked",
        "warned",
        "malformed",
        "uri_too_long",
        "header_too_large",
        "method",
        "unsupported",
        "port",
        "destination",
        "name_mismatch",
        "loop",
        "name_not_found",
        "connect_timeout",
        "connect_refused",
        "unreachable",
        "response_timeout",
        "closed",
        "protocol",
        "transfer_coding",
        "upstream",
        "too_large_to_inspect",
        "request_body",
        "client",
        "login",
        "login_failed",
        "login_limit",
        "connections",
        "certificate_expired",
        "certificate_not_yet_valid",
        "certificate_wrong_name",
        "certificate_unknown_issuer",
        "certificate_self_signed",
        "certificate_revoked",
        "certificate_revocation_unknown",
        "certificate_invalid",
        "tls_handshake",
        "tls_alert",
        "client_certificate",
        "misdirected",
        "client_hello",
        "encrypted_hello",
        "not_http",
        "client_handshake",
    ];
}
