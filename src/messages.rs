//! `gauntlet messages`: find messages of the log, as the console does.

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_gateway::text::one_line;
use gauntlet_mail::date::{DAY_MS, day_name, day_number, time_of_day};
use gauntlet_store::log::{Cursor, MessageLog, check_address};
use gauntlet_store::{Log, Outcome, Query, Summary};
use gauntlet_verdict::{Class, Final};

use crate::array_access as access;
use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
All that is given must hold; several classes are any of them. The node may run meanwhile. One
message's whole life: gauntlet trace ID. What the policy deferred (--action defer) is one line for
each attempt of the client, 600 a minute at most. A day of the log that is damaged is named on
standard error; the others are searched.

Exit status: 0 something was found; 1 nothing.

Examples:
  gauntlet messages --subject invoice --class phishing
  gauntlet messages --recipient ann@example.org --since 2026-11-01 --json
  gauntlet messages --sender @shop.example --action quarantine --limit 200
  gauntlet messages --array --class spam --since 2026-11-21";

/// Arguments of `gauntlet messages`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Words of the subject, all of them, in any order; `pay*` takes what begins so
    #[arg(long, value_parser = subject, default_value = "", hide_default_value = true)]
    subject: String,
    /// Sender: an address, or `@domain`
    #[arg(long, value_parser = address, default_value = "", hide_default_value = true)]
    sender: String,
    /// Recipient: an address, or `@domain`
    #[arg(long, value_parser = address, default_value = "", hide_default_value = true)]
    recipient: String,
    /// Domain of sender or recipient
    #[arg(long, default_value = "", hide_default_value = true)]
    domain: String,
    /// Class; repeat for any of several
    #[arg(long = "class")]
    classes: Vec<Class>,
    /// Disposition of a recipient
    #[arg(long, value_parser = Final::NAMES)]
    action: Option<String>,
    /// What became of a delivery, now or earlier: what was deferred once was queued
    #[arg(long, value_parser = Outcome::NAMES)]
    outcome: Option<String>,
    /// A rule that hit
    #[arg(long, default_value = "", hide_default_value = true)]
    rule: String,
    /// Message-ID field, with or without angle brackets
    #[arg(long, default_value = "", hide_default_value = true)]
    message_id: String,
    /// Address of the client
    #[arg(long)]
    client: Option<IpAddr>,
    /// Received on or after this day (UTC), as 2026-11-21
    #[arg(long, value_parser = day)]
    since: Option<i64>,
    /// Received on or before this day (UTC)
    #[arg(long, value_parser = day)]
    until: Option<i64>,
    /// Rule points, at least
    #[arg(long)]
    score_min: Option<f64>,
    /// At most so many, newest first
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    /// Search the log of the array that array.database names, of all its nodes
    #[arg(long)]
    array: bool,
    /// Print JSON, one line a message
    #[arg(long)]
    json: bool,
}

/// Messages read at once.
const PAGE: usize = 500;

fn day(text: &str) -> Result<i64, String> {
    day_number(text).ok_or_else(|| format!("{text:?} is no day; write 2026-11-21"))
}

/// Words are looked up, other characters part them: without a word there is nothing to look up.
fn subject(text: &str) -> Result<String, String> {
    match text.is_empty() || text.chars().any(char::is_alphanumeric) {
        true => Ok(text.to_owned()),
        false => {
            Err("there is no word in it; write whole words (invoice), or how they begin (pay*); \
                      without --subject any is found"
                .to_owned())
        }
    }
}

fn address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Opened { log, own_log, _runtime } = open(args)?;
    let mut query = Query {
        subject: args.subject.clone(),
        sender: args.sender.clone(),
        recipient: args.recipient.clone(),
        domain: args.domain.clone(),
        classes: args.classes.clone(),
        action: args.action.clone().unwrap_or_default(),
        outcome: args.outcome.clone().unwrap_or_default(),
        rule: args.rule.clone(),
        message_id: args.message_id.clone(),
        client: args.client.map(|client| client.to_string()).unwrap_or_default(),
        since_ms: args.since.map(|day| day * DAY_MS),
        until_ms: args.until.map(|day| (day + 1) * DAY_MS),
        score_min: args.score_min,
        ..Query::default()
    };
    let mut out = std::io::stdout().lock();
    let mut left = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (mut found, mut is_more) = (0u64, false);
    while left > 0 {
        query.limit = left.min(PAGE);
        let page = log.search(&query)?;
        for message in &page.messages {
            print(&mut out, message, args.json)?;
        }
        found += page.messages.len() as u64;
        left -= page.messages.len().min(left);
        let next: Option<Cursor> = page.next;
        is_more = next.is_some();
        match next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    for damaged in own_log.iter().flat_map(|log| log.damaged_days()) {
        eprintln!("gauntlet: {damaged}");
    }
    if is_more && !args.json {
        eprintln!("gauntlet: the newest {found}; there are more (--limit)");
    }
    if found == 0 {
        eprintln!("gauntlet: no such message in the log");
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

/// The log that is searched.
struct Opened {
    log: Arc<dyn MessageLog>,
    /// The same, if it is the node's own: days of it may be damaged.
    own_log: Option<Arc<Log>>,
    /// Carries the connections to an array's.
    _runtime: Option<tokio::runtime::Runtime>,
}

fn open(args: &Args) -> anyhow::Result<Opened> {
    if !args.array {
        let config = args.node.load_existing()?;
        let log = Log::open(&config.node.data.join("log")).context("the message log")?;
        let log = Arc::new(log);
        return Ok(Opened { log: log.clone(), own_log: Some(log), _runtime: None });
    }
    let config = args.node.load()?;
    let runtime = access::runtime(1)?;
    let log = access::shared_log(&config, &runtime)?;
    Ok(Opened { log, own_log: None, _runtime: Some(runtime) })
}

fn print(out: &mut impl Write, message: &Summary, json: bool) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(message)?)?;
        return Ok(());
    }
    // Those that are asked for come first.
    let to = message.recipients.first().map_or("", |r| r.recipient.as_str());
    let action = message.recipients.first().map_or("", |r| r.action.as_str());
    let more = match message.recipients_count {
        0 | 1 => String::new(),
        all => format!(" +{}", all - 1),
    };
    writeln!(
        out,
        "{} {}{} {:<11} {:>6.1} {:<11} {} > {}{more} {}",
        moment(message.received_ms),
        if message.node.is_empty() {
            String::new()
        } else {
            format!("{} ", visible(&message.node))
        },
        message.id,
        message.class.name(),
        message.score,
        action,
        visible(&message.from),
        visible(to),
        visible(&message.subject),
    )?;
    Ok(())
}

/// Unix milliseconds as `2026-11-21T04:23:05Z`.
pub(crate) fn moment(ms: i64) -> String {
    let day = day_name(ms.div_euclid(DAY_MS));
    format!("{day}T{}Z", time_of_day(ms))
}

/// On one line, without what moves a terminal's cursor, turns its writing around or hides in it: it
/// comes from outside.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    // Joiners stay, which scripts and emojis need.
    let deceives = |c: char| {
        matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    match one_line(text, '?') {
        line if line.contains(deceives) => Cow::Owned(line.replace(deceives, "?")),
        line => line,
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_deceives_a_reader_of_a_terminal_is_not_printed() {
        assert_eq!(visible("a\u{1b}[1m \u{202e}fdp.exe\u{200b}\u{2066}"), "a?[1m ?fdp.exe??");
        assert_eq!(visible("Jörg می\u{200c}شود 日本"), "Jörg می\u{200c}شود 日本");
    }
}
