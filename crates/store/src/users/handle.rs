//! Access to the user database in this process, or in the secrets process of a node.
//!
//! A line in [`requests!`] makes a method of [`UserDatabase`] one of [`Users`]: its name and
//! arguments are sent in MessagePack, and so is its result.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gauntlet_policy::people::{People, Strictness, Wishes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::attempts::AttemptStore;
use super::sharing::Taken;
use super::{
    AppPassword, Attempts, Link, LinkStatus, ListedSender, Proof, Role, SavedSearch, Scope,
    ScramKeys, SecondFactor, Session, StartedSession, StoredAttempt, Token, User, UserDatabase,
};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::quarantine::AuditLine;
use crate::sharing::{Cursors, Incoming, Outgoing};

/// Methods after which a password that was right may be wrong, or the other way round.
const CHANGE_PASSWORDS: [&str; 11] = [
    "create_first_administrator",
    "add",
    "remove",
    "set_password",
    "change_rights",
    "user_from_single_sign_on",
    "enable_totp",
    "remove_totp",
    "add_app_password",
    "revoke_app_password",
    "take_shared",
];

/// Most distinct static strings of received errors: the program has some dozen.
const INTERNED_MAX: usize = 256;

/// Connection to a [`UserDatabase`] in another process, which answers with
/// [`UserDatabase::answer`].
pub trait Remote: std::fmt::Debug + Send + Sync {
    /// Calls a method there. Returns the encoded value or error.
    ///
    /// # Errors
    /// If there is no reply.
    fn call(&self, method: &str, arguments: Vec<u8>) -> io::Result<Result<Vec<u8>, Vec<u8>>>;
}

/// The users of a node. Share it as `Arc<Users>`; every method may be called from any thread and
/// blocks.
#[derive(Debug)]
pub struct Users {
    backend: Arc<Backend>,
    attempts: Attempts,
    password_changes: AtomicU64,
}

#[derive(Debug)]
enum Backend {
    Local(Box<UserDatabase>),
    Remote { remote: Arc<dyn Remote>, interned: Mutex<BTreeSet<&'static str>> },
}

impl Users {
    /// Opens or creates `users.db` in this folder, readable by its owner only.
    ///
    /// # Errors
    /// As [`UserDatabase::open`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Ok(Users::at(Backend::Local(Box::new(UserDatabase::open(folder)?))))
    }

    /// The users of a database in another process.
    pub fn remote(remote: Arc<dyn Remote>) -> Self {
        Users::at(Backend::Remote { remote, interned: Mutex::default() })
    }

    fn at(backend: Backend) -> Self {
        let backend = Arc::new(backend);
        let attempts = Attempts::backed_by(backend.clone(), Clock::system());
        Users { attempts, backend, password_changes: AtomicU64::new(0) }
    }

    /// How often a password, or whose it is, may have changed by this handle: whoever remembers
    /// what was right forgets it then. Changes by other processes are not seen.
    pub fn password_changes(&self) -> u64 {
        self.password_changes.load(Ordering::Acquire)
    }

    /// The same with another clock for the limits of sign-in attempts.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        let backend = self.backend;
        let attempts = Attempts::backed_by(backend.clone(), clock);
        Users { attempts, backend, password_changes: self.password_changes }
    }

    /// Rate limits of passwords and codes, for all users of this handle.
    pub fn attempts(&self) -> &Attempts {
        &self.attempts
    }
}

/// For the writer thread, which must not keep the whole handle alive.
impl AttemptStore for Backend {
    fn load_attempts(&self) -> Result<Vec<StoredAttempt>, StoreError> {
        match self {
            Backend::Local(database) => database.load_attempts(),
            Backend::Remote { remote, interned } => call(&**remote, interned, "load_attempts", &()),
        }
    }

    fn save_attempts(&self, changed: &[StoredAttempt]) -> Result<(), StoreError> {
        match self {
            Backend::Local(database) => database.save_attempts(changed),
            Backend::Remote { remote, interned } => {
                call(&**remote, interned, "save_attempts", &(changed,))
            }
        }
    }
}

/// A [`StoreError`] as it is sent.
#[derive(Debug, Serialize, Deserialize)]
enum WireError {
    Invalid { what: String, cause: String },
    Full { what: String, limit: u64, hint: String },
    Other { message: String, retry: bool },
}

impl WireError {
    fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Invalid { what, cause } => {
                WireError::Invalid { what: (*what).to_owned(), cause: cause.clone() }
            }
            StoreError::Full { what, limit, hint } => {
                WireError::Full { what: what.clone(), limit: *limit, hint: (*hint).to_owned() }
            }
            other => WireError::Other { message: other.to_string(), retry: other.may_retry() },
        }
    }
}

