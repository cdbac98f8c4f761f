//! `gauntlet scan`: judge messages from files.
//!
//! One thread walks the inputs, `--threads` threads judge, the main thread prints in input order.
//! A fixed number of messages is between walking and printing at any time, so that memory does not
//! grow with the input. Threads wake each other for several messages at once where they have
//! several: waking was 4 % of a batch's CPU time. Nothing waits for a message that is not there
//! yet.

mod network;
mod progress;
mod report;
mod views;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use crossbeam_channel::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError, bounded};
use gauntlet_engine::{Scratch, Snapshot, file_scan, scan};
use gauntlet_gateway::config::{Config, THREADS_MAX};
use gauntlet_gateway::scan::unpacking::{self, Unpacking, is_ambiguous};
use gauntlet_inputs::source::{self, Content, Input, Source};
use gauntlet_mail::{Facts, Limits, Message, trace};
use gauntlet_verdict::Class;

use self::progress::{Progress, Summary};
use self::report::{Judged, Style};
use crate::content_process;
use crate::dlp::Looking;
use crate::ruleset::RulesetArgs;

/// Messages between walking and printing, for each scan thread.
const WINDOW_PER_THREAD: usize = 32;
/// Messages that a thread passes on at once, if it has as many.
const BATCH: usize = 8;
/// Printed lines are held back so long, for others to be written with them.
const FLUSH_AFTER: Duration = Duration::from_millis(20);
/// Bytes of printed lines that are written without waiting.
const PRINTED_BYTES: usize = 64 * 1024;

const EXIT_UNREADABLE: u8 = 1;
const EXIT_FAIL_ON: u8 = 3;

const AFTER_HELP: &str = "\
Inputs: a file that holds one message; a folder (read recursively, hidden files left out, and those
that are no mail by their names: *.json, *.toml, *.md, labels.tsv; --as file reads them); a
Maildir; a mailbox (mbox, its messages are called box#1, box#2 ...); a tar archive (members are
called archive/member); any of these compressed with gzip; `-` for standard input.

JSON:
{\"file\",\"class\",\"score\",\"hits\":[{\"rule\",\"score\",\"count\",\"description\",\"evidence\":[{\"view\",
\"part\",\"offset\",\"length\",\"text\"}]}],\"defects\":[...],\"cost_us\",\"probability\",\"counterfactuals\",
\"bytes\",\"ruleset\"}; with --dlp or dlp.always also \"data_loss\", as gauntlet dlp; with
--subtests also \"sub\":{rule:count}; of URLs on a list \"url_lists\":[{\"list\",\"category\",
\"pattern\",\"url\"}]; an input that could not be read: {\"file\",\"error\"}.
Everything but the costs is the same at any number of threads.

With --rules the message is judged by SpamAssassin rules alone: the score is what spamassassin
-L without Bayes gives. --subtests without --json prints lines
{\"file\",\"hits\":{rule:score},\"score\", \"sub\":{rule:count}}.

With --config the block and allow lists, lists of URLs, thresholds and limits of that file judge;
senders listed in the console, rules of other files and the policy do not. The envelope is what the
message says of it: sender by Return-Path, client by the Received field with which it came in
from outside; who is on a list by header From or a link needs neither. Which rules of the policy
act: gauntlet policy explain.

Without --network there are no network requests, and rules that need the network do not fire.
With it, each message costs a node's look-ups; rules ask theirs with --profile full.
--keep-facts writes a JSON line a message: {\"file\",\"envelope\",\"facts\"}; --facts judges by
them again, whatever the DNS says today.

Exit codes: 0 all read and judged; 1 an input could not be read; 2 wrong usage, or nothing could
be done; 3 a message was of the class given with --fail-on, or of a more severe one.

Examples:
  gauntlet scan message.eml
  gauntlet scan --explain message.eml
  gauntlet scan --json ~/Maildir backup.tar.gz > verdicts.jsonl
  gauntlet scan --json --files-from list.txt
  gauntlet scan --rules /usr/share/spamassassin --site /etc/spamassassin message.eml
  gauntlet scan --config /etc/gauntlet/gauntlet.toml message.eml
  gauntlet scan --explain --url-list phishing=feed.urls message.eml
  gauntlet scan --network --keep-facts facts.jsonl --json mail/
  gauntlet scan --facts facts.jsonl --json mail/
  gauntlet scan --trust-authserv-id mx.google.com takeout.mbox
  gauntlet scan --fail-on phishing - < message.eml
  gauntlet scan --as file --fail-on malware ~/Downloads";

/// Arguments of `gauntlet scan`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Files, folders, Maildirs, mailboxes, tar archives, or `-` for standard input
    #[arg(required_unless_present = "files_from")]
    paths: Vec<PathBuf>,
    /// Read paths from this file too, one a line, each one message (`-` is standard input)
    #[arg(long, value_name = "LIST")]
    files_from: Option<PathBuf>,
    /// Print one JSON object a line
    #[arg(long, conflicts_with = "explain")]
    json: bool,
    /// Add the time of each filter to the JSON (`costs`)
    #[arg(long, requires = "json")]
    costs: bool,
    /// Print the evidence in its context, and what would have changed the class
    #[arg(long)]
    explain: bool,
    /// Print what SpamAssassin rules see of each message, instead of judging it
    #[arg(long, conflicts_with_all = ["explain", "costs", "fail_on", "as"])]
    views: bool,
    /// Scan threads [default: the CPUs that the process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(THREADS_MAX)))]
    threads: Option<u16>,
    /// Judge as if received at this Unix time [default: now]
    #[arg(long, value_name = "EPOCH", allow_negative_numbers = true)]
    now: Option<i64>,
    /// Exit with 3 if a message is of this class or a more severe one: ham, bulk, suspect, spam,
    /// unscannable, phishing, malware
    #[arg(long, value_name = "CLASS")]
    fail_on: Option<Class>,
    /// Largest message in bytes; larger ones are reported and not judged
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024 * 1024)]
    max_bytes: u64,
    /// What the inputs are: messages, or any files
    #[arg(long = "as", value_name = "KIND", value_enum, default_value_t = InputKind::Mail)]
    r#as: InputKind,
    /// Look for data as well: payment cards, identity numbers, keys, and what [dlp] of --config
    /// names
    #[arg(long)]
    dlp: bool,
    /// Leave attachments closed: judge the message without what is in its files
    #[arg(long)]
    no_unpack: bool,
    #[command(flatten)]
    network: network::NetworkArgs,
    #[command(flatten)]
    ruleset: RulesetArgs,
}

