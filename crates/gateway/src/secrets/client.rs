//! The node's side: starts the secrets process and asks it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use gauntlet_store::users::Remote;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::wire::{self, Kind};
use super::{DkimKeyInfo, KeyId, Life, Request};
use super::{Failure, SandboxStatus};

/// Connections for signatures: as many may be made at once.
const SIGNING_CONNECTIONS: usize = 4;
/// Connections for all else, where a request may take as long as a password check.
const OTHER_CONNECTIONS: usize = 8;
/// Longest wait for a signature, with the wait for a connection.
const SIGNING_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for anything else.
const OTHER_WAIT: Duration = Duration::from_secs(60);

/// The secrets process as the node sees it. Its methods block for as long as the process computes;
/// a signature takes what it takes in this process and some 20 us more.
#[derive(Debug)]
pub struct Secrets {
    signing: Pool,
    other: Pool,
    status: SandboxStatus,
    pid: u32,
    /// Until a caller waits for its end.
    child: Mutex<Option<Child>>,
    /// A request had no answer.
    silent: AtomicBool,
    /// Why it ended; empty while it runs.
    ended: watch::Sender<String>,
}

/// Connections of which each carries one request at a time.
#[derive(Debug)]
struct Pool {
    /// Those that are free, and how many there are at all.
    state: Mutex<(Vec<UnixStream>, usize)>,
    freed: Condvar,
    wait: Duration,
}

impl Pool {
    fn new(connections: Vec<UnixStream>, wait: Duration) -> io::Result<Self> {
        for connection in &connections {
            connection.set_read_timeout(Some(wait))?;
            connection.set_write_timeout(Some(wait))?;
        }
        let count = connections.len();
        Ok(Pool { state: Mutex::new((connections, count)), freed: Condvar::new(), wait })
    }

    fn state(&self) -> MutexGuard<'_, (Vec<UnixStream>, usize)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> io::Result<UnixStream> {
        let (mut state, until) = (self.state(), Instant::now() + self.wait);
        loop {
            if let Some(connection) = state.0.pop() {
                return Ok(connection);
            }
            let left = until.saturating_duration_since(Instant::now());
            if state.1 == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks over a free connection. One that failed is closed: what comes over it next could be the
    /// answer to another question.
    fn ask(&self, request: &[u8]) -> io::Result<(Kind, Vec<u8>)> {
        let mut connection = self.take()?;
        let answer = wire::write(&mut connection, Kind::Request, request)
            .and_then(|()| wire::read(&mut connection, wire::ANSWER_BYTES_MAX));
        let mut state = self.state();
        match &answer {
            Ok(_) => state.0.push(connection),
            Err(_) => state.1 -= 1,
        }
        drop(state);
        self.freed.notify_one();
        answer
    }
}

impl Secrets {
    /// Starts the process. `command` is the program with its arguments; those that name the
    /// connections are added. Call it before the node has threads, and before it gives up any
    /// right.
    ///
    /// # Errors
    /// If it cannot be started, or says why it cannot work.
    pub fn start(mut command: Command) -> anyhow::Result<Arc<Self>> {
        let count = SIGNING_CONNECTIONS + OTHER_CONNECTIONS;
        let pairs = (0..count).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>();
        let pairs = pairs.context("a socket pair for the secrets process")?;
        let (ours, theirs): (Vec<UnixStream>, Vec<UnixStream>) = pairs.into_iter().unzip();
        for end in &theirs {
            keep_open_in_child(end).context("a socket pair for the secrets process")?;
        }
        let numbers: Vec<String> = theirs.iter().map(|end| end.as_raw_fd().to_string()).collect();
        command.arg("--connections").arg(numbers.join(","));
        let child = command.spawn().context("the secrets process cannot be started")?;
        drop(theirs.into_iter().map(OwnedFd::from).collect::<Vec<_>>());
        Self::greet(ours, child)
    }

    fn greet(mut ours: Vec<UnixStream>, child: Child) -> anyhow::Result<Arc<Self>> {
        let other = ours.split_off(SIGNING_CONNECTIONS);
        let mut secrets = Secrets {
            signing: Pool::new(ours, SIGNING_WAIT)?,
            other: Pool::new(other, OTHER_WAIT)?,
            status: SandboxStatus::default(),
            pid: child.id(),
            child: Mutex::new(Some(child)),
            silent: AtomicBool::new(false),
            ended: watch::channel(String::new()).0,
        };
        match secrets.call(&Request::Hello) {
            Ok(status) => secrets.status = status,
            Err(error) => {
                let child = secrets.take_child();
                drop(secrets);
                if let Some(mut child) = child {
                    let _it_may_have_ended = child.kill();
                    let _reaped = child.wait();
                }
                return Err(error);
            }
        }
        Ok(Arc::new(secrets))
    }

    fn take_child(&self) -> Option<Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Watches on a thread of its own for the end of the process. Call it once the node has
    /// restricted itself: a thread that is older would not be restricted.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn watch(self: &Arc<Self>) -> io::Result<()> {
        let (Some(mut child), watched) = (self.take_child(), Arc::downgrade(self)) else {
            return Ok(());
        };
        std::thread::Builder::new().name("secrets-end".to_owned()).spawn(move || {
            let how = match child.wait() {
                Ok(status) => format!("the secrets process has ended ({status})"),
                Err(error) => format!("the secrets process cannot be waited for: {error}"),
            };
            if let Some(secrets) = watched.upgrade() {
                secrets.ended.send_replace(how);
            }
        })?;
        Ok(())
    }