/// Makes a received string static, as [`StoreError`] needs it; there are few distinct ones.
fn intern(interned: &Mutex<BTreeSet<&'static str>>, word: String) -> &'static str {
    let mut interned = interned.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = interned.get(word.as_str()) {
        return known;
    }
    if interned.len() >= INTERNED_MAX {
        return "value";
    }
    let word: &'static str = Box::leak(word.into_boxed_str());
    interned.insert(word);
    word
}

fn protocol_error(cause: impl std::fmt::Display) -> StoreError {
    let message = format!("the user database: a request or reply is malformed: {cause}");
    StoreError::Remote { message, retry: false }
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, StoreError> {
    // With field names, since fields may be left out.
    rmp_serde::to_vec_named(value).map_err(protocol_error)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    rmp_serde::from_slice(bytes).map_err(protocol_error)
}

fn call<T: DeserializeOwned>(
    remote: &dyn Remote,
    interned: &Mutex<BTreeSet<&'static str>>,
    method: &str,
    arguments: &impl Serialize,
) -> Result<T, StoreError> {
    let answered = remote.call(method, encode(arguments)?).map_err(|error| {
        let message = format!("the secrets process, which has the user database: {error}");
        StoreError::Remote { message, retry: true }
    })?;
    let error = match answered {
        Ok(value) => return decode(&value),
        Err(error) => decode(&error)?,
    };
    Err(match error {
        WireError::Invalid { what, cause } => {
            StoreError::Invalid { what: intern(interned, what), cause }
        }
        WireError::Full { what, limit, hint } => {
            StoreError::Full { what, limit, hint: intern(interned, hint) }
        }
        WireError::Other { message, retry } => StoreError::Remote { message, retry },
    })
}

/// The owned form of an argument, which a received call borrows from.
trait Argument<'a> {
    type Owned: DeserializeOwned + 'a;
    fn lend(owned: &'a Self::Owned) -> Self;
}

macro_rules! copied {
    ($($type:ty),*) => {$(
        impl<'a> Argument<'a> for $type {
            type Owned = $type;
            fn lend(owned: &'a $type) -> $type {
                *owned
            }
        }
    )*};
}

macro_rules! lent {
    ($($type:ty => $owned:ty),*) => {$(
        impl<'a> Argument<'a> for &'a $type {
            type Owned = $owned;
            fn lend(owned: &'a $owned) -> Self {
                owned
            }
        }
    )*};
}

copied!(bool, i64, u64, usize, Role, Proof, Strictness, Option<Role>, Option<f64>);
lent!(str => String, [String] => Vec<String>, [Scope] => Vec<Scope>, [StoredAttempt] => Vec<StoredAttempt>, User => User, Link => Link, Incoming => Incoming,
      SavedSearch => SavedSearch);

impl<'a> Argument<'a> for Option<&'a str> {
    type Owned = Option<String>;
    fn lend(owned: &'a Option<String>) -> Self {
        owned.as_deref()
    }
}

