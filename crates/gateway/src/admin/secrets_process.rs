//! The secrets process itself: reads keys, answers requests, ends when the node has ended.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use gauntlet_store::sharing::SharedKind;
use gauntlet_store::{BodyKeys, UserDatabase};
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::admin::channel_signing::{ChannelSigning, check_keys};
use crate::clock::now_ms;
use crate::config::{Config, ListenerSettings};
use crate::net::acme;
use crate::net::tls::{self, expiry};
use crate::outbound::signing::{Key, KeyRing};
use crate::privileges;
use crate::secrets::remote_key::schemes_of;
use crate::secrets::wire::{self, Kind};
use crate::secrets::{Certificate, DkimKeyInfo, KeyId, Life, Request, SandboxStatus};

/// Stack of a thread that answers, in bytes: a password's memory is on the heap.
const STACK_BYTES: usize = 1 << 20;

/// Reads the configuration again: only what is on disk counts, never what the node says.
pub type LoadConfig = Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

/// The keys of one reading of the configuration.
#[derive(Debug, Clone, Default)]
struct Keys {
    listeners: Vec<(ListenerSettings, Vec<Arc<CertifiedKey>>)>,
    tls: BTreeMap<KeyId, Arc<CertifiedKey>>,
    dkim: BTreeMap<KeyId, Arc<Key>>,
}

impl Keys {
    fn load(config: &Config) -> anyhow::Result<Self> {
        let mut keys = Keys::default();
        for listener in &config.listener {
            let all = tls::read_all(config, listener)?;
            for key in &all {
                keys.tls.insert(tls_id(key), key.clone());
            }
            keys.listeners.push((listener.clone(), all));
        }
        let folder = config.node.inside(&config.dkim.keys);
        let ring = privileges::with_file(config, &folder, || KeyRing::load(&folder))?;
        keys.dkim = ring.into_keys().map(|key| (dkim_id(&key), Arc::new(key))).collect();
        Ok(keys)
    }
}

/// The public key names the private one; where it is not known, the certificate does.
fn tls_id(key: &CertifiedKey) -> KeyId {
    let public = key.key.public_key();
    let certificate = || key.cert.first().map(|c| c.as_ref()).unwrap_or_default();
    *blake3::hash(public.as_ref().map_or_else(certificate, |p| p.as_ref())).as_bytes()
}

fn dkim_id(key: &Key) -> KeyId {
    *blake3::hash(format!("{} {}", key.record_name(), key.record()).as_bytes()).as_bytes()
}

/// Everything that the process knows.
pub struct State {
    load: LoadConfig,
    /// The file that the secrets process has read it from.
    file: Option<PathBuf>,
    status: SandboxStatus,
    users: UserDatabase,
    channel: ChannelSigning,
    current: Mutex<Current>,
}

struct Current {
    config: Config,
    keys: Keys,
    /// Those that the node went on with last, if it is not those above: it may not have done so,
    /// and handshakes and messages under way may still ask for them.
    in_force: Keys,
    /// Those in force before.
    previous: Keys,
    /// The key of an ACME order that is under way, in PEM.
    ordered: Option<String>,
}

impl Current {
    fn keep_reloaded(&mut self) {
        self.previous = std::mem::replace(&mut self.in_force, self.keys.clone());
    }