    /// How the process protects itself.
    pub fn status(&self) -> &SandboxStatus {
        &self.status
    }

    /// Process id, for status pages and logs.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Some request had no answer: the process has ended, or hangs.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Waits until the process has ended or does not answer any more, and says which.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(|why| !why.is_empty()).await {
            Ok(why) => why.clone(),
            Err(_) => "the secrets process is not watched any more".to_owned(),
        }
    }

    /// Sends bytes of a request and returns the bytes of its answer.
    pub(super) fn exchange(&self, request: &Request) -> io::Result<(Kind, Vec<u8>)> {
        let signs = matches!(request, Request::SignTls { .. } | Request::SignDkim { .. });
        let pool = if signs { &self.signing } else { &self.other };
        let answer = pool.ask(&wire::encode(request)?);
        if answer.is_err() {
            self.silent.store(true, Ordering::Relaxed);
        }
        if answer.is_err() && pool.state().1 == 0 {
            // Without a connection left the node is of no use: the caller that watches ends it.
            self.ended.send_if_modified(|why| {
                let first = why.is_empty();
                if first {
                    "the secrets process does not answer".clone_into(why);
                }
                first
            });
        }
        answer
    }

    pub(super) fn call<T: DeserializeOwned>(&self, request: &Request) -> anyhow::Result<T> {
        let answer = self.exchange(request).context("the secrets process does not answer")?;
        match answer {
            (Kind::Done, value) => Ok(wire::decode(&value)?),
            (Kind::Failed, why) => Err(anyhow!(String::from_utf8_lossy(&why).into_owned())),
            (Kind::Request | Kind::Refused, _) => bail!("the secrets process answers nonsense"),
        }
    }

    /// From when to when the certificates of the listeners are good.
    ///
    /// # Errors
    /// If the process does not answer.
    pub fn certificate_lives(&self) -> anyhow::Result<Vec<Life>> {
        self.call(&Request::CertificateLives)
    }

    /// The text of the configuration file as it is now.
    ///
    /// # Errors
    /// If it cannot be read, or the process does not answer.
    pub fn configuration(&self) -> anyhow::Result<String> {
        self.call(&Request::Configuration)
    }

    pub(crate) fn dkim_keys(&self) -> anyhow::Result<Vec<DkimKeyInfo>> {
        self.call(&Request::DkimKeys)
    }

    pub(crate) fn sign_dkim(&self, key: KeyId, message: Vec<u8>) -> anyhow::Result<Vec<u8>> {
        self.call(&Request::SignDkim { key, message })
    }

    /// Has the process read its configuration and keys again.
    ///
    /// # Errors
    /// What is wrong with them; then it goes on with those before.
    pub fn reload(&self) -> anyhow::Result<()> {
        self.call(&Request::Reload)
    }

    /// The node goes on with what the last reload read: keys before the one before may be
    /// forgotten. Without an answer they are kept, which does no harm.
    pub(crate) fn keep_reloaded(&self) {
        let _kept_for_longer: anyhow::Result<()> = self.call(&Request::KeepReloaded);
    }

    pub(crate) fn acme_account(&self) -> anyhow::Result<Option<Vec<u8>>> {
        self.call(&Request::AcmeAccount)
    }

    pub(crate) fn keep_acme_account(&self, account: Option<Vec<u8>>) -> anyhow::Result<()> {
        self.call(&Request::KeepAcmeAccount(account))
    }

    pub(crate) fn acme_request(&self, names: Vec<String>) -> anyhow::Result<Vec<u8>> {
        self.call(&Request::OrderAcme { names })
    }

    pub(crate) fn keep_acme_chain(&self, chain: String) -> anyhow::Result<()> {
        self.call(&Request::KeepAcmeChain { chain })
    }

    pub(crate) fn acme_renew_at(&self) -> anyhow::Result<i64> {
        self.call(&Request::AcmeRenewAt)
    }

    /// How the last attempt to get a certificate failed; none if it did not.
    ///
    /// # Errors
    /// If the process does not answer.
    pub fn acme_failure(&self) -> anyhow::Result<Option<Failure>> {
        self.call(&Request::AcmeFailure)
    }

    pub(crate) fn note_acme(&self, failed: Option<Failure>) -> anyhow::Result<()> {
        self.call(&Request::NoteAcme(failed))
    }
}

impl Remote for Secrets {
    fn call(&self, method: &str, arguments: Vec<u8>) -> io::Result<Result<Vec<u8>, Vec<u8>>> {
        let request = Request::Users { method: method.to_owned(), arguments };
        match self.exchange(&request)? {
            (Kind::Done, value) => Ok(Ok(value)),
            (Kind::Refused, error) => Ok(Err(error)),
            (_, why) => Err(io::Error::other(String::from_utf8_lossy(&why).into_owned())),
        }
    }
}

/// Lets a child inherit this descriptor.
fn keep_open_in_child(end: &UnixStream) -> io::Result<()> {
    // SAFETY: the descriptor is open for the whole call; F_SETFD takes an integer.
    match unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
