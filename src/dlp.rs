//! `gauntlet dlp`: look for data in files, list the detectors, try the fingerprints of a folder.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_content::engines::EngineSet;
use gauntlet_dlp::detectors;
use gauntlet_gateway::config::{Config, FingerprintSettings, Loaded};
use gauntlet_gateway::scan::data_loss::{DataLossPrevention, MessageData, NeverFound, documents};
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_inputs::file;
use gauntlet_mail::file_kind;
use gauntlet_mail::{Facts, FileKind, Message};
use gauntlet_verdict::{DataLoss, Verdict};

use crate::content_process;

/// Exit code if something was found.
const EXIT_FOUND: u8 = 1;

const AFTER_HELP: &str = "\
What is found is printed masked: detector, how many different values, places. `test` looks
through a message (subject, names of files, texts, attachments) or any other file, with the
detectors, dictionaries and documents of --config, or all detectors.

JSON of `test`: one object a file:
{\"file\",\"findings\":[{\"detector\",\"family\",\"name\",\"count\",\"points\",
\"share\",\"evidence\":[{\"place\",\"offset\",\"length\",\"masked\"}]}],\"is_cut\"}; is_cut: not
all was read.

Exit codes: 0 nothing found; 1 `test` found something; 2 wrong usage, or a file that cannot be
read.

Examples:
  gauntlet dlp test message.eml
  gauntlet dlp test --json --config /etc/gauntlet/gauntlet.toml customers.xlsx
  gauntlet dlp detectors
  gauntlet dlp fingerprint /srv/confidential";

/// Arguments of `gauntlet dlp`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say what is found in messages and other files, masked
    Test {
        /// Files, or `-` for standard input
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The configuration file [default: all detectors, no dictionaries, no documents]
        #[arg(short, long, env = "GAUNTLET_CONFIG")]
        config: Option<PathBuf>,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// List the detectors: name, family, what it finds, source
    Detectors {
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Say how many fingerprints each document of a folder has; those with none are never found
    Fingerprint {
        /// Folder with the documents
        folder: PathBuf,
        /// Folder of texts that do not count
        #[arg(long, value_name = "DIR")]
        ignore: Option<PathBuf>,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Test { files, config, json } => {
            let looking = Looking::start(&config_of(config.as_deref())?)?;
            test(files, &looking, *json)
        }
        Action::Detectors { json } => list(*json),
        Action::Fingerprint { folder, ignore, json } => {
            let settings = FingerprintSettings {
                folder: folder.clone(),
                ignore_folder: ignore.clone().unwrap_or_default(),
                ..FingerprintSettings::default()
            };
            fingerprint(&settings, *json)
        }
    }
}

/// The configuration that was named, or the defaults.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn config_of(file: Option<&Path>) -> anyhow::Result<Config> {
    let Some(file) = file else { return Ok(Config::default()) };
    Ok(Loaded::load(Some(file), std::env::vars())?.config)
}

/// What looks for data in commands.
#[derive(Debug)]
pub(crate) struct Looking {
    prevention: DataLossPrevention,
    unpacking: Option<Unpacking>,
}

impl Looking {
    /// By these settings.
    ///
    /// # Errors
    /// If a file of the settings cannot be used, or unpacking cannot be started.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let unpacking = match config.content.enabled {
            true => Some(unpacking(config)?),
            false => None,
        };
        let prevention = DataLossPrevention::load(&config.dlp, unpacking.as_ref())?;
        Ok(Looking { prevention, unpacking })
    }

    /// What is known of the message's files.
    pub(crate) fn facts(&self, message: &Message<'_>) -> Facts {
        let content =
            self.unpacking.as_ref().map(|u| u.tree(message, message.raw())).unwrap_or_default();
        Facts { content, ..Facts::default() }
    }

    /// Looks through the message; the verdict has what was found, and quotes none of it.
    pub(crate) fn look(&self, message: &Message<'_>, facts: &Facts, verdict: &mut Verdict) {
        self.prevention.inspect(message, facts).add_to(verdict);
    }

    /// What a policy asks for and will never get.
    pub(crate) fn never_found(&self, policy: &gauntlet_policy::Policy) -> Vec<NeverFound> {
        self.prevention.never_found(policy)
    }

    /// Looks through any file; a message as one.
    fn file(&self, name: &str, bytes: &[u8]) -> MessageData {
        if file_kind::sniff(bytes) == FileKind::Message {
            let message = Message::parse(bytes);
            return self.prevention.inspect(&message, &self.facts(&message));
        }
        match &self.unpacking {
            Some(unpacking) => {
                let facts = Facts { content: unpacking.file(name, bytes), ..Facts::default() };
                self.prevention.inspect(&Message::parse(b""), &facts)
            }
            None => self.prevention.inspect_text(name, &String::from_utf8_lossy(bytes)),
        }
    }
}

