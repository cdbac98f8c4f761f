//! Rate limits of passwords and second-factor codes, shared by console and mail clients.
//!
//! Failures are counted in three ways, each against another attack:
//!
//! * **By address** (IPv4) or /64 (IPv6), and, more generously, by /24 or /48: one host guessing.
//! * **By login from one address**: one host guessing one password.
//! * **By login, from everywhere**: many hosts guessing one password. This delays the next attempt
//!   by exponential backoff, up to [`AttemptLimits::account_pause_max`], and never locks the
//!   account: that would let attackers lock users out.
//!
//! An address from which a login signed in before is known for it: failures of others, from other
//! addresses or behind the same proxy, do not lock it out there. Codes of a second factor are
//! counted by login from everywhere, without that exception, since an attacker who tries them has
//! the password.
//!
//! The counters are in memory, bounded, and written behind to the user database ([`AttemptStore`]),
//! so that a restart resets neither the limits of an attacker nor the known addresses of a user.

mod key;
mod limits;
mod state;
mod stored;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock::Clock;
use key::{Key, hash_login};
pub use limits::AttemptLimits;
use state::State;
pub(super) use stored::AttemptStore;
pub use stored::StoredAttempt;

/// How long changes are collected before they are written: short-lived ones are not written at all.
const WRITE_PAUSE: Duration = Duration::from_millis(300);
/// Pause after a failed write.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Counts attempts. An attempt counts as failed from its beginning, since verification is slow and
/// others may run concurrently, until [`Attempts::succeeded`] is called.
#[derive(Debug, Default)]
pub struct Attempts {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    passwords_refused: AtomicU64,
    codes_refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    clock: Clock,
    state: Mutex<State>,
    woken: Condvar,
    /// Where counters are stored; none keeps them in memory only.
    store: Option<Arc<dyn AttemptStore>>,
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Attempts {
    pub(super) fn backed_by(store: Arc<dyn AttemptStore>, clock: Clock) -> Self {
        let shared = Arc::new(Shared { store: Some(store), clock, ..Shared::default() });
        Attempts {
            shared,
            writer: Mutex::default(),
            passwords_refused: AtomicU64::default(),
            codes_refused: AtomicU64::default(),
        }
    }

    /// Applies other limits from now on.
    pub fn set_limits(&self, limits: AttemptLimits) {
        self.shared.lock().limits = limits;
    }

    /// Counts an attempt at a password before it is verified.
    ///
    /// # Errors
    /// How long to wait before the next attempt is allowed.
    pub fn begin(&self, client: IpAddr, login: &str) -> Result<(), Duration> {
        let begun = self
            .with_state(|state| state.begin(client, hash_login(login), self.shared.clock.now()));
        if begun.is_err() {
            self.passwords_refused.fetch_add(1, Ordering::Relaxed);
        }
        begun
    }

    /// The password was right: the attempt does not count, and the address is known from now on.
    pub fn succeeded(&self, client: IpAddr, login: &str) {
        self.with_state(|state| {
            state.succeeded(client, hash_login(login), self.shared.clock.now());
        });
    }

    /// Counts an attempt at a second-factor code, after the password was right.
    ///
    /// # Errors
    /// How long to wait before the next attempt is allowed.
    pub fn begin_code(&self, login: &str) -> Result<(), Duration> {
        let begun =
            self.with_state(|state| state.begin_code(hash_login(login), self.shared.clock.now()));
        if begun.is_err() {
            self.codes_refused.fetch_add(1, Ordering::Relaxed);
        }
        begun
    }

    /// The code was right: resets the counter of wrong ones.
    pub fn code_succeeded(&self, login: &str) {
        self.with_state(|state| state.forget(Key::Code(hash_login(login))));
    }

    /// Attempts at passwords and at codes that were refused, since the process started.
    pub fn refused(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.passwords_refused), count(&self.codes_refused))
    }

    /// Writes pending changes and stops the writer thread.
    pub fn finish(&self) {
        self.shared.lock().is_closing = true;
        self.shared.woken.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Its errors are logged already.
        let _ended = writer.map(JoinHandle::join);
    }

    /// Runs `change` on the state, and wakes the writer if something changed.
    fn with_state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.lock();
        self.shared.load(&mut state);
        let value = change(&mut state);
        let has_changed = !state.changed.is_empty();
        drop(state);
        if has_changed && self.shared.store.is_some() {
            self.wake_writer();
        }
        value
    }

    /// Starts the writer thread with the first change: commands that only read have none.
    fn wake_writer(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none() {
            let shared = self.shared.clone();
            let name = "attempts".to_owned();
            match std::thread::Builder::new().name(name).spawn(move || shared.write_behind()) {
                Ok(started) => *writer = Some(started),
                Err(error) => {
                    tracing::error!(%error, "cannot start the thread that stores sign-in attempts");
                }
            }
        }
        self.shared.woken.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the stored counters, once.
    fn load(&self, state: &mut State) {
        let Some(store) = self.store.as_ref().filter(|_| !state.is_loaded) else { return };
        let now = self.clock.now();
        if state.load_at.is_some_and(|at| now < at) {
            return;
        }
        match store.load_attempts() {
            Ok(kept) => {
                state.restore(&kept, now, self.clock.unix_ms());
                state.is_loaded = true;
            }
            Err(error) => {
                tracing::error!(%error, "stored sign-in attempts cannot be read");
                state.load_at = Some(now + RETRY_PAUSE);
            }
        }
    }

    /// Writes changes until the state is closed.
    fn write_behind(&self) {
        let Some(store) = &self.store else { return };
        let poisoned = PoisonError::into_inner;
        loop {
            let idle = |state: &mut State| state.changed.is_empty() && !state.is_closing;
            let state = self.woken.wait_while(self.lock(), idle).unwrap_or_else(poisoned);
            if state.changed.is_empty() {
                return;
            }
            let mut state = self.pause(state, WRITE_PAUSE);
            let changed: Vec<Key> = state.changed.drain().collect();
            let rows = state.rows(&changed, self.clock.now(), self.clock.unix_ms());
            drop(state);
            if let Err(error) = store.save_attempts(&rows) {
                tracing::error!(%error, "sign-in attempts cannot be stored");
                let mut state = self.lock();
                if state.is_closing {
                    return;
                }
                changed.into_iter().for_each(|key| state.mark_changed(key));
                drop(self.pause(state, RETRY_PAUSE));
            }
        }
    }

    /// Waits for this time, or until the state is closed.
    fn pause<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.woken.wait_timeout_while(state, time, |state| !state.is_closing);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests;
