//! ClientHellos: composed ones, nasty ones, and those of rustls.

use std::sync::Arc;

use gauntlet_proxy::client_hello::{
    ClientHello, EXTENSIONS_MAX, HELLO_BYTES_MAX, PROTOCOLS_MAX, RECORDS_MAX, Reading, read,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::hello_bytes::{feed, records};

/// Bytes behind their length in so many bytes.
fn vector(length_bytes: usize, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u32).to_be_bytes();
    [&length[4 - length_bytes..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(2, content)].concat()
}

fn name(name: &[u8]) -> Vec<u8> {
    extension(0, &vector(2, &[&[0], &vector(2, name)[..]].concat()))
}

fn alpn(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| vector(1, name)).collect();
    extension(16, &vector(2, &list))
}

fn message(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(vector(1, &[1; 32]));
    body.extend(vector(2, &[0x13, 1]));
    body.extend(vector(1, &[0]));
    body.extend(vector(2, extensions));
    [&[1], &vector(3, &body)[..]].concat()
}

fn stream(extensions: &[Vec<u8>]) -> Vec<u8> {
    records(&message(&extensions.concat()), 1 << 14)
}

fn hello(bytes: &[u8]) -> ClientHello {
    match read(bytes) {
        Reading::Hello(hello) => hello,
        other => panic!("{other:?}"),
    }
}

fn fault(bytes: &[u8]) -> &'static str {
    match read(bytes) {
        Reading::Malformed(why) => why,
        other => panic!("{other:?}"),
    }
}

fn all() -> Vec<Vec<u8>> {
    vec![
        extension(0x0a0a, &[]),
        name(b"www.Example.com"),
        alpn(&[b"h2", b"http/1.1"]),
        extension(43, &vector(1, &[3, 4, 3, 3])),
        extension(0xfe0d, &[0, 0, 1, 0, 1, 5]),
    ]
}

#[test]
fn everything_that_is_offered_is_read() {
    let mut bytes = stream(&all());
    let size = bytes.len();
    bytes.extend(b"\x17\x03\x03\x00\x05early");
    let expected = ClientHello {
        sni: Some("www.example.com".to_owned()),
        address: None,
        alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        versions: vec![0x0304, 0x0303],
        ech: true,
        size,
    };
    assert_eq!(hello(&bytes), expected);
    feed(&bytes);
}

#[test]
fn a_hello_of_an_old_client_has_no_extensions() {
    let mut bytes = message(&[]);
    bytes.truncate(bytes.len() - 2);
    bytes[3] -= 2;
    let hello = hello(&records(&bytes, 100));
    assert_eq!((hello.sni, hello.versions, hello.ech), (None, vec![0x0303], false));
}

#[test]
fn what_rustls_sends_is_read() {
    for (versions, offered) in [(&[&TLS13][..], vec![0x0304]), (&[&TLS12][..], vec![0x0303])] {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap();
        let mut config =
            config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let config = Arc::new(config);
        for (server, sni) in [("Mail.Example.org", Some("mail.example.org")), ("192.0.2.1", None)] {
            let server = server.try_into().unwrap();
            let mut client = ClientConnection::new(config.clone(), server).unwrap();
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            let hello = hello(&bytes);
            assert_eq!(hello.sni.as_deref(), sni);
            assert_eq!((hello.alpn, &hello.versions), (vec![b"h2".to_vec()], &offered));
            assert_eq!((hello.ech, hello.size), (false, bytes.len()));
            feed(&bytes);
        }
    }
}

#[test]
fn other_protocols_are_told_by_their_first_bytes() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x", b"\x00", b"\x16\x01", b"\x80\x2e\x01"] {
        assert_eq!(read(bytes), Reading::NotTls, "{bytes:?}");
    }
    assert_eq!(read(b""), Reading::NeedsMore);
    assert_eq!(read(b"\x16"), Reading::NeedsMore);
}

#[test]
fn a_hello_that_is_cut_anywhere_needs_more() {
    for length in [1 << 14, 7, 3] {
        let bytes = records(&message(&all()[..2].concat()), length);
        (0..bytes.len()).for_each(|n| assert_eq!(read(&bytes[..n]), Reading::NeedsMore, "{n}"));
        assert_eq!(hello(&bytes).size, bytes.len());
    }
}

#[test]
fn a_length_that_lies_is_malformed_or_waits_within_bounds() {
    let bytes = stream(&all());
    // Every byte is changed in some ways: none is a panic, and no name has parts of the old one.
    for at in 0..bytes.len() {
        for change in [1, 0x7f, 0x80, 0xff] {
            let mut nasty = bytes.clone();
            nasty[at] ^= change;
            feed(&nasty);
            nasty.extend(vec![0; 70_000]);
            assert_ne!(read(&nasty), Reading::NeedsMore, "byte {at} by {change}");
        }
    }
}

