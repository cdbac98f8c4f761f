//! Doing what was planned. Each step is in the journal before it is done.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_channel::hex;
use gauntlet_gateway::outbound::signing::{Algorithm, KeyRing};
use gauntlet_gateway::privileges::{self, Account};
use gauntlet_store::files;

use super::answers::{Answers, Membership};
use super::journal::{Journal, Saved, Step, hash};
use super::plan::{Plan, key_text};
use super::records::KeyText;
use crate::node_args::NodeArgs;

/// Bits of RSA keys: what `gauntlet dkim new` makes.
const RSA_BITS: usize = 2_048;
/// Mode of a configuration that everybody may read, and of one with passwords.
const OPEN_MODE: u32 = 0o644;
const SECRET_MODE: u32 = 0o640;

/// What was done, for the report.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// One line each: the place, and what became of it.
    pub(super) lines: Vec<String>,
    /// Keys that sign now.
    pub(super) keys: Vec<KeyText>,
    /// What `gauntlet array join` said, and what went wrong with it.
    pub(super) joined: Option<Result<String, String>>,
}

/// Does it. A failure takes back what was begun, but for a join, which can be tried again.
///
/// # Errors
/// The step that failed.
pub(super) fn apply(plan: &Plan, answers: &Answers, now_ms: i64) -> anyhow::Result<Done> {
    let above = plan.path.parent().unwrap_or(Path::new("/"));
    let missing = missing_folders(above);
    privileges::make_above(&plan.path).with_context(|| cannot_write(above))?;
    let mut journal = Journal::of(&plan.path)?;
    journal.begin(answers.purpose, gauntlet_mail::date::rfc5322(now_ms));
    let mut done = Done { keys: plan.keys.clone(), ..Done::default() };
    let result = steps(plan, answers, &mut journal, missing, &mut done);
    if let Err(error) = result {
        let back = if journal.has_nothing() { Ok(Vec::new()) } else { journal.undo() };
        let said = match back {
            Ok(_) => "everything that was begun is taken back".to_owned(),
            Err(other) => format!("`gauntlet setup undo` takes back what was begun ({other:#})"),
        };
        return Err(error.context(format!("the set-up failed, and {said}")));
    }
    if let Membership::Token(token) = &answers.membership {
        done.joined = Some(join(plan, token, &mut journal).map_err(|e| format!("{e:#}")));
    }
    Ok(done)
}

fn steps(
    plan: &Plan,
    answers: &Answers,
    journal: &mut Journal,
    made: Vec<PathBuf>,
    done: &mut Done,
) -> anyhow::Result<()> {
    for path in made {
        done.lines.push(format!("{}: made", path.display()));
        journal.note(Step::Folder { path, data: None })?;
    }
    configuration(plan, answers, journal, done)?;
    data_folder(plan, journal, done)?;
    for domain in &plan.new_keys {
        let selector = answers.selector.as_deref().unwrap_or_default();
        key(plan, (domain, selector), journal, done)?;
    }
    postfix(plan, journal, done)
}

fn cannot_write(folder: &Path) -> String {
    let hint = match privileges::is_root() {
        true => "",
        false => "; run this as root, or name another file with --config",
    };
    format!("{} cannot be written to{hint}", folder.display())
}

/// Folders above a file, or the data folder, that are not there yet; the outermost first.
fn missing_folders(folder: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = folder
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .map(Path::to_owned)
        .collect();
    missing.reverse();
    missing
}

fn configuration(
    plan: &Plan,
    answers: &Answers,
    journal: &mut Journal,
    done: &mut Done,
) -> anyhow::Result<()> {
    let (path, place) = (&plan.path, plan.path.display());
    if plan.is_written() {
        done.lines.push(format!("{place}: unchanged"));
        return Ok(());
    }
    let before = plan.old.as_ref().map(|_| free_name(path));
    let sha256 = hex::sha256(plan.text.as_bytes());
    let step = Step::File { path: path.clone(), sha256, before: before.clone(), data: None };
    journal.note(step).with_context(|| cannot_write(path.parent().unwrap_or(path)))?;
    if let Some(before) = &before {
        // A second name of the old file, which keeps its owner and mode when it is replaced.
        fs::hard_link(path, before)
            .or_else(|_| fs::copy(path, before).map(drop))
            .with_context(|| before.display().to_string())?;
        done.lines.push(format!("{}: the file that was there before", before.display()));
    }
    // Who could not read the file that was there cannot read this one.
    let was_closed = before.as_ref().map(fs::metadata).transpose()?;
    let was_closed = was_closed.is_some_and(|seen| seen.mode() & 0o004 == 0);
    let is_closed = answers.has_secret() || was_closed;
    let mode = if is_closed { SECRET_MODE } else { OPEN_MODE };
    files::write_durably_as(path, plan.text.as_bytes(), mode)
        .with_context(|| cannot_write(path.parent().unwrap_or(path)))?;
    if is_closed {
        give_to_group(path, &answers.user)?;
    }
    done.lines.push(format!("{place}: written"));
    Ok(())
}

