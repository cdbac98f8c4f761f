//! `gauntlet trace`: one message's life, by its id.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_engine::unscannable::reason;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_mail::{Defect, DefectKind, date};
use gauntlet_store::{Delivery, Event, Log, LogRecord};
use gauntlet_verdict::Class;

use crate::messages::visible;
use crate::node_args::{NodeArgs, must_exist};

/// Arguments of `gauntlet trace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The message's id: the reference in replies, headers and logs
    id: String,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (record, events) = match args.node.ask(&Request::Trace { id: args.id.clone() }) {
        Ok(Answer::Message { record, events }) => (*record, events),
        Ok(answer) => bail!("the node gave an answer to another question: {answer:?}"),
        Err(error) if is_stopped(&error) => logged(args)?,
        Err(error) => return Err(error),
    };
    show(&mut std::io::stdout().lock(), &record, &events, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// No node listens there: the socket of one that has stopped may still be there.
fn is_stopped(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, NotFound};
    let kind = error.root_cause().downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    matches!(kind, Some(ConnectionRefused | NotFound))
}

/// The message as the log has it.
fn logged(args: &Args) -> anyhow::Result<(LogRecord, Vec<Event>)> {
    let data = args.node.data_folder()?;
    must_exist(&data)?;
    let log = Log::open(&data.join("log")).context("the message log")?;
    let found = log.get(&args.id.to_ascii_uppercase())?;
    let found = found.with_context(|| {
        format!("no message {} in the log; the queue is shown by a node that runs", args.id)
    })?;
    eprintln!("gauntlet: the node is stopped; this is what its log has");
    Ok((found.record, found.events))
}

/// Prints a message and what became of it.
pub(crate) fn show(
    out: &mut impl Write,
    record: &LogRecord,
    events: &[Event],
    json: bool,
) -> anyhow::Result<()> {
    if json {
        serde_json::to_writer(
            &mut *out,
            &serde_json::json!({"message": record, "events": events}),
        )?;
        writeln!(out)?;
        return Ok(());
    }
    let LogRecord { id, envelope, verdict, .. } = record;
    writeln!(out, "{id}  {} bytes, {}", record.size, date::rfc5322(record.received_ms))?;
    let client = envelope.client_ip.map(|ip| ip.to_string()).unwrap_or_default();
    let (helo, from) = (visible(&envelope.helo), visible(&envelope.mail_from));
    writeln!(out, "  received    from {client} ({helo}), <{from}>")?;
    writeln!(out, "  subject     {}", visible(&record.subject))?;
    if record.is_received() {
        let hits = verdict.hits.iter().map(|h| &*h.rule).collect::<Vec<_>>().join(", ");
        writeln!(out, "  verdict     {} {:.1} ({hits})", verdict.class, verdict.score)?;
    }
    // Why it could not be judged; of other messages they are oddities without consequence.
    let blind = verdict.class == Class::Unscannable;
    let is_why = |d: &&Defect| d.kind == DefectKind::FilterFailed || reason(d.kind).is_some();
    for defect in verdict.defects.iter().filter(|d| blind && is_why(d)) {
        let (kind, detail) = (defect.kind.name(), visible(&defect.detail));
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        writeln!(out, "  defect      {kind} in part {}{detail}", defect.part)?;
    }
    for disposition in record.dispositions.iter().filter(|_| record.is_received()) {
        let rules = disposition.rules.join(", ");
        let (to, end) = (visible(&disposition.recipient), disposition.end.name());
        writeln!(out, "  policy      {to}: {end} ({rules})")?;
    }
    for stage in &record.stages {
        let ms = stage.at_us as f64 / 1_000.0;
        let detail = match (stage.name.as_str(), stage.detail.as_str()) {
            ("passed on", "") => "the next hop has replied, the client waits",
            (_, detail) => detail,
        };
        writeln!(out, "  {:<11} after {ms:.1} ms {}", stage.name, visible(detail))?;
    }
    if record.is_received() {
        writeln!(out, "  answered    after {} ms, to the client", record.latency_ms)?;
    }
    for (at_ms, name, what) in history(record, events) {
        writeln!(out, "  {name:<11} {}  {what}", date::rfc5322(at_ms))?;
    }
    Ok(())
}

/// What came of a message, in the order of time: when, a word, what.
fn history<'m>(record: &'m LogRecord, events: &'m [Event]) -> Vec<(i64, &'m str, String)> {
    let event = |event: &'m Event| {
        let (to, detail) = (visible(&event.recipient), visible(&event.detail));
        (event.at_ms, event.kind.as_str(), format!("{to} {detail}"))
    };
    let delivery = |delivery: &'m Delivery| {
        let (to, hop) = (visible(&delivery.address), visible(&delivery.next_hop));
        let what = format!("{to} {hop} {}", visible(&delivery.reply));
        (delivery.at_ms, delivery.outcome.name(), what)
    };
    let deliveries = record.deliveries.iter().map(delivery);
    let mut all: Vec<_> = deliveries.chain(events.iter().map(event)).collect();
    all.sort_by_key(|(at_ms, ..)| *at_ms);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_made_a_message_unscannable_is_printed() {
        let mut record = LogRecord::default();
        let unread = Defect::new(DefectKind::UnreadContent, 2).detail("a.zip: no worker");
        record.verdict.defects = vec![unread, Defect::new(DefectKind::NoDate, 0)];
        let printed = |record: &LogRecord| {
            let mut out = Vec::new();
            show(&mut out, record, &[], false).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!printed(&record).contains("defect"), "it was judged all the same");
        record.verdict.class = Class::Unscannable;
        let lines = printed(&record);
        let defects: Vec<&str> = lines.lines().filter(|l| l.contains("  defect ")).collect();
        assert_eq!(defects, ["  defect      unread_content in part 2: a.zip: no worker"]);
    }
}
