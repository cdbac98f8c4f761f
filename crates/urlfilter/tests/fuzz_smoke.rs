//! The stable stand-in for the fuzz target `fuzz/fuzz_targets/url_lists.rs`.

use crate::common::Numbers;
use crate::list_bytes;

const PIECES: [&str; 40] = [
    "evil.example",
    "a.example/b?c",
    "\n",
    "\r\n",
    "||",
    "@@",
    "^",
    "$",
    "$third-party",
    ",",
    "\"",
    "# ",
    "/",
    "\\",
    "|http://",
    "*",
    "=",
    ".",
    "..",
    "[::1]",
    "0.0.0.0 ",
    " CNAME .",
    "*.",
    "$ORIGIN ",
    "(",
    ")",
    " IN SOA ",
    "-i ",
    "(?i",
    "{9}",
    ":80",
    ":99999",
    "%2e",
    "\u{fc}",
    "\u{feff}",
    "\t",
    ";",
    "www.",
    "\0",
    "xn--",
];

#[test]
fn lists_of_pieces_of_every_format_never_panic() {
    let mut numbers = Numbers(99);
    for round in 0..440_u32 {
        let mut input = vec![2 + (round % 22) as u8];
        for _ in 0..numbers.below(60) {
            match numbers.below(12) {
                0 => input.push(numbers.next() as u8),
                _ => input.extend(numbers.of(&PIECES).as_bytes()),
            }
        }
        list_bytes::feed(&input);
    }
}
