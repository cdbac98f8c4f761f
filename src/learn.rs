//! `gauntlet learn`: train the classifier with labelled messages.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use gauntlet_engine::corrections::{message_id, reporter_id};
use gauntlet_engine::learning::Said;
use gauntlet_engine::signatures::fingerprint::Found;
use gauntlet_engine::signatures::table::Entry;
use gauntlet_engine::{Scratch, Snapshot};
use gauntlet_gateway::privileges;
use gauntlet_gateway::scan::probes::domains_of;
use gauntlet_inputs::messages;
use gauntlet_learning::corrections::Corrections;
use gauntlet_learning::probes::add_good_domains;
use gauntlet_learning::signatures::SignatureWriter;
use gauntlet_mail::{Facts, Message, trace};

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
What is learned is kept in DATA/corrections/corrections.journal, on stable storage before the
command ends. A running node applies it within seconds. Learning the same message twice changes
nothing; what was said last holds; --forget takes it back. An empty message is an error. The corrections of one reporter count
20 messages together at most, and make no signature alone; the administrator's (no --reporter)
count in full.

--probe is for mail that came to an address that no user has: it becomes signatures of known bad
mail in DATA/signatures, and does not train the classifier. Each message counts every time it is
given.

Examples:
  gauntlet learn --config /etc/gauntlet/gauntlet.toml --spam missed.eml another.eml
  gauntlet learn --data /var/lib/gauntlet --ham ~/Maildir/.NotSpam --reporter ann@example.org
  gauntlet learn --data /var/lib/gauntlet --forget missed.eml";

/// Messages corrected between two flushes.
const BATCH: usize = 256;

/// Arguments of `gauntlet learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// These are unwanted: messages, folders, Maildirs, mailboxes or archives
    #[arg(long, value_name = "PATH", num_args = 1.., required_unless_present_any = ["ham", "forget", "probe"])]
    spam: Vec<PathBuf>,
    /// These are wanted, in the same forms
    #[arg(long, value_name = "PATH", num_args = 1..)]
    ham: Vec<PathBuf>,
    /// Take back what was said about these
    #[arg(long, value_name = "PATH", num_args = 1..)]
    forget: Vec<PathBuf>,
    /// These came to probe accounts: remember them as known bad
    #[arg(long, value_name = "PATH", num_args = 1..)]
    probe: Vec<PathBuf>,
    /// Days that signatures of --probe are believed
    #[arg(long, value_name = "DAYS", default_value_t = gauntlet_engine::signatures::known::DAYS_DEFAULT)]
    signature_days: u16,
    /// Who says so, e.g. an address; none is the administrator
    #[arg(long, value_name = "NAME", default_value = "")]
    reporter: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Learns, and prints how much was news.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Root reads mail wherever it is, and changes the data folder as its owner does.
    let data = args.node.load_to_copy()?.node.data;
    let as_owner = || privileges::act_as_owner(&data);
    let acting = as_owner()?;
    let mut journal =
        Corrections::open(&data).with_context(|| format!("cannot learn in {}", data.display()))?;
    drop(acting);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (reporter, at) = (reporter_id(&args.reporter), now as i64);
    let (snapshot, mut scratch) = (Snapshot::default_rules(), Scratch::default());
    let (mut seen, mut news) = (0usize, 0usize);
    let mut good = BTreeSet::new();
    for (paths, spam) in [(&args.spam, true), (&args.ham, false)] {
        for path in paths {
            let mut batch = Vec::new();
            let mut failed = None;
            messages::walk(path, &mut |raw| {
                let message = Message::parse(raw);
                if !spam {
                    good.extend(domains_of(&message, None));
                }
                let (envelope, facts) = (trace::of_trace(&message, at), Facts::default());
                let (message, envelope, facts) = (&message, &envelope, &facts);
                let said = Said { message, envelope, facts, spam, reporter, at };
                batch.push((message_id(raw), said.correction(&snapshot, &mut scratch)));
                seen += 1;
                if batch.len() >= BATCH && failed.is_none() {
                    let said = as_owner()
                        .map_err(anyhow::Error::from)
                        .and_then(|_acting| Ok(journal.say(batch.drain(..))?));
                    match said {
                        Ok(count) => news += count,
                        Err(error) => failed = Some(error),
                    }
                }
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            let _acting = as_owner()?;
            news += journal.say(batch)?;
        }
    }
    note_good(&data, good, now)?;
    seen += probes(args, &data, now)?;
    let mut forgotten = 0;
    for path in &args.forget {
        let mut ids = Vec::new();
        messages::walk(path, &mut |raw| ids.push(message_id(raw)))?;
        let _acting = as_owner()?;
        for id in ids {
            forgotten += usize::from(journal.forget(&id, at)?);
        }
    }
    writeln!(
        io::stdout().lock(),
        "{}",
        outcome(seen, (news, forgotten), journal.in_effect().len())
    )?;
    Ok(ExitCode::SUCCESS)
}

/// `1 message read, 1 learned, 0 forgotten, 1 correction in effect`
fn outcome(seen: usize, (news, forgotten): (usize, usize), count: usize) -> String {
    let messages = if seen == 1 { "message" } else { "messages" };
    let corrections = if count == 1 { "correction" } else { "corrections" };
    format!(
        "{seen} {messages} read, {news} learned, {forgotten} forgotten, {count} {corrections} in effect"
    )
}

/// Notes what good mail names: no entry of a list is made of it.
fn note_good(data: &Path, good: BTreeSet<u64>, now: u64) -> anyhow::Result<()> {
    if good.is_empty() {
        return Ok(());
    }
    let _acting = privileges::act_as_owner(data)?;
    let day = u16::try_from(now / 86_400).unwrap_or(u16::MAX);
    add_good_domains(data, &good.into_iter().collect::<Vec<_>>(), day)?;
    Ok(())
}

/// Makes signatures of mail of probe accounts. Result: messages read.
fn probes(args: &Args, data: &Path, now: u64) -> anyhow::Result<usize> {
    if args.probe.is_empty() {
        return Ok(0);
    }
    let as_owner = || privileges::act_as_owner(data);
    let acting = as_owner()?;
    let mut writer = SignatureWriter::open(data, args.signature_days)?;
    drop(acting);
    let day = u16::try_from(now / 86_400).unwrap_or(u16::MAX);
    let mut scratch = Scratch::default();
    let (mut seen, mut entries) = (0, Vec::new());
    let mut failed = None;
    for path in &args.probe {
        messages::walk(path, &mut |raw| {
            seen += 1;
            let found = scratch.fingerprints(&Message::parse(raw));
            let entry = |f: Found| Entry { fingerprint: f.fingerprint, bad: 1, good: 0, day };
            entries.extend(found.into_iter().map(entry));
            if entries.len() >= BATCH && failed.is_none() {
                failed = as_owner()
                    .map_err(anyhow::Error::from)
                    .and_then(|_acting| Ok(writer.append(&entries, day)?))
                    .err();
                entries.clear();
            }
        })?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let _acting = as_owner()?;
    writer.append(&entries, day)?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many_have_their_own_words() {
        let one = "1 message read, 1 learned, 0 forgotten, 1 correction in effect";
        assert_eq!(outcome(1, (1, 0), 1), one);
        let many = "2 messages read, 0 learned, 1 forgotten, 0 corrections in effect";
        assert_eq!(outcome(2, (0, 1), 0), many);
    }
}