    /// All keys that may be requested, the newest first.
    fn generations(&self) -> impl Iterator<Item = &Keys> {
        [&self.keys, &self.in_force, &self.previous].into_iter()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    /// Reads configuration and keys, gives up what is not needed any more (`settle`), and opens the
    /// user database.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn open(
        load: LoadConfig,
        file: Option<PathBuf>,
        settle: impl FnOnce(&Config) -> anyhow::Result<SandboxStatus>,
    ) -> anyhow::Result<Self> {
        let config = load()?;
        let keys = Keys::load(&config)?;
        let status = settle(&config)?;
        gauntlet_store::users::lost::check_not_lost(&config.node.data)?;
        let users = UserDatabase::open(&config.node.data.join("console"))?;
        users.set_sharing_keys(sharing_keys(&config)?);
        let (in_force, previous) = (keys.clone(), Keys::default());
        let current = Current { config, keys, in_force, previous, ordered: None };
        let (channel, current) = (ChannelSigning::default(), Mutex::new(current));
        Ok(State { load, file, status, users, channel, current })
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reload(&self) -> anyhow::Result<()> {
        let config = (self.load)()?;
        self.apply(config)
    }

    fn apply(&self, config: Config) -> anyhow::Result<()> {
        let keys = Keys::load(&config)?;
        self.users.set_sharing_keys(sharing_keys(&config)?);
        let mut current = self.current();
        current.keys = keys;
        current.config = config;
        Ok(())
    }

    /// Answers one request.
    ///
    /// # Errors
    /// A sentence for the log of the node.
    fn answer(&self, request: Request) -> anyhow::Result<(Kind, Vec<u8>)> {
        let done = match request {
            Request::Users { method, arguments } => {
                return Ok(match self.users.answer(&method, &arguments) {
                    Ok(value) => (Kind::Done, value),
                    Err(error) => (Kind::Refused, error),
                });
            }
            Request::Hello => wire::encode(&self.status),
            Request::Certificates { address, certificate } => {
                wire::encode(&self.certificates(&address, &certificate)?)
            }
            Request::Configuration => wire::encode(&self.configuration()?),
            Request::CertificateLives => wire::encode(&lives(&self.current().config)),
            Request::SignTls { key, scheme, message } => {
                wire::encode(&self.sign_tls(&key, scheme, &message)?)
            }
            Request::DkimKeys => wire::encode(&self.dkim_keys()),
            Request::SignDkim { key, message } => wire::encode(&self.sign_dkim(&key, &message)?),
            Request::Reload => wire::encode(&self.reload()?),
            Request::KeepReloaded => wire::encode(&self.current().keep_reloaded()),
            Request::AcmeAccount => wire::encode(&acme::read_account(&self.data())),
            Request::KeepAcmeAccount(Some(account)) => {
                wire::encode(&acme::keep_account(&self.data(), &account)?)
            }
            Request::KeepAcmeAccount(None) => wire::encode(&acme::forget_account(&self.data())?),
            Request::OrderAcme { names } => {
                let (key, request) = acme::signing_request(names)?;
                self.current().ordered = Some(key);
                wire::encode(&request)
            }
            Request::KeepAcmeChain { chain } => wire::encode(&self.keep_chain(&chain)?),
            Request::AcmeRenewAt => wire::encode(&acme::renew_at(&self.current().config)),
            Request::AcmeFailure => wire::encode(&acme::last_failure(&self.data())),
            Request::CheckChannelKeys => wire::encode(&check_keys(&self.config().channel_publish)?),
            Request::SignChannel { role, signed } => {
                let signed =
                    self.channel.sign(&self.config(), (&role, &signed), now_ms() / 1_000)?;
                wire::encode(&signed)
            }
            Request::NoteAcme(failed) => wire::encode(&acme::note(&self.data(), failed.as_ref())?),
        };
        Ok((Kind::Done, done?))
    }

    /// The text of the configuration file that the process was started with, of no other.
    fn configuration(&self) -> anyhow::Result<String> {
        let path = self.file.as_ref().context("there is no configuration file")?;
        std::fs::read_to_string(path).with_context(|| path.display().to_string())
    }

    /// A copy, so that nobody waits for it while a large file is hashed.
    fn config(&self) -> Config {
        self.current().config.clone()
    }

    fn data(&self) -> PathBuf {
        self.current().config.node.data.clone()
    }

    fn certificates(
        &self,
        address: &str,
        certificate: &[PathBuf],
    ) -> anyhow::Result<Vec<Certificate>> {
        let current = self.current();
        let is_it = |(listener, _): &&(ListenerSettings, _)| {
            listener.address == address && listener.certificate == certificate
        };
        let found = current.keys.listeners.iter().find(is_it);
        let (_, all) = found.with_context(|| {
            format!("listener {address}: the configuration on disk is another one; reload it")
        })?;
        let certificates = all.iter().map(|key| Certificate {
            chain: key.cert.iter().map(|c| c.to_vec()).collect(),
            key: tls_id(key),
            public: key.key.public_key().map(|p| p.to_vec()),
            schemes: schemes_of(&*key.key),
        });
        Ok(certificates.collect())
    }

    fn sign_tls(&self, id: &KeyId, scheme: u16, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        let key = {
            let current = self.current();
            let found = current.generations().find_map(|keys| keys.tls.get(id));
            found.context("no such TLS key")?.clone()
        };
        let signer = key.key.choose_scheme(&[SignatureScheme::from(scheme)]);
        Ok(signer.context("the TLS key knows no such scheme")?.sign(message)?)
    }

    fn dkim_keys(&self) -> Vec<DkimKeyInfo> {
        let info = |(id, key): (&KeyId, &Arc<Key>)| DkimKeyInfo {
            id: *id,
            domain: key.domain.clone(),
            selector: key.selector.clone(),
            state: key.state.name().to_owned(),
            is_rsa: key.algorithm() == "rsa",
            path: key.path.clone(),
            record: key.record(),
        };
        self.current().keys.dkim.iter().map(info).collect()
    }

    fn sign_dkim(&self, id: &KeyId, message: &[u8]) -> anyhow::Result<Vec<u8>> {
        let key = {
            let current = self.current();
            let found = current.generations().find_map(|keys| keys.dkim.get(id));
            found.context("no such DKIM key")?.clone()
        };
        key.signature(message)
    }

    fn keep_chain(&self, chain: &str) -> anyhow::Result<()> {
        let (config, key) = {
            let mut current = self.current();
            (current.config.clone(), current.ordered.take().context("no certificate was ordered")?)
        };
        acme::keep(&config, &key, chain)?;
        self.apply(config)
    }
}

/// The keys that seal what other nodes are told of users.
fn sharing_keys(config: &Config) -> anyhow::Result<Option<BodyKeys>> {
    if !config.array.shares(SharedKind::Users) {
        return Ok(None);
    }
    let path = config.node.inside(&config.array.users_key);
    anyhow::ensure!(
        path.is_file(),
        "array.users_key {}: there is no such file; copy it from another node, or let `gauntlet \
         array users-key` make the first",
        path.display()
    );
    BodyKeys::open(&path, false).map(Some).context("array.users_key")
}

fn lives(config: &Config) -> Vec<Life> {
    let readable = |(path, life): (PathBuf, anyhow::Result<(i64, i64)>)| {
        (path, life.map_err(|e| format!("{e:#}")))
    };
    expiry::lives(config).into_iter().map(readable).collect()
}

/// Answers on these connections until the node closes them. `opened` is what to answer from, or why
/// there is nothing, which the answer to Hello reports.
///
/// # Errors
/// If a thread cannot be started, or why there is nothing to answer from.
pub fn serve(connections: Vec<UnixStream>, opened: anyhow::Result<State>) -> anyhow::Result<()> {
    let state = match opened {
        Ok(state) => Arc::new(state),
        Err(error) => {
            let why = format!("{error:#}");
            for mut connection in connections {
                let _the_node_may_be_gone =
                    wire::write(&mut connection, Kind::Failed, why.as_bytes());
            }
            return Err(error);
        }
    };
    let mut threads = Vec::new();
    for connection in connections {
        let state = state.clone();
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        threads.push(thread.spawn(move || answer_all(connection, &state))?);
    }
    for thread in threads {
        match thread.join() {
            Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => {
                anyhow::bail!("a connection to the node broke: {error}")
            }
            Ok(_) => {}
            Err(_) => anyhow::bail!("a thread of the secrets process ended by a fault of its own"),
        }
    }
    Ok(())
}

fn answer_all(mut connection: UnixStream, state: &State) -> io::Result<()> {
    loop {
        let (kind, body) = wire::read(&mut connection, wire::REQUEST_BYTES_MAX)?;
        if kind != Kind::Request {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request"));
        }
        let answered = match wire::decode::<Request>(&body) {
            Ok(request) => state.answer(request),
            Err(error) => Err(error.into()),
        };
        match answered {
            Ok((kind, value)) => wire::write(&mut connection, kind, &value)?,
            Err(error) => {
                wire::write(&mut connection, Kind::Failed, format!("{error:#}").as_bytes())?;
            }
        }
    }
}
