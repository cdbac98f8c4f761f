//! Logins of mail clients: the users of the console over TLS, by a password made for the mail
//! program, or by their own as long as they have no second factor.
//!
//! A password costs tens of milliseconds and 19 MB to check, on purpose. So only a few are checked
//! at once, failures are counted together with those of the console ([`Attempts`]), and what was
//! right or wrong a moment ago is remembered (by a keyed hash, in memory only): a client that
//! connects for each message does not pay for each, and one that was given an old password and
//! repeats it for ever does not use up its owner's attempts.
//!
//! [`Attempts`]: gauntlet_store::users::Attempts

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_smtp::scram::Credentials;
use gauntlet_store::random;
use gauntlet_store::users::{SCRAM_ITERATIONS, SCRAM_SALT_BYTES};
use gauntlet_store::{StoreError, User, Users};
use tokio::sync::Semaphore;

use crate::clock::Clock;

/// Passwords checked at once.
const CHECKS_MAX: usize = 2;
/// Logins whose outcome is remembered for [`REMEMBER_FOR`].
const REMEMBERED_MAX: usize = 10_000;
/// A password that was checked is remembered for this long: one that another process changed works
/// on for so long at most.
const REMEMBER_FOR: Duration = Duration::from_secs(60);
/// Why nothing of a person's lets a mail program in.
const ONE_TIME_PASSWORD_WAITS: &str = "the one-time password was not replaced yet: SMTP AUTH works once the \
     person has signed in to the console with it and chosen a password, which revokes older app passwords";
/// What a client that logs in by SCRAM is challenged with.
#[derive(Debug)]
pub struct Challenge {
    /// Whose login it is; none if there is no such user.
    pub user: Option<Arc<User>>,
    /// What its proof is checked with.
    pub credentials: Credentials,
    /// Our part of the nonce.
    pub nonce: String,
}

/// Checks logins. Share it as `Arc<Logins>`.
#[derive(Debug)]
pub struct Logins {
    clock: Clock,
    users: Arc<Users>,
    checks: Semaphore,
    key: [u8; 32],
    challenges: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whose it is; none if it was wrong.
    checked: HashMap<blake3::Hash, (Instant, Option<Arc<User>>)>,
}