macro_rules! requests {
    ($(fn $method:ident($($argument:ident: $type:ty),*) -> $value:ty;)*) => {
        impl Users {$(
            #[doc = concat!("See [`UserDatabase::", stringify!($method), "`].")]
            ///
            /// # Errors
            /// The same, or if the process that has the database does not reply.
            pub fn $method(&self $(, $argument: $type)*) -> Result<$value, StoreError> {
                let answer = match &*self.backend {
                    Backend::Local(database) => database.$method($($argument),*),
                    Backend::Remote { remote, interned } => {
                        call(&**remote, interned, stringify!($method), &($($argument,)*))
                    }
                };
                if CHANGE_PASSWORDS.contains(&stringify!($method)) {
                    self.password_changes.fetch_add(1, Ordering::Release);
                }
                answer
            }
        )*}

        impl UserDatabase {
            /// Executes a call of [`Users`] in another process. Returns the encoded value or error.
            pub fn answer(&self, method: &str, arguments: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
                let answer = || -> Result<Vec<u8>, StoreError> {
                    match method {
                        $(stringify!($method) => {
                            #[allow(clippy::let_unit_value, reason = "methods without arguments")]
                            let ($($argument,)*): ($(<$type as Argument<'_>>::Owned,)*) =
                                decode(arguments)?;
                            encode(&self.$method($(<$type as Argument<'_>>::lend(&$argument)),*)?)
                        })*
                        other => Err(protocol_error(format_args!("no method {other:?}"))),
                    }
                };
                answer().map_err(|e| encode(&WireError::of(&e)).unwrap_or_default())
            }
        }
    };
}

requests! {
    fn create_first_administrator(now_ms: i64) -> Option<String>;
    fn one_time_password() -> String;
    fn add(user: &User, password: &str, who: &str, now_ms: i64) -> ();
    fn remove(login: &str, who: &str, now_ms: i64) -> bool;
    fn set_password(
        login: &str, password: &str, must_change: bool, who: &str, now_ms: i64
    ) -> bool;
    fn list() -> Vec<User>;
    fn verify(login: &str, password: &str) -> Option<User>;
    fn note(at_ms: i64, who: &str, action: &str, detail: &str) -> ();
    fn audit_log(limit: usize) -> Vec<AuditLine>;
    fn full_audit_log(limit: u64) -> Vec<AuditLine>;
    fn audit_after(after: i64, limit: u64) -> Vec<(i64, AuditLine)>;
    fn change_rights(
        login: &str, role: Role, folders: &[String], addresses: &[String], who: &str, now_ms: i64
    ) -> bool;
    fn user_from_single_sign_on(
        login: &str, role: Option<Role>, addresses: &[String], now_ms: i64
    ) -> Option<User>;
    fn sign_link(link: &Link) -> String;
    fn check_link(text: &str, now_ms: i64) -> LinkStatus;
    fn use_link(text: &str, now_ms: i64) -> LinkStatus;
    fn restore_link(text: &str) -> ();
    fn list_personal_sender(address: &str, entry: &str, allow: bool, now_ms: i64) -> ();
    fn unlist_personal_sender(address: &str, entry: &str) -> bool;
    fn set_strictness(
        address: &str, strictness: Strictness, spam_points: Option<f64>, now_ms: i64
    ) -> ();
    fn wishes(address: &str) -> Wishes;
    fn people() -> People;
    fn user_for_address(address: &str, now_ms: i64) -> Option<User>;
    fn digest_mark(address: &str) -> i64;
    fn set_digest_mark(address: &str, upto: i64, now_ms: i64) -> ();
    fn scram(login: &str) -> Option<(User, ScramKeys)>;
    fn save_search(search: &SavedSearch, now_ms: i64) -> ();
    fn remove_search(login: &str, name: &str) -> bool;
    fn searches(login: &str) -> Vec<SavedSearch>;
    fn list_sender(entry: &str, allow: bool, who: &str, now_ms: i64) -> ();
    fn unlist_sender(entry: &str, who: &str, now_ms: i64) -> bool;
    fn listed_senders() -> Vec<ListedSender>;
    fn start_session(login: &str, now_ms: i64) -> StartedSession;
    fn start_session_with(login: &str, proof: Proof, address: &str, now_ms: i64) -> StartedSession;
    fn session(token: &str, now_ms: i64, idle_ms: i64, age_ms: i64) -> Option<Session>;
    fn peek_session(
        token: &str, now_ms: i64, idle_ms: i64, age_ms: i64
    ) -> Option<Session>;
    fn end_sessions(login: &str, who: &str, now_ms: i64) -> ();
    fn end_session(token: &str) -> ();
    fn add_token(name: &str, scopes: &[Scope], days: i64, who: &str, now_ms: i64) -> String;
    fn add_token_until(
        name: &str, scopes: &[Scope], expires_ms: i64, who: &str, now_ms: i64
    ) -> String;
    fn token(secret: &str, now_ms: i64) -> Option<Token>;
    fn tokens() -> Vec<Token>;
    fn revoke_token(name: &str, who: &str, now_ms: i64) -> bool;
    fn second_factor(login: &str) -> SecondFactor;
    fn begin_totp(login: &str) -> String;
    fn enable_totp(login: &str, code: &str, now_ms: i64) -> Option<Vec<String>>;
    fn remove_totp(login: &str, who: &str, now_ms: i64) -> bool;
    fn verify_second_factor(login: &str, code: &str, now_ms: i64) -> bool;
    fn add_app_password(login: &str, name: &str, who: &str, now_ms: i64) -> Option<String>;
    fn app_passwords(login: &str) -> Vec<AppPassword>;
    fn revoke_app_password(login: &str, name: &str, who: &str, now_ms: i64) -> bool;
    fn has_password(login: &str) -> bool;
    fn mail_login(login: &str, password: &str, now_ms: i64) -> Option<User>;
    fn mail_scram(login: &str) -> Option<(User, Vec<ScramKeys>)>;
    fn scram_decoy(login: &str) -> Vec<u8>;
    fn load_attempts() -> Vec<StoredAttempt>;
    fn save_attempts(changed: &[StoredAttempt]) -> ();
    fn begin_sharing(epoch: &str) -> Cursors;
    fn end_sharing() -> ();
    fn shared_changes() -> Option<Outgoing>;
    fn shared_sent(mark: u64) -> ();
    fn take_shared(incoming: &Incoming, now_ms: i64) -> Taken;
}

#[cfg(test)]
mod tests {
    use super::super::{LinkKind, totp_code};
    use super::*;

    /// A connection to a database in the same process.
    #[derive(Debug)]
    struct Wire(UserDatabase);

    impl Remote for Wire {
        fn call(&self, method: &str, arguments: Vec<u8>) -> io::Result<Result<Vec<u8>, Vec<u8>>> {
            Ok(self.0.answer(method, &arguments))
        }
    }

    #[derive(Debug)]
    struct Cut;

    impl Remote for Cut {
        fn call(&self, _: &str, _: Vec<u8>) -> io::Result<Result<Vec<u8>, Vec<u8>>> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn what_is_asked_elsewhere_is_answered_as_here() {
        let folder = tempfile::tempdir().unwrap();
        let database = UserDatabase::open(folder.path()).unwrap();
        let users = Users::remote(Arc::new(Wire(database)));
        let password = users.create_first_administrator(1).unwrap().unwrap();
        assert!(users.verify("admin", &password).unwrap().unwrap().must_change);
        assert_eq!(users.password_changes(), 1, "verifying changes nothing");
        assert_eq!(users.verify("admin", "wrong").unwrap(), None);
        let error = users.set_password("admin", "short", false, "admin", 2).unwrap_err();
        assert!(matches!(error, StoreError::Invalid { what: "password", .. }), "{error}");
        let own = ["a@example.org".to_owned()];
        users.change_rights("admin", Role::Administrator, &[], &own, "x", 3).unwrap();
        assert_eq!(users.list().unwrap()[0].addresses, own);
        let (user, keys) = users.scram("admin").unwrap().unwrap();
        assert_eq!(
            (user.login.as_str(), keys.salt.len()),
            ("admin", super::super::SCRAM_SALT_BYTES)
        );
        let started = users.start_session("admin", 1_000).unwrap();
        let session = users.session(&started.token, 2_000, 9_000, 9_000).unwrap().unwrap();
        assert_eq!((session.user.login.as_str(), &session.csrf), ("admin", &started.csrf));
        let secret = users.add_token("t", &[Scope::QueueRead], 5, "admin", 4).unwrap();
        assert_eq!(users.token(&secret, 5).unwrap().unwrap().scopes, [Scope::QueueRead]);
        let totp = users.begin_totp("admin").unwrap();
        assert_eq!(users.second_factor("admin").unwrap(), SecondFactor::Pending);
        let code = totp_code(&totp, 100_000).unwrap();
        assert_eq!(users.enable_totp("admin", &code, 100_000).unwrap().unwrap().len(), 10);
        // A field that is empty is left out on the wire.
        let link = Link {
            kind: LinkKind::Enter,
            address: "a@example.org".to_owned(),
            item: String::new(),
            until_ms: 9,
            made_ms: 1,
        };
        let text = users.sign_link(&link).unwrap();
        assert_eq!(users.use_link(&text, 2).unwrap(), LinkStatus::Valid(link.clone()));
        assert_eq!(users.check_link(&text, 2).unwrap(), LinkStatus::Used(link));
        users.set_strictness("a@example.org", Strictness::Strict, Some(4.0), 5).unwrap();
        users.list_personal_sender("a@example.org", "b@example.net", true, 5).unwrap();
        let wishes = users.people().unwrap().wishes.remove("a@example.org").unwrap();
        assert_eq!((wishes.strictness, wishes.spam_points), (Strictness::Strict, Some(4.0)));
        assert!(wishes.allow.contains("b@example.net"));
        assert!(users.audit_log(99).unwrap().len() > 5);
    }

    #[test]
    fn malformed_calls_and_lost_connections_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let database = UserDatabase::open(folder.path()).unwrap();
        for (method, arguments) in
            [("no_such", &b"\x90"[..]), ("list", b""), ("remove", b"\x91\xa1a"), ("token", b"\xc1")]
        {
            assert!(database.answer(method, arguments).is_err(), "{method}");
        }
        let error = Users::remote(Arc::new(Cut)).list().unwrap_err();
        assert!(error.may_retry() && error.to_string().contains("secrets process"), "{error}");
    }
}
