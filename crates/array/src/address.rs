//! Where the array's database is: a PostgreSQL connection URI (PostgreSQL's manual, 34.1.1.2).

use crate::error::ArrayError;

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// Not at all: for loopback and Unix sockets.
    Disable,
    /// Encrypted; the server's certificate is not verified.
    Require,
    /// Encrypted, and the certificate is verified for the host's name. The default.
    VerifyFull,
}

/// `postgres://user:password@host:5432/database?sslmode=verify-full`. Several hosts, separated by
/// commas, are tried in order until one takes writes, which follows a failover to a replica.
#[derive(Clone)]
pub struct DatabaseAddress {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) tls: TlsMode,
}

impl std::fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.server())
    }
}

impl DatabaseAddress {
    /// Reads a URI.
    ///
    /// # Errors
    /// What is wrong with it, without its password.
    pub fn parse(uri: &str) -> Result<Self, ArrayError> {
        let wrong = |cause: &str| ArrayError::Address(cause.to_owned());
        if !uri.starts_with("postgres://") && !uri.starts_with("postgresql://") {
            return Err(wrong("it does not begin with postgres://"));
        }
        let is_escaped = uri.matches('@').count() <= 1 && !uri.contains([' ', '#']);
        if !is_escaped {
            return Err(wrong("write @ in a password as %40, / as %2F, # as %23, a blank as %20"));
        }
        let (rest, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut tls = TlsMode::VerifyFull;
        let mut others = Vec::new();
        for option in query.split('&').filter(|o| !o.is_empty()) {
            match option {
                "sslmode=disable" => tls = TlsMode::Disable,
                "sslmode=require" => tls = TlsMode::Require,
                "sslmode=verify-full" => tls = TlsMode::VerifyFull,
                other if other.starts_with("sslmode=") => {
                    return Err(wrong("sslmode is disable, require or verify-full"));
                }
                other => others.push(other),
            }
        }
        let plain = match others.is_empty() {
            true => rest.to_owned(),
            false => format!("{rest}?{}", others.join("&")),
        };
        // The driver's message may repeat a part of the URI, and so a password.
        let parsed: Result<tokio_postgres::Config, _> = plain.parse();
        let mut config = parsed.map_err(|_| wrong("it is no connection URI of PostgreSQL"))?;
        if config.get_hosts().is_empty() || config.get_user().is_none() {
            return Err(wrong("a host and a user are needed: postgres://user@host/database"));
        }
        if config.get_dbname().is_none() {
            return Err(wrong("no database is named: postgres://user@host/database"));
        }
        let unix =
            config.get_hosts().iter().all(|h| matches!(h, tokio_postgres::config::Host::Unix(_)));
        if unix {
            tls = TlsMode::Disable;
        }
        config.ssl_mode(match tls {
            TlsMode::Disable => tokio_postgres::config::SslMode::Disable,
            TlsMode::Require | TlsMode::VerifyFull => tokio_postgres::config::SslMode::Require,
        });
        Ok(DatabaseAddress { config, tls })
    }

    /// The same database for another user, who has no password: a certificate stands for them.
    #[must_use]
    pub fn with_user(&self, user: &str) -> Self {
        let mut other = self.clone();
        other.config.user(user).password("");
        other
    }

    /// `host:port/database`, without user and password: for logs and errors.
    pub fn server(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(at, host)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                tokio_postgres::config::Host::Tcp(name) => format!("{name}:{port}"),
                tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        format!("{}/{}", hosts.join(","), self.config.get_dbname().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_passwords() {
        let read = |uri| DatabaseAddress::parse(uri);
        let two = read("postgres://me:se%40cret@a.example:5433,b.example:5434/mail").unwrap();
        assert_eq!(two.server(), "a.example:5433,b.example:5434/mail");
        assert_eq!(format!("{two:?}"), two.server());
        assert_eq!(two.tls, TlsMode::VerifyFull);
        assert_eq!(two.config.get_password(), Some(b"se@cret".as_slice()));
        let local = read("postgres://me@%2Frun%2Fpg/mail?application_name=x").unwrap();
        assert_eq!((local.tls, local.server()), (TlsMode::Disable, "/run/pg/mail".to_owned()));
        assert_eq!(read("postgres://me@h/d?sslmode=require").unwrap().tls, TlsMode::Require);
        let escaped = read("postgres://me:ge heim@h/d").unwrap_err().to_string();
        assert!(escaped.contains("%40") && !escaped.contains("heim"), "{escaped}");
        for wrong in
            ["mysql://a@b/c", "postgres://h/d", "postgres://u@h", "postgres://u:geheim@h:x/d"]
        {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.starts_with("array.database: ") && !error.contains("geheim"), "{error}");
        }
    }
}
