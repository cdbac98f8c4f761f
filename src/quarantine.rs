//! `gauntlet quarantine`: held mail, as the console has it; and the keys that seal it.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_gateway::admin::quarantine::{body_keys, folder_release};
use gauntlet_gateway::clock;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_store::quarantine::{Deletion, Held, HeldMail, HeldQuery, State};
use gauntlet_store::{Log, Quarantine};

use crate::array_access as access;
use crate::messages::{moment, visible};
use crate::node_args::NodeArgs;
use crate::user::WHO;

/// Messages read at once.
const PAGE: usize = 500;

const AFTER_HELP: &str = "\
Releasing needs the running node; `rebuild` needs that none runs; the rest reads and writes
beside it.

With quarantine.encrypt, bodies are sealed by the first key of quarantine.key_file. `rotate-key`
puts a new key first, seals every body with it, and forgets the old keys; --keep-old leaves
bodies and old keys as they are.

Examples:
  gauntlet quarantine list --folder suspect
  gauntlet quarantine list --array       of all nodes of the array
  gauntlet quarantine show 1M7YFK6WX0000 > message.eml
  gauntlet quarantine release 1M7YFK6WX0000 --learn
  gauntlet quarantine release 1M7YFK6WX0000 --to boss@example.org
  gauntlet quarantine delete 1M7YFK6WX0000
  gauntlet quarantine rotate-key
  gauntlet quarantine verify
  gauntlet quarantine rebuild            when the list of held mail is lost or damaged";

