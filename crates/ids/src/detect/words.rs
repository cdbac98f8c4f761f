//! Checks of protocols whose values are words of their own: names, ranges, dates, interfaces.

use gauntlet_protocols::tls::{flag, version};

use gauntlet_protocols::{enip, modbus};

/// Reads what a check is about.
pub(crate) trait Source {
    /// The `i`th number of this name.
    fn number(&self, name: &str, i: usize) -> Option<i64>;
    /// The `i`th buffer of this name.
    fn bytes(&self, name: &str, i: usize) -> Option<Vec<u8>>;
}

/// The most values that one check looks at.
const VALUES_MAX: usize = 4_096;

/// Whether a check holds; `None` if its keyword is not one of words.
pub(crate) fn holds(keyword: &str, words: &[String], source: &dyn Source) -> Option<bool> {
    let numbers = |name: &'static str| (0..VALUES_MAX).map_while(move |i| source.number(name, i));
    Some(match keyword {
        "dcerpc.opnum" => numbers("dcerpc.opnum").any(|n| in_ranges(words, n)),
        "dcerpc.iface" => (0..VALUES_MAX)
            .map_while(|i| source.bytes("dcerpc.iface", i))
            .any(|key| interface(words, &key)),
        "krb5.ticket_encryption" => {
            numbers("krb5.ticket_encryption").any(|kind| encryption(words, kind))
        }
        "ssl_version" => source.number("tls.version", 0).is_some_and(|v| ssl_version(words, v)),
        "tls.version" => source.number("tls.version", 0).is_some_and(|v| tls_version(words, v)),
        "ssl_state" => source.number("ssl_state", 0).is_some_and(|state| ssl_state(words, state)),
        "http2.settings" => numbers("http2.settings").any(|setting| http2_setting(words, setting)),
        "ike.chosen_sa_attribute" => words.iter().any(|word| chosen(word, source)),
        // A list of commas in one condition.
        "modbus" => modbus::Condition::of_text(&words.join(", ")).is_some_and(|condition| {
            source.bytes("modbus.message", 0).is_some_and(|message| condition.holds(&message))
        }),
        "tls.subject" | "tls.issuerdn" | "tls.fingerprint" => certificate(keyword, words, source),
        "cip_service" => enip::Service::of_text(&words.join(",")).is_some_and(|service| {
            source.bytes("enip.cip", 0).is_some_and(|cip| service.holds(&cip))
        }),
        "ftpdata_command" => {
            let found = source.bytes("ftpdata.command", 0).unwrap_or_default();
            words.iter().any(|word| word.as_bytes().eq_ignore_ascii_case(&found))
        }
        _ => return None,
    })
}

/// Whether detection knows a keyword whose values are words, and what it reads for it.
pub(crate) fn subject(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "dcerpc.opnum" => "dcerpc.opnum",
        "dcerpc.iface" => "dcerpc.iface",
        "krb5.ticket_encryption" => "krb5.ticket_encryption",
        "ssl_version" | "tls.version" => "tls.version",
        "ssl_state" => "ssl_state",
        "http2.settings" => "http2.settings",
        "ftpdata_command" => "ftpdata.command",
        "ike.chosen_sa_attribute" => "ike.chosen_sa_attribute",
        "modbus" => "modbus.message",
        "tls.subject" => "tls.cert_subject",
        "tls.issuerdn" => "tls.cert_issuer",
        "tls.fingerprint" => "tls.cert_fingerprint",
        // A certificate has expired, or has not, when the packet comes.
        "tls_cert_expired" | "tls_cert_valid" => "tls_cert_notafter",
        "cip_service" => "enip.cip",
        _ => return None,
    })
}

/// A text that is a part of a name in the certificate, or is not, with `!` before it.
fn certificate(keyword: &str, words: &[String], source: &dyn Source) -> bool {
    let Some(found) = subject(keyword).and_then(|name| source.bytes(name, 0)) else {
        return false;
    };
    words.iter().all(|word| {
        let (wanted, is_negated) = match word.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (word.as_str(), false),
        };
        memchr::memmem::find(&found, wanted.as_bytes()).is_some() != is_negated
    })
}

