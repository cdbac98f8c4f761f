//! `gauntlet`: the command line. One file a subcommand, each thin: it reads arguments, calls the
//! crates and prints.

mod activity;
mod allocator;
mod array;
mod array_access;
mod backup;
mod bench;
mod ca;
mod channel;
mod clock;
mod completions;
mod config;
mod content_process;
mod denied;
mod digest;
mod dkim;
mod dlp;
mod dmarc;
mod doctor;
mod documented;
mod drain;
mod environment;
mod examples;
mod facts;
mod installed;
mod ips;
mod judge;
mod learn;
mod learning;
mod man;
mod messages;
mod node_args;
mod own;
mod phrases;
mod policy;
mod proxy;
mod quarantine;
mod queue;
#[cfg(test)]
mod reference;
mod report;
mod restore;
mod rules;
mod ruleset;
mod scan;
mod searches;
mod senders;
mod serve;
mod setup;
mod shared_settings;
mod size;
mod status;
mod tlsrpt;
mod token;
mod trace;
mod unpack;
mod upgrade;
mod url_lists;
mod urls;
mod user;
mod web;
mod web_content;

use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};
use gauntlet_lab::{evaluate, train, tune};

/// Runs mail through a gauntlet of filters, and says why.
#[derive(Debug, Parser)]
#[command(name = "gauntlet", version, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  gauntlet setup                         a configuration for what this node is to do
  gauntlet scan message.eml              judge one message
  gauntlet scan --explain message.eml    and say why, with the evidence in its context
  gauntlet scan --json ~/Maildir | jq .  judge a mail box, one JSON line a message
  gauntlet completions bash > ~/.local/share/bash-completion/completions/gauntlet";

