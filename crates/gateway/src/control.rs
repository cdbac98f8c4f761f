//! The node's control socket: what `gauntlet queue` and `gauntlet trace` talk to.
//!
//! A Unix socket in the data folder, for its owner only. A request is one line of JSON, messages
//! that are handed over follow it as they are; the answer is one line too, then the connection
//! ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_store::quarantine::{ReleaseOrder, ReleaseRight};
use gauntlet_store::{Event, LogRecord};
use serde::{Deserialize, Serialize};

use crate::clock::Day;
use crate::config::Config;
use crate::ids;
use crate::node::subsystems::ArrayStatus;
use crate::node::{Node, Release};
use crate::outbound::queue::administration::DeleteError;
use crate::outbound::queue::bundle::{BUNDLE_BYTES_MAX, Bundle};
use crate::outbound::queue::{Arrival, QueueEntry};
use crate::reports::round::Reported;

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// Messages listed at once.
pub const LIST_MAX: usize = 10_000;
/// A client that says nothing is given up after this.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// A request of a command to the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Messages waiting or being delivered, oldest first.
    List {
        /// At most so many.
        max: usize,
    },
    /// What is known about a message, in the queue or in the log.
    Trace {
        /// Id of the message, as log and Received field have it.
        id: String,
    },
    /// Deliver waiting messages now; all if none is named.
    Retry {
        /// Ids of messages in the queue; empty for all.
        ids: Vec<String>,
    },
    /// Keep messages waiting until they are retried.
    Hold {
        /// Ids of messages in the queue.
        ids: Vec<String>,
    },
    /// Read the policy in force again.
    Policy,
    /// Send the DMARC reports of a day.
    DmarcReports {
        /// Day of UTC, `2026-11-21`.
        day: String,
    },
    /// Send the TLS reports of a day.
    TlsReports {
        /// Day of UTC, `2026-11-21`.
        day: String,
    },
    /// Send a message of the node's own.
    Submit {
        /// Address of the recipient.
        to: String,
        /// The whole message, header and body.
        message: String,
    },
    /// Release a held message, once.
    Release {
        /// Its id in the quarantine.
        id: String,
        /// Addresses instead of its recipients.
        to: Vec<String>,
        /// Train the classifier that it is wanted.
        learn: bool,
    },
    /// Seal held mail anew, with the first key of the file.
    Seal,
    /// Apply the lists of senders as they are stored now.
    Senders,
    /// Take messages out of the queue.
    Delete {
        /// Ids of messages in the queue.
        ids: Vec<String>,
    },
    /// Take no new mail from now on, or take it again.
    Drain {
        /// Take mail again.
        undo: bool,
    },
    /// Take in messages of another node. They follow the line, each as a bundle.
    TakeIn {
        /// Bytes of each.
        bytes: Vec<u64>,
    },
    /// How the node is.
    Status,
    /// The clock is right, and what is too old may go.
    AcceptClock,
    /// The rules in force that can hit.
    Rules,
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::List`]: what waits in the queue.
    Messages(Vec<Waiting>),
    /// To [`Request::Trace`]: one message of the log.
    Message {
        /// The message's line of the log, as far as it is.
        record: Box<LogRecord>,
        /// What happened to it since.
        events: Vec<Event>,
    },
    /// To `DmarcReports` and `TlsReports`.
    Reports(Vec<Reported>),
    /// To [`Request::Status`]: how the node is.
    Status(Box<NodeStatus>),
    /// To `TakeIn`: what became of each, in their order.
    Arrived(Vec<Arrival>),
    /// To `Rules`: names and points.
    Rules(Vec<(String, f64)>),
    /// To the others: how many messages it concerned.
    Done(usize),
    /// It could not be done, and why.
    Failed(String),
}

/// A message of the queue as the commands show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Id of the message, as log and Received field have it.
    pub id: String,
    /// When the next attempt is due, Unix milliseconds; none if it is held or being delivered.
    pub due_ms: Option<i64>,
    /// It is being delivered.
    pub active: bool,
    /// Sender of the envelope; empty for bounces.
    pub from: String,
    /// Addresses that are still open.
    pub to: Vec<String>,
    /// Bytes of the message with our Received field.
    pub size: u64,
    /// Attempts of delivery so far.
    pub attempts: u32,
    /// What the next hop said last; empty before the first attempt.
    pub reply: String,
    /// The node of the array that it is on its way to; none if it stays here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub leaving_to: String,
}

/// How a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Name of the host.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Version of the ruleset in force.
    pub ruleset: String,
    /// When it started, Unix milliseconds.
    pub started_ms: i64,
    /// Why it takes no mail; nothing if it does.
    pub problems: Vec<String>,
    /// What an administrator should decide.
    #[serde(default)]
    pub questions: Vec<String>,
    /// Since when it drains, Unix milliseconds; none if it takes mail.
    #[serde(default)]
    pub draining_since_ms: Option<i64>,
    /// Messages in the queue.
    pub queued: u64,
    /// Of these, those that wait for a person: held, or on their way to another node.
    #[serde(default)]
    pub queued_held: u64,
    /// Milliseconds that the oldest of them waits.
    pub queue_age_ms: u64,
    /// Messages to be held that wait for the quarantine.
    #[serde(default)]
    pub hold_backlog: u64,
    /// So many may wait before mail that would be held gets 451.
    #[serde(default)]
    pub hold_backlog_max: u64,
    /// Files of held mail.
    #[serde(default)]
    pub packs: u64,
    /// Bytes of these files.
    #[serde(default)]
    pub pack_bytes: u64,
    /// Open SMTP and LMTP sessions.
    pub sessions: u64,
    /// The array that it belongs to; none if it is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayStatus>,
    /// All numbers, as `/metrics` has them, but for those of disks.
    pub metrics: String,
}

/// Where a node's socket is.
pub fn socket_path(data: &Path) -> PathBuf {
    data.join("control.sock")
}

/// Asks the node that uses this data folder.
///
/// # Errors
/// If no node runs there, or it does not answer.
pub fn ask(data: &Path, request: &Request) -> io::Result<Answer> {
    ask_with(data, request, &[])
}

/// Hands messages, each as a bundle, over to the node that uses this data folder.
///
/// # Errors
/// As [`ask`]. The node may have them all the same: they are to be handed over again.
pub fn hand_over(data: &Path, bundles: &[Vec<u8>]) -> io::Result<Answer> {
    let bytes = bundles.iter().map(|bundle| bundle.len() as u64).collect();
    ask_with(data, &Request::TakeIn { bytes }, bundles)
}

fn ask_with(data: &Path, request: &Request, bundles: &[Vec<u8>]) -> io::Result<Answer> {
    let mut stream = UnixStream::connect(socket_path(data))?;
    serde_json::to_writer(&mut stream, request)?;
    stream.write_all(b"\n")?;
    for bundle in bundles {
        stream.write_all(bundle)?;
    }
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers requests on a thread of its own until the process ends.
///
/// # Errors
/// If the socket cannot be made: the path, why, and what to do.
pub fn serve(node: Arc<Node>) -> io::Result<()> {
    let path = socket_path(&node.config().node.data);
    // Left by a node that was killed; the lock on the data folder says that none runs.
    let _none_is_fine = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidInput => "set node.data to a folder with a shorter path",
            _ => "take away what is there, or set node.data to another folder",
        };
        io::Error::new(error.kind(), format!("{}: {error}; {hint}", path.display()))
    })?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = serve_connection(&node, &stream) {
                tracing::debug!(%error, "a control connection was aborted");
            }
        }
    })?;
    Ok(())
}

fn serve_connection(node: &Arc<Node>, mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(IO_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    (&mut reader).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(Request::TakeIn { bytes }) => take_in(node, &mut reader, &bytes)?,
        Ok(request) => answer(node, request),
        Err(error) => Answer::Failed(error.to_string()),
    };
    serde_json::to_writer(&mut stream, &answer)?;
    stream.write_all(b"\n")
}

/// Reads messages and takes them in.
fn take_in(node: &Node, reader: &mut impl Read, bytes: &[u64]) -> io::Result<Answer> {
    let all = bytes.iter().fold(0, |all: u64, bytes| all.saturating_add(*bytes));
    if all > BUNDLE_BYTES_MAX {
        return Ok(Answer::Failed(format!("{all} bytes at once, more than {BUNDLE_BYTES_MAX}")));
    }
    let mut bundles = Vec::new();
    for bytes in bytes {
        // Grows with what comes: what is announced may be a mistake.
        let mut bundle = Vec::new();
        if reader.take(*bytes).read_to_end(&mut bundle)? as u64 != *bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match Bundle::decode(&bundle) {
            Ok(bundle) => bundles.push(bundle),
            Err(error) => return Ok(Answer::Failed(error.to_string())),
        }
    }
    Ok(Answer::Arrived(node.queue.take_in(bundles)))
}

fn drain(node: &Arc<Node>, undo: bool) -> Answer {
    let changed = if undo { node.undo_drain() } else { node.drain() };
    match changed {
        Ok(changed) => Answer::Done(usize::from(changed)),
        Err(error) => Answer::Failed(format!("it cannot be written down: {error}")),
    }
}

fn answer(node: &Arc<Node>, request: Request) -> Answer {
    match request {
        Request::Drain { undo } => drain(node, undo),
        Request::TakeIn { .. } => Answer::Failed("messages follow such a request".to_owned()),
        Request::List { max } => Answer::Messages(list(node, max)),
        Request::Trace { id } => trace(node, &id),
        Request::Submit { to, message } => match node.send_own(&to, message.into_bytes()) {
            Ok(_) => Answer::Done(1),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Request::DmarcReports { day } => reports(&day, |day| node.send_dmarc_reports(day)),
        Request::TlsReports { day } => reports(&day, |day| node.send_tls_reports(day)),
        Request::Release { id, to, learn } => release(node, &id, to, learn),
        Request::Seal => match node.quarantine.reencrypt() {
            Ok(written) => Answer::Done(usize::try_from(written).unwrap_or(usize::MAX)),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Request::Senders => match node.reload(Config::clone(&node.config())) {
            Ok(()) => Answer::Done(0),
            Err(error) => Answer::Failed(format!("{error:#}")),
        },
        Request::Policy => match node.reload_policy() {
            Ok(()) => Answer::Done(0),
            Err(error) => Answer::Failed(format!("{error:#}")),
        },
        Request::AcceptClock => match node.accept_clock() {
            Ok(questions) => Answer::Done(questions),
            Err(error) => Answer::Failed(error.to_string()),
        },
        Request::Status => Answer::Status(Box::new(status(node))),
        Request::Rules => Answer::Rules(rules(node)),
        Request::Retry { ids } => with_ids(&ids, |ids| {
            node.queue.check_here(ids)?;
            Ok(node.queue.retry(ids))
        }),
        Request::Hold { ids } => with_ids(&ids, |ids| {
            node.queue.check_here(ids)?;
            Ok(node.queue.hold(ids))
        }),
        Request::Delete { ids } => delete(node, &ids),
    }
}

/// Deletes messages of the queue, up to the first that cannot be.
fn delete(node: &Node, texts: &[String]) -> Answer {
    let mut deleted = 0;
    let answer = with_ids(texts, |ids| {
        for id in ids {
            node.queue.delete(*id, "the command line")?;
            deleted += 1;
        }
        Ok(ids.len())
    });
    match answer {
        Answer::Failed(why) if deleted > 0 => {
            Answer::Failed(format!("{deleted} of {} are deleted; {why}", texts.len()))
        }
        answer => answer,
    }
}

fn status(node: &Node) -> NodeStatus {
    let packs = node.quarantine.pack_totals().unwrap_or_default();
    NodeStatus {
        name: node.config().node.host_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ruleset: node.ruleset(),
        started_ms: node.started_ms(),
        problems: node.problems(),
        questions: node.questions(),
        draining_since_ms: node.draining_since_ms(),
        queued: node.queue.count(),
        queued_held: node.queue.held(),
        queue_age_ms: node.queue_age_ms(),
        hold_backlog: node.queue.hold_backlog(),
        hold_backlog_max: node.config().quarantine.backlog_max,
        packs: packs.packs,
        pack_bytes: packs.bytes,
        sessions: node.sessions(),
        array: node.array_status(),
        metrics: node.render_metrics(),
    }
}

fn rules(node: &Node) -> Vec<(String, f64)> {
    let snapshot = &node.judge().snapshot;
    let enabled = snapshot.registry.rules().iter().filter(|r| r.enabled);
    let mut all: Vec<(String, f64)> = enabled.map(|r| (r.name.to_string(), r.score)).collect();
    let own = snapshot.own_rules.as_deref();
    for ruleset in own.into_iter().chain(snapshot.ruleset.as_deref().map(|set| &**set)) {
        let set = ruleset.profile().score_set();
        let scored = ruleset.rules().iter().filter(|r| !r.is_sub() && r.is_callable);
        let points =
            scored.map(|r| (r.name.to_string(), r.scores.get(set).copied().unwrap_or(0.0)));
        all.extend(points);
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

fn release(node: &Node, id: &str, to: Vec<String>, learn: bool) -> Answer {
    let who = "command line".to_owned();
    // Who may open the control socket runs the node.
    let order = ReleaseOrder { who, right: ReleaseRight::Admin, to, learn };
    match node.release(id, &order) {
        Ok(Release::Done(addresses)) => Answer::Done(addresses.len()),
        Ok(Release::NotHeld(state)) => {
            Answer::Failed(format!("it is not held any more: it is {}", state.name()))
        }
        Ok(Release::NotAllowed) => Answer::Failed("it may not be released".to_owned()),
        Ok(Release::Unknown) => {
            Answer::Failed(format!("no message {id:?} in the quarantine, or it is forgotten"))
        }
        Err(error) => Answer::Failed(error.to_string()),
    }
}

fn reports(day: &str, send: impl FnOnce(Day) -> anyhow::Result<Vec<Reported>>) -> Answer {
    let Some(parsed) = Day::parse(day) else {
        return Answer::Failed(format!("{day:?} is no day such as 2026-11-21"));
    };
    send(parsed).map_or_else(|error| Answer::Failed(format!("{error:#}")), Answer::Reports)
}

fn with_ids(texts: &[String], act: impl FnOnce(&[u64]) -> Result<usize, DeleteError>) -> Answer {
    let mut parsed = Vec::new();
    for text in texts {
        match ids::parse(text) {
            Some(id) => parsed.push(id),
            None => return Answer::Failed(format!("{text:?} is no message id")),
        }
    }
    act(&parsed).map_or_else(|error| Answer::Failed(error.to_string()), Answer::Done)
}

/// Messages waiting or being delivered, oldest first.
pub fn list(node: &Node, max: usize) -> Vec<Waiting> {
    let all = node.queue.list(max.min(LIST_MAX));
    all.into_iter().map(|m| waiting(node, m)).collect()
}

fn waiting(node: &Node, message: QueueEntry) -> Waiting {
    let record = ids::parse(&message.id).and_then(|id| node.queue.show(id)).unwrap_or_default();
    let open = record.deliveries.iter().filter(|d| !d.outcome.is_final());
    Waiting {
        id: message.id,
        due_ms: message.due_ms,
        active: message.active,
        leaving_to: message.leaving_to,
        to: open.clone().map(|d| d.address.clone()).collect(),
        attempts: open.clone().map(|d| d.attempts).max().unwrap_or(0),
        reply: open.clone().next_back().map(|d| d.reply.clone()).unwrap_or_default(),
        from: record.envelope.mail_from,
        size: record.size,
    }
}

fn trace(node: &Node, text: &str) -> Answer {
    let text = text.to_ascii_uppercase();
    let queued = ids::parse(&text).and_then(|id| node.queue.show(id));
    let logged = match node.log.get(&text) {
        Ok(logged) => logged,
        Err(error) => return Answer::Failed(error.to_string()),
    };
    match (queued, logged) {
        (Some(record), logged) => {
            let mut events = logged.map(|l| l.events).unwrap_or_default();
            events.extend(ids::parse(&text).and_then(|id| node.queue.leaving_event(id)));
            Answer::Message { record: Box::new(record), events }
        }
        (None, Some(logged)) => {
            Answer::Message { record: Box::new(logged.record), events: logged.events }
        }
        (None, None) => Answer::Failed(format!("no message {text} in queue or log")),
    }
}
