//! The lists of URLs of a configuration: opened once for mail and web.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use gauntlet_engine::{MailUrlLists, UrlListMeaning};
use gauntlet_gateway::config::UrlListSettings;
use gauntlet_store::files;
use gauntlet_urlfilter::{Role, UrlList, UrlLists};

use crate::urls::COPIES;

/// Opens the lists of a configuration, with what they mean for mail.
///
/// # Errors
/// The one that cannot be opened.
pub(crate) fn open(settings: &[UrlListSettings]) -> anyhow::Result<MailUrlLists> {
    OpenLists::default().open(settings)
}

/// The same for what runs for long: of copies, so that a file that is cut in place does not end it.
///
/// # Errors
/// As [`open`] has them.
pub(crate) fn open_to_keep(settings: &[UrlListSettings]) -> anyhow::Result<MailUrlLists> {
    OpenLists { copies: Some(COPIES.into()), ..OpenLists::default() }.open(settings)
}

/// Lists that are open. They are opened anew at a reload that was asked for ([`Self::look_again`]),
/// and if their file is another then: every byte of a list is checked when it is opened, and a node
/// applies its settings again whenever a sender is allowed in the console.
#[derive(Debug, Default)]
pub(crate) struct OpenLists {
    known: Mutex<Vec<(FileVersion, Arc<UrlList>)>>,
    /// Where copies are made of them, so that a file that is cut in place does not end the node.
    copies: Option<PathBuf>,
}

/// A file as it was opened. A compiled list is never changed in place, it is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// What is another in every file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
}

impl FileVersion {
    /// The file as it is; what cannot be looked at is equal to no file.
    fn of(path: &Path) -> Self {
        let of = |file: fs::Metadata| Stamp {
            inode: (file.dev(), file.ino()),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        };
        FileVersion { path: path.to_owned(), stamp: fs::metadata(path).ok().map(of) }
    }

    fn is_still_there(&self) -> bool {
        self.stamp.is_some() && FileVersion::of(&self.path) == *self
    }
}

impl OpenLists {
    /// Lists of which copies without a name are open, in a folder of this data folder that a node
    /// in its sandbox may read and change.
    pub(crate) fn of_node(data: &Path) -> Self {
        let copies = data.join("urls");
        if let Err(error) = files::create_folder(&copies) {
            let folder = copies.display();
            tracing::warn!(%folder, %error, "no folder for copies of the lists of URLs");
        }
        OpenLists { copies: Some(copies), ..OpenLists::default() }
    }

    /// From now on, lists whose files were replaced are no longer open.
    pub(crate) fn look_again(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(file, _)| file.is_still_there());
    }

    /// Opens what of these lists is not open already; those that are not among them are closed as
    /// soon as nobody judges by them.
    ///
    /// # Errors
    /// The one that cannot be opened; then what was open stays open.
    pub(crate) fn open(&self, settings: &[UrlListSettings]) -> anyhow::Result<MailUrlLists> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut opened = Vec::with_capacity(settings.len());
        for list in settings {
            let is_it = |(file, open): &&(FileVersion, Arc<UrlList>)| {
                file.path == list.file && open.name() == list.name && open.role() == role(list)
            };
            opened.push(match known.iter().find(is_it) {
                Some((file, open)) => (file.clone(), open.clone()),
                // Before it is opened: a file that takes its place meanwhile is another one.
                None => {
                    (FileVersion::of(&list.file), Arc::new(open_one(list, self.copies.as_deref())?))
                }
            });
        }
        let lists = UrlLists::new(opened.iter().map(|(_, list)| list.clone()).collect());
        *known = opened;
        let meanings = settings.iter().filter(|list| list.mail != UrlListMeaning::None);
        let meanings = meanings.map(|list| (list.name.clone(), list.mail)).collect();
        Ok(MailUrlLists { lists, meanings })
    }
}

fn role(list: &UrlListSettings) -> Role {
    if list.allow { Role::Allow } else { Role::Match }
}

fn open_one(list: &UrlListSettings, copies: Option<&Path>) -> anyhow::Result<UrlList> {
    let (file, name, role) = (&list.file, list.name.as_str(), role(list));
    let opened = match copies {
        Some(copies) => UrlList::open_copied(file, copies, name, role),
        None => UrlList::open(file, name, role),
    };
    let opened = opened.with_context(|| {
        format!(
            "url_list {:?}; `gauntlet urls compile --out {} SOURCE...` makes it",
            list.name,
            list.file.display()
        )
    })?;
    tracing::info!(list = list.name, entries = opened.entries(), "list of URLs opened");
    if let Some(folder) = copies.filter(|_| opened.is_in_memory()) {
        let (folder, bytes) = (folder.display(), opened.file_bytes());
        let hint = "make room there, and reload";
        let list = &list.name;
        tracing::warn!(list, %folder, bytes, hint, "no copy of a list: it is in memory");
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_urlfilter::sources::Source;

    fn compile(out: &Path, line: &str) {
        let path = out.with_extension("txt");
        fs::write(&path, line).unwrap();
        let source = Source { path, format: None, category: String::new() };
        gauntlet_urlfilter::compile(&[source], out).unwrap();
    }

    #[test]
    fn a_list_is_opened_again_when_its_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.urls");
        compile(&file, "a.example\n");
        let mut settings =
            vec![UrlListSettings { name: "bad".into(), file: file.clone(), ..Default::default() }];
        let open = OpenLists::default();
        let address = |settings: &[UrlListSettings]| {
            let lists = open.open(settings).unwrap().lists;
            std::ptr::from_ref(lists.iter().next().unwrap())
        };
        let first = address(&settings);
        assert_eq!(address(&settings), first);
        settings[0].allow = true;
        let allows = open.open(&settings).unwrap().lists;
        assert_eq!(allows.iter().next().unwrap().role(), Role::Allow);
        settings[0].allow = false;
        open.open(&settings).unwrap();
        compile(&file, "a.example\nb.example\n");
        assert_eq!(open.open(&settings).unwrap().lists.iter().next().unwrap().entries(), 1);
        open.look_again();
        assert_eq!(open.open(&settings).unwrap().lists.iter().next().unwrap().entries(), 2);
        // Renamed into its place, as a list is to be replaced.
        fs::write(folder.path().join("none"), "no list").unwrap();
        fs::rename(folder.path().join("none"), &file).unwrap();
        open.look_again();
        let error = format!("{:#}", open.open(&settings).unwrap_err());
        assert!(error.contains("gauntlet urls compile --out"), "{error}");
    }
}