/// `alg_hash=2`: what the responder chose of an attribute.
fn chosen(word: &str, source: &dyn Source) -> bool {
    let Some((name, wanted)) = word.split_once('=') else { return false };
    let name = format!("ike.chosen_sa_attribute:{}", name.trim());
    source.number(&name, 0).is_some_and(|found| wanted.trim().parse() == Ok(found))
}

/// All words, cut at commas.
fn parts(words: &[String]) -> impl Iterator<Item = &str> {
    words.iter().flat_map(|word| word.split(',')).map(str::trim).filter(|part| !part.is_empty())
}

fn in_ranges(words: &[String], number: i64) -> bool {
    parts(words).any(|part| match part.split_once('-') {
        Some((low, high)) => {
            let (low, high) = (low.trim().parse::<i64>(), high.trim().parse::<i64>());
            matches!((low, high), (Ok(low), Ok(high)) if (low..=high).contains(&number))
        }
        None => part.parse() == Ok(number),
    })
}

/// `UUID [, VERSION] [, any_frag]`; the key is the UUID, two bytes of version, and 1 if it came in
/// a first fragment.
fn interface(words: &[String], key: &[u8]) -> bool {
    let mut wanted = parts(words);
    let uuid = wanted.next().unwrap_or_default();
    let digits: Vec<u8> = uuid
        .chars()
        .filter(|c| *c != '-')
        .filter_map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |n, digit| n << 4 | digit)).collect();
    let (mut version_holds, mut any_fragment) = (true, false);
    for part in wanted {
        if part == "any_frag" {
            any_fragment = true;
            continue;
        }
        let found = match key.get(16..18) {
            Some([high, low]) => u16::from_be_bytes([*high, *low]),
            _ => return false,
        };
        version_holds = crate::rule::number::compare(part, u64::from(u16::MAX))
            .is_ok_and(|compare| compare.holds(found.into()));
    }
    let first = key.get(18) == Some(&1);
    key.get(..16) == Some(bytes.as_slice()) && version_holds && (any_fragment || first)
}

/// Encryption types of Kerberos (IANA, "Kerberos Encryption Type Numbers").
const ENCRYPTIONS: &[(&str, i64)] = &[
    ("des-cbc-crc", 1),
    ("des-cbc-md4", 2),
    ("des-cbc-md5", 3),
    ("des3-cbc-md5", 5),
    ("des3-cbc-sha1", 7),
    ("des3-cbc-sha1-kd", 16),
    ("aes128-cts-hmac-sha1-96", 17),
    ("aes256-cts-hmac-sha1-96", 18),
    ("aes128-cts-hmac-sha256-128", 19),
    ("aes256-cts-hmac-sha384-192", 20),
    ("rc4-hmac", 23),
    ("rc4-hmac-exp", 24),
    ("camellia128-cts-cmac", 25),
    ("camellia256-cts-cmac", 26),
    ("subkey-keymaterial", 65),
    ("rc4-md4", -128),
    ("rc4-plain2", -129),
    ("rc4-lm", -130),
    ("rc4-sha", -131),
    ("des-plain", -132),
    ("rc4-hmac-OLD", -133),
    ("rc4-plain-OLD", -134),
    ("rc4-hmac-OLD-exp", -135),
    ("rc4-plain-OLD-exp", -136),
    ("rc4-plain", -140),
    ("rc4-plain-exp", -141),
];
/// Those that are not weak.
const STRONG: [i64; 6] = [17, 18, 19, 20, 25, 26];

fn encryption(words: &[String], kind: i64) -> bool {
    parts(words).any(|part| match part {
        "weak" => !STRONG.contains(&kind),
        "!weak" => STRONG.contains(&kind),
        name => {
            let known = ENCRYPTIONS.iter().find(|(other, _)| *other == name);
            known.map(|(_, number)| *number).or_else(|| name.parse().ok()) == Some(kind)
        }
    })
}

