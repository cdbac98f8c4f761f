//! Mutated nasty messages keep every promise of the parser and its views. The target for `cargo
//! fuzz` is `fuzz/fuzz_targets/message.rs`.

use std::path::Path;

use gauntlet_mail::Limits;

/// Pieces that have a meaning to some parser.
const TOKENS: [&[u8]; 34] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"--",
    b"--x",
    b"--x--",
    b"Content-Type: ",
    b"multipart/mixed; boundary=x",
    b"text/html",
    b"message/rfc822",
    b"; charset=utf-7",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"=?",
    b"?=",
    b"?utf-8?q?",
    b"=3D",
    b"=\n",
    b"+AOk-",
    b"<a href=\"",
    b"http://",
    b"www.a.com/",
    b"<!--",
    b"-->",
    b"</",
    b"style='display:none",
    b"&#x",
    b"url(",
    b"\xc2\xa0",
    b"\xff\xfe",
    b"filename*0*=utf-8''%",
    b"PK\x05\x06",
];

#[test]
fn mutated_nasty_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nasty");
    crate::mutate::walk("message", crate::mutate::seeds(&folder), &TOKENS, |raw| {
        crate::everything::ask(raw, &Limits::default());
    });
}
