//! Unpacking: from files to the tree of everything in them, within the limits of one request.
//!
//! The walk is depth first: an object's bytes are dropped before those of its neighbour are read,
//! so that memory holds one branch at a time.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gauntlet_sniff::FileKind;

use crate::budget::Budget;
use crate::digest;
use crate::host::{Child, Host, Root};
use crate::limits::Limits;
use crate::object::{
    DefectKind, FoundUrl, Object, ObjectDefect, Property, PropertyKind, Tree, UrlSource,
};
use crate::salvage::Salvage;
use crate::test_file;
use crate::text;

/// Bytes that are read of a decoder before the limits are looked at again.
const CHUNK_BYTES: usize = 64 * 1024;
/// Bytes of the detail of a property or defect.
pub(crate) const DETAIL_BYTES_MAX: usize = 200;
/// Bytes of a path; of a longer one the containers in the middle are left out.
pub(crate) const PATH_BYTES_MAX: usize = 2_048;
/// Defects kept of one object; the same kind is kept once per detail.
pub(crate) const DEFECTS_MAX: usize = 16;
/// Decompression bombs that are tried in one request; behind them nothing is unpacked any more.
const BOMBS_MAX: u32 = 4;

/// A word that may open what is encrypted.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Password {
    /// The password as text; each format encodes it as it needs.
    pub word: String,
    /// Where it comes from, e.g. `subject`, `body`, `file name`, `list`; shown in the verdict.
    pub source: String,
}

/// Reads an object of a kind.
pub(crate) type Decode = fn(FileKind, &[u8], &mut Unpacker<'_>);

/// What decoders work with: where they are in the tree, and what they may still use.
pub(crate) struct Unpacker<'r> {
    /// Reads an object by what its bytes are: handed in, since decoders stand above this.
    decode: Decode,
    limits: &'r Limits,
    passwords: &'r [Password],
    host: &'r mut dyn Host,
    tree: Tree,
    /// Index of the object that is read.
    current: Option<usize>,
    root: u32,
    /// Containers around the current object.
    depth: u32,
    budget: Budget,
    /// Instructions of programs that may still be emulated.
    instructions_left: u64,
    /// Decompression bombs so far.
    bombs: u32,
    /// Bytes unpacked so far.
    produced: u64,
    /// Bytes of the current branch that are in memory.
    live: u64,
    text_left: usize,
    urls_left: usize,
}

impl<'r> Unpacker<'r> {
    /// An empty tree within these limits.
    pub(crate) fn new(
        decode: Decode,
        limits: &'r Limits,
        passwords: &'r [Password],
        host: &'r mut dyn Host,
    ) -> Self {
        Unpacker {
            decode,
            limits,
            passwords,
            host,
            tree: Tree::default(),
            current: None,
            root: 0,
            depth: 0,
            budget: Budget::of(limits),
            instructions_left: limits.instructions_max,
            bombs: 0,
            produced: 0,
            live: 0,
            text_left: limits.all_text_bytes_max,
            urls_left: limits.urls_max,
        }
    }

    /// The tree of these files.
    pub(crate) fn run(mut self, roots: &[Root<'_>]) -> Tree {
        for (index, root) in roots.iter().enumerate() {
            self.root = u32::try_from(index).unwrap_or(u32::MAX);
            let (name, declared_type) = (root.name.to_owned(), root.declared_type.to_owned());
            self.object(&Child { name, declared_type }, root.bytes);
        }
        self.tree
    }
}

impl Unpacker<'_> {
    /// The limits of this request.
    pub(crate) fn limits(&self) -> &Limits {
        self.limits
    }

    /// The object that is read now.
    pub(crate) fn current(&self) -> Option<&Object> {
        self.current.and_then(|index| self.tree.objects.get(index))
    }

    /// The object around the current one.
    pub(crate) fn container(&self) -> Option<&Object> {
        let parent = self.current()?.parent?;
        self.tree.objects.get(parent as usize)
    }