#[test]
fn names_that_two_programs_could_read_differently_are_malformed() {
    let entry = |name: &[u8]| [&[0], &vector(2, name)[..]].concat();
    let two = [entry(b"a.example"), entry(b"b.example")].concat();
    let other_kind = [&[1], &vector(2, b"a.example")[..]].concat();
    for (what, sni) in [
        ("two names", extension(0, &vector(2, &two))),
        ("another kind", extension(0, &vector(2, &other_kind))),
        ("no list", extension(0, &[])),
        ("an empty list", extension(0, &vector(2, &[]))),
        (
            "bytes behind the list",
            extension(0, &[vector(2, &entry(b"a.example")), vec![0]].concat()),
        ),
    ] {
        assert_eq!(fault(&stream(&[sni])), "the server's name is not one host name", "{what}");
    }
    let long = [&[b'a'; 63][..]; 5].join(&b'.');
    for wrong in [
        &b"a.example\0.b.example"[..],
        b"a example",
        b"a.example..",
        b"",
        b".",
        b".a.example",
        b"a..example",
        b"a.example:443",
        b"[::1]",
        b"user@a.example",
        b"2130706433",
        b"0x7f.1",
        b"127.1.",
        "b\u{fc}cher.example".as_bytes(),
        b"\xff",
        &[b'a'; 64],
        &long,
    ] {
        let why = fault(&stream(&[name(wrong)]));
        assert_eq!(why, "the server's name is no host name", "{}", wrong.escape_ascii());
    }
    let twice = stream(&[name(b"a.example"), name(b"b.example")]);
    assert_eq!(fault(&twice), "an extension is there twice");
}

#[test]
fn names_have_one_form_and_addresses_are_none() {
    for (sent, read) in [
        (&b"WWW.EXAMPLE.com"[..], Some("www.example.com")),
        (b"www.example.com.", Some("www.example.com")),
        (b"xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        (b"_x.a-b.example", Some("_x.a-b.example")),
        (b"intranet", Some("intranet")),
        (b"192.0.2.1", None),
        (b"2001:DB8::1", None),
    ] {
        let hello = hello(&stream(&[name(sent)]));
        assert_eq!((hello.sni.as_deref(), hello.address.is_some()), (read, read.is_none()));
    }
}

#[test]
fn limits_are_kept() {
    let extensions: Vec<_> =
        (1000..).map(|kind| extension(kind, &[])).take(EXTENSIONS_MAX).collect();
    hello(&stream(&extensions));
    let more = stream(&[&extensions[..], &[name(b"a.example")]].concat());
    assert_eq!(fault(&more), "there are too many extensions");

    let protocols = [&b"x"[..]; PROTOCOLS_MAX + 1];
    assert_eq!(hello(&stream(&[alpn(&protocols[1..])])).alpn.len(), PROTOCOLS_MAX);
    assert_eq!(fault(&stream(&[alpn(&protocols)])), "there are too many protocols (ALPN)");

    let padding = |n| message(&extension(21, &vec![0; n]));
    let rest = padding(0).len() - 4;
    let largest = padding(HELLO_BYTES_MAX - rest);
    assert_eq!(hello(&records(&largest, 1 << 14)).versions, [0x0303]);
    feed(&records(&largest, 1 << 14));
    let larger = padding(HELLO_BYTES_MAX - rest + 1);
    assert_eq!(fault(&records(&larger, 1 << 14)), "the ClientHello is too long");

    let small = message(&[]);
    let (exact, fewer) = (small.len().div_ceil(RECORDS_MAX), small.len() / (RECORDS_MAX + 1));
    hello(&records(&small, exact));
    let why = fault(&records(&small, fewer));
    assert_eq!(why, "the ClientHello is cut into too many records");
}

#[test]
fn faulty_framing_is_named() {
    let bytes = stream(&all());
    let with = |at: usize, byte| {
        let mut nasty = bytes.clone();
        nasty[at] = byte;
        nasty
    };
    assert_eq!(fault(b"\x16\x03\x01\x00\x00"), "a record is empty or too long");
    assert_eq!(fault(b"\x16\x03\x01\x40\x01"), "a record is empty or too long");
    assert_eq!(fault(&with(5, 2)), "the first message is no ClientHello");
    let mut longer = message(&[]);
    longer.push(0);
    assert_eq!(fault(&records(&longer, 1 << 14)), "something follows the ClientHello");
    let alert = [&records(&message(&[])[..20], 100)[..], b"\x15\x03\x01\x00\x02"].concat();
    assert_eq!(fault(&alert), "another record stands within the ClientHello");
    let ech = stream(&[extension(0xfe0d, &[1])]);
    assert_eq!(fault(&ech), "the Encrypted ClientHello is of another kind");
}
