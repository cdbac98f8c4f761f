//! Who clients are: logins to the explicit proxy (RFC 9110 section 11.7).
//!
//! ```text
//! Proxy-Authorization ─▶ header ─▶ Basic ─▶ remembered ─▶ failures ─▶ passwords (slow)
//!                                └▶ Digest ─▶ proof ─▶ failures ─▶ nonce, its count
//! ```
//!
//! Whoever sends nothing, or something wrong, gets 407 with what they may log in by, the strongest
//! first. A password is checked once in `login.remember_seconds` and few at once, since its hash is
//! slow on purpose. Who was right a moment ago does not wait for the failures of others behind the
//! same address.

mod apr1;
mod digest;
mod failures;
pub mod file;
pub mod header;
mod nonce;
pub mod passwords;
mod remembered;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gauntlet_mail::Network;
use hyper::Request;
use hyper::header::PROXY_AUTHORIZATION;
use tokio::sync::Semaphore;

use crate::counters::Counters;
use crate::refusal::{Challenges, Refusal};
use crate::settings::{LoginMethod, LoginSettings, SettingsError};
use digest::{DigestUsers, is_target};
use failures::Failures;
use file::FileError;
use header::{Credentials, DigestProof};
use nonce::Nonces;
use passwords::{PasswordFile, Passwords};
use remembered::Remembered;

/// Passwords checked at once.
const CHECKS_MAX: usize = 2;

/// Why nobody could log in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// A setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A file of users.
    #[error(transparent)]
    File(#[from] FileError),
    /// Basic without users.
    #[error("login: the method basic needs password_file: there are no users otherwise")]
    NoUsers,
    /// The system.
    #[error("login: the system gives no random numbers")]
    Random,
}

/// Checks logins; the listeners of a node share it.
pub struct Logins {
    settings: LoginSettings,
    exempt: Vec<Network>,
    passwords: ArcSwap<Box<dyn Passwords>>,
    digest: ArcSwap<DigestUsers>,
    /// How often the files were read anew.
    reloads: AtomicU64,
    checks: Semaphore,
    remembered: Remembered,
    failures: Failures,
    nonces: Nonces,
}

/// It has hashes of passwords: it is not printed.
impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("methods", &self.settings.methods).finish_non_exhaustive()
    }
}

impl Logins {
    /// Logins by these settings; without a `password_file`, passwords are checked by `passwords`.
    ///
    /// # Errors
    /// If a file cannot be used, or there are no users for a method.
    pub fn new(
        settings: &LoginSettings,
        passwords: Option<Box<dyn Passwords>>,
    ) -> Result<Self, LoginError> {
        let settings = settings.clone();
        let users = match passwords {
            Some(passwords) if settings.password_file.as_os_str().is_empty() => passwords,
            _ => users(&settings)?,
        };
        let seconds = Duration::from_secs;
        let random = |_| LoginError::Random;
        let remember = seconds(settings.remember_seconds);
        let remembered = Remembered::new(remember, settings.remembered_max).map_err(random)?;
        let good_for = seconds(settings.nonce_seconds_max);
        let nonces = Nonces::new(good_for, settings.nonces_max, Instant::now()).map_err(random)?;
        let window = seconds(settings.failures_window_seconds);
        Ok(Logins {
            exempt: settings.exempt()?,
            passwords: ArcSwap::from_pointee(users),
            digest: ArcSwap::from_pointee(digest_users(&settings)?),
            reloads: AtomicU64::new(0),
            checks: Semaphore::new(CHECKS_MAX),
            remembered,
            failures: Failures::new(settings.failures_max, window, settings.failure_addresses_max),
            nonces,
            settings,
        })
    }

