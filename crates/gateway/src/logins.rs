//! Logins of mail clients: the people of the console, by password over TLS.
//!
//! A password costs tens of milliseconds and 19 MB to check, on purpose. So only a few are checked
//! at once, a client address that fails too often has to wait, and a login that was right a moment
//! ago is remembered (by a keyed hash, in memory only) so that a client that connects for each
//! message does not pay for each.

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
/// A right password is remembered for this long: a changed one works on for so long at most.
const REMEMBER_FOR: Duration = Duration::from_secs(60);
/// Failures of one client address before it has to wait.
const FAILURES_MAX: u32 = 10;
/// How long a client address with too many failures waits.
const PENANCE: Duration = Duration::from_secs(600);

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
    right: HashMap<blake3::Hash, (Instant, Arc<User>)>,
    failures: HashMap<IpAddr, (Instant, u32)>,
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
        if self.is_in_penance(client) {
            return None;
        }
        if let Some((since, user)) = self.state().right.get(&name)
            && since.elapsed() < REMEMBER_FOR
        {
            return Some(user.clone());
        }
        let place = self.checks.acquire().await.ok()?;
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
        if user.is_none() {
            self.failed(client, &login);
        }
        let mut state = self.state();
        if let Some(user) = &user {
            make_room(&mut state.right, |(since, _)| since.elapsed() < REMEMBER_FOR);
            state.right.insert(name, (Instant::now(), user.clone()));
            state.failures.remove(&client);
        }
        user
    }

    /// What a SCRAM login is checked with. For a login that nobody has, or may not use now, something that
    /// nothing fits and that is the same each time, so that it tells nothing.
    pub async fn credentials(&self, client: IpAddr, login: &str) -> Challenge {
        let nonce = self.nonce();
        let (users, who) = (self.users.clone(), login.to_owned());
        let known = match self.is_in_penance(client) {
            true => None,
            false => match tokio::task::spawn_blocking(move || users.scram(&who)).await {
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
    pub fn succeeded(&self, client: IpAddr) {
        self.state().failures.remove(&client);
    }

    /// A login of this client was wrong.
    pub fn failed(&self, client: IpAddr, login: &str) {
        tracing::warn!(%client, login, "login refused");
        let mut state = self.state();
        make_room(&mut state.failures, |(since, _)| since.elapsed() < PENANCE);
        let entry = state.failures.entry(client).or_insert((Instant::now(), 0));
        *entry = (Instant::now(), entry.1 + 1);
    }

    fn is_in_penance(&self, client: IpAddr) -> bool {
        let mut state = self.state();
        match state.failures.get(&client) {
            Some((since, _)) if since.elapsed() >= PENANCE => {
                state.failures.remove(&client);
                false
            }
            Some((_, count)) => *count >= FAILURES_MAX,
            None => false,
        }
    }

    /// Forgets remembered logins: somebody may have changed a password.
    pub fn forget(&self) {
        self.state().right.clear();
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
