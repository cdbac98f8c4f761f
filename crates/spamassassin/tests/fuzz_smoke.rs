//! Mutated messages and rule files: no view and no rule panics. The targets for `cargo fuzz` are
//! `fuzz/fuzz_targets/rules_views.rs` and `rules_reader.rs`.

use std::path::Path;

/// Pieces that have a meaning to the views.
const OF_MESSAGES: [&[u8]; 22] = [
    b"\r\n",
    b"\n",
    b"\n\n",
    b"--x",
    b"--x--",
    b"Content-Type: ",
    b"multipart/mixed; boundary=x",
    b"message/rfc822\n",
    b"text/html; charset=",
    b"Content-Transfer-Encoding: base64\n",
    b"=?utf-8?b?",
    b"?=",
    b"<a href=",
    b"http://www.",
    b"<font color=#fff size=",
    b"<style>",
    b"Received: from ",
    b" by ",
    b" (HELO ",
    b"[192.0.2.1]",
    b"begin 644 x\n",
    b"&#",
];

/// Pieces of the rule language.
const OF_RULES: [&[u8]; 30] = [
    b"\n",
    b"header X ",
    b"body X ",
    b"rawbody X ",
    b"uri X ",
    b"full X ",
    b"meta X ",
    b"score X ",
    b"describe X ",
    b"tflags X ",
    b" =~ /",
    b" !~ /",
    b"/i\n",
    b"m{",
    b"}x",
    b"exists:",
    b"eval:check_",
    b"ifplugin ",
    b"endif\n",
    b"if (version >= 4)",
    b"(?:",
    b"(?=",
    b"\\b",
    b"\\x{",
    b"{1,",
    b"[[:",
    b"^",
    b"(a+)+$",
    b"replace_rules X",
    b"&& !(X || Y) + 2 > 1",
];

const RULES: &[u8] = b"header A Subject =~ /free (?:money|cash)/i\nscore A 1.5\ndescribe A Free things\n\
    body B /\\bclick\\s+here\\b/i\nuri C m{^https?://[^/]+\\.example\\.com/}\nrawbody D /<a href/\n\
    meta E (A && B) || C > 1\nfull F /ann@/\ntflags B multiple maxhits=3\n\
    header G eval:check_for_forged_hotmail_received_headers()\nmimeheader H Content-Type =~ /html/\n";

#[test]
fn mutated_messages_have_views() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mail/tests/nasty");
    crate::mutate::walk(
        "views",
        crate::mutate::seeds(&folder),
        &OF_MESSAGES,
        crate::everything::views,
    );
}

#[test]
fn mutated_rule_files_are_read_and_run() {
    crate::mutate::walk("rules", vec![RULES.to_vec()], &OF_RULES, crate::everything::reader);
}
