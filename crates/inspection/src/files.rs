//! Files of protocols other than the web's, whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_ids::pipeline::observer::FilePart;
use gauntlet_protocols::FileState;
use gauntlet_proxy::content::{Download, ScanDownload, ScanVerdict};
use gauntlet_sniff::sniff;
use gauntlet_verdict::Class;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::action::Item;
use crate::settings::Settings;

/// A file of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    flow: u64,
    transaction: u64,
    /// Direction, and place among the files of the direction.
    place: (usize, usize),
}

impl Key {
    pub(crate) fn of(part: &FilePart<'_>) -> Option<Self> {
        let flow = part.moment.flow?.core.number;
        let place = (part.direction.index(), part.index);
        Some(Self { flow, transaction: part.state.id, place })
    }
}

/// Forgets what is kept of a flow.
pub(crate) fn forget<T>(kept: &mut BTreeMap<Key, T>, flow: u64) {
    let begin = Key { flow, transaction: 0, place: (0, 0) };
    let of_flow: Vec<Key> =
        kept.range(begin..).map(|(key, _)| *key).take_while(|key| key.flow == flow).collect();
    for key in of_flow {
        kept.remove(&key);
    }
}

/// Files that come.
pub(crate) struct Files {
    scanner: Arc<dyn ScanDownload>,
    kept: BTreeMap<Key, Kept>,
    /// Bytes of all of them.
    held: u64,
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Why it is not kept whole.
    problem: Option<&'static str>,
}

impl Files {
    pub(crate) fn new(scanner: Arc<dyn ScanDownload>) -> Self {
        Self { scanner, kept: BTreeMap::new(), held: 0 }
    }

    /// A part of a file; its verdict at the end.
    pub(crate) fn part(
        &mut self,
        part: &FilePart<'_>,
        settings: &Settings,
        runtime: &Runtime,
    ) -> Option<Item> {
        let key = Key::of(part)?;
        if !self.kept.contains_key(&key) && self.kept.len() >= settings.files_max {
            let kept = Kept { problem: Some("files_max"), ..Kept::default() };
            return part.is_end.then(|| self.judge(part, kept, settings, runtime));
        }
        let kept = self.kept.entry(key).or_default();
        let size = kept.bytes.len() as u64;
        let more = part.data.len() as u64;
        if kept.problem.is_some() {
            // Nothing more is kept.
        } else if part.offset != size {
            kept.problem = Some("bytes are missing");
        } else if size + more > settings.file_bytes_max {
            kept.problem = Some("file_bytes_max");
        } else if self.held + more > settings.files_held_bytes_max {
            kept.problem = Some("files_held_bytes_max");
        } else {
            kept.bytes.extend_from_slice(part.data);
            self.held += more;
        }
        if !part.is_end {
            return None;
        }
        let kept = self.kept.remove(&key).unwrap_or_default();
        self.held = self.held.saturating_sub(kept.bytes.len() as u64);
        Some(self.judge(part, kept, settings, runtime))
    }

    fn judge(
        &self,
        part: &FilePart<'_>,
        mut kept: Kept,
        settings: &Settings,
        runtime: &Runtime,
    ) -> Item {
        if part.file.state != FileState::Closed && kept.problem.is_none() {
            kept.problem = Some("its end is missing");
        }
        let name = String::from_utf8_lossy(&part.file.name).into_owned();
        let download = Download {
            kind: sniff(&kept.bytes),
            bytes: Bytes::from(kept.bytes),
            name: name.rsplit(['/', '\\']).next().unwrap_or_default().to_owned(),
            declared_type: String::new(),
            url: String::new(),
        };
        let kind = download.kind;
        let scanned = runtime.block_on(self.scanner.scan(download));
        let (class, verdict, detail) = match (scanned, kept.problem) {
            (ScanVerdict::Found { name }, _) => (Class::Malware, "found", Some(name)),
            (ScanVerdict::Bomb(path), _) => {
                (Class::Unscannable, "failed", Some(format!("{path}: decompression bomb")))
            }
            (ScanVerdict::Failed(why) | ScanVerdict::Unreadable(why), _) => {
                (Class::Unscannable, "failed", Some(why))
            }
            (ScanVerdict::Clean, Some(why)) => (Class::Unscannable, "failed", Some(why.to_owned())),
            (ScanVerdict::Clean, None) => (Class::Ham, "clean", None),
        };
        let mut fields = json!({
            "kind": "file",
            "filename": name,
            "type": kind.media_type(),
            "bytes": part.file.size,
            "sha256": part.file.sha256.map(|hash| hex(&hash)),
            "verdict": verdict,
            "class": class.name(),
        });
        if let Some(detail) = detail {
            fields["detail"] = Value::from(detail);
        }
        Item::new(part.protocol, fields, settings.drops(class))
    }

    /// The flow has ended.
    pub(crate) fn forget(&mut self, flow: u64) {
        forget(&mut self.kept, flow);
        self.held = self.kept.values().map(|kept| kept.bytes.len() as u64).sum();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
