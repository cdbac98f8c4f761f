//! Where the array's object store is.
//!
//! ```text
//! s3://KEY:SECRET@host:port/bucket/prefix?region=eu-west-1&tls=verify-full
//! file:///var/lib/array-objects
//! ```
//!
//! A `/`, `+`, `@` or `%` in the secret is written as `%2F`, `%2B`, `%40`, `%25`. Without
//! `KEY:SECRET@` they are taken from the environment (`AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`).

use std::path::PathBuf;

use crate::error::ArrayError;

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectsTls {
    /// Not at all: for loopback, and networks that are trusted. Requests are signed all the same.
    Off,
    /// Encrypted; the server's certificate is not verified.
    Require,
    /// Encrypted, and the certificate is verified for the host's name. The default.
    VerifyFull,
}

/// A bucket of an S3-compatible server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) key: String,
    pub(crate) secret: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) bucket: String,
    pub(crate) region: String,
    pub(crate) tls: ObjectsTls,
}

/// The kind of store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Bucket(Bucket),
    /// A folder, for trials and for a file system that all nodes share.
    Folder(PathBuf),
}

/// Where objects are.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectsAddress {
    pub(crate) place: Place,
    /// What all names of objects begin with, without slashes at its ends; may be empty.
    pub(crate) prefix: String,
}

impl std::fmt::Debug for ObjectsAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.server())
    }
}

impl ObjectsAddress {
    /// Reads an address; see the module.
    ///
    /// # Errors
    /// What is wrong with it, without its secret.
    pub fn parse(uri: &str) -> Result<Self, ArrayError> {
        Self::parse_in(uri, |name| std::env::var(name).ok())
    }

    /// The same in this environment.
    fn parse_in(
        uri: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ArrayError> {
        if let Some(path) = uri.strip_prefix("file://") {
            let path = PathBuf::from(path);
            if !path.is_absolute() {
                return Err(wrong("a folder is an absolute path: file:///var/lib/objects"));
            }
            return Ok(ObjectsAddress { place: Place::Folder(path), prefix: String::new() });
        }
        let rest = uri
            .strip_prefix("s3://")
            .ok_or_else(|| wrong("it begins with neither s3:// nor file://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (region, tls) = options(query)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, server) = match authority.rsplit_once('@') {
            Some((login, server)) => (Some(login), server),
            None => (None, authority),
        };
        let (key, secret) = credentials(login, environment)?;
        let (host, port) = host_and_port(server, tls)?;
        let path = path.trim_matches('/');
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if bucket.is_empty() || !bucket.chars().all(is_plain) {
            return Err(wrong("no bucket is named: s3://KEY:SECRET@host/bucket"));
        }
        if !prefix.chars().all(|c| is_plain(c) || c == '/') || prefix.contains("//") {
            return Err(wrong("a prefix has letters, digits, '-', '_', '.' and single '/'"));
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.trim_matches('/').to_owned());
        let place = Place::Bucket(Bucket { key, secret, host, port, bucket, region, tls });
        Ok(ObjectsAddress { place, prefix })
    }

    /// `host:port/bucket/prefix` or the folder, without key and secret: for logs and errors.
    pub fn server(&self) -> String {
        match &self.place {
            Place::Bucket(at) => {
                let slash = if self.prefix.is_empty() { "" } else { "/" };
                format!("{}:{}/{}{slash}{}", at.host, at.port, at.bucket, self.prefix)
            }
            Place::Folder(path) => path.display().to_string(),
        }
    }
}

fn wrong(cause: &str) -> ArrayError {
    ArrayError::ObjectsAddress(cause.to_owned())
}

/// Region and TLS.
fn options(query: &str) -> Result<(String, ObjectsTls), ArrayError> {
    let (mut region, mut tls) = ("us-east-1".to_owned(), ObjectsTls::VerifyFull);
    for option in query.split('&').filter(|o| !o.is_empty()) {
        match option.split_once('=') {
            Some(("region", name)) if !name.is_empty() => region = name.to_owned(),
            Some(("tls", "off")) => tls = ObjectsTls::Off,
            Some(("tls", "require")) => tls = ObjectsTls::Require,
            Some(("tls", "verify-full")) => tls = ObjectsTls::VerifyFull,
            Some(("tls", _)) => return Err(wrong("tls is off, require or verify-full")),
            _ => return Err(wrong("its options are region=NAME and tls=off|require|verify-full")),
        }
    }
    Ok((region, tls))
}

fn credentials(
    login: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(String, String), ArrayError> {
    let missing = || {
        wrong(
            "no credentials: s3://KEY:SECRET@host/bucket, or AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY in the environment",
        )
    };
    let Some(login) = login else {
        let of = |name| environment(name).filter(|value| !value.is_empty());
        let key = of("AWS_ACCESS_KEY_ID").ok_or_else(missing)?;
        return Ok((key, of("AWS_SECRET_ACCESS_KEY").ok_or_else(missing)?));
    };
    let (key, secret) = login.split_once(':').ok_or_else(missing)?;
    let plain = |text: &str| {
        decoded(text).filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()))
    };
    let bad = || wrong("key or secret are no plain text: write '/' as %2F and '%' as %25");
    Ok((plain(key).ok_or_else(bad)?, plain(secret).ok_or_else(bad)?))
}

/// Text with `%XX` for some of its bytes; none if it is not that.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next()?.as_bytes().to_vec();
    for part in parts {
        out.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        out.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(out).ok()
}

fn host_and_port(server: &str, tls: ObjectsTls) -> Result<(String, u16), ArrayError> {
    // A bracketed IPv6 address has colons of its own.
    let end = server.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match server.get(end..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => server.split_at(end + colon),
        None => (server, ""),
    };
    let default = if tls == ObjectsTls::Off { 80 } else { 443 };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| wrong("its port is no number"))?,
        None => default,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return Err(wrong("no host is named: s3://KEY:SECRET@host/bucket"));
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(uri: &str) -> (Bucket, String) {
        let address = ObjectsAddress::parse_in(uri, |_| None).unwrap();
        let Place::Bucket(bucket) = address.place else { panic!("{uri}") };
        (bucket, address.prefix)
    }