// One line a subcommand here, and one in `main`; everything else is in the subcommand's file.
#[derive(Debug, Subcommand)]
enum Command {
    /// Judge messages from files, folders, Maildirs, mailboxes, archives or standard input
    Scan(scan::Args),
    /// Set up a node: configuration, keys, DNS records, lines for Postfix; or take that back
    Setup(Box<setup::Args>),
    /// Run a node: receive, judge and pass on mail
    Serve(serve::Args),
    /// Run a web proxy: pass on or block requests of browsers
    Proxy(proxy::Args),
    /// Make or show the certificate authority by which a proxy decrypts tunnels
    Ca(ca::Args),
    /// List, show, retry, hold or delete messages that wait, or adopt those of a dead node
    Queue(queue::Args),
    /// Take no new mail and deliver what waits, before maintenance; or take mail again
    Drain(drain::Args),
    /// Say how the running node is: mail taken, queue, times, disks, where mail goes
    Status(status::Args),
    /// Ask whether the clock is believed, or say that it is right
    Clock(clock::Args),
    /// Make an array of nodes: list them, publish the policy, give orders
    Array(array::Args),
    /// Print the history of one message by its id
    Trace(trace::Args),
    /// Find messages of the log
    Messages(messages::Args),
    /// List, show, release and delete held mail; change the key that seals it
    Quarantine(quarantine::Args),
    /// Allow and block senders for the whole node
    Senders(senders::Args),
    /// Say what passed in some days, as text, JSON, CSV, PDF or mail
    Report(report::Args),
    /// Check a policy, explain what it does with a message, test it
    Policy(policy::Args),
    /// Check a configuration file, or show the effective settings
    Config(config::Args),
    /// Check SpamAssassin rules, and compare their hits with SpamAssassin's own
    Rules(rules::Args),
    /// Show what the network says about a message: SPF, DKIM, DMARC, lists, every look-up
    Facts(facts::Args),
    /// Check what a node depends on: clock, resolver, lists, our name, keys, relaying
    Doctor(doctor::Args),
    /// Publish, mirror and follow signed updates of rules, models and lists
    Channel(channel::Args),
    /// Look for payment cards, identity numbers, keys and documents in files
    Dlp(dlp::Args),
    /// Compile, check and ask lists of URLs
    Urls(urls::Args),
    /// Check lists of weighted phrases, and explain what a page scores
    Phrases(phrases::Args),
    /// Run Suricata's rules on captured and live packets
    Ips(ips::Args),
    /// Make, list and rotate the keys that sign outbound mail
    Dkim(dkim::Args),
    /// Make or send the reports that domains get about mail in their name
    Dmarc(dmarc::Args),
    /// Print or send the reports that domains get about TLS to their mail exchangers
    Tlsrpt(tlsrpt::Args),
    /// Send or preview the mails about what is held
    Digest(digest::Args),
    /// Copy a node's data folder while the node runs, or verify such a copy
    Backup(backup::Args),
    /// Put a backup in the place of a node's data folder
    Restore(restore::Args),
    /// Say what this program would do with a data folder, before it is started there
    Upgrade(upgrade::Args),
    /// Say who did what
    Activity(activity::Args),
    /// List, keep and forget the searches that users keep
    Searches(searches::Args),
    /// Show and change what a user wants for their own mail
    Own(own::Args),
    /// Add, list and remove the users who may use the console
    User(user::Args),
    /// Make, list and revoke the tokens of programs that use the console's API
    Token(token::Args),
    /// Measure what it costs on this machine
    Bench(bench::Args),
    /// Try settings on this machine, keep what helps, and write it down
    Tune(Box<tune::Args>),
    /// Say how many nodes, how much disk and which links a site needs
    Size(size::Args),
    /// Train the classifier with labelled messages
    Learn(learn::Args),
    /// Make a model for the classifier from labelled mail
    Train(train::Args),
    /// Measure how good the classifier is
    Evaluate(evaluate::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
    /// Print what is in a file: archives, documents, messages
    Unpack(unpack::Args),
    /// Start the workers that unpack; `gauntlet` starts it by itself
    #[command(hide = true)]
    ContentProcess(content_process::Args),
    /// Hold private keys for a node; `gauntlet serve` starts it by itself
    #[command(hide = true)]
    SecretsProcess(serve::secrets_process::Args),
    /// Print the manual page, or write the pages of all subcommands into a folder
    Man(man::Args),
}

impl Command {
    /// Files that it makes may hold users's mail, addresses or keys, and are for their owner only.
    /// What the others write (manual pages, rules, models, measurements) is meant to be read by
    /// others.
    fn handles_mail(&self) -> bool {
        !matches!(
            self,
            Command::Completions(_)
                | Command::Man(_)
                | Command::Rules(_)
                | Command::Train(_)
                | Command::Bench(_)
                | Command::Tune(_)
                | Command::Size(_)
                | Command::Urls(_)
                | Command::Ca(_)
                | Command::Channel(_)
                | Command::Phrases(_)
                | Command::Ips(_)
        )
    }
}

fn main() -> ExitCode {
    let command = installed::with_configuration(examples::command());
    let cli = Cli::from_arg_matches(&command.get_matches());
    let command = cli.unwrap_or_else(|error| error.exit()).command;
    // Before anything is opened and any thread is started.
    if command.handles_mail() {
        gauntlet_store::files::set_private_umask();
    }
    let result = match command {
        Command::Scan(args) => scan::run(&args),
        Command::Setup(args) => setup::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Ca(args) => ca::run(&args),
        Command::Queue(args) => queue::run(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Clock(args) => clock::run(&args),
        Command::Array(args) => array::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Messages(args) => messages::run(&args),
        Command::Quarantine(args) => quarantine::run(&args),
        Command::Senders(args) => senders::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Rules(args) => rules::run(&args),
        Command::Facts(args) => facts::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Dkim(args) => dkim::run(&args),
        Command::Channel(args) => channel::run(&args),
        Command::Dlp(args) => dlp::run(&args),
        Command::Urls(args) => urls::run(&args),
        Command::Phrases(args) => phrases::run(&args),
        Command::Ips(args) => ips::run(&args),
        Command::Dmarc(args) => dmarc::run(&args),
        Command::Tlsrpt(args) => tlsrpt::run(&args),
        Command::Digest(args) => digest::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Restore(args) => restore::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::Activity(args) => activity::run(&args),
        Command::Searches(args) => searches::run(&args),
        Command::Own(args) => own::run(&args),
        Command::User(args) => user::run(&args),
        Command::Token(args) => token::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Size(args) => size::run(&args),
        Command::Learn(args) => learn::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Unpack(args) => unpack::run(&args),
        Command::ContentProcess(args) => content_process::run(&args),
        Command::SecretsProcess(args) => serve::secrets_process::run(&args),
        Command::Man(args) => man::run(&args),
    };
    result.unwrap_or_else(|error| {
        // The reader of our output closed the pipe (`head`): that is no error.
        if is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("gauntlet: {}", with_causes(&error));
        ExitCode::from(2)
    })
}

/// The error with its causes, without those whose text the one before contains.
fn with_causes(error: &anyhow::Error) -> String {
    let mut with_causes = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !with_causes.contains(&cause) {
            let colon = if with_causes.is_empty() { "" } else { ": " };
            with_causes.push_str(&format!("{colon}{cause}"));
        }
    }
    with_causes
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    kinds.into_iter().any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
