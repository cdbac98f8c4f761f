//! Disarming files before a message goes out: a thread that asks the processes that unpack, so that
//! nothing that delivers waits for them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gauntlet_content::Limits;
use gauntlet_content::disarm::Disarmed;
use gauntlet_content::process::client::Pool;
use gauntlet_mail::Message;
use gauntlet_policy::rewrite::{DisarmOutcome, DisarmedPart};
use gauntlet_verdict::Change;

/// The processes that unpack, and their limits.
pub type Tools = (Arc<Pool>, Limits);

/// A message whose files are to be disarmed. Jobs that wait are messages that are being delivered,
/// which are bounded.
pub struct DisarmJob {
    /// Header and body as they were received.
    pub body: Bytes,
    /// What is to be done with it.
    pub changes: Vec<Change>,
    /// Called with what became of the parts.
    pub done: Box<dyn FnOnce(Vec<DisarmedPart>) + Send>,
}

/// The thread before the processes.
#[derive(Debug, Clone)]
pub struct Disarming {
    queue: Sender<DisarmJob>,
    tools: Arc<OnceLock<Tools>>,
}

impl Disarming {
    /// Starts the thread. Before it has [`Disarming::set_tools`] it disarms nothing, so that parts
    /// are stripped.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let tools = Arc::new(OnceLock::new());
        let known = tools.clone();
        std::thread::Builder::new()
            .name("disarming".to_owned())
            .spawn(move || run(&known, &jobs))?;
        Ok(Disarming { queue, tools })
    }

    /// Says by what files are disarmed; the first time counts.
    pub fn set_tools(&self, tools: Tools) {
        let _known_already = self.tools.set(tools);
    }

    /// Queues a message; if the thread has ended, `done` is called at once without parts.
    pub fn disarm(&self, job: DisarmJob) {
        if let Err(unsent) = self.queue.send(job) {
            (unsent.0.done)(Vec::new());
        }
    }
}

fn run(tools: &OnceLock<Tools>, jobs: &Receiver<DisarmJob>) {
    while let Ok(job) = jobs.recv() {
        let parts = match tools.get() {
            Some(tools) => disarmed(tools, &job),
            None => Vec::new(),
        };
        (job.done)(parts);
    }
}

fn disarmed((pool, limits): &Tools, job: &DisarmJob) -> Vec<DisarmedPart> {
    let message = Message::parse(&job.body);
    let mut found: Vec<DisarmedPart> = Vec::new();
    for change in &job.changes {
        let Change::Disarm(removal) = change else { continue };
        for removed in &removal.parts {
            let Some(part) = message.parts().get(usize::from(removed.part)) else { continue };
            if found.iter().any(|f| f.part == removed.part) {
                continue;
            }
            let shown = part.content_type.is("text", "html") && !part.is_attachment();
            let text_max = gauntlet_mail::Limits::default().text_bytes_max as usize;
            let outcome = match part.text().filter(|_| shown) {
                // Of a longer text the parser keeps the ends alone.
                Some(text) if text.len().max(part.body().len()) >= text_max => {
                    DisarmOutcome::Refused("the page is too long".to_owned())
                }
                Some(text) => outcome(pool.disarm(text.as_bytes(), true, limits)),
                None => outcome(pool.disarm(part.body(), false, limits)),
            };
            found.push(DisarmedPart { part: removed.part, outcome });
        }
    }
    found
}

fn outcome(disarmed: Disarmed) -> DisarmOutcome {
    match disarmed {
        Disarmed::Clean => DisarmOutcome::Clean,
        Disarmed::Refused(why) => DisarmOutcome::Refused(why),
        Disarmed::Changed(harmless) => {
            let names = harmless.becomes.map(|plain| plain.names());
            DisarmOutcome::Changed {
                bytes: harmless.bytes,
                extension: names.map(|(extension, _)| extension),
                media_type: names.map(|(_, media_type)| media_type),
                removed: harmless.removed,
            }
        }
    }
}