    /// Whether time, objects or bytes are used up: a decoder stops. The reason is left as a defect
    /// of the current object.
    pub(crate) fn is_over(&mut self) -> bool {
        let kind = if self.budget.is_spent() {
            DefectKind::OutOfTime
        } else if self.bombs >= BOMBS_MAX {
            DefectKind::Bomb
        } else if self.tree.objects.len() >= self.limits.objects_max as usize {
            DefectKind::TooManyObjects
        } else if self.produced >= self.limits.bytes_max {
            DefectKind::TooManyBytes
        } else {
            return false;
        };
        self.defect(kind, "");
        true
    }

    /// Instructions of programs that this request may still emulate.
    pub(crate) fn instructions_left(&self) -> u64 {
        self.instructions_left
    }

    /// Counts instructions of a program.
    pub(crate) fn emulated(&mut self, instructions: u64) {
        self.instructions_left = self.instructions_left.saturating_sub(instructions);
    }

    /// Notes a property of the current object.
    pub(crate) fn property(&mut self, kind: PropertyKind, detail: &str) {
        let max = self.limits.properties_max;
        let Some(object) = self.current.and_then(|index| self.tree.objects.get_mut(index)) else {
            return;
        };
        let property =
            Property { kind, detail: text::bounded(&text::printable(detail), DETAIL_BYTES_MAX) };
        if object.properties.len() < max && !object.properties.contains(&property) {
            object.properties.push(property);
        }
    }

    /// Notes that something of the current object cannot be read; `detail` names the entry or
    /// the reason.
    pub(crate) fn defect(&mut self, kind: DefectKind, detail: &str) {
        let Some(object) = self.current.and_then(|index| self.tree.objects.get_mut(index)) else {
            return;
        };
        let defect = ObjectDefect {
            kind,
            detail: text::bounded(&text::printable(detail), DETAIL_BYTES_MAX),
        };
        // The first of each kind is always kept: what is unread must be known.
        let has_kind = object.defects.iter().any(|d| d.kind == kind);
        let has_room = object.defects.len() < DEFECTS_MAX;
        if !has_kind || (has_room && !object.defects.contains(&defect)) {
            object.defects.push(defect);
        }
    }

    /// Adds text of the current object, on a line of its own.
    pub(crate) fn text(&mut self, more: &str) {
        let more = more.trim();
        let max = self.limits.text_bytes_max;
        let Some(object) = self.current.and_then(|index| self.tree.objects.get_mut(index)) else {
            return;
        };
        if more.is_empty() {
            return;
        }
        let room = max.saturating_sub(object.text.len() + 1).min(self.text_left.saturating_sub(1));
        let kept = text::cut(more, room);
        let before = object.text.len();
        if !object.text.is_empty() && !kept.is_empty() {
            object.text.push('\n');
        }
        object.text.push_str(kept);
        self.text_left -= (object.text.len() - before).min(self.text_left);
        if kept.len() < more.len() {
            self.property(PropertyKind::TextCut, "");
        }
    }

    /// Adds a URL of the current object's structure; empty ones and repetitions are left out.
    pub(crate) fn url(&mut self, url: &str, source: UrlSource) {
        let url = text::bounded(url.trim(), 4 * self.limits.name_bytes_max);
        let Some(object) = self.current.and_then(|index| self.tree.objects.get_mut(index)) else {
            return;
        };
        let found = FoundUrl { url, source };
        if found.url.is_empty() || object.urls.contains(&found) {
            return;
        }
        if self.urls_left == 0 {
            self.property(PropertyKind::TextCut, "urls");
            return;
        }
        self.urls_left -= 1;
        object.urls.push(found);
    }