/// What an input is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum InputKind {
    /// A message, a mailbox or an archive of messages
    Mail,
    /// A file of any kind, judged by itself; one that is a message is opened as one
    File,
}

/// Judges every input, in order.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.views {
        return views::run(args).map(|()| ExitCode::SUCCESS);
    }
    let config = args.network.config()?;
    let snapshot = args.ruleset.load_with(config.as_ref())?;
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(all, usize::from);
    let settings = config.clone().unwrap_or_default();
    let opens = settings.content.enabled && !args.no_unpack && !snapshot.filters.is_empty();
    let data_loss = match args.dlp || settings.dlp.always {
        true => Some(Looking::start(&settings)?),
        false => None,
    };
    let unpacking = opens.then_some(settings);
    let scanner = Scanner {
        data_loss: data_loss.as_ref(),
        snapshot: &snapshot,
        style: Style::new(args.json, args.costs, args.explain, args.ruleset.subtests),
        kind: args.r#as,
        received_at: args.now.unwrap_or_else(clock),
        limits: config.map_or_else(Limits::default, |config| config.limits),
        network: args.network.open(&snapshot)?,
        message_bytes_max: args.max_bytes,
        unpacking: unpacking.map(|settings| (settings, OnceLock::new())),
        threads,
    };
    let progress = Progress::new(&args.paths);
    let taken = progress.taken().clone();
    let splits = args.r#as == InputKind::Mail;
    let source = Source { splits, taken, ..Source::of_messages(args.max_bytes) };
    let passed_over = source.passed_over.clone();
    let start = Instant::now();
    let mut summary = Summary::default();
    let walked = std::thread::scope(|scope| {
        let window = threads * WINDOW_PER_THREAD;
        let (job_in, job_out) = bounded::<Job>(window);
        let (done_in, done_out) = bounded::<Vec<Done>>(window);
        let (token_in, token_out) = bounded::<()>(window);
        for _ in 0..window {
            // The channel was made to hold this many.
            let _ = token_in.send(());
        }
        let walker = scope.spawn(move || walk(args, &source, &job_in, &token_out));
        for _ in 0..threads {
            let (jobs, done) = (job_out.clone(), done_in.clone());
            let (scanner, progress) = (&scanner, &progress);
            scope.spawn(move || scanner.work(&jobs, &done, progress));
        }
        drop((job_out, done_in));
        let printed = print(&done_out, &token_in, &mut summary, &progress);
        // Ends the other threads if printing ended early.
        drop((done_out, token_in));
        let walked = walker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        printed.context("standard output").and(walked)
    });
    progress.finish();
    walked?;
    let passed_over = source::passed_over(passed_over.load(Ordering::Relaxed));
    let _ = writeln!(io::stderr(), "{}{passed_over}", summary.line(start.elapsed()));
    let failed = args.fail_on.is_some_and(|class| summary.reaches(class));
    Ok(match (failed, summary.unreadable) {
        (true, _) => ExitCode::from(EXIT_FAIL_ON),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(EXIT_UNREADABLE),
    })
}