    /// Reads the files of users anew.
    ///
    /// # Errors
    /// The one that cannot be used; then all stay as they were.
    pub fn reload(&self) -> Result<(), LoginError> {
        let from_file = !self.settings.password_file.as_os_str().is_empty();
        let passwords = from_file.then(|| users(&self.settings)).transpose()?;
        let digest = digest_users(&self.settings)?;
        if let Some(passwords) = passwords {
            self.passwords.store(Arc::new(passwords));
        }
        self.digest.store(Arc::new(digest));
        self.reloads.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Who sent the request; none if it need not be known.
    ///
    /// # Errors
    /// If the client has to log in first.
    pub(crate) async fn check<B>(
        &self,
        client: IpAddr,
        request: &Request<B>,
        counters: &Counters,
    ) -> Result<Option<Arc<str>>, Refusal> {
        let mut fields = request.headers().get_all(PROXY_AUTHORIZATION).iter();
        let Some(field) = fields.next() else {
            return match self.exempt.iter().any(|network| network.contains(client)) {
                true => Ok(None),
                false => Err(Refusal::Login(self.challenges(false))),
            };
        };
        if fields.next().is_some() {
            return Err(Refusal::Malformed("it has more than one Proxy-Authorization"));
        }
        let login = match header::read(field.as_bytes()) {
            Some(Credentials::Basic { login, password }) if self.offers(LoginMethod::Basic) => {
                self.basic(client, field.as_bytes(), (login, password), counters).await?
            }
            Some(Credentials::Digest(proof)) if self.offers(LoginMethod::Digest) => {
                self.digest(client, &proof, request)?
            }
            Some(_) => return Err(Refusal::Login(self.challenges(false))),
            None => {
                tracing::debug!(%client, "Proxy-Authorization is malformed");
                return Err(Refusal::Login(self.challenges(false)));
            }
        };
        counters.logins.add(1);
        Ok(Some(login))
    }

    fn offers(&self, method: LoginMethod) -> bool {
        self.settings.offers(method)
    }

    async fn basic(
        &self,
        client: IpAddr,
        field: &[u8],
        (login, password): (String, String),
        counters: &Counters,
    ) -> Result<Arc<str>, Refusal> {
        let passwords = self.passwords.load_full();
        let generation = passwords.generation() + self.reloads.load(Ordering::Relaxed);
        let hash = self.remembered.hash(field);
        let known = || self.remembered.get(hash, generation, Instant::now());
        let failed = || Refusal::LoginFailed(self.challenges(false));
        if let Some(known) = known() {
            return known.ok_or_else(failed);
        }
        let is_over = || self.failures.is_over(client, Instant::now());
        let limit = Refusal::LoginLimit(self.settings.failures_window_seconds);
        if is_over() {
            return Err(limit);
        }
        let permit = self.checks.acquire().await;
        // Of many requests that came at once, the first has been answered meanwhile.
        if let Some(known) = known() {
            return known.ok_or_else(failed);
        }
        // Many guesses may have waited together.
        if is_over() {
            return Err(limit);
        }
        counters.passwords_checked.add(1);
        let found = passwords.check(client, login.clone(), password).await;
        drop(permit);
        self.remembered.put(hash, found.clone(), generation, Instant::now());
        found.ok_or_else(|| {
            self.failures.add(client, Instant::now());
            tracing::warn!(%client, login, method = "basic", "login to the proxy refused");
            failed()
        })
    }

    fn digest<B>(
        &self,
        client: IpAddr,
        proof: &DigestProof,
        request: &Request<B>,
    ) -> Result<Arc<str>, Refusal> {
        let now = Instant::now();
        let target = is_target(&proof.uri, request.method(), request.uri());
        if proof.realm != self.settings.realm || !target {
            return Err(Refusal::Login(self.challenges(false)));
        }
        let nonce = self.nonces.read(&proof.nonce, now);
        let is_known = nonce.is_some_and(|nonce| self.nonces.is_known_of(nonce, &proof.login));
        if !is_known && self.failures.is_over(client, now) {
            return Err(Refusal::LoginLimit(self.settings.failures_window_seconds));
        }
        let Some(login) = self.digest.load().verify(proof, request.method()) else {
            self.failures.add(client, now);
            let login = &proof.login;
            tracing::warn!(%client, login, method = "digest", "login to the proxy refused");
            return Err(Refusal::LoginFailed(self.challenges(false)));
        };
        // Nobody is asked for the password again: the client comes with a new nonce.
        let stale = || Refusal::Login(self.challenges(true));
        let nonce = nonce.ok_or_else(stale)?;
        let count = u32::from_str_radix(&proof.nc, 16).map_err(|_| stale())?;
        self.nonces.take(nonce, count, &login).map_err(|unfit| {
            tracing::debug!(%client, %login, ?unfit, "the nonce is used up");
            stale()
        })?;
        Ok(login)
    }

    /// What clients may log in by, the strongest first: they take the first that they know.
    fn challenges(&self, is_stale: bool) -> Challenges {
        let realm = &self.settings.realm;
        let mut all = Vec::new();
        if self.offers(LoginMethod::Digest) {
            let stale = if is_stale { ", stale=true" } else { "" };
            for algorithm in &self.digest.load().algorithms {
                let (name, nonce) = (algorithm.name(), self.nonces.make(Instant::now()));
                all.push(format!(
                    "Digest realm=\"{realm}\", qop=\"auth\", algorithm={name}, nonce=\"{nonce}\", \
                     charset=UTF-8{stale}"
                ));
            }
        }
        if self.offers(LoginMethod::Basic) {
            all.push(format!("Basic realm=\"{realm}\", charset=\"UTF-8\""));
        }
        Challenges(all)
    }
}

/// The users of the file that the settings name.
fn users(settings: &LoginSettings) -> Result<Box<dyn Passwords>, LoginError> {
    match settings.password_file.as_os_str().is_empty() {
        true if settings.offers(LoginMethod::Basic) => Err(LoginError::NoUsers),
        true => Ok(Box::<PasswordFile>::default()),
        false => Ok(Box::new(PasswordFile::open(&settings.password_file)?)),
    }
}

fn digest_users(settings: &LoginSettings) -> Result<DigestUsers, LoginError> {
    let file: &PathBuf = &settings.digest_file;
    match settings.offers(LoginMethod::Digest) {
        true => Ok(DigestUsers::open(file, &settings.realm)?),
        false => Ok(DigestUsers::default()),
    }
}
