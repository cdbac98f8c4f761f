//! `gauntlet queue`: messages that wait for delivery, on a running node.

mod adopt;

use std::io::Write;
use std::process::ExitCode;

use crate::array;
use crate::messages::visible;
use crate::node_args::NodeArgs;
use anyhow::bail;
use gauntlet_gateway::clock;
use gauntlet_gateway::control::{Answer, Request, Waiting};

/// Arguments of `gauntlet queue`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

/// A number that a node gives in one answer.
fn at_most(text: &str) -> Result<usize, String> {
    let most = gauntlet_gateway::control::LIST_MAX;
    let number = text.parse().map_err(|_| "no whole number".to_owned())?;
    (1..=most).contains(&number).then_some(number).ok_or_else(|| format!("1 to {most}"))
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List messages that wait or are being delivered, oldest first
    List {
        /// Print JSON, one line a message
        #[arg(long)]
        json: bool,
        /// At most so many
        #[arg(long, visible_alias = "limit", default_value_t = 1_000, value_parser = at_most)]
        max: usize,
    },
    /// Show a message with all its deliveries
    Show {
        /// Id of the message, as `queue list` prints it
        id: String,
        /// Print one JSON object instead of text
        #[arg(long)]
        json: bool,
    },
    /// Deliver messages now; all that wait if none is named
    Retry {
        /// Ids of messages, as `queue list` prints them
        ids: Vec<String>,
    },
    /// Keep messages waiting until they are retried
    Hold {
        /// Ids of messages, as `queue list` prints them
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Take over the mail that waits on the disk of a dead node
    Adopt(adopt::Args),
    /// Hand messages over to another node of the array, each once
    #[command(after_help = "Examples:\n  gauntlet queue move --to mx2.example.org")]
    Move {
        /// Name of the other node, as `gauntlet array nodes` prints it
        #[arg(long)]
        to: String,
        /// Ids of messages; none for all that wait
        ids: Vec<String>,
    },
    /// Delete messages from the queue, without reports to their senders
    Delete {
        /// Ids of messages, as `queue list` prints them
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let request = match &args.action {
        Action::Adopt(adopt) => return adopt::run(adopt, &args.node),
        Action::Move { to, ids } => return array::move_queue(&args.node, to, ids),
        Action::List { max, .. } => Request::List { max: *max },
        Action::Show { id, .. } => Request::Trace { id: id.clone() },
        Action::Retry { ids } => Request::Retry { ids: ids.clone() },
        Action::Hold { ids } => Request::Hold { ids: ids.clone() },
        Action::Delete { ids } => Request::Delete { ids: ids.clone() },
    };
    let answer = args.node.ask(&request)?;
    let mut out = std::io::stdout().lock();
    match (&args.action, answer) {
        (Action::List { json, max }, Answer::Messages(messages)) => {
            list(&mut out, &messages, *json)?;
            if !json {
                let all = if messages.len() < *max { None } else { queued(&args.node)? };
                writeln!(out, "{}", listed(messages.len(), all))?;
            }
        }
        (Action::Show { json, .. }, Answer::Message { record, events }) => {
            crate::trace::show(&mut out, &record, &events, *json)?;
        }
        (_, Answer::Done(count)) => writeln!(out, "{}", counted(count))?,
        (_, answer) => bail!("the node gave an answer to another question: {answer:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// `1 message`, `2 messages`
fn counted(messages: usize) -> String {
    format!("{messages} {}", if messages == 1 { "message" } else { "messages" })
}

fn list(out: &mut impl Write, messages: &[Waiting], json: bool) -> anyhow::Result<()> {
    for message in messages {
        if json {
            serde_json::to_writer(&mut *out, message)?;
            writeln!(out)?;
            continue;
        }
        let when = match (message.active, message.due_ms) {
            (true, _) => "now".to_owned(),
            (false, None) if !message.leaving_to.is_empty() => "moving".to_owned(),
            (false, None) => "held".to_owned(),
            (false, Some(due)) => format!("in {} s", (due - clock::now_ms()).max(0) / 1_000),
        };
        let Waiting { id, from, to, size, attempts, reply, leaving_to, .. } = message;
        let (from, to) = (visible(from), to.join(", "));
        let to = visible(&to);
        writeln!(out, "{id}  {when:<10} {size:>9} B  {attempts:>2} tries  <{from}> -> {to}")?;
        if !leaving_to.is_empty() {
            writeln!(out, "{:15}on its way to {}", "", visible(leaving_to))?;
        }
        if !reply.is_empty() {
            writeln!(out, "{:15}{}", "", visible(reply))?;
        }
    }
    Ok(())
}

/// Messages in the queue of the node.
fn queued(node: &NodeArgs) -> anyhow::Result<Option<usize>> {
    Ok(match node.ask(&Request::Status)? {
        Answer::Status(status) => usize::try_from(status.queued).ok(),
        _ => None,
    })
}

/// How many messages were listed, and of how many, if there are more.
fn listed(shown: usize, all: Option<usize>) -> String {
    match all.filter(|all| *all > shown) {
        Some(all) => format!("{shown} of {}; --max lists more", counted(all)),
        None => counted(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_told() {
        assert_eq!(listed(1_000, Some(3_491)), "1000 of 3491 messages; --max lists more");
        assert_eq!(listed(1_000, Some(1_000)), "1000 messages");
        // Some were delivered meanwhile.
        assert_eq!(listed(1_000, Some(990)), "1000 messages");
        assert_eq!(listed(1, None), "1 message");
    }
}