    #[test]
    fn addresses_are_read_and_shown_without_secrets() {
        let uri = "s3://AKIA1:se%2Fcr%2Bet@s3.example:9000/mail/a/b/?region=eu-west-1&tls=off";
        let (read, prefix) = bucket(uri);
        assert_eq!((read.key.as_str(), read.secret.as_str()), ("AKIA1", "se/cr+et"));
        assert_eq!((read.host.as_str(), read.port, prefix.as_str()), ("s3.example", 9000, "a/b"));
        assert_eq!((read.region.as_str(), read.tls), ("eu-west-1", ObjectsTls::Off));
        let shown = format!("{:?}", ObjectsAddress::parse(uri).unwrap());
        assert_eq!(shown, "s3.example:9000/mail/a/b");
        let (read, prefix) = bucket("s3://k:s@[2001:db8::1]/mail");
        assert_eq!((read.host.as_str(), read.port), ("[2001:db8::1]", 443));
        assert_eq!((read.region.as_str(), read.tls), ("us-east-1", ObjectsTls::VerifyFull));
        assert_eq!(prefix, "");
        assert_eq!(bucket("s3://k:s@[::1]:9000/mail?tls=require").0.port, 9000);
        let of = |name: &str| Some(format!("of-{name}"));
        let read = ObjectsAddress::parse_in("s3://s3.example/mail", of).unwrap();
        let Place::Bucket(read) = read.place else { panic!() };
        assert_eq!(read.key, "of-AWS_ACCESS_KEY_ID");
        assert_eq!(ObjectsAddress::parse("file:///a/b").unwrap().server(), "/a/b");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        for (uri, cause) in [
            ("http://k:geheim@h/b", "neither s3://"),
            ("file://a", "absolute"),
            ("s3://h/b", "AWS_ACCESS_KEY_ID"),
            ("s3://k@h/b", "no credentials"),
            ("s3://k:geheim%2@h/b", "%2F"),
            ("s3://k:geheim@h:x/b", "port"),
            ("s3://k:geheim@/b", "no host"),
            ("s3://k:geheim@h", "no bucket"),
            ("s3://k:geheim@h/", "no bucket"),
            ("s3://k:ge/heim@h/b", "no credentials"),
            ("s3://k:geheim@h/b/a b", "prefix"),
            ("s3://k:geheim@h/b?tls=maybe", "tls is off"),
            ("s3://k:geheim@h/b?x=geheim", "region=NAME"),
        ] {
            let error = ObjectsAddress::parse_in(uri, |_| None).unwrap_err().to_string();
            assert!(
                error.starts_with("array.objects: ") && error.contains(cause),
                "{uri}: {error}"
            );
            assert!(!error.contains("heim"), "{error}");
        }
    }
}
