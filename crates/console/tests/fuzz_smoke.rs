//! Mutated nasty previews and id_tokens keep every promise. The targets for `cargo fuzz` are
//! `fuzz/fuzz_targets/console_preview.rs` and `fuzz/fuzz_targets/id_token.rs`.

use std::path::{Path, PathBuf};

/// Pieces that have a meaning to a browser or to the sanitiser.
const PREVIEW_TOKENS: [&[u8]; 40] = [
    b"<",
    b">",
    b"\"",
    b"'",
    b"=",
    b"/",
    b"</",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<script>",
    b"</script>",
    b"<style>",
    b"</style>",
    b"<textarea>",
    b"<title>",
    b"<plaintext>",
    b"<svg>",
    b"<math><mtext>",
    b"<a href=",
    b"<img src=x alt='",
    b"<body onload=",
    b"<p style='",
    b"<font color=",
    b"color:rgb(",
    b"background:url(",
    b"width:expression(",
    b"u\\72l(",
    b"/**/",
    b";",
    b"&lt;",
    b"&#x3c",
    b"&#0;",
    b"&quot;",
    b"\0",
    b"\x0c",
    b"\xff",
    "\u{202e}".as_bytes(),
    b"Content-Type: text/html\r\n\r\n",
];

/// Pieces that have a meaning to readers of keys, tokens and claims.
const TOKEN_TOKENS: [&[u8]; 30] = [
    b"\n",
    b".",
    b"..",
    b"{",
    b"}",
    b"[",
    b"]",
    b"null",
    b"1e999",
    b"-1",
    b"9223372036854775808",
    b"true",
    b"\"gauntlet\"",
    b"\"https://op.example\"",
    b"\"iss\":",
    b"\"aud\":",
    b"\"azp\":",
    b"\"exp\":",
    b"\"nbf\":",
    b"\"nonce\":\"n\"",
    b"\"sub\":",
    b"\"auth_time\":",
    b"\"kty\":\"RSA\"",
    b"\"kty\":\"oct\"",
    b"\"crv\":\"P-256\"",
    b"\"kid\":",
    b"eyJhbGciOiJub25lIn0",
    b"eyJhbGciOiJIUzI1NiJ9",
    b"=",
    b"\\u0000",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn ask_each(name: &str, ask: fn(&[u8])) -> Vec<Vec<u8>> {
    let seeds = crate::mutate::seeds(&folder(name));
    seeds.iter().for_each(|seed| ask(seed));
    seeds
}

#[test]
fn mutated_previews() {
    let seeds = ask_each("previews", crate::preview_bytes::ask);
    crate::mutate::walk("console_preview", seeds, &PREVIEW_TOKENS, crate::preview_bytes::ask);
}

#[test]
fn mutated_id_tokens() {
    let seeds = ask_each("id_tokens", crate::id_token_bytes::ask);
    crate::mutate::walk("id_token", seeds, &TOKEN_TOKENS, crate::id_token_bytes::ask);
}

/// Escaping makes six bytes of one: the length of the source is no limit.
#[test]
fn a_preview_is_bounded_whatever_is_escaped() {
    for piece in ["\"", "<a href='x'>\"", "<b style='color:red'>", "<img alt=\"''''''''''\">"] {
        crate::preview_bytes::ask(piece.repeat(3_000_000 / piece.len()).as_bytes());
    }
}
