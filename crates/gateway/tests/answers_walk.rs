//! A walk through mangled ARC sets and answers of PostgreSQL. The fuzz targets `arc` and `postgres`
//! ask the same for longer.

use std::path::Path;

/// Pieces that have a meaning to readers of ARC sets.
const ARC_TOKENS: [&[u8]; 26] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n ",
    b"\r\n\r\n",
    b"\0",
    b";",
    b"=",
    b"(",
    b"\"",
    b"\\",
    b"|",
    b",lists.example",
    b"i=1",
    b"i=49",
    b"i=50",
    b"i=4294967296",
    b"cv=pass",
    b"cv=fail",
    b"ARC-Seal: ",
    b"ARC-Message-Signature: ",
    b"ARC-Authentication-Results: ",
    b"Authentication-Results: gw.example; ",
    b"dmarc=pass header.from=bank.example",
    b"a=rsa-sha256; ",
    b"\xff",
];

/// Pieces of the protocol.
const POSTGRES_TOKENS: [&[u8]; 20] = [
    b"R\0\0\0\x08\0\0\0\0",
    b"R\0\0\0\x08\0\0\0\x03",
    b"R\0\0\0\x08\0\0\0\x05",
    b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
    b"Z\0\0\0\x05I",
    b"D\0\0\0\x06\0\0",
    b"D\0\0\0\x0b\0\x01\0\0\0\x01x",
    b"D\0\0\0\x0a\0\x01\xff\xff\xff\xff",
    b"E\0\0\0\x08Mno\0",
    b"E\0\0\0\x04",
    b"N\0\0\0\x04",
    b"\0\0\0\x04",
    b"\0\0\0\0",
    b"\x01\0\0\0",
    b"\xff\xff\xff\xff",
    b"r=NONCE-OF-THE-CLIENT-24B!",
    b",s=AAAA",
    b",i=1",
    b",i=4294967295",
    b"v=",
];

fn walk(name: &str, tokens: &[&[u8]], ask: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let seeds = crate::mutate::seeds(&folder);
    seeds.iter().for_each(|seed| ask(seed));
    crate::mutate::walk(name, seeds, tokens, ask);
}

#[test]
fn arc_sets_of_any_bytes() {
    walk("arc", &ARC_TOKENS, crate::arc_bytes::ask);
}

/// A server that let us in without showing that it knows the password, too, is not asked anything.
#[test]
fn a_database_proves_that_it_knows_the_password() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/postgres");
    let answer =
        |name: &str| crate::postgres_bytes::answer_of(&std::fs::read(folder.join(name)).unwrap());
    assert_eq!(answer("rows").unwrap().len(), 2);
    for name in [
        "scram",
        "scram-empty-proof",
        "scram-no-final",
        "scram-ok-without-proof",
        "sasl-final-first",
    ] {
        assert!(answer(name).is_err(), "{name}");
    }
}

#[test]
fn answers_of_a_database_of_any_bytes() {
    walk("postgres", &POSTGRES_TOKENS, crate::postgres_bytes::ask);
}
