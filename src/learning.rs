//! What a node has learned: corrections, signatures and good mail of a data folder, and when they
//! change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use gauntlet_engine::Learned;
use gauntlet_engine::SiteModel;
use gauntlet_engine::corrections::reports;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_engine::site_model::good_mail::GoodMail;
use gauntlet_gateway::Node;
use gauntlet_learning::{Corrections, corrections, good_mail, signatures};

/// Learns all that the data folder holds. Takes as long as training on as many messages as there
/// are corrections: up to about a second.
pub(crate) fn load(data: &Path, days: u16) -> anyhow::Result<Learned> {
    let corrections = Corrections::read(data)?;
    let (table, mut entries) = signatures::load(data)?;
    entries.extend(load_elsewhere(data));
    let known = KnownSignatures::new(table, &entries, &reports(&corrections), days);
    Ok(Learned {
        site: (!corrections.is_empty()).then(|| Arc::new(SiteModel::learn(&corrections))),
        signatures: (!known.is_empty()).then(|| Arc::new(known)),
        good_mail: load_good_mail(data),
        ..Learned::default()
    })
}

/// What probe accounts of other nodes of the array saw. A node goes on without.
fn load_elsewhere(data: &Path) -> Vec<Entry> {
    match signatures::sharing::load_elsewhere(data) {
        Ok((table, mut entries)) => {
            let numbers = 0..table.as_ref().map_or(0, |table| table.len());
            entries.extend(numbers.filter_map(|n| table.as_ref().and_then(|table| table.entry(n))));
            entries
        }
        Err(error) => {
            tracing::warn!(%error, "signatures of other nodes cannot be read");
            Vec::new()
        }
    }
}

/// Samples of good mail. They are no word of anybody: a node goes on without a file that is
/// damaged, and it is begun anew.
fn load_good_mail(data: &Path) -> Option<Arc<GoodMail>> {
    let samples = good_mail::read(data).unwrap_or_else(|error| {
        tracing::warn!(%error, "samples of good mail cannot be read");
        Vec::new()
    });
    GoodMail::new(samples).map(Arc::new)
}

/// Looks for what was learned (by `gauntlet learn`, the console, probe accounts) while the node
/// runs, and gives it to the node. On a thread of its own, which ends with the node.
pub(crate) fn watch(node: &Arc<Node>) -> anyhow::Result<()> {
    let mut seen = Marks::of(&node.config().node.data);
    let node = Arc::downgrade(node);
    let look = move || {
        loop {
            let Some(seconds) = node.upgrade().map(|n| n.config().learning.refresh_seconds) else {
                return;
            };
            std::thread::sleep(Duration::from_secs(seconds.max(1)));
            let Some(node) = node.upgrade() else { return };
            let config = node.config();
            let (now, data) = (Marks::of(&config.node.data), &config.node.data);
            if now == seen {
                continue;
            }
            // Samples alone teach nothing, and come often: nothing is trained anew for them.
            let learned = match now.taught == seen.taught {
                true => Ok(Learned {
                    good_mail: load_good_mail(data),
                    ..node.judge().snapshot.learned().clone()
                }),
                false => load(data, config.learning.signature_days),
            };
            seen = now;
            match learned {
                Ok(learned) => {
                    node.apply_learned(&learned);
                    tracing::info!(ruleset = node.ruleset(), "learned");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(
                        error,
                        "what was learned cannot be read; the node goes on without"
                    );
                }
            }
        }
    };
    std::thread::Builder::new().name("learning".to_owned()).spawn(look).context("learning")?;
    Ok(())
}

/// Size and time of change of a file; another value means that something was learned.
type Mark = Option<(u64, SystemTime)>;

/// Those of all files.
#[derive(PartialEq)]
struct Marks {
    /// Of corrections and signatures.
    taught: [Mark; 5],
    good_mail: Mark,
}

impl Marks {
    fn of(data: &Path) -> Self {
        let folder = data.join(signatures::FOLDER_NAME);
        let elsewhere = signatures::sharing::elsewhere_folder(data);
        let mark = |path: PathBuf| {
            let about = std::fs::metadata(path).ok()?;
            Some((about.len(), about.modified().ok()?))
        };
        let taught = [
            corrections::journal_path(data),
            folder.join(signatures::TABLE_NAME),
            folder.join(signatures::JOURNAL_NAME),
            elsewhere.join(signatures::TABLE_NAME),
            elsewhere.join(signatures::JOURNAL_NAME),
        ];
        Marks { taught: taught.map(mark), good_mail: mark(good_mail::path(data)) }
    }
}