impl Logins {
    /// Logins of these users.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(users: Arc<Users>, clock: Clock) -> std::io::Result<Self> {
        let key = random::array()?;
        let (checks, challenges) = (Semaphore::new(CHECKS_MAX), AtomicU64::new(0));
        Ok(Logins { clock, users, checks, key, challenges, state: Mutex::default() })
    }

    /// The users whose logins are checked.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The same, to keep.
    pub fn shared_users(&self) -> Arc<Users> {
        self.users.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The person, if login and password are theirs and the password is not a one-time one.
    pub async fn verify(
        &self,
        client: IpAddr,
        login: String,
        password: String,
    ) -> Option<Arc<User>> {
        let name = {
            let mut hash = blake3::Hasher::new_keyed(&self.key);
            hash.update(&(login.len() as u64).to_le_bytes());
            hash.update(login.as_bytes()).update(password.as_bytes());
            // What was found out of other passwords is not found again.
            hash.update(&self.users.password_changes().to_le_bytes());
            hash.finalize()
        };
        if let Some(known) = self.remembered(&name) {
            return known;
        }
        let permit = self.checks.acquire().await.ok()?;
        // Of many connections that came at once, the first may have been answered meanwhile.
        if let Some(known) = self.remembered(&name) {
            return known;
        }
        if !self.may_try(client, &login) {
            return None;
        }
        let (users, who, now) = (self.users.clone(), login.clone(), self.clock.unix_ms());
        let checked = tokio::task::spawn_blocking(move || {
            let user = users.mail_login(&who, &password, now)?;
            let why = if user.is_none() { refusal_reason(&users, &who) } else { "" };
            Ok::<_, StoreError>((user, why))
        });
        let checked = checked.await;
        drop(permit);
        let (user, why) = match checked {
            Ok(Ok((user, why))) => (user.map(Arc::new), why),
            Ok(Err(error)) => {
                tracing::error!(%error, "logins cannot be checked");
                return None;
            }
            Err(_) => return None,
        };
        match &user {
            Some(_) => self.succeeded(client, &login),
            None => tracing::warn!(%client, login, why, "login refused"),
        }
        let mut state = self.state();
        make_room(&mut state.checked, |(since, _)| self.clock.elapsed(*since) < REMEMBER_FOR);
        state.checked.insert(name, (self.clock.now(), user.clone()));
        user
    }

    /// What was found out about a login and password lately.
    fn remembered(&self, name: &blake3::Hash) -> Option<Option<Arc<User>>> {
        let state = self.state();
        let (since, user) = state.checked.get(name)?;
        (self.clock.elapsed(*since) < REMEMBER_FOR).then(|| user.clone())
    }

    /// Counts an attempt; false if it must not be made now.
    fn may_try(&self, client: IpAddr, login: &str) -> bool {
        let begun = self.users.attempts().begin(client, login);
        if let Err(wait) = &begun {
            let seconds = wait.as_secs();
            tracing::warn!(%client, login, seconds, "login refused: too many attempts");
        }
        begun.is_ok()
    }

    /// What a SCRAM login is checked with. For a login that does not exist, or may not be used now,
    /// something that nothing fits and that is the same each time, so that it reveals nothing.
    pub async fn credentials(&self, client: IpAddr, login: &str) -> Challenge {
        let nonce = self.nonce();
        let (users, who) = (self.users.clone(), login.to_owned());
        // Looked up even where no attempt may be made: a salt that changes with the limit would
        // reveal that the login exists.
        let allowed = self.may_try(client, login);
        // The decoy is requested in any case, so that the time reveals nothing.
        let asked = tokio::task::spawn_blocking(move || {
            let decoy = users.scram_decoy(&who)?;
            let known = users.mail_scram(&who)?;
            // Looked up in any case, as above.
            let why = refusal_reason(&users, &who);
            Ok::<_, StoreError>((known, decoy, why))
        });
        let (known, decoy) = match asked.await {
            Ok(Ok((known, decoy, why))) => {
                if known.is_none() && !why.is_empty() {
                    tracing::warn!(%client, login, why, "login refused");
                }
                (known, Some(decoy))
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "logins cannot be checked");
                (None, None)
            }
            Err(_) => (None, None),
        };
        let nothing_fits = |salt: &[u8]| *blake3::keyed_hash(&self.key, salt).as_bytes();
        if let Some((user, kept)) = known
            && let Some((first, others)) = kept.split_first()
        {
            if !allowed {
                // The same challenge as ever, and no proof fits it.
                let decoy = nothing_fits(&first.salt);
                let credentials = Credentials {
                    salt: first.salt.clone(),
                    iterations: first.iterations,
                    stored_key: decoy,
                    server_key: decoy,
                    others: Vec::new(),
                };
                return Challenge { user: None, credentials, nonce };
            }
            let credentials = Credentials {
                salt: first.salt.clone(),
                iterations: first.iterations,
                stored_key: first.stored_key,
                server_key: first.server_key,
                others: others.iter().map(|k| (k.stored_key, k.server_key)).collect(),
            };
            return Challenge { user: Some(Arc::new(user)), credentials, nonce };
        }
        // Without the database no login gets its own salt: all get one of this process.
        let salt = decoy.unwrap_or_else(|| {
            let fake = blake3::keyed_hash(&self.key, login.to_lowercase().as_bytes());
            fake.as_bytes().get(..SCRAM_SALT_BYTES).unwrap_or_default().to_vec()
        });
        let decoy = nothing_fits(&salt);
        let credentials = Credentials {
            salt,
            iterations: SCRAM_ITERATIONS,
            stored_key: decoy,
            server_key: decoy,
            others: Vec::new(),
        };
        Challenge { user: None, credentials, nonce }
    }

    /// A nonce for a challenge: never the same twice, and not predictable.
    fn nonce(&self) -> String {
        let fresh: [u8; 18] = random::array().unwrap_or_else(|_| {
            let count = self.challenges.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            let hash = blake3::keyed_hash(&self.key, &count);
            hash.as_bytes().first_chunk().copied().unwrap_or_default()
        });
        base64_simd::STANDARD.encode_to_string(fresh)
    }

    /// A login of this client was right.
    pub fn succeeded(&self, client: IpAddr, login: &str) {
        self.users.attempts().succeeded(client, login);
    }

    /// A login of this client was wrong; it was counted when it began.
    pub fn failed(&self, client: IpAddr, login: &str) {
        tracing::warn!(%client, login, "login refused");
    }

    /// Forgets remembered logins: a user may have changed a password.
    pub fn forget(&self) {
        self.state().checked.clear();
    }
}