    /// Reads what a decoder yields, within every limit; `packed` are the bytes that it comes from,
    /// `entry` names it in defects. Result: the bytes, up to where a limit or an error ended them.
    pub(crate) fn read(&mut self, reader: &mut dyn Read, packed: u64, entry: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            if let Some(kind) = self.exceeded(bytes.len() as u64, packed) {
                self.bombs += u32::from(kind == DefectKind::Bomb);
                self.defect(kind, entry);
                break;
            }
            match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    self.produced += read as u64;
                    bytes.extend_from_slice(&chunk[..read.min(CHUNK_BYTES)]);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    self.defect(DefectKind::Truncated, entry);
                    break;
                }
                // A dictionary larger than memory: whoever has more of it reads the file.
                Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
                    self.defect(DefectKind::TooMuchMemory, entry);
                    break;
                }
                Err(error) => {
                    let detail = match entry {
                        "" => error.to_string(),
                        _ => format!("{entry}: {error}"),
                    };
                    self.defect(DefectKind::Corrupt, &detail);
                    break;
                }
            }
        }
        bytes
    }

    /// The same of a decoder that may lose what it has decoded when it fails: `make` makes it, at
    /// the beginning of its stream.
    pub(crate) fn read_made<R: Read>(
        &mut self,
        make: impl Fn() -> R,
        packed: u64,
        entry: &str,
    ) -> Vec<u8> {
        self.read(&mut Salvage::new(make(), || Some(make())), packed, entry)
    }

    /// The limit that an object of `size` bytes, unpacked from `packed`, has reached.
    fn exceeded(&self, size: u64, packed: u64) -> Option<DefectKind> {
        let limits = self.limits;
        let ratio = limits.ratio_max.saturating_mul(packed.max(1));
        if (size > limits.ratio_bytes_min && size > ratio) || self.bombs >= BOMBS_MAX {
            Some(DefectKind::Bomb)
        } else if size > limits.object_bytes_max {
            Some(DefectKind::ObjectTooLarge)
        } else if self.produced > limits.bytes_max {
            Some(DefectKind::TooManyBytes)
        } else if self.live + size > limits.memory_bytes_max {
            Some(DefectKind::TooMuchMemory)
        } else if self.budget.is_spent() {
            Some(DefectKind::OutOfTime)
        } else {
            None
        }
    }

    /// Tries the passwords in turn until `open` gives something; at most
    /// [`Limits::passwords_max`], within the time of the request. Says in the current object's
    /// properties that it is encrypted and which source's word opened it.
    pub(crate) fn with_password<T>(
        &mut self,
        mut open: impl FnMut(&str) -> Option<T>,
    ) -> Option<T> {
        self.property(PropertyKind::Encrypted, "");
        for password in self.passwords.iter().take(self.limits.passwords_max) {
            if self.budget.is_spent() {
                self.defect(DefectKind::OutOfTime, "passwords");
                return None;
            }
            if let Some(opened) = open(&password.word) {
                self.property(PropertyKind::PasswordFound, &password.source);
                return Some(opened);
            }
        }
        None
    }

    /// Counts bytes that become an object without being decompressed; whether they may.
    pub(crate) fn charge(&mut self, bytes: u64, entry: &str) -> bool {
        if let Some(kind) = self.exceeded(bytes, bytes) {
            self.defect(kind, entry);
            return false;
        }
        self.produced += bytes;
        true
    }

    /// Whether the current object has a child of these very bytes.
    pub(crate) fn has_child(&self, bytes: &[u8]) -> bool {
        let parent = self.current.and_then(|index| u32::try_from(index).ok());
        let objects = self.tree.objects.iter().skip(self.current.unwrap_or(0));
        let size = bytes.len() as u64;
        let mut same = objects.filter(|o| o.parent == parent && o.size == size).peekable();
        let sha256 = same.peek().map(|_| digest::of(bytes).0);
        same.any(|object| sha256.as_ref() == Some(&object.sha256))
    }

    /// Lets the host's program turn the current object into a tar archive; what fails is a defect.
    pub(crate) fn convert(&mut self, kind: FileKind, bytes: &[u8]) -> Option<Vec<u8>> {
        let max = self.limits.object_bytes_max;
        match self.host.convert(kind, bytes, max) {
            Ok(tar) => {
                self.produced += tar.len() as u64;
                Some(tar)
            }
            Err(error) => {
                self.defect(error.defect(), &error.to_string());
                None
            }
        }
    }

    /// Lets the host read a message: content knows nothing of mail.
    pub(crate) fn message(&mut self, bytes: &[u8]) {
        for (child, bytes) in self.host.message(bytes) {
            if self.is_over() {
                return;
            }
            self.child(child, &bytes);
        }
    }

    /// Adds a file inside the current object, and everything in it.
    #[expect(clippy::needless_pass_by_value, reason = "decoders make it for this call")]
    pub(crate) fn child(&mut self, child: Child, bytes: &[u8]) {
        if self.depth >= self.limits.depth_max {
            self.defect(DefectKind::TooDeep, &child.name);
            return;
        }
        if self.is_over() {
            return;
        }
        self.depth += 1;
        self.live += bytes.len() as u64;
        self.object(&child, bytes);
        self.live -= bytes.len() as u64;
        self.depth -= 1;
    }

    /// Notes that there is no room for an object: where it lies, or, for one of the files that were
    /// given, on the last object that was read.
    fn left_out(&mut self, name: &str) {
        let around = self.current;
        self.current = around.or_else(|| self.tree.objects.len().checked_sub(1));
        self.defect(DefectKind::TooManyObjects, name);
        self.current = around;
    }

    /// Adds an object and reads it.
    fn object(&mut self, child: &Child, bytes: &[u8]) {
        if self.tree.objects.len() >= self.limits.objects_max as usize {
            return self.left_out(&child.name);
        }
        let name = text::bounded(&child.name, self.limits.name_bytes_max);
        let cut = name.len() < child.name.len() && child.name.len() > self.limits.name_bytes_max;
        let shown = if name.is_empty() { "unnamed".to_owned() } else { text::printable(&name) };
        let path = match self.current() {
            Some(container) if container.path.len() + shown.len() < PATH_BYTES_MAX => {
                format!("{}/{shown}", container.path)
            }
            Some(container) => format!("{}/.../{shown}", text::cut(&container.path, 200)),
            None => shown,
        };
        let parent = self.current.and_then(|index| u32::try_from(index).ok());
        let kind = gauntlet_sniff::sniff(bytes);
        let (sha256, md5) = digest::of(bytes);
        let index = self.tree.objects.len();
        self.tree.objects.push(Object {
            parent,
            root: self.root,
            path,
            name,
            declared_type: text::bounded(&child.declared_type, self.limits.name_bytes_max)
                .to_ascii_lowercase(),
            kind,
            size: bytes.len() as u64,
            sha256,
            md5,
            properties: Vec::new(),
            defects: Vec::new(),
            text: String::new(),
            urls: Vec::new(),
        });
        let around = self.current.replace(index);
        if cut {
            self.property(PropertyKind::NameCut, "");
        }
        if is_traversal(&child.name) {
            self.property(PropertyKind::PathTraversal, &child.name);
        }
        if test_file::is_in(bytes) {
            self.property(PropertyKind::EngineFinding, test_file::FINDING);
        }
        self.host.object(&self.tree.objects[index], bytes);
        let (depth, live) = (self.depth, self.live);
        // A decoder that fails on an object fails on that object only.
        if catch_unwind(AssertUnwindSafe(|| (self.decode)(kind, bytes, self))).is_err() {
            (self.depth, self.live) = (depth, live);
            self.current = Some(index);
            self.defect(DefectKind::DecoderFailed, "");
        }
        self.current = around;
    }
}

/// Whether a file of this name, written as it stands, lands outside its folder.
fn is_traversal(name: &str) -> bool {
    let bytes = name.as_bytes();
    let drive = bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    name.starts_with(['/', '\\'])
        || (drive && matches!(bytes[2], b'/' | b'\\'))
        || name.split(['/', '\\']).any(|part| part == "..")
}