fn clock() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

struct Job {
    number: u64,
    input: Input,
}

struct Done {
    number: u64,
    judged: Judged,
}

/// Numbers the inputs; each waits for a token, which it gets back when it is printed.
fn walk(
    args: &Args,
    source: &Source,
    jobs: &Sender<Job>,
    tokens: &Receiver<()>,
) -> anyhow::Result<()> {
    let mut number = 0;
    let mut emit = |input: Input| {
        if tokens.recv().is_err() || jobs.send(Job { number, input }).is_err() {
            return ControlFlow::Break(());
        }
        number += 1;
        ControlFlow::Continue(())
    };
    for path in &args.paths {
        if source.walk(path, &mut emit).is_break() {
            return Ok(());
        }
    }
    args.files_from.as_ref().map_or(Ok(()), |list| source.list(list, &mut emit))
}

/// Prints in input order what comes in any order.
fn print(
    done: &Receiver<Vec<Done>>,
    tokens: &Sender<()>,
    summary: &mut Summary,
    progress: &Progress,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(PRINTED_BYTES, io::stdout().lock());
    let is_terminal = io::stdout().is_terminal();
    let (mut waiting, mut next) = (BTreeMap::new(), 0u64);
    // Since when a line is held back; tokens not given back yet.
    let (mut since, mut spent) = (None, 0);
    while let Some(batch) = receive(done, &mut since, &mut out)? {
        waiting.extend(batch.into_iter().map(|done| (done.number, done.judged)));
        while let Some(judged) = waiting.remove(&next) {
            next += 1;
            summary.add(&judged);
            progress.print(&judged, &mut out)?;
            since.get_or_insert_with(Instant::now);
            spent += 1;
        }
        // The walker has the others, so that it never waits for these.
        if spent >= BATCH {
            for _ in 0..std::mem::take(&mut spent) {
                // Never blocks: there are as many tokens as the channel holds.
                let _ = tokens.try_send(());
            }
        }
        if is_terminal {
            (since, _) = (None, out.flush()?);
        }
    }
    out.flush()
}

/// What is judged next, none at the end. What was printed is written out if nothing comes in time.
fn receive(
    done: &Receiver<Vec<Done>>,
    since: &mut Option<Instant>,
    out: &mut impl Write,
) -> io::Result<Option<Vec<Done>>> {
    if let Some(printed) = *since {
        match done.recv_deadline(printed + FLUSH_AFTER) {
            Ok(batch) => return Ok(Some(batch)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => (*since, _) = (None, out.flush()?),
        }
    }
    Ok(done.recv().ok())
}

/// What every scan thread shares.
struct Scanner<'a> {
    /// Looks for data; none if nobody asked.
    data_loss: Option<&'a Looking>,
    snapshot: &'a Snapshot,
    style: Style,
    kind: InputKind,
    received_at: i64,
    limits: Limits,
    network: network::Source,
    message_bytes_max: u64,
    /// Files are opened by these workers, which are started for the first message that has some.
    unpacking: Option<(Config, OnceLock<Result<Unpacking, String>>)>,
    threads: usize,
}