/// What the log says of a refused login beside that it was refused; the client gets one reply for
/// all reasons. App passwords wait, too, while a one-time password does (decision 169).
fn refusal_reason(users: &Users, login: &str) -> &'static str {
    let waits = |user: &User| user.login.eq_ignore_ascii_case(login) && user.must_change;
    match users.list() {
        Ok(all) if all.iter().any(waits) => ONE_TIME_PASSWORD_WAITS,
        _ => "",
    }
}

/// Keeps a table bounded: drops what is not worth keeping, and if that is not enough, everything.
fn make_room<K, V>(table: &mut HashMap<K, V>, keep: impl Fn(&V) -> bool) {
    if table.len() >= REMEMBERED_MAX {
        table.retain(|_, value| keep(value));
        if table.len() >= REMEMBERED_MAX {
            table.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_smtp::scram::{ClientFirst, Exchange};
    use gauntlet_store::Role;
    use gauntlet_store::users::totp_code;

    use super::*;

    const OWN: &str = "a long password";

    #[test]
    fn the_log_says_that_a_one_time_password_waits() {
        let (_folder, users) = two_users();
        let mut eve = users.list().unwrap().remove(0);
        (eve.login, eve.must_change) = ("eve".to_owned(), true);
        users.add(&eve, "one time only", "test", 1).unwrap();
        let app = users.add_app_password("eve", "phone", "test", 1).unwrap().unwrap();
        assert!(users.mail_login("eve", &app, 2).unwrap().is_none());
        assert!(refusal_reason(&users, "Eve").contains("one-time password was not replaced"));
        assert_eq!(refusal_reason(&users, "ada"), "");
        assert_eq!(refusal_reason(&users, "nobody"), "");
        users.set_password("eve", "another long one", false, "test", 3).unwrap();
        assert!(users.mail_login("eve", &app, 4).unwrap().is_none(), "revoked by that");
        assert_eq!(refusal_reason(&users, "eve"), "");
    }

    fn two_users() -> (tempfile::TempDir, Arc<Users>) {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(folder.path()).unwrap();
        for login in ["ada", "bob"] {
            let user = User {
                login: login.to_owned(),
                role: Role::User,
                folders: Vec::new(),
                addresses: Vec::new(),
                must_change: false,
                created_ms: 1,
            };
            users.add(&user, OWN, "x", 1).unwrap();
        }
        (folder, Arc::new(users))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn with_a_second_factor_only_app_passwords_log_in() {
        let (_folder, users) = two_users();
        let now = crate::clock::now_ms();
        let secret = users.begin_totp("ada").unwrap();
        users.enable_totp("ada", &totp_code(&secret, now).unwrap(), now).unwrap().unwrap();
        let desk = users.add_app_password("ada", "desk", "ada", now).unwrap().unwrap();
        let phone = users.add_app_password("ada", "phone", "ada", now).unwrap().unwrap();
        let logins = Logins::new(users.clone(), Clock::system()).unwrap();
        let client = ip("192.0.2.1");
        let verify = |word: &str| logins.verify(client, "ada".to_owned(), word.to_owned());
        assert!(verify(OWN).await.is_none());
        assert!(verify(&desk).await.is_some() && verify(&phone).await.is_some());
        assert!(logins.verify(client, "bob".to_owned(), OWN.to_owned()).await.is_some());
        // By SCRAM: the proof of each, and not of one's own.
        for (word, good) in [(OWN, false), (&desk, true), (&phone, true), ("wrong", false)] {
            let challenge = logins.credentials(client, "ada").await;
            let first = ClientFirst::read("n,,n=ada,r=abc").unwrap();
            let (exchange, said) = Exchange::challenge(&first, challenge.credentials, "xyz");
            let proof = client_proof(&said, word);
            assert_eq!(exchange.verify(&proof).is_some(), good, "{word}");
            if good {
                logins.succeeded(client, "ada");
            }
        }
    }

    /// What a client says last (RFC 5802 section 3) whose first message was `n=ada,r=abc`.
    fn client_proof(said: &str, password: &str) -> String {
        use ring::{digest, hmac, pbkdf2};
        let field = |name: &str| said.split(',').find_map(|f| f.strip_prefix(name)).unwrap();
        let salt = base64_simd::STANDARD.decode_to_vec(field("s=")).unwrap();
        let rounds = field("i=").parse().unwrap();
        let mut salted = [0; 32];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref().to_vec()
        };
        let key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, &key);
        let last = format!("c=biws,r={}", field("r="));
        let signature = sign(stored.as_ref(), format!("n=ada,r=abc,{said},{last}").as_bytes());
        let proof: Vec<u8> = key.iter().zip(signature).map(|(k, s)| k ^ s).collect();
        format!("{last},p={}", base64_simd::STANDARD.encode_to_string(proof))
    }

    #[tokio::test]
    async fn a_salt_does_not_reveal_whether_a_login_exists() {
        let (_folder, users) = two_users();
        let logins = Logins::new(users, Clock::system()).unwrap();
        for (login, client) in [("ada", "192.0.2.50"), ("nobody", "192.0.2.51")] {
            let first = logins.credentials(ip(client), login).await;
            assert_eq!(first.user.is_some(), login == "ada");
            for n in 0..8 {
                let next = logins.credentials(ip(client), login).await.credentials;
                let (salt, iterations) = (next.salt, next.iterations);
                let expected = (&first.credentials.salt, first.credentials.iterations);
                assert_eq!((&salt, iterations), expected, "{login} {n}");
            }
            // Past the limit the right password does not log in either.
            let over = logins.credentials(ip(client), login).await;
            assert!(over.user.is_none());
            let read = ClientFirst::read("n,,n=ada,r=abc").unwrap();
            let (exchange, said) = Exchange::challenge(&read, over.credentials, "xyz");
            assert!(exchange.verify(&client_proof(&said, OWN)).is_none());
        }
    }

    #[tokio::test]
    async fn a_restart_does_not_reveal_whether_a_login_exists() {
        let (folder, users) = two_users();
        let salts = async |users: &Arc<Users>| {
            let logins = Logins::new(users.clone(), Clock::system()).unwrap();
            let mut salts = Vec::new();
            for login in ["ada", "nobody", "NoBody", "x@example.org"] {
                salts.push(logins.credentials(ip("192.0.2.7"), login).await.credentials.salt);
            }
            salts
        };
        let before = salts(&users).await;
        assert_eq!(before, salts(&users).await);
        drop(users);
        let users = Arc::new(Users::open(folder.path()).unwrap());
        assert_eq!(before, salts(&users).await);
        assert!(before.iter().all(|salt| salt.len() == SCRAM_SALT_BYTES));
        assert!(before[1] == before[2] && before[1] != before[3] && before[0] != before[1]);
        // Another node has other decoys.
        let (_other, others) = two_users();
        assert_ne!(before[1], salts(&others).await[1]);
    }

    #[tokio::test]
    async fn failures_count_for_mail_clients_and_the_console_together() {
        let (_folder, users) = two_users();
        let logins = Logins::new(users.clone(), Clock::system()).unwrap();
        let client = ip("192.0.2.1");
        // The same wrong password again and again, as a telephone does that has the old one.
        for _ in 0..50 {
            assert!(logins.verify(client, "bob".to_owned(), "old".to_owned()).await.is_none());
        }
        assert!(logins.verify(client, "bob".to_owned(), OWN.to_owned()).await.is_some());
        for n in 0..4 {
            assert!(logins.verify(client, "ada".to_owned(), format!("guess {n}")).await.is_none());
        }
        // The console, for the fifth; then nothing more is looked at, by password or SCRAM.
        users.attempts().begin(client, "ada").unwrap();
        assert!(logins.verify(client, "ada".to_owned(), OWN.to_owned()).await.is_none());
        assert!(logins.credentials(client, "ada").await.user.is_none());
        assert!(users.attempts().begin(client, "ada").is_err());
        let elsewhere = ip("198.51.100.1");
        assert!(logins.verify(elsewhere, "ada".to_owned(), format!("{OWN} ")).await.is_none());
        assert!(logins.credentials(elsewhere, "ada").await.user.is_some());
    }
}
