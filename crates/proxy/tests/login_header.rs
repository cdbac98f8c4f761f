//! `Proxy-Authorization` in every form that clients and attackers send it in.

use base64_simd::STANDARD;
use gauntlet_proxy::auth::header::{Algorithm, Credentials, DigestProof};

use crate::login_bytes::feed;

/// What curl sends.
const CURL: &str = "Digest username=\"ann\",realm=\"Gauntlet proxy\",nonce=\"AAAAAA_-\",uri=\"/a?b\",\
                    cnonce=\"ZjE4Nw==\",nc=00000001,algorithm=SHA-256,\
                    response=\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\
                    qop=\"auth\"";

fn basic(pair: impl AsRef<[u8]>) -> String {
    format!("Basic {}", STANDARD.encode_to_string(pair))
}

fn digest(field: impl AsRef<[u8]>) -> Option<DigestProof> {
    match feed(field.as_ref()) {
        Some(Credentials::Digest(proof)) => Some(*proof),
        _ => None,
    }
}

#[test]
fn basic_is_read() {
    for (field, login, password) in [
        (basic("ann:secret"), "ann", "secret"),
        (basic("ann:"), "ann", ""),
        (basic("ann:a:b"), "ann", "a:b"),
        (basic("jörg:geheimß"), "jörg", "geheimß"),
        ("bAsIc   YW5uOng=".to_owned(), "ann", "x"),
        ("Basic YW5uOng".to_owned(), "ann", "x"),
    ] {
        let expected =
            Credentials::Basic { login: login.to_owned(), password: password.to_owned() };
        assert_eq!(feed(field.as_bytes()), Some(expected), "{field}");
    }
    let printed = format!("{:?}", feed(basic("ann:secret").as_bytes()));
    assert!(!printed.contains("secret"), "{printed}");
}

#[test]
fn basic_that_is_malformed_or_could_be_read_in_two_ways_is_not() {
    for field in [
        basic("ann"),
        basic(":x"),
        basic(""),
        basic("a\nb:x"),
        basic("ann :x"),
        basic("a\0:x"),
        basic("ann:x\r\ny"),
        basic(b"j\xf6rg:x"),
        basic("a".repeat(255) + ":x"),
        basic("a:".to_owned() + &"x".repeat(257)),
        "Basic".to_owned(),
        "Basic ".to_owned(),
        "Basic YW5uOng=, Basic YW5uOng=".to_owned(),
        "Basic YW5u\tOng=".to_owned(),
        "Basic ====".to_owned(),
        "Basic\tYW5uOng=".to_owned(),
        format!("Basic {}", "A".repeat(5000)),
    ] {
        assert_eq!(feed(field.as_bytes()), None, "{field:?}");
    }
    for field in ["Negotiate YII=", "NTLM TlRM", "Bearer x", "Basic2 x"] {
        assert_eq!(feed(field.as_bytes()), Some(Credentials::Other), "{field}");
    }
    for field in ["", " ", "\u{1}", "(x) y", ", Basic YW5uOng="] {
        assert_eq!(feed(field.as_bytes()), None, "{field:?}");
    }
}

#[test]
fn digest_is_read() {
    let proof = digest(CURL).unwrap();
    assert_eq!((proof.login.as_str(), proof.algorithm), ("ann", Algorithm::Sha256));
    assert_eq!((proof.uri.as_str(), proof.cnonce.as_str()), ("/a?b", "ZjE4Nw=="));
    // Blanks, upper case, empty elements, tokens in quotation marks and strings without.
    let other = CURL
        .replace("Digest ", "DIGEST  , ,")
        .replace("nc=00000001", "NC = \"00000001\" , ")
        .replace("qop=\"auth\"", "qop=AUTH,opaque=\"\",,")
        .replace("\"/a?b\"", "/a?b");
    assert_eq!(digest(&other).unwrap(), proof);
    let escaped = CURL.replace("\"ann\"", "\"a\\n\\\"n\\\\\"");
    assert_eq!(digest(&escaped).unwrap().login, "an\"n\\");
    let extended = CURL.replace("username=\"ann\"", "username*=UTF-8''J%C3%A4s%C3%B8n%20Doe");
    assert_eq!(digest(&extended).unwrap().login, "Jäsøn Doe");
    let md5 = CURL.replace("algorithm=SHA-256,", "");
    assert_eq!(digest(&md5), None, "a proof of another length");
}

#[test]
fn digest_that_is_malformed_or_was_not_offered_is_not_read() {
    for (what, instead) in [
        ("qop=\"auth\"", "qop=\"auth-int\""),
        ("qop=\"auth\"", "x=1"),
        ("algorithm=SHA-256", "algorithm=SHA-256-sess"),
        ("algorithm=SHA-256", "algorithm=SHA-512-256"),
        ("username=\"ann\"", "username=\"ann\",userhash=true"),
        ("username=\"ann\"", "username=\"ann\",username*=UTF-8''ann"),
        ("username=\"ann\"", "username=\"ann\",USERNAME=\"bob\""),
        ("username=\"ann\"", "username*=ISO-8859-1''ann"),
        ("username=\"ann\"", "username*=UTF-8''a%0Ab"),
        ("username=\"ann\"", "username=\"\""),
        ("username=\"ann\"", "username=\"a:b\""),
        ("username=\"ann\",", ""),
        ("nc=00000001", "nc=1"),
        ("nc=00000001", "nc=0000000g"),
        ("nc=00000001", "nc=+0000001"),
        ("cnonce=\"ZjE4Nw==\"", "cnonce=\"\""),
        ("response=\"01", "response=\"zz"),
        ("qop=\"auth\"", "qop=\"auth"),
        ("qop=\"auth\"", "qop=\"auth\\"),
        ("qop=\"auth\"", "qop=\"auth\" x"),
        ("qop=\"auth\"", "qop"),
        ("nc=", "nc="),
        ("Digest ", "Digest"),
        ("Digest ", "Digest ="),
    ] {
        let field = CURL.replacen(what, instead, 1);
        let is_same = what == instead;
        assert_eq!(digest(&field).is_some(), is_same, "{field}");
    }
    let many: String = (0..30).map(|n| format!(",a{n}=1")).collect();
    assert_eq!(digest(format!("{CURL}{many}")), None);
    assert_eq!(digest(format!("{CURL},x=\"{}\"", "y".repeat(5000))), None);
}

#[test]
fn no_bytes_make_the_reader_panic() {
    for seed in [CURL.as_bytes(), basic("ann:secret").as_bytes()] {
        for end in 0..=seed.len() {
            feed(&seed[..end]);
        }
        for at in 0..seed.len() {
            for byte in [0, b'"', b'\\', b',', b'=', b' ', b'\'', b'%', 0xff] {
                let mut changed = seed.to_vec();
                changed[at] = byte;
                feed(&changed);
            }
        }
    }
}