fn unpacking(config: &Config) -> anyhow::Result<Unpacking> {
    let workers = gauntlet_content::process::supervisor::Settings {
        memory_bytes_max: config.content.worker_memory_bytes_max,
        ..Default::default()
    };
    let pool = content_process::start(&workers, 1)?;
    // What is looked for is data, not malware.
    Ok(Unpacking::new(&config.content, Arc::new(pool), Arc::new(EngineSet::none())))
}

fn test(files: &[PathBuf], looking: &Looking, json: bool) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut any = false;
    for path in files {
        let bytes = file::read(path)?;
        let name = path.file_name().map_or(Cow::Borrowed("-"), |n| n.to_string_lossy());
        let found = looking.file(&name, &bytes).data_loss();
        any |= !found.findings.is_empty();
        let shown = path.display().to_string();
        if json {
            let mut line = serde_json::to_value(&found)?;
            if let Some(fields) = line.as_object_mut() {
                fields.insert("file".into(), shown.into());
                fields.entry("is_cut").or_insert(false.into());
            }
            writeln!(out, "{line}")?;
        } else {
            print(&mut out, &shown, &found)?;
        }
    }
    Ok(if any { ExitCode::from(EXIT_FOUND) } else { ExitCode::SUCCESS })
}

fn print(out: &mut impl Write, file: &str, found: &DataLoss) -> anyhow::Result<()> {
    let said = if found.findings.is_empty() { "nothing found" } else { "found" };
    let cut = if found.is_cut { "; NOT ALL WAS READ" } else { "" };
    writeln!(out, "{file}: {said}{cut}")?;
    print_findings(out, found)
}

/// Prints the findings, indented below their file.
pub(crate) fn print_findings(out: &mut impl Write, found: &DataLoss) -> anyhow::Result<()> {
    for finding in &found.findings {
        let mut title = shown(&finding.title());
        if finding.points > 0.0 {
            title += &format!(", {} points", finding.points);
        }
        if finding.share > 0.0 {
            title += &format!(", {:.1} % of it", finding.share * 100.0);
        }
        writeln!(out, "{:>8}  {title}", finding.count)?;
        for place in &finding.evidence {
            let (masked, name) = (shown(&place.masked), shown(&place.place));
            writeln!(out, "          {masked}  in {name}, byte {}", place.offset)?;
        }
    }
    Ok(())
}

/// What a terminal may be shown.
fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for detector in detectors::all() {
        let context = match (detector.always_needs_context(), detector.may_need_context()) {
            (true, _) => "always",
            (false, true) => "for some forms",
            (false, false) => "no",
        };
        let (name, family, title) = (detector.name, detector.family.name(), detector.title);
        if json {
            let line = serde_json::json!({
                "name": name, "family": family, "title": title, "source": detector.source,
                "needs_context": context,
            });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{name:<18} {family:<9} {title}; word near it: {context}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn fingerprint(settings: &FingerprintSettings, json: bool) -> anyhow::Result<ExitCode> {
    let unpacking = unpacking(&Config::default())?;
    let documents = documents(settings, Some(&unpacking)).context("fingerprints")?.build();
    let mut out = std::io::stdout().lock();
    for (name, count) in documents.fingerprints() {
        if json {
            writeln!(out, "{}", serde_json::json!({ "document": name, "fingerprints": count }))?;
        } else {
            let note = if count == 0 { "  NONE: nothing of it will be found" } else { "" };
            writeln!(out, "{count:>8}  {}{note}", shown(name))?;
        }
    }
    if !json {
        writeln!(out, "{} documents", documents.len())?;
    }
    Ok(ExitCode::SUCCESS)
}
