//! Disarming files before a message goes out: threads that ask the processes that unpack, so that
//! nothing that delivers waits for them, and one file that takes long holds up no other message.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use gauntlet_content::disarm::Disarmed;
use gauntlet_content::process::client::Pool;
use gauntlet_content::{Limits, Root};
use gauntlet_mail::Message;
use gauntlet_policy::rewrite::{DisarmOutcome, DisarmedPart};
use gauntlet_verdict::Change;

/// The processes that unpack, and their limits.
pub type Tools = (Arc<Pool>, Limits);

/// A message whose files are to be disarmed. Jobs that wait are messages that are being delivered,
/// which are bounded.
pub struct DisarmJob {
    /// Those of the generation of settings that the message goes out by; without them nothing is
    /// disarmed, so that parts are stripped.
    pub tools: Option<Tools>,
    /// Header and body as they were received.
    pub body: Bytes,
    /// What is to be done with it.
    pub changes: Vec<Change>,
    /// Called with what became of the parts.
    pub done: Box<dyn FnOnce(Vec<DisarmedPart>) + Send>,
}

/// The threads before the processes.
#[derive(Debug, Clone)]
pub struct Disarming {
    queue: Sender<DisarmJob>,
}

impl Disarming {
    /// Starts so many threads, at least one: as many as there are processes that work at a time.
    ///
    /// # Errors
    /// If one cannot be started.
    pub fn start(threads: usize) -> std::io::Result<Self> {
        let (queue, jobs) = unbounded();
        for _ in 0..threads.max(1) {
            let jobs = jobs.clone();
            std::thread::Builder::new().name("disarming".to_owned()).spawn(move || run(&jobs))?;
        }
        Ok(Disarming { queue })
    }

    /// Queues a message; if the threads have ended, `done` is called at once without parts.
    pub fn disarm(&self, job: DisarmJob) {
        if let Err(unsent) = self.queue.send(job) {
            (unsent.into_inner().done)(Vec::new());
        }
    }
}

fn run(jobs: &Receiver<DisarmJob>) {
    while let Ok(job) = jobs.recv() {
        let parts = job.tools.as_ref().map(|tools| disarmed(tools, &job)).unwrap_or_default();
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
                Some(text) => {
                    let page = Root { name: "", declared_type: "", bytes: text.as_bytes() };
                    outcome(pool.disarm(&page, true, limits))
                }
                None => {
                    let declared_type = part.content_type.essence();
                    let name = part.file_name().unwrap_or_default();
                    let file = Root { name, declared_type: &declared_type, bytes: part.body() };
                    outcome(pool.disarm(&file, false, limits))
                }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// A job that says when it is done, and waits for that.
    fn job(done: impl FnOnce(Vec<DisarmedPart>) + Send + 'static) -> DisarmJob {
        DisarmJob { tools: None, body: Bytes::new(), changes: Vec::new(), done: Box::new(done) }
    }

    #[test]
    fn a_job_that_hangs_holds_up_no_other() {
        let disarming = Disarming::start(2).unwrap();
        let (release, released) = channel::<()>();
        let (said, heard) = channel();
        let hung = said.clone();
        disarming.disarm(job(move |_| {
            let _dropped = released.recv();
            hung.send("hung").unwrap();
        }));
        for _ in 0..20 {
            let said = said.clone();
            disarming.disarm(job(move |parts| {
                assert!(parts.is_empty(), "nothing is disarmed without tools");
                said.send("done").unwrap();
            }));
        }
        let first: Vec<_> = heard.iter().take(20).collect();
        assert_eq!(first, ["done"; 20], "all others, while it hung");
        drop(release);
        assert_eq!(heard.recv(), Ok("hung"));
    }
}
