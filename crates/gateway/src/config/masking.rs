//! Secrets taken out of what is shown: one place for `config show`, `config check`, the console's
//! settings, errors and logs.

use toml::Value;

/// What stands for a secret.
const MASK: &str = "(set)";
/// Words in names of settings and of parameters of URLs whose values are secret.
const SECRET_WORDS: [&str; 11] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "sig",
    "credential",
    "session",
    "code",
    "licen",
];
/// Names of settings whose values are secret as a whole.
const SECRET_SETTINGS: [&str; 3] = ["token", "password", "secret"];

/// Settings that are one URL with a login, whatever was forgotten to be escaped in it.
const LOGIN_SETTINGS: [&str; 3] = ["array.database", "array.replica", "array.objects"];

/// A URL whose login, up to the last `@`, is masked.
fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{MASK}@{rest}"),
        _ => url.to_owned(),
    }
}

/// A text with the secrets of all URLs in it masked: passwords, user names that are tokens (of
/// http), and parameters whose names say that they are secret. A secret in a path cannot be known.
pub fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let ends =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`');
        let (url, after) = tail.split_at(tail.find(ends).unwrap_or(tail.len()));
        out.push_str(&masked_url(url, ends_with_web(head)));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The text ends with the scheme of a web page.
fn ends_with_web(head: &str) -> bool {
    let scheme = head.trim_end_matches("://").to_ascii_lowercase();
    scheme.ends_with("http") || scheme.ends_with("https")
}

/// A URL without its scheme. `alone_is_secret`: a user without a password is a secret.
fn masked_url(url: &str, alone_is_secret: bool) -> String {
    let (login, rest) = split_login(url);
    let mut out = String::with_capacity(url.len());
    match login.map(|login| login.split_once(':').ok_or(login)) {
        Some(Ok((user, _))) => out.extend([user, ":", MASK, "@"]),
        Some(Err(_)) if alone_is_secret => out.extend([MASK, "@"]),
        Some(Err(user)) => out.extend([user, "@"]),
        None => {}
    }
    let query = rest.find(['?', '#']).map_or(rest.len(), |at| at + 1);
    let (base, query) = rest.split_at(query);
    out.push_str(base);
    for parameter in query.split_inclusive(['&', ';', '?', '#']) {
        let end = parameter.find(['&', ';', '?', '#']).unwrap_or(parameter.len());
        let (parameter, separator) = parameter.split_at(end);
        match parameter.split_once('=') {
            Some((name, value)) if is_secret_word(name) && !value.is_empty() => {
                out.extend([name, "=", MASK]);
            }
            _ => out.push_str(parameter),
        }
        out.push_str(separator);
    }
    out
}

/// What stands before the host, and the rest. A password may hold a slash that was not encoded:
/// such a URL cannot be used, but is shown in an error.
fn split_login(url: &str) -> (Option<&str>, &str) {
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((login, _)) = authority.rsplit_once('@') {
        return (Some(login), url.get(login.len() + 1..).unwrap_or_default());
    }
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.ends_with(']') || port.bytes().all(|b| b.is_ascii_digit());
    match url.rfind('@').filter(|_| !is_port) {
        Some(at) => (url.get(..at), url.get(at + 1..).unwrap_or_default()),
        None => (None, url),
    }
}

fn is_secret_word(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The value of a setting of this name, with what is secret masked, also within tables and lists.
pub(super) fn masked(name: &str, value: Value) -> Value {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_secret = SECRET_SETTINGS.iter().any(|secret| last.ends_with(secret));
    match value {
        Value::String(text) if is_secret && !text.is_empty() => Value::String(MASK.to_owned()),
        Value::String(text) if LOGIN_SETTINGS.contains(&name) => {
            Value::String(mask(&without_login(&text)))
        }
        Value::String(text) => Value::String(mask(&text)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| masked(name, item)).collect())
        }
        Value::Table(table) => {
            let pairs = table.into_iter().map(|(key, value)| {
                let value = masked(&key, value);
                (key, value)
            });
            Value::Table(pairs.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_masked_however_it_is_written() {
        let shown = |url: &str| {
            masked("array.database", Value::String(url.to_owned())).as_str().unwrap().to_owned()
        };
        assert_eq!(shown("postgres://me:se cr/et@#@host:1/d"), "postgres://(set)@host:1/d");
        assert_eq!(
            shown("postgres://me:p@host/d?sslmode=disable"),
            "postgres://(set)@host/d?sslmode=disable"
        );
        assert_eq!(shown(""), "");
    }

    #[test]
    fn secrets_of_urls_are_masked() {
        for (text, expected) in [
            ("https://ann:s3cret@h.example/x", "https://ann:(set)@h.example/x"),
            ("https://s3cret@h.example/x", "https://(set)@h.example/x"),
            ("HTTPS://:s3cret@h/", "HTTPS://:(set)@h/"),
            ("postgres://ann:s3@cret@h:5432/d", "postgres://ann:(set)@h:5432/d"),
            ("postgres://ann@h:5432/d", "postgres://ann@h:5432/d"),
            ("postgres://ann:s3/cret@h/d", "postgres://ann:(set)@h/d"),
            ("https://h/l?apikey=s3cret&x=1", "https://h/l?apikey=(set)&x=1"),
            ("https://h/l?x=1;Token=s3cret#key=s3cret", "https://h/l?x=1;Token=(set)#key=(set)"),
            ("https://h:8443/@ann/l?x=1", "https://h:8443/@ann/l?x=1"),
            (
                "url \"https://a:s3cret@h/\" and http://b:s3cret@i/",
                "url \"https://a:(set)@h/\" and http://b:(set)@i/",
            ),
            ("nothing", "nothing"),
            ("://", "://"),
            ("x://@", "x://@"),
            ("https://[2001:db8::1]/", "https://[2001:db8::1]/"),
        ] {
            assert_eq!(mask(text), expected, "{text}");
        }
    }

    #[test]
    fn secrets_of_settings_are_masked() {
        let shown = |name: &str, value: &str| {
            let table: toml::Table = format!("v = {value}").parse().unwrap();
            masked(name, table["v"].clone()).to_string()
        };
        assert_eq!(shown("oidc.client_secret", "\"abc\""), "\"(set)\"");
        assert_eq!(shown("oidc.client_secret", "\"\""), "\"\"");
        let services = "[{ protocol = \"http\", token = \"abc\" }, { token = \"\" }]";
        let masked = shown("service", services);
        assert!(masked.contains("(set)") && !masked.contains("abc"), "{masked}");
        let group = "[{ name = \"board\", database = \"postgres://ann:pass@db:5432/x\" }]";
        let masked = shown("group", group);
        assert!(
            masked.contains("postgres://ann:(set)@db") && !masked.contains("pass@"),
            "{masked}"
        );
        assert_eq!(shown("quarantine.key_file", "\"held.keys\""), "\"held.keys\"");
        assert_eq!(shown("scan.threads", "4"), "4");
    }
}