/// The node's user may read a file of root's, and nobody else.
fn give_to_group(path: &Path, user: &str) -> anyhow::Result<()> {
    if user.is_empty() || !privileges::is_root() {
        return Ok(());
    }
    let account = Account::find(user).with_context(|| format!("--user {user:?}"))?;
    std::os::unix::fs::chown(path, None, Some(account.gid()))
        .with_context(|| path.display().to_string())
}

/// A name beside a file that no other has.
fn free_name(path: &Path) -> PathBuf {
    let name = |number: u32| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".before-setup-{number}"));
        path.with_file_name(name)
    };
    (1..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(0))
}

fn data_folder(plan: &Plan, journal: &mut Journal, done: &mut Done) -> anyhow::Result<()> {
    let data = &plan.config.node.data;
    let missing = missing_folders(data);
    for path in &missing {
        let data = (path == data).then(|| data.clone());
        journal.note(Step::Folder { path: path.clone(), data })?;
    }
    if privileges::to_become(&plan.config)?.is_none() {
        privileges::make_above(data).with_context(|| data.display().to_string())?;
    }
    privileges::make_folder(&plan.config, data)
        .with_context(|| format!("--data {}", data.display()))?;
    if !missing.is_empty() {
        done.lines.push(format!("{}: made, for mail, log, users and keys", data.display()));
    }
    Ok(())
}

fn key(
    plan: &Plan,
    (domain, selector): (&str, &str),
    journal: &mut Journal,
    done: &mut Done,
) -> anyhow::Result<()> {
    let data = &plan.config.node.data;
    let ring_folder = plan.config.node.inside(&plan.config.dkim.keys);
    let folder = ring_folder.join(domain);
    for path in missing_folders(&folder) {
        journal.note(Step::Folder { path, data: Some(data.clone()) })?;
    }
    let path = folder.join(format!("{}.pem", selector.to_ascii_lowercase()));
    if path.exists() {
        bail!("{} is there and cannot be used; name another --selector", path.display());
    }
    let step = Step::File {
        path: path.clone(),
        sha256: String::new(),
        before: None,
        data: Some(data.clone()),
    };
    journal.note(step)?;
    let (text, made) = {
        let account = privileges::to_become(&plan.config)?;
        let _acting = account.map(|account| account.act()).transpose()?;
        let mut ring = KeyRing::load(&ring_folder)?;
        let key = ring.create(domain, selector, Algorithm::Rsa, RSA_BITS)?;
        (key_text(key), hash(&path)?.unwrap_or_default())
    };
    journal.amend(|step| {
        if let Step::File { sha256, .. } = step {
            *sha256 = made;
        }
    })?;
    done.lines.push(format!("{}: made, signs outbound mail of {domain}", path.display()));
    done.keys.push(text);
    Ok(())
}

fn postfix(plan: &Plan, journal: &mut Journal, done: &mut Done) -> anyhow::Result<()> {
    let Some(planned) = &plan.postfix else { return Ok(()) };
    let folder = planned.postfix.folder().to_owned();
    if planned.changes.is_empty() {
        done.lines.push(format!("{}: Postfix is set already", folder.display()));
        return Ok(());
    }
    let read = |name: &str| {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        anyhow::Ok(Saved { path, text, sha256: String::new() })
    };
    journal.note(Step::Postfix {
        postconf: planned.postfix.program().to_owned(),
        folder: folder.clone(),
        changes: planned.changes.clone(),
        files: vec![read("main.cf")?, read("master.cf")?],
    })?;
    planned.postfix.apply(&planned.changes)?;
    journal.amend(|step| {
        if let Step::Postfix { files, .. } = step {
            for file in files {
                file.sha256 = hash(&file.path).ok().flatten().unwrap_or_default();
            }
        }
    })?;
    let count = planned.changes.main.len();
    done.lines.push(format!("{}: {count} settings of Postfix set", folder.display()));
    Ok(())
}

/// Joins the array, and notes the files of that. What `join` adds to the configuration is ours to
/// take back, too.
fn join(plan: &Plan, token: &str, journal: &mut Journal) -> anyhow::Result<String> {
    let data = &plan.config.node.data;
    let folder = crate::array_access::folder(&plan.config);
    let before = names(&folder);
    if !folder.exists() {
        journal.note(Step::Folder { path: folder.clone(), data: Some(data.clone()) })?;
    }
    let mut said = Vec::new();
    let joined = crate::array::join::join(&NodeArgs::of(&plan.path), token, &mut said);
    for path in names(&folder).into_iter().filter(|path| !before.contains(path)) {
        let sha256 = hash(&path)?.unwrap_or_default();
        journal.note(Step::File { path, sha256, before: None, data: Some(data.clone()) })?;
    }
    journal.amend_file(&plan.path, &hash(&plan.path)?.unwrap_or_default())?;
    joined?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}
