//! Commands of FTP (RFC 959 and its successors).

/// Those that are known, in the order in which Suricata numbers them. `AUTH_TLS` is never seen.
pub(super) const NAMES: &[&str] = &[
    "PORT", "EPRT", "AUTH_TLS", "PASV", "EPSV", "RETR", "STOR", "ABOR", "ACCT", "ALLO", "APPE",
    "CDUP", "CHMOD", "CWD", "DELE", "HELP", "IDLE", "LIST", "MAIL", "MDTM", "MKD", "MLFL", "MLSD",
    "MODE", "MRCP", "MRSQ", "MSAM", "MSND", "MSOM", "NLST", "NOOP", "PASS", "PWD", "QUIT", "REIN",
    "REST", "RMD", "RNFR", "RNTO", "SITE", "SIZE", "SMNT", "STAT", "STOU", "STRU", "SYST", "TYPE",
    "UMASK", "USER",
];

/// The command of a line: the name that ends first, wherever it stands, letters' case aside.
///
/// Suricata looks for the names as patterns: `XPWD` is a `PWD`.
pub(super) fn find(line: &[u8]) -> Option<&'static str> {
    for end in 3..=line.len() {
        let begin = line.get(..end)?;
        let ends = |name: &&&str| {
            let name = name.as_bytes();
            let tail = begin.len().checked_sub(name.len()).and_then(|at| begin.get(at..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(name))
        };
        if let Some(name) = NAMES.iter().find(ends) {
            return Some(name);
        }
    }
    None
}
