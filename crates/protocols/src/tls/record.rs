//! The EVE record `tls`, with the extended fields of the stock configuration.

use super::certificate::Certificate;
use super::fingerprint::{Ja3, ja4};
use super::lists::Hello;
use super::session::{Session, flag};
use super::side::Side;
use super::version;
use crate::record::{Fields, Value};
use crate::text::utc;

/// Writes it.
pub(super) fn write(session: &Session, fields: &mut Fields) {
    let mut tls = Fields::default();
    let server = &session.server;
    if let Some(certificate) = &server.certificate {
        tls.text("subject", certificate.subject.as_bytes());
        tls.text("issuerdn", certificate.issuer.as_bytes());
        if !certificate.alternative_names.is_empty() {
            let names = certificate.alternative_names.iter().cloned().map(Value::Text);
            tls.list("subjectaltname", names.collect());
        }
    }
    if let Some(certificate) = &server.certificate {
        tls.text("serial", certificate.serial.as_bytes());
        tls.text("fingerprint", certificate.fingerprint.as_bytes());
    }
    if let Some(sni) = &session.client.sni {
        tls.text("sni", sni);
    }
    tls.text("version", version_name(session).as_bytes());
    if let Some(certificate) = &server.certificate {
        validity(certificate, &mut tls);
    }
    ja3("ja3", &session.client.fingerprint, &mut tls);
    ja3("ja3s", &server.fingerprint, &mut tls);
    tls.text("ja4", ja4(&session.client.hello, false).as_bytes());
    // For whoever decides whether there is a record.
    for (name, flag) in [
        ("session_resumed", flag::RESUMED | flag::SERVER_HELLO),
        ("certificates_hidden", flag::CERTIFICATES_HIDDEN),
    ] {
        // In TLS 1.3 the server sends the client's session id back whatever it does (RFC 8446,
        // section 4.1.3).
        let says_nothing = flag & flag::RESUMED != 0 && version(session) == version::TLS13;
        if session.flags & flag == flag && !says_nothing {
            tls.truth(name, true);
        }
    }
    alpn("client_alpns", &session.client.hello, &mut tls);
    alpn("server_alpns", &server.hello, &mut tls);
    if let Some(client) = client_certificate(&session.client) {
        tls.object("client", client);
    }
    fields.object("tls", tls);
}

/// The version that the server chose, or, before it has, the client's.
fn version(session: &Session) -> u16 {
    match session.server.version {
        version::UNKNOWN => session.client.version,
        number => number,
    }
}

fn version_name(session: &Session) -> String {
    let number = version(session);
    version::name(number).map_or_else(|| number.to_string(), str::to_owned)
}

fn validity(certificate: &Certificate, fields: &mut Fields) {
    for (name, seconds) in
        [("notbefore", certificate.not_before), ("notafter", certificate.not_after)]
    {
        if seconds != 0 {
            fields.text(name, utc(seconds).as_bytes());
        }
    }
}

fn ja3(name: &'static str, fingerprint: &Ja3, fields: &mut Fields) {
    let Some(text) = fingerprint.text() else { return };
    let mut object = Fields::default();
    if let Some(hash) = fingerprint.hash() {
        object.text("hash", hash.as_bytes());
    }
    object.text("string", text.as_bytes());
    fields.object(name, object);
}

fn client_certificate(client: &Side) -> Option<Fields> {
    let certificate = client.certificate.as_ref()?;
    let mut fields = Fields::default();
    fields.text("subject", certificate.subject.as_bytes());
    fields.text("issuerdn", certificate.issuer.as_bytes());
    fields.text("fingerprint", certificate.fingerprint.as_bytes());
    fields.text("serial", certificate.serial.as_bytes());
    validity(certificate, &mut fields);
    Some(fields)
}

fn alpn(name: &'static str, hello: &Hello, fields: &mut Fields) {
    if !hello.alpn.is_empty() {
        let names = hello.alpn.iter();
        let names = names.map(|name| Value::Text(String::from_utf8_lossy(name).into_owned()));
        fields.list(name, names.collect());
    }
}
