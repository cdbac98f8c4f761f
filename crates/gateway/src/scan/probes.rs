//! Probe accounts: addresses without a user, so that whatever comes to them is unwanted.
//!
//! Mail to one of them is fingerprinted after its scan, and the fingerprints are written to the
//! signatures of the data folder by a thread of their own; the node applies them with its next
//! poll. Delivery goes on as the policy says.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use gauntlet_engine::Scratch;
use gauntlet_engine::signatures::fingerprint;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_learning::signatures::SignatureWriter;
use gauntlet_mail::date::DAY_MS;
use gauntlet_mail::{Envelope, Message};

/// Messages that wait to be written; beyond these, further ones are not learned from.
const QUEUE_MAX: usize = 256;

/// The accounts, and the way to the disk. Clones share it.
#[derive(Debug, Clone)]
pub struct Probes {
    addresses: Arc<BTreeSet<String>>,
    queue: Sender<Vec<Entry>>,
}

impl Probes {
    /// Starts the thread that writes. It ends when the last clone is gone.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(data: PathBuf, addresses: &[String], days: u16) -> io::Result<Self> {
        let (queue, entries) = bounded(QUEUE_MAX);
        std::thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || write(&data, days, &entries))?;
        let addresses = addresses.iter().map(|a| a.trim().to_lowercase()).collect();
        Ok(Probes { addresses: Arc::new(addresses), queue })
    }

    /// Learns from a message that was just scanned with this scratch, if it came to a probe
    /// account. Never waits.
    pub fn notice(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        received_ms: i64,
        scratch: &mut Scratch,
    ) {
        let is_probe = |address: &String| self.addresses.contains(&address.to_lowercase());
        if !envelope.rcpt_to.iter().any(is_probe) {
            return;
        }
        let day = u16::try_from(received_ms.max(0) / DAY_MS).unwrap_or(u16::MAX);
        let found = scratch.fingerprints(message);
        let entry =
            |f: fingerprint::Found| Entry { fingerprint: f.fingerprint, bad: 1, good: 0, day };
        if self.queue.try_send(found.into_iter().map(entry).collect()).is_err() {
            tracing::debug!("mail of a probe account was not learned from: too much at once");
        }
    }
}

/// Writes what comes, all that waits together.
fn write(data: &std::path::Path, days: u16, queue: &Receiver<Vec<Entry>>) {
    while let Ok(mut entries) = queue.recv() {
        queue.try_iter().for_each(|more| entries.extend(more));
        let today = entries.iter().map(|e| e.day).max().unwrap_or(0);
        // Open only while writing, so that `gauntlet learn` gets its turn.
        let written =
            SignatureWriter::open(data, days).and_then(|mut writer| writer.append(&entries, today));
        if let Err(error) = written {
            tracing::error!(%error, "signatures of probe accounts could not be written");
        }
    }
}
