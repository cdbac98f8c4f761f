//! Logs: structured lines on standard error, and the text logs of Receiver, Engine and Sender, a
//! file a day each, in `logs` below the data folder.
//!
//! Text logs are written by a thread of their own, some times a second: a wake-up a line would cost
//! more than the line. If it cannot keep up, lines are dropped rather than mail held up: the
//! message log is the record, these are for reading along.

mod buffered;
mod stamp;

use std::io::IsTerminal;

use anyhow::Context;
use gauntlet_gateway::config::{Config, LogFormat};
use gauntlet_gateway::privileges;
use gauntlet_gateway::text_log::{ENGINE, RECEIVER};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use self::stamp::Stamp;

/// Folder of the text logs, below the data folder.
const FOLDER: &str = "logs";
/// The name of each file, and whose events it takes: targets by prefix, so whole stages, whatever
/// their modules are called.
const ROLES: [(&str, &[&str]); 3] = [
    ("receiver", &[RECEIVER, "gauntlet_gateway::inbound"]),
    (
        "engine",
        &[
            ENGINE,
            "gauntlet_gateway::scan",
            "gauntlet_gateway::facts",
            "gauntlet_engine",
            "gauntlet_rules",
        ],
    ),
    ("sender", &["gauntlet_gateway::outbound"]),
];

/// What must live until the last line is written.
pub(super) type Guards = Vec<buffered::Guard>;

/// Starts all logs. Text logs that cannot be written are left out: a data folder that is of no use
/// is reported by the caller that needs it.
///
/// # Errors
/// `log.level` is not understood, or a thread cannot be started.
pub(super) fn start(config: &Config) -> anyhow::Result<Guards> {
    let mut layers = vec![errors(config)?];
    let mut guards = Vec::new();
    for (name, targets) in ROLES {
        let Some(file) = file(config, name) else { continue };
        let (writer, guard) = buffered::start(name, file).context("a thread for logs")?;
        guards.push(guard);
        let wanted: Targets = targets.iter().map(|t| (*t, LevelFilter::INFO)).collect();
        let text =
            layer().with_timer(Stamp).with_writer(writer).with_ansi(false).with_target(false);
        layers.push(text.with_filter(wanted).boxed());
    }
    tracing_subscriber::registry().with(layers).init();
    Ok(guards)
}

/// Starts the log on standard error alone: for the secrets process, whose lines stand among the
/// node's.
///
/// # Errors
/// `log.level` is not understood.
pub(super) fn start_errors(config: &Config) -> anyhow::Result<()> {
    tracing_subscriber::registry().with(vec![errors(config)?]).init();
    Ok(())
}

/// What goes to standard error.
fn errors(config: &Config) -> anyhow::Result<Box<dyn Layer<Registry> + Send + Sync>> {
    let level = &config.log.level;
    // The lines of a message on its way are for the files, unless they are asked for.
    let filter = EnvFilter::try_new(format!("{RECEIVER}=warn,{ENGINE}=warn,{level}"))
        .with_context(|| format!("log.level {level:?}"))?;
    let terminal = std::io::stderr().is_terminal();
    let json = match config.log.format {
        LogFormat::Auto => !terminal,
        LogFormat::Text => false,
        LogFormat::Json => true,
    };
    let errors = layer().with_writer(std::io::stderr);
    Ok(if json {
        errors.json().flatten_event(true).with_filter(filter).boxed()
    } else {
        errors.with_ansi(terminal).with_target(false).with_filter(filter).boxed()
    })
}

/// The file of a role for today; the oldest are removed.
fn file(config: &Config, name: &str) -> Option<RollingFileAppender> {
    let days = usize::try_from(config.log.text_days).ok().filter(|days| *days > 0)?;
    let folder = config.node.data.join(FOLDER);
    // Made, opened and removed below a folder that the user owns: not as root.
    let account = privileges::to_become(config).ok()?;
    let _acting = account.map(|account| account.act()).transpose().ok()?;
    std::fs::create_dir_all(&folder).ok()?;
    RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix(name)
        .filename_suffix("log")
        // Today's file and those of the days before.
        .max_log_files(days + 1)
        .build(folder)
        .ok()
}