/// Drafts of TLS 1.3 count as TLS 1.3.
fn final_version(found: i64) -> u16 {
    let found = u16::try_from(found).unwrap_or_default();
    if found >> 8 == 0x7f { version::TLS13 } else { found }
}

fn version_of(name: &str) -> Option<u16> {
    Some(match name.to_ascii_lowercase().as_str() {
        "sslv2" => version::SSL2,
        "sslv3" => 0x0300,
        "tls1.0" | "1.0" => version::TLS10,
        "tls1.1" | "1.1" => version::TLS11,
        "tls1.2" | "1.2" => version::TLS12,
        "tls1.3" | "1.3" => version::TLS13,
        raw => {
            return u16::from_str_radix(raw.strip_prefix("0x")?, 16).ok();
        }
    })
}

/// `!` before any of the names is for all of them.
fn ssl_version(words: &[String], found: i64) -> bool {
    let found = final_version(found);
    if !(version::SSL2..=version::TLS13).contains(&found) {
        return false;
    }
    let negated = parts(words).any(|part| part.starts_with('!'));
    let listed =
        parts(words).any(|part| version_of(part.trim_start_matches('!').trim()) == Some(found));
    listed != negated
}

fn tls_version(words: &[String], found: i64) -> bool {
    let raw = u16::try_from(found).unwrap_or_default();
    parts(words).any(|part| match version_of(part) {
        Some(wanted) if part.starts_with("0x") => wanted == raw,
        Some(wanted) => wanted == final_version(found),
        None => false,
    })
}

/// States between `|`; of one with `!` all others.
fn ssl_state(words: &[String], state: i64) -> bool {
    let state = u32::try_from(state).unwrap_or_default();
    let names = words.iter().flat_map(|word| word.split(['|', ','])).map(str::trim);
    let (mut flags, mut mask) = (0, 0);
    for name in names.filter(|name| !name.is_empty()) {
        let bit = match name.trim_start_matches('!').trim() {
            "client_hello" => flag::CLIENT_HELLO,
            "server_hello" => flag::SERVER_HELLO,
            "client_keyx" => flag::CLIENT_KEY_EXCHANGE,
            "server_keyx" => flag::SERVER_KEY_EXCHANGE,
            _ => 0,
        };
        flags |= bit;
        if name.starts_with('!') {
            mask |= bit;
        }
    }
    (flags & state) ^ mask != 0
}

/// Settings of HTTP/2 by their numbers (RFC 9113, section 6.5.2, RFC 8441).
const HTTP2_SETTINGS: &[(&str, i64)] = &[
    ("SETTINGS_HEADER_TABLE_SIZE", 1),
    ("SETTINGS_ENABLE_PUSH", 2),
    ("SETTINGS_MAX_CONCURRENT_STREAMS", 3),
    ("SETTINGS_INITIAL_WINDOW_SIZE", 4),
    ("SETTINGS_MAX_FRAME_SIZE", 5),
    ("SETTINGS_MAX_HEADER_LIST_SIZE", 6),
    ("SETTINGS_ENABLE_CONNECT_PROTOCOL", 8),
];

/// A setting is its number, shifted by 32 bits, and its value.
fn http2_setting(words: &[String], found: i64) -> bool {
    let text = words.join(",");
    let end = text.find(|c: char| !c.is_ascii_alphabetic() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let known = HTTP2_SETTINGS.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    let Some((_, number)) = known else { return false };
    if found >> 32 != *number {
        return false;
    }
    let value = u64::try_from(found & 0xffff_ffff).unwrap_or_default();
    let rest = rest.trim();
    rest.is_empty()
        || crate::rule::number::compare(rest, u64::from(u32::MAX))
            .is_ok_and(|compare| compare.holds(value))
}
