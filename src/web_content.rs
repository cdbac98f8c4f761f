//! Downloads of the web proxy, looked at as files of mail are: unpacked by the same processes,
//! given to the same malware engines.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use gauntlet_content::engines::{Contents, EngineSet};
use gauntlet_content::process::client::Pool;
use gauntlet_content::process::supervisor::Settings;
use gauntlet_content::{DefectKind, Limits, Object, OnFailure, Password, PropertyKind, Root, Tree};
use gauntlet_gateway::Node;
use gauntlet_gateway::config::Config;
use gauntlet_proxy::content::{Download, ScanDownload, ScanVerdict};
use tokio::sync::Semaphore;

use crate::content_process;
use crate::content_process::Processes;

/// Names of findings in a verdict.
const NAMES_MAX: usize = 3;

/// Unpacks downloads and asks engines.
pub(crate) struct DownloadScanner {
    parts: Arc<Parts>,
    /// As many as there are workers: who waits for one holds no thread.
    turns: Arc<Semaphore>,
    /// It looks without an engine, too: the program itself knows the test file.
    looks_alone: bool,
}

/// The engines at this moment.
type Engines = dyn Fn() -> Arc<EngineSet> + Send + Sync;

struct Parts {
    pool: Arc<Pool>,
    engines: Box<Engines>,
    limits: Limits,
    words: Vec<Password>,
}

impl DownloadScanner {
    /// By `[content]` and the `[[engine]]`s of a node's configuration.
    ///
    /// # Errors
    /// If a process cannot be started, or a file of an engine not be read.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let content = &config.content;
        let workers =
            Settings { memory_bytes_max: content.worker_memory_bytes_max, ..Settings::default() };
        let pool = content_process::start(&workers, content.workers())?;
        let engines = content_process::engine_host(config, "")?.engines(&config.engine, content)?;
        let (words, engines) = (words(config), Arc::new(engines));
        let turns = Arc::new(Semaphore::new(pool.workers_max()));
        let engines: Box<Engines> = Box::new(move || engines.clone());
        let parts = Parts { pool: Arc::new(pool), engines, limits: content.limits(), words };
        Ok(DownloadScanner { parts: Arc::new(parts), turns, looks_alone: false })
    }

    /// Looks at downloads though no engine is set up, as is done with files of mail.
    pub(crate) fn even_without_engines(self) -> Self {
        DownloadScanner { looks_alone: true, ..self }
    }

    /// By the processes of a node, and the engines that look at its mail at that time: those of the
    /// configuration and of channels. None if nothing is unpacked.
    pub(crate) fn of_node(node: &Arc<Node>, processes: &Processes) -> Option<Self> {
        let pool = processes.pool.clone()?;
        let config = node.config();
        let of_node = Arc::downgrade(node);
        let none = Arc::new(EngineSet::none());
        let engines = move || {
            let unpacking = of_node.upgrade().and_then(|node| node.judge().unpacking.clone());
            unpacking.map_or_else(|| none.clone(), |unpacking| unpacking.engines().clone())
        };
        let turns = Arc::new(Semaphore::new(pool.workers_max()));
        let (limits, words) = (config.content.limits(), words(&config));
        let parts = Parts { pool, engines: Box::new(engines), limits, words };
        Some(DownloadScanner { parts: Arc::new(parts), turns, looks_alone: false })
    }
}

/// Words that are tried as passwords of archives.
fn words(config: &Config) -> Vec<Password> {
    let word = |word: &String| Password { word: word.clone(), source: "list".to_owned() };
    config.content.passwords.iter().map(word).collect()
}

impl ScanDownload for DownloadScanner {
    fn is_on(&self) -> bool {
        self.looks_alone || !(self.parts.engines)().is_empty()
    }

    fn scan(&self, download: Download) -> BoxFuture<'static, ScanVerdict> {
        let (parts, turns) = (Arc::clone(&self.parts), Arc::clone(&self.turns));
        Box::pin(async move {
            let Ok(turn) = turns.acquire_owned().await else {
                return ScanVerdict::Failed("the proxy stops".to_owned());
            };
            let scanned = tokio::task::spawn_blocking(move || {
                // The thread keeps its turn: who gave up waiting does not end it.
                let _turn = turn;
                parts.scan(&download)
            });
            scanned.await.unwrap_or_else(|error| ScanVerdict::Failed(error.to_string()))
        })
    }
}

impl Parts {
    fn scan(&self, download: &Download) -> ScanVerdict {
        let root = Root {
            name: &download.name,
            declared_type: &download.declared_type,
            bytes: &download.bytes,
        };
        // The same for all of the download.
        let engines = (self.engines)();
        let mut contents = Contents::default();
        let bytes_max = engines.bytes_max();
        let mut keep = |object: &Object, bytes: &[u8]| contents.add(object, bytes, bytes_max);
        let asks = !engines.is_empty() && engines.wants_objects();
        let look: Option<&mut gauntlet_content::process::client::OnObject<'_>> =
            if asks { Some(&mut keep) } else { None };
        let mut tree = self.pool.unpack(&[root], &self.limits, &self.words, look);
        if asks {
            // A worker that failed gave no bytes.
            for object in tree.objects.iter().filter(|object| object.parent.is_none()) {
                contents.add(object, &download.bytes, bytes_max);
            }
            engines.scan(&mut tree, &contents, None);
        }
        verdict(&tree)
    }
}

/// A finding goes before a bomb, and both before what could not be read.
fn verdict(tree: &Tree) -> ScanVerdict {
    let properties = tree.objects.iter().flat_map(|object| &object.properties);
    let findings = properties.filter(|p| p.kind == PropertyKind::EngineFinding);
    let names: Vec<&str> = findings.map(|p| p.detail.as_str()).take(NAMES_MAX).collect();
    if !names.is_empty() {
        return ScanVerdict::Found { name: names.join(", ") };
    }
    let bomb = tree.unread().find(|(_, defect)| defect.kind == DefectKind::Bomb);
    if let Some((object, _)) = bomb {
        return ScanVerdict::Bomb(object.path.clone());
    }
    let mut failed = tree.engines.iter();
    let failed = failed.find(|r| !r.error.is_empty() && r.on_failure != OnFailure::Accept);
    if let Some(report) = failed {
        return ScanVerdict::Failed(format!("{}: {}", report.engine, report.error));
    }
    match tree.unread().next() {
        None => ScanVerdict::Clean,
        Some((object, defect)) => {
            let kind = serde_json::to_value(defect.kind).unwrap_or_default();
            let kind = kind.as_str().unwrap_or("unread").replace('_', " ");
            let why = format!("{} is not read: {kind}", object.path);
            match defect.kind {
                // Another time it may go better.
                DefectKind::OutOfTime | DefectKind::DecoderFailed | DefectKind::ToolMissing => {
                    ScanVerdict::Failed(why)
                }
                _ => ScanVerdict::Unreadable(why),
            }
        }
    }
}
