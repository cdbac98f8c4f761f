//! Logins of mail clients: the people of the console, by password over TLS.
//!
//! A password costs tens of milliseconds and 19 MB to check, on purpose. So only a few are checked
//! at once, failures are counted together with those of the console ([`Attempts`]), and what was right
//! or wrong a moment ago is remembered (by a keyed hash, in memory only): a client that connects for
//! each message does not pay for each, and one that was given an old password and repeats it for ever
//! does not use up its owner's attempts.
//!
//! [`Attempts`]: gauntlet_store::users::Attempts

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_smtp::scram::Credentials;
use gauntlet_store::users::{SCRAM_ITERATIONS, SCRAM_SALT_BYTES};
use gauntlet_store::{User, Users};
use tokio::sync::Semaphore;

/// Passwords checked at once.
const CHECKS_MAX: usize = 2;
/// Logins remembered.
const REMEMBERED_MAX: usize = 10_000;
/// A password that was checked is remembered for this long: a changed one works on for so long at most.
const REMEMBER_FOR: Duration = Duration::from_secs(60);
/// What a client that logs in by SCRAM is challenged with.
#[derive(Debug)]
pub struct Challenge {
    /// Whose login it is, if anybody's.
    pub user: Option<Arc<User>>,
    /// What its proof is checked with.
    pub credentials: Credentials,
    /// Our part of the nonce.
    pub nonce: String,
}

/// Checks logins. Share it as `Arc<Logins>`.
#[derive(Debug)]
pub struct Logins {
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
    /// Logins of these people.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub fn new(users: Arc<Users>) -> std::io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
        let (checks, challenges) = (Semaphore::new(CHECKS_MAX), AtomicU64::new(0));
        Ok(Logins { users, checks, key, challenges, state: Mutex::default() })
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
            hash.finalize()
        };
        if let Some(known) = self.remembered(&name) {
            return known;
        }
        let place = self.checks.acquire().await.ok()?;
        // Of many connections that came at once, the first may have been answered meanwhile.
        if let Some(known) = self.remembered(&name) {
            return known;
        }
        if !self.may_try(client, &login) {
            return None;
        }
        let (users, who) = (self.users.clone(), login.clone());
        let checked = tokio::task::spawn_blocking(move || users.verify(&who, &password)).await;
        drop(place);
        let user = match checked {
            Ok(Ok(user)) => user.filter(|u| !u.must_change).map(Arc::new),
            Ok(Err(error)) => {
                tracing::error!(%error, "logins cannot be checked");
                return None;
            }
            Err(_) => return None,
        };
        match &user {
            Some(_) => self.succeeded(client, &login),
            None => self.failed(client, &login),
        }
        let mut state = self.state();
        make_room(&mut state.checked, |(since, _)| since.elapsed() < REMEMBER_FOR);
        state.checked.insert(name, (Instant::now(), user.clone()));
        user
    }

    /// What was found out about a login and password a moment ago.
    fn remembered(&self, name: &blake3::Hash) -> Option<Option<Arc<User>>> {
        let state = self.state();
        let (since, user) = state.checked.get(name)?;
        (since.elapsed() < REMEMBER_FOR).then(|| user.clone())
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

    /// What a SCRAM login is checked with. For a login that nobody has, or may not use now, something that
    /// nothing fits and that is the same each time, so that it tells nothing.
    pub async fn credentials(&self, client: IpAddr, login: &str) -> Challenge {
        let nonce = self.nonce();
        let (users, who) = (self.users.clone(), login.to_owned());
        let known = match self.may_try(client, login) {
            false => None,
            true => match tokio::task::spawn_blocking(move || users.scram(&who)).await {
                Ok(Ok(known)) => known.filter(|(user, _)| !user.must_change),
                Ok(Err(error)) => {
                    tracing::error!(%error, "logins cannot be checked");
                    None
                }
                Err(_) => None,
            },
        };
        if let Some((user, kept)) = known {
            let credentials = Credentials {
                salt: kept.salt,
                iterations: kept.iterations,
                stored_key: kept.stored_key,
                server_key: kept.server_key,
            };
            return Challenge { user: Some(Arc::new(user)), credentials, nonce };
        }
        let fake = blake3::keyed_hash(&self.key, login.to_lowercase().as_bytes());
        let salt = fake.as_bytes().get(..SCRAM_SALT_BYTES).unwrap_or_default().to_vec();
        let nobody = *blake3::keyed_hash(&self.key, fake.as_bytes()).as_bytes();
        let credentials = Credentials {
            salt,
            iterations: SCRAM_ITERATIONS,
            stored_key: nobody,
            server_key: nobody,
        };
        Challenge { user: None, credentials, nonce }
    }

    /// A nonce for a challenge: never the same twice, and nobody can tell the next.
    fn nonce(&self) -> String {
        let mut fresh = [0; 18];
        if getrandom::fill(&mut fresh).is_err() {
            let count = self.challenges.fetch_add(1, Ordering::Relaxed).to_le_bytes();
            let hash = blake3::keyed_hash(&self.key, &count);
            fresh.copy_from_slice(hash.as_bytes().get(..18).unwrap_or(&[0; 18]));
        }
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

    /// Forgets remembered logins: somebody may have changed a password.
    pub fn forget(&self) {
        self.state().checked.clear();
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