impl Scanner<'_> {
    /// The facts with the files of the message, and everything in them.
    fn unpacked(
        &self,
        message: &Message<'_>,
        raw: &[u8],
        mut facts: Facts,
        wanted: bool,
    ) -> Result<Facts, String> {
        let Some((config, started)) = &self.unpacking else { return Ok(facts) };
        if !wanted || !facts.content.is_empty() {
            return Ok(facts);
        }
        let threads = self.threads;
        let start = || {
            content_process::start_unpacking(config, threads).map_err(|error| format!("{error:#}"))
        };
        let unpacking = started.get_or_init(start).as_ref().map_err(Clone::clone)?;
        facts.content = unpacking.tree(message, raw);
        match unpacking::tempfail(&facts.content) {
            Some(report) => Err(format!("engine {:?}: {}", report.engine, report.error)),
            None => Ok(facts),
        }
    }

    fn asks_engines(&self) -> bool {
        self.unpacking.as_ref().is_some_and(|(config, _)| !config.engine.is_empty())
    }

    fn work(&self, jobs: &Receiver<Job>, done: &Sender<Vec<Done>>, progress: &Progress) {
        let mut scratch = Scratch::default();
        let (mut batch, mut begun) = (Vec::with_capacity(BATCH), Instant::now());
        loop {
            // What is there does not wait for several large messages.
            let is_old = begun.elapsed() >= FLUSH_AFTER;
            let is_due = batch.len() >= BATCH || is_old || jobs.is_empty();
            if is_due && !batch.is_empty() && done.send(std::mem::take(&mut batch)).is_err() {
                return;
            }
            // Another thread may have taken what was there: nothing is kept while waiting.
            let Job { number, input } = match jobs.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) if batch.is_empty() => match jobs.recv() {
                    Ok(job) => job,
                    Err(RecvError) => return,
                },
                Err(TryRecvError::Disconnected) if batch.is_empty() => return,
                Err(_) => continue,
            };
            if batch.is_empty() {
                begun = Instant::now();
            }
            batch.push(Done { number, judged: self.judged(input, &mut scratch, progress) });
        }
    }

    /// Reads and judges one input.
    fn judged(&self, input: Input, scratch: &mut Scratch, progress: &Progress) -> Judged {
        let bytes = match input.content {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Failed(why) => Err(why),
            Content::File(path) => source::read_file(&path, self.message_bytes_max)
                .inspect(|bytes| progress.add(bytes.len()))
                .map_err(|error| error.to_string()),
        };
        match bytes {
            Ok(raw) => self.judge(&input.name, &raw, scratch),
            Err(why) => self.style.unreadable(&input.name, &why),
        }
    }

    fn judge(&self, name: &str, raw: &[u8], scratch: &mut Scratch) -> Judged {
        let start = Instant::now();
        if self.kind == InputKind::File {
            return self.judge_file(name, raw, scratch);
        }
        let message = Message::parse_with(raw, &self.limits);
        let envelope = trace::of_trace(&message, self.received_at);
        let (envelope, facts) = match self.network.about(name, envelope, raw) {
            Ok(known) => known,
            Err(why) => return self.style.unreadable(name, &why),
        };
        let wants = !message.files().is_empty() || self.asks_engines();
        let mut facts = match self.unpacked(&message, raw, facts, wants) {
            Ok(facts) => facts,
            Err(why) => return self.style.unreadable(name, &why),
        };
        let mut verdict = scan(&message, &envelope, &facts, self.snapshot, scratch);
        // Rare enough to be scanned twice.
        let reads_again = !facts.content.all_readings && is_ambiguous(&verdict.defects);
        if reads_again && !wants && self.unpacking.is_some() {
            facts = match self.unpacked(&message, raw, facts, true) {
                Ok(facts) => facts,
                Err(why) => return self.style.unreadable(name, &why),
            };
            verdict = scan(&message, &envelope, &facts, self.snapshot, scratch);
        }
        if let Some(data_loss) = self.data_loss {
            data_loss.look(&message, &facts, &mut verdict);
        }
        let cost_us = start.elapsed().as_secs_f64() * 1e6;
        self.style.judged(name, &message, raw.len(), &verdict, cost_us)
    }

    /// A file is judged by its name, its bytes, and by what is in it.
    fn judge_file(&self, name: &str, bytes: &[u8], scratch: &mut Scratch) -> Judged {
        let start = Instant::now();
        let wrapped = file_scan::wrapped(name, bytes);
        let message = Message::parse_with(&wrapped, &self.limits);
        let facts = match self.unpacked(&message, bytes, Facts::default(), true) {
            Ok(facts) => facts,
            Err(why) => return self.style.unreadable(name, &why),
        };
        let verdict = file_scan::scan_file(&message, &facts, self.snapshot, scratch);
        let cost_us = start.elapsed().as_secs_f64() * 1e6;
        self.style.judged(name, &message, bytes.len(), &verdict, cost_us)
    }
}
