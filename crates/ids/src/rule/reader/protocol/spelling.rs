//! How values of words are spelt, where more than the words themselves counts.

fn is_number(text: &str, max: u64) -> bool {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && text.parse::<u64>().is_ok_and(|number| number <= max)
}

/// `tls.version`: one of four names, or two bytes in hex.
pub(super) fn tls_version(text: &str) -> bool {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => {
            (1..=4).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
        }
        None => matches!(text, "1.0" | "1.1" | "1.2" | "1.3"),
    }
}

/// `ssl_version`: each once. A `!` before the first is for all; later ones may repeat it.
pub(super) fn ssl_versions(text: &str) -> bool {
    let lower = text.trim_start().to_ascii_lowercase();
    let words = || lower.split([',', ' ']).filter(|word| !word.is_empty());
    let late = words().skip(1).any(|word| word.starts_with('!'));
    let mut names: Vec<&str> = words().map(|word| word.trim_start_matches('!')).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == count && !lower.starts_with(',') && (!late || lower.starts_with('!'))
}

/// `ssl_state`: as they are written in the manual, with a word behind each bar.
pub(super) fn ssl_states(text: &str) -> bool {
    is_lower(text) && !text.trim_end().ends_with(['|', ','])
}

/// Without upper case.
pub(super) fn is_lower(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// `dcerpc.iface`: `UUID[,COMPARISON][,any_frag]`, the comparison of a version of 16 bits.
pub(super) fn dce_interface(text: &str) -> bool {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_version = |text: &&str| crate::rule::number::compare(text, u64::from(u16::MAX)).is_ok();
    match parts.as_slice() {
        [uuid] | [uuid, "any_frag"] => is_uuid(uuid),
        [uuid, version] | [uuid, version, "any_frag"] => is_uuid(uuid) && is_version(version),
        _ => false,
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let is_hex = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    let bare = text.len() == 32 && !text.contains('-');
    text.bytes().all(is_hex) && (bare || lengths.eq([8, 4, 4, 4, 12]))
}

/// `dcerpc.opnum`: numbers and ranges that rise.
pub(super) fn dce_operations(text: &str) -> bool {
    let max = u64::from(u32::MAX);
    text.split(',').all(|part| {
        let part = part.trim_start();
        match part.split_once('-') {
            None => is_number(part, max),
            Some((low, high)) => {
                let ends = low.parse::<u32>().ok().zip(high.parse::<u32>().ok());
                is_number(low, max) && ends.is_some_and(|(low, high)| low <= high)
            }
        }
    })
}

/// `ike.chosen_sa_attribute`: `NAME=NUMBER`.
pub(super) fn ike_attribute(text: &str) -> bool {
    let names = [
        "alg_enc",
        "alg_hash",
        "alg_auth",
        "alg_dh",
        "sa_group_type",
        "sa_life_type",
        "sa_life_duration",
        "alg_prf",
        "sa_key_length",
        "sa_field_size",
    ];
    text.split_once('=').is_some_and(|(name, number)| {
        names.contains(&name.trim()) && is_number(number.trim(), u64::from(u32::MAX))
    })
}

/// Names of encryptions (RFC 3961 and IANA's registry) that `krb5.ticket_encryption` knows.
const ENCRYPTIONS: &[&str] = &[
    "aes128-cts-hmac-sha1-96",
    "aes128-cts-hmac-sha256-128",
    "aes256-cts-hmac-sha1-96",
    "aes256-cts-hmac-sha384-192",
    "camellia128-cts-cmac",
    "camellia256-cts-cmac",
    "des-cbc-crc",
    "des-cbc-md4",
    "des-cbc-md5",
    "des-ede3-cbc-Env-OID",
    "des-plain",
    "des3-cbc-md5",
    "des3-cbc-sha1",
    "des3-cbc-sha1-kd",
    "dsaWithSHA1-CmsOID",
    "md5WithRSAEncryption-CmsOID",
    "rc2CBC-EnvOID",
    "rc4-hmac",
    "rc4-hmac-OLD",
    "rc4-hmac-OLD-exp",
    "rc4-hmac-exp",
    "rc4-lm",
    "rc4-md4",
    "rc4-plain",
    "rc4-plain-OLD",
    "rc4-plain-OLD-exp",
    "rc4-plain-exp",
    "rc4-plain2",
    "rc4-sha",
    "rsaES-OAEP-ENV-OID",
    "rsaEncryption-EnvOID",
    "sha1WithRSAEncryption-CmsOID",
    "subkey-keymaterial",
];

/// `krb5.ticket_encryption`: `weak` or `!weak`, or a list of names and numbers.
pub(super) fn ticket_encryption(text: &str) -> bool {
    let text = text.trim_matches(' ');
    let mut words = text.split([',', ' ']).filter(|word| !word.is_empty()).peekable();
    let is_known = |word: &str| ENCRYPTIONS.contains(&word) || word.parse::<i32>().is_ok();
    matches!(text, "weak" | "!weak") || (words.peek().is_some() && words.all(is_known))
}

/// `http2.settings`: the name of a setting (RFC 9113 section 6.5.2), perhaps with a comparison.
pub(super) fn http2_setting(text: &str) -> bool {
    let names = [
        "settings_header_table_size",
        "settings_enable_push",
        "settings_max_concurrent_streams",
        "settings_initial_window_size",
        "settings_max_frame_size",
        "settings_max_header_list_size",
    ];
    let text = text.trim_start().to_ascii_lowercase();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).is_some_and(|name| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_spelt_as_in_suricata() {
        let uuid = "12345678-1234-1234-1234-123456789abc";
        let versioned = |rest: &str| format!("{uuid},{rest}");
        for (is_good, good, bad) in [
            (tls_version as fn(&str) -> bool, vec!["1.0", " 1.3", "0x7f12"], vec!["1.4", "!1.0"]),
            (tls_version, vec!["0x0303"], vec!["0x", "0xzz", "0x03033", "1.0,1.1", "foo"]),
            (ssl_versions, vec!["tls1.2", "!tls1.0,!tls1.1"], vec!["tls1.0,!tls1.1", ",tls1.2"]),
            (ssl_versions, vec!["!tls1.0,tls1.1"], vec!["tls1.2,tls1.2", "!tls1.2,tls1.2"]),
            (ssl_states, vec!["client_hello|server_hello"], vec!["CLIENT_HELLO", "unknown|"]),
            (dce_operations, vec!["1", "1,2", "1-5,9"], vec!["5-1", "1,", "foo", "!1", "1 , 2"]),
            (ike_attribute, vec!["alg_hash=2", "alg_hash = 2"], vec!["alg_hash", "foo=1"]),
            (ike_attribute, vec!["alg_dh=4294967295"], vec!["alg_hash=-1", "ALG_HASH=2"]),
            (ticket_encryption, vec!["weak", "!weak", "17,18", "-1"], vec!["WEAK", "!", "foo"]),
            (ticket_encryption, vec!["rc4-hmac, des-cbc-md5"], vec!["weak,17", "!17", ""]),
            (http2_setting, vec!["SETTINGS_ENABLE_PUSH=0", "settings_enable_push"], vec!["1"]),
            (http2_setting, vec!["SETTINGS_MAX_FRAME_SIZE >5"], vec!["!SETTINGS_ENABLE_PUSH"]),
            (dce_interface, vec![uuid, &versioned("any_frag")], vec!["foo", &uuid[1..]]),
            (dce_interface, vec![&versioned("=1,any_frag")], vec![&versioned("any_frag,=1")]),
            (dce_interface, vec![&versioned(">65534")], vec![&versioned(">65535")]),
            (dce_interface, vec![&versioned("!1")], vec![&versioned("<0"), &versioned("=abc")]),
        ] {
            for text in good {
                assert!(is_good(text), "{text}");
            }
            for text in bad {
                assert!(!is_good(text), "{text}");
            }
        }
    }
}
