//! Any bytes as `Proxy-Authorization`. Shared with the fuzz target
//! `fuzz/fuzz_targets/proxy_login.rs`.

use gauntlet_proxy::auth::header::{Credentials, read};

/// Feeds the bytes to the reader; gives what it read.
pub(crate) fn feed(input: &[u8]) -> Option<Credentials> {
    let read = read(input)?;
    match &read {
        Credentials::Basic { login, password } => {
            check_login(login);
            assert!(password.len() <= 256 && !password.contains(char::is_control));
        }
        Credentials::Digest(proof) => {
            check_login(&proof.login);
            assert_eq!(proof.response.len(), proof.algorithm.digits());
            assert!(proof.nc.len() == 8 && u32::from_str_radix(&proof.nc, 16).is_ok());
        }
        Credentials::Other => {}
    }
    Some(read)
}

/// It may stand in a line of a log, and between colons.
fn check_login(login: &str) {
    assert!(!login.is_empty() && login.len() <= 254);
    assert!(!login.contains(|c: char| c.is_control() || c == ':'), "{login:?}");
}