/// Arguments of `gauntlet quarantine`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print held mail, newest first
    List {
        /// Only what is in this folder
        #[arg(long, default_value = "", hide_default_value = true)]
        folder: String,
        /// Held for this address
        #[arg(long, default_value = "", hide_default_value = true)]
        recipient: String,
        /// Part of subject, From, envelope sender (not with --array) or recipients
        #[arg(long, default_value = "", hide_default_value = true)]
        text: String,
        /// At most so many
        #[arg(long, visible_alias = "max", default_value_t = 100)]
        #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
        /// What all nodes of the array hold (array.objects)
        #[arg(long)]
        array: bool,
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Print the folders: messages and bytes
    Folders {
        /// Those of all nodes of the array
        #[arg(long)]
        array: bool,
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Print a held message as it was received
    Show {
        /// Its id in the quarantine
        id: String,
        /// Whichever node of the array holds it
        #[arg(long)]
        array: bool,
    },
    /// Release a held message to its recipients, once
    Release {
        /// Its id in the quarantine
        id: String,
        /// Address instead of its recipients; repeat for more
        #[arg(long)]
        to: Vec<String>,
        /// Train the classifier with it as ham
        #[arg(long)]
        learn: bool,
    },
    /// Delete a held message for good
    Delete {
        /// Its id in the quarantine
        id: String,
    },
    /// Read all held mail, and name what cannot be read
    ///
    /// Exit status: 0 all can be read; 1 some cannot.
    Verify,
    /// Make the list of held mail again from its packs; the old one is put aside
    ///
    /// What was released or deleted is not held again. Who read and released what (the audit log)
    /// is lost.
    Rebuild,
    /// Seal held mail with a new key
    RotateKey {
        /// Seal only new mail with it; old keys stay
        #[arg(long)]
        keep_old: bool,
    },
}

fn open(config: &Config) -> anyhow::Result<Quarantine> {
    let folder = config.node.data.join("quarantine");
    let quarantine = Quarantine::open_shared_with(&folder, body_keys(config)?)?;
    quarantine.set_folder_release(folder_release(config));
    Ok(quarantine)
}

/// Held mail to be read, with what carries its connections: the node's, or that of its array.
fn open_to_read(
    config: &Config,
    array: bool,
) -> anyhow::Result<(Box<dyn HeldMail>, Option<tokio::runtime::Runtime>)> {
    if !array {
        return Ok((Box::new(open(config)?), None));
    }
    let runtime = access::runtime(1)?;
    Ok((Box::new(access::shared_quarantine(config, &runtime)?), Some(runtime)))
}

/// Gives what a query finds, at most so many: page by page, as the quarantine limits a page. Says
/// whether there is more.
fn list(
    quarantine: &dyn HeldMail,
    mut query: HeldQuery,
    limit: u64,
    mut give: impl FnMut(&Held) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let mut left = usize::try_from(limit).unwrap_or(usize::MAX);
    while left > 0 {
        query.limit = left.min(PAGE);
        let page = quarantine.search(&query)?;
        page.items.iter().try_for_each(&mut give)?;
        left -= page.items.len().min(left);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// What to say where not all was listed. All that fits a text or a recipient is not counted: that
/// would take as long as to list it.
fn rest(held: &dyn HeldMail, query: &HeldQuery, shown: u64) -> anyhow::Result<String> {
    if !query.recipient.is_empty() || !query.text.is_empty() {
        return Ok(format!("{shown} messages, and there are more; --limit lists more"));
    }
    let folders = held.folders()?;
    let wanted = |name: &str| query.folder.is_empty() || query.folder == name;
    let all: u64 = folders.iter().filter(|f| wanted(&f.name)).map(|f| f.items).sum();
    Ok(format!("{shown} of {} messages; --limit lists more", all.max(shown)))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let of_array = match &args.action {
        Action::List { array, .. } | Action::Folders { array, .. } | Action::Show { array, .. } => {
            *array
        }
        _ => false,
    };
    // A manager may be no node.
    let config = if of_array { args.node.load()? } else { args.node.load_existing()? };
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::List { folder, recipient, text, limit, array, json } => {
            let query = HeldQuery {
                folder: folder.clone(),
                recipient: recipient.clone(),
                text: text.clone(),
                state: Some(State::Held),
                ..HeldQuery::default()
            };
            let (held, _runtime) = open_to_read(&config, *array)?;
            let give = |held: &Held| print(&mut out, held, *json);
            let has_more = list(&*held, query.clone(), *limit, give)?;
            if has_more && !json {
                // Beside the list, whose lines are messages.
                eprintln!("gauntlet: {}", rest(&*held, &query, *limit)?);
            }
        }
        Action::Folders { array, json } => {
            let (held, _runtime) = open_to_read(&config, *array)?;
            for folder in held.folders()? {
                let (name, items, bytes) = (&folder.name, folder.items, folder.bytes);
                if *json {
                    let line =
                        serde_json::json!({ "folder": name, "messages": items, "bytes": bytes });
                    writeln!(out, "{line}")?;
                } else {
                    writeln!(out, "{name:<24} {items:>9} messages {bytes:>14} bytes")?;
                }
            }
        }
        Action::Show { id, array } => {
            let (held, _runtime) = open_to_read(&config, *array)?;
            let body = held.body(id)?;
            let none = || match holder(&config, id).filter(|_| !array) {
                Some(hint) => format!("{hint}; --array reads it"),
                None => format!("no held message {id:?}"),
            };
            out.write_all(&body.with_context(none)?)?;
        }
        Action::Release { id, to, learn } => release(&mut out, (args, &config), (id, to, *learn))?,
        Action::Delete { id } => delete(&mut out, &config, id)?,
        Action::Verify => return verify(&mut out, &config),
        Action::Rebuild => return rebuild(&mut out, &config),
        Action::RotateKey { keep_old } => rotate(args, &config, *keep_old)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes an item; the message's record in the log gets the event.
fn delete(out: &mut impl Write, config: &Config, id: &str) -> anyhow::Result<()> {
    let (quarantine, now) = (open(config)?, clock::now_ms());
    let held = quarantine.get(id)?;
    match quarantine.delete(id, WHO, now)? {
        Deletion::Done => writeln!(out, "deleted")?,
        Deletion::NotHeld(state) => bail!("it is not held any more: it is {}", state.name()),
        Deletion::Unknown => match holder(config, id) {
            Some(hint) => bail!("{hint}"),
            None => bail!("no held message {id:?}"),
        },
    }
    let Some(item) = held.map(|held| held.item) else { return Ok(()) };
    let log = Log::open(&config.node.data.join("log"));
    log.and_then(|log| log.append_events(vec![item.deleted(WHO, now)]))
        .context("it is deleted, which could not be noted in the message log")
        .map(drop)
}

/// Has the running node release an item.
fn release(
    out: &mut impl Write,
    (args, config): (&Args, &Config),
    (id, to, learn): (&str, &[String], bool),
) -> anyhow::Result<()> {
    let request = Request::Release { id: id.to_owned(), to: to.to_vec(), learn };
    let answer = args.node.ask(&request).map_err(|error| match holder(config, id) {
        Some(hint) => error.context(hint),
        None => error,
    });
    if let Answer::Done(count) = answer? {
        writeln!(out, "released to {count} recipient{}", if count == 1 { "" } else { "s" })?;
    }
    Ok(())
}

/// Says which other node of the array holds an item, if this one does not and one does.
fn holder(config: &Config, id: &str) -> Option<String> {
    if config.array.objects.is_empty() || open(config).ok()?.get(id).ok()?.is_some() {
        return None;
    }
    let runtime = access::runtime(1).ok()?;
    let held = access::shared_quarantine(config, &runtime).ok()?.get(id).ok()??;
    let node = visible(&held.node);
    Some(format!(
        "{node} holds {id}: `gauntlet array order {node} release {id}` (or delete) decides about it"
    ))
}

fn print(out: &mut impl Write, held: &Held, json: bool) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(held)?)?;
        return Ok(());
    }
    let item = &held.item;
    writeln!(
        out,
        "{} {}{} {:<12} {:<11} {} > {} {}",
        moment(item.received_ms),
        if held.node.is_empty() { String::new() } else { format!("{} ", visible(&held.node)) },
        item.id,
        item.folder,
        item.class.name(),
        visible(&item.from),
        visible(&item.recipients.join(",")),
        visible(&item.subject),
    )?;
    Ok(())
}

/// Reads every body, and names each that cannot be read.
fn verify(out: &mut impl Write, config: &Config) -> anyhow::Result<ExitCode> {
    let mut damaged = Vec::new();
    let read = open(config)?.verify(|one| damaged.push(one))?;
    for one in &damaged {
        writeln!(out, "{}: {}", one.id, one.error)?;
    }
    writeln!(out, "{read} held messages, {} cannot be read", damaged.len())?;
    Ok(if damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Makes the database again.
fn rebuild(out: &mut impl Write, config: &Config) -> anyhow::Result<ExitCode> {
    let folder = config.node.data.join("quarantine");
    anyhow::ensure!(folder.is_dir(), "{}: there is no such folder", folder.display());
    let made = Quarantine::rebuild(&folder, body_keys(config)?, clock::now_ms())?;
    for what in &made.damaged {
        writeln!(out, "damaged: {what}")?;
    }
    if let Some(aside) = &made.aside {
        writeln!(out, "the list before is {}", aside.display())?;
    }
    let (items, changes) = (made.items, made.changes);
    writeln!(out, "{items} messages in the list; {changes} changes of state applied")?;
    Ok(if made.damaged.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A new key; then all is sealed with it, by the node if one runs, and the old keys are forgotten.
fn rotate(args: &Args, config: &Config, keep_old: bool) -> anyhow::Result<()> {
    let quarantine = open(config)?;
    let keys = quarantine.keys().filter(|k| k.seals());
    let keys = keys.context("held mail is not sealed: set quarantine.encrypt = true")?;
    keys.rotate()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: a new key is first", keys.path().display())?;
    if keep_old {
        return Ok(());
    }
    let by_node = match args.node.ask(&Request::Seal) {
        Ok(Answer::Done(count)) => count as u64,
        _ => 0,
    };
    // No key is forgotten before everything was seen to be sealed with the new one.
    let sealed = by_node + quarantine.reencrypt()?;
    let dropped = keys.drop_old()?;
    writeln!(out, "{sealed} messages sealed anew, {dropped} old keys forgotten")?;
    Ok(())
}
