//! Whose certificates are trusted.

use std::path::{Path, PathBuf};

/// Where systems keep the roots that they trust: Debian and Alpine, Fedora and RHEL (new and old),
/// openSUSE, FreeBSD.
const SYSTEM_ROOTS: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The bundle of roots that is trusted: the one that is set, else the system's; empty if there is
/// none.
pub fn trust_roots(set: &Path) -> PathBuf {
    let variable = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    first_of(set, variable.as_deref(), &SYSTEM_ROOTS)
}

/// As [`trust_roots`]; the variable is the one that OpenSSL and its like know. If it is set, it is
/// the answer.
fn first_of(set: &Path, variable: Option<&Path>, paths: &[&str]) -> PathBuf {
    if !set.as_os_str().is_empty() {
        return set.to_owned();
    }
    if let Some(variable) = variable.filter(|v| !v.as_os_str().is_empty()) {
        return if variable.is_file() { variable.to_owned() } else { PathBuf::new() };
    }
    let found = paths.iter().map(PathBuf::from).find(|path| path.is_file());
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_that_are_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (one, none) = (folder.path().join("one.pem"), folder.path().join("none.pem"));
        std::fs::write(&one, "no certificate").unwrap();
        let paths = [none.to_str().unwrap(), one.to_str().unwrap()];
        let unset = Path::new("");
        assert_eq!(first_of(unset, None, &paths), one);
        assert_eq!(first_of(unset, Some(unset), &paths), one);
        assert_eq!(first_of(unset, None, &[]), unset);
        assert_eq!(first_of(unset, Some(&none), &paths), unset);
        assert_eq!(first_of(&none, Some(&one), &paths), none);
    }
}
