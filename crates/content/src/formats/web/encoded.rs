//! Scripts that Windows Script Encoder wrote: `#@~^`, the length in base64, text in which each
//! character is replaced by one of three tables, a checksum and `^#~@`. The order of the tables
//! and the replacements are known facts of the format.

/// For tab and each character from space to 126: what the three tables make of it. `<`, `>` and
/// `@` are written as escapes and stand here as `?`.
const TABLE: [[u8; 3]; 96] = [
    *b"d7i",
    *b"P~,",
    *b"\"Ze",
    *b"JEr",
    *b"a:[",
    *b"^yf",
    *b"]Yu",
    *b"['L",
    *b"BvE",
    *b"`cv",
    *b"#b*",
    *b"eMC",
    *b"_Q3",
    *b"~SB",
    *b"OR ",
    *b"R c",
    *b"z&J",
    *b"!TZ",
    *b"Fq8",
    *b" +y",
    *b"&f2",
    *b"c*W",
    *b"*Xl",
    *b"v\x7f+",
    *b"G{F",
    *b"%0R",
    *b",1O",
    *b")l=",
    *b"iIp",
    *b"???",
    *b"'x{",
    *b"???",
    *b"g_Q",
    *b"???",
    *b"b)z",
    *b"A$~",
    *b"Z/;",
    *b"f9G",
    *b"23A",
    *b"sow",
    *b"M!V",
    *b"Cu_",
    *b"q(&",
    *b"9Bx",
    *b"|Fn",
    *b"SJd",
    *b"H\\t",
    *b"1Hg",
    *b"r6}",
    *b"nKh",
    *b"p}5",
    *b"I]\"",
    *b"?jU",
    *b"KP:",
    *b"ji`",
    *b".#j",
    *b"\x7f\tq",
    *b"(po",
    *b"5eI",
    *b"}t\\",
    *b"$,]",
    *b"-w'",
    *b"TDY",
    *b"7?%",
    *b"{m|",
    *b"=|#",
    *b"lCm",
    *b"48(",
    *b"m^1",
    *b"N[9",
    *b"+n\x7f",
    *b"0W6",
    *b"oLT",
    *b"t44",
    *b"krb",
    *b"L%N",
    *b"3V0",
    *b"Vs^",
    *b":hs",
    *b"xU\t",
    *b"WGK",
    *b"w2a",
    *b";5$",
    *b"D.M",
    *b"/dk",
    *b"YOD",
    *b"E;!",
    *b"\\-7",
    *b"hAS",
    *b"6aX",
    *b"XzH",
    *b"y\".",
    *b"\t`P",
    *b"uk-",
    *b"8N)",
    *b"U=?",
];
/// Which table the character at each place is written by, again from the start after 64.
const ORDER: &[u8; 64] = b"1201202002021020102011200210200211020201011201021020112001120102";

/// Decodes all encoded parts of a text; none if it has none.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut is_encoded = false;
    while let Some(at) = rest.find("#@~^") {
        out.push_str(&rest[..at]);
        // Six digits of base64 for the length and two equals signs.
        let Some(body) = rest[at + 4..].get(8..) else { break };
        let end = body.find("^#~@").unwrap_or(body.len());
        // The checksum is written like the length.
        let coded = body[..end].get(..end.saturating_sub(8)).unwrap_or(&body[..end]);
        decode_body(coded, &mut out);
        is_encoded = true;
        rest = body.get(end + 4..).unwrap_or_default();
    }
    out.push_str(rest);
    is_encoded.then_some(out)
}

fn decode_body(coded: &str, out: &mut String) {
    let mut place = 0;
    let mut chars = coded.chars().peekable();
    while let Some(c) = chars.next() {
        let escape = match (c, chars.peek()) {
            ('@', Some('&')) => Some('\n'),
            ('@', Some('#')) => Some('\r'),
            ('@', Some('*')) => Some('>'),
            ('@', Some('!')) => Some('<'),
            ('@', Some('$')) => Some('@'),
            _ => None,
        };
        if let Some(plain) = escape {
            chars.next();
            out.push(plain);
        } else {
            out.push(plain(c, place).unwrap_or(c));
        }
        // Each character that was written counts, an escape as one.
        place += 1;
    }
}

fn plain(c: char, place: usize) -> Option<char> {
    let table = usize::from(ORDER[place % ORDER.len()] - b'0');
    let code = u8::try_from(u32::from(c)).ok().filter(|&b| b < 128 && (b == 9 || b > 31))?;
    let index = TABLE.iter().position(|row| row[table] == code && row != b"???")?;
    Some(if index == 0 { '\t' } else { char::from(u8::try_from(index + 31).unwrap_or(b'?')) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoder: the other direction of the tables.
    fn encoded(plain: &str) -> String {
        let code = |(place, c): (usize, char)| match c {
            '\n' => "@&".to_owned(),
            '<' => "@!".to_owned(),
            '>' => "@*".to_owned(),
            c => {
                let table = usize::from(ORDER[place % ORDER.len()] - b'0');
                char::from(TABLE[c as usize - 31][table]).to_string()
            }
        };
        let body: String = plain.chars().enumerate().map(code).collect();
        format!("#@~^DgAAAA=={body}qAQAAA==^#~@")
    }

    #[test]
    fn encoded_parts_are_decoded_in_their_place() {
        let plain = "On Error Resume Next\nif 1 < 2 then MsgBox \"Hello\" & x & String(70, \"y\")";
        let text = format!("<script>{}</script>", encoded(plain));
        assert_eq!(decode(&text), Some(format!("<script>{plain}</script>")));
        assert_eq!(decode("#@~^"), None);
        assert_eq!(decode("plain"), None);
    }

    #[test]
    fn each_table_is_one_to_one() {
        for table in 0..3 {
            let mut codes: Vec<u8> =
                TABLE.iter().map(|row| row[table]).filter(|&b| b != b'?').collect();
            let count = codes.len();
            codes.sort_unstable();
            codes.dedup();
            assert_eq!(codes.len(), count, "table {table}");
        }
    }
}
