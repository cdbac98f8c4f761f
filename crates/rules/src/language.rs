//! Parser of the language: files, conditionals, commands. The result is a [`Config`]: rules as
//! written with their scores and flags, and settings.
//!
//! Files are read in SpamAssassin's order: `.pre` files of the sites, then of the rule folders,
//! then the rules, then the sites' `.cf` files; later definitions replace earlier ones.

mod commands;
mod condition;
mod delimiters;
mod draft;
mod files;
pub(crate) mod plugins;
mod replace;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use condition::{Environment, VERSION};
pub(crate) use draft::Drafts;
pub(crate) use files::to_text;

use crate::options::{LoadOptions, Profile};
use crate::problem::{Problem, Severity};
use crate::rule::{Rule, Source};
use crate::settings::Settings;
pub use delimiters::{DelimiterError, strip as undelimited};
use files::{IncludeStack, Kind, Line, LineFault};

/// The plugins that SpamAssassin 4.0.1 loads as installed; used if there is no `.pre` file.
const DEFAULT_PLUGINS: &str = "URIDNSBL SPF Pyzor Razor2 SpamCop AutoLearnThreshold \
    WelcomeListSubject MIMEHeader ReplaceTags DKIM Check HTTPSMismatch URIDetail Bayes BodyEval \
    DNSEval HTMLEval HeaderEval MIMEEval RelayEval URIEval WLBLEval VBounce ImageInfo FreeMail \
    AskDNS HashBL DMARC";

/// All that was read from the files.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) rules: Vec<Rule>,
    pub(crate) settings: Settings,
    pub(crate) problems: Vec<Problem>,
    pub(crate) plugins: Vec<String>,
    /// Files read, in order.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) sources: SourceHash,
    /// Scores of rules that none of the files has.
    pub(crate) loose_scores: BTreeMap<String, f64>,
}

/// Reads sources in order. Fails only if a source itself cannot be read.
pub(crate) fn read(
    sources: &[PathBuf],
    options: &LoadOptions,
) -> Result<Config, (PathBuf, std::io::Error)> {
    let mut reader = Reader::new(options);
    let mut pre_files = 0;
    for folder in options.site.iter().chain(sources) {
        pre_files += reader.source(folder, Kind::Pre)?;
    }
    if pre_files == 0 {
        reader.load_default_plugins();
    }
    reader.no_includes = true;
    for (name, text) in &options.texts {
        reader.lines(files::split(text.as_bytes(), name), Path::new(&**name));
        reader.files.push(PathBuf::from(&**name));
    }
    reader.no_includes = false;
    for source in sources {
        if reader.source(source, Kind::Cf)? == 0 && source.is_dir() {
            reader.report_empty_folder(source);
        }
    }
    for site in &options.site {
        reader.source(site, Kind::Cf)?;
    }
    Ok(reader.finish())
}

/// Reads bytes as the only rule file, with the default plugins; it cannot include others.
pub(crate) fn read_bytes(bytes: &[u8], options: &LoadOptions) -> Config {
    let mut reader = Reader::new(options);
    reader.no_includes = true;
    reader.load_default_plugins();
    reader.lines(files::split(bytes, "rules"), Path::new("rules"));
    reader.finish()
}

/// A hash over all lines that were read, in order: FNV-1a, which suffices to distinguish versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourceHash(pub(crate) u64);

impl Default for SourceHash {
    fn default() -> Self {
        SourceHash(0xcbf2_9ce4_8422_2325)
    }
}

impl SourceHash {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(b"\n") {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// An `if` whose `endif` has not come yet.
#[derive(Debug)]
struct Block {
    kind: &'static str,
    at: Source,
    /// Whether lines were skipped before it.
    outer_skips: bool,
}

/// Reads lines into drafts and settings.
#[derive(Debug)]
struct Reader {
    environment: Environment,
    language: String,
    drafts: Drafts,
    settings: Settings,
    problems: Vec<Problem>,
    includes: IncludeStack,
    files: Vec<PathBuf>,
    no_includes: bool,
    sources: SourceHash,
}

impl Reader {
    fn new(options: &LoadOptions) -> Self {
        Reader {
            environment: Environment {
                local_tests_only: options.profile == Profile::Local,
                ..Environment::default()
            },
            language: options.language.clone(),
            drafts: Drafts::default(),
            settings: Settings::default(),
            problems: Vec::new(),
            includes: IncludeStack::default(),
            files: Vec::new(),
            no_includes: false,
            sources: SourceHash::default(),
        }
    }

    fn load_default_plugins(&mut self) {
        for name in DEFAULT_PLUGINS.split_ascii_whitespace() {
            self.environment.plugins.insert(format!("{}{name}", plugins::PACKAGE));
        }
    }

    /// Reads a folder or file; the number of files.
    fn source(&mut self, source: &Path, kind: Kind) -> Result<usize, (PathBuf, std::io::Error)> {
        let fail = |e| (source.to_owned(), e);
        let list = files::list(source, kind).map_err(fail)?;
        for path in &list {
            if self.includes.enter(path).is_ok() {
                let lines = files::lines(path).map_err(|e| (path.clone(), e))?;
                self.files.push(path.clone());
                self.lines(lines, path);
                self.includes.stack.pop();
            }
        }
        Ok(list.len())
    }

    /// Reports a source folder without rules, which is probably mistyped.
    fn report_empty_folder(&mut self, folder: &Path) {
        let at = Source { file: folder.display().to_string().into(), line: 0 };
        let message = "there is no .cf file in this folder".to_owned();
        self.problem(Severity::Warning, &at, None, message);
    }

    /// Reads the lines of one file.
    fn lines(&mut self, lines: Vec<Line>, path: &Path) {
        let mut blocks: Vec<Block> = Vec::new();
        let mut skipping = false;
        for line in lines {
            self.line(&line, path, &mut blocks, &mut skipping);
        }
        for block in blocks {
            let message = format!("this {} has no endif", block.kind);
            self.problem(Severity::Error, &block.at, None, message);
        }
    }

    fn line(&mut self, line: &Line, path: &Path, blocks: &mut Vec<Block>, skipping: &mut bool) {
        self.sources.add(line.text.as_bytes());
        if line.fault == Some(LineFault::TooLong) {
            let message = format!("line over {} bytes, left out", files::LINE_BYTES_MAX);
            return self.problem(Severity::Error, &line.at, None, message);
        }
        let Some(text) = self.for_language(&line.text) else { return };
        let (key, value) = split_word(text);
        let key = key.to_ascii_lowercase().replace('-', "_");
        match key.as_str() {
            "if" | "ifplugin" | "else" | "endif" => {
                if let Err(message) = self.conditional(&key, value, &line.at, blocks, skipping) {
                    self.problem(Severity::Error, &line.at, None, message);
                }
            }
            "include" => self.include(value, line, path),
            _ if *skipping => {}
            "require_version" => {
                // A file for another version is skipped to its end, including its blocks.
                let installed = value.is_empty() || value == "@@VERSION@@";
                let ours = value.parse::<f64>().is_ok_and(|v| (v - VERSION).abs() < 1e-9);
                if !installed && !ours {
                    *skipping = true;
                    let message = format!(
                        "the file is for version {value} of SpamAssassin, this reads 4.000001: \
                         the rest of the file is left out"
                    );
                    self.problem(Severity::Warning, &line.at, None, message);
                }
            }
            _ => {
                if line.fault == Some(LineFault::NotUtf8) {
                    let message = "not valid UTF-8; read byte by byte".to_owned();
                    self.problem(Severity::Note, &line.at, None, message);
                }
                self.command(&key, value, &line.at);
            }
        }
    }

    /// The line without its `lang xx`, or nothing if it is for another language.
    fn for_language<'t>(&self, text: &'t str) -> Option<&'t str> {
        let Some(rest) = text.strip_prefix("lang").filter(|r| r.starts_with([' ', '\t'])) else {
            return Some(text);
        };
        let (wanted, rest) = split_word(rest.trim_start());
        let ours = self.language.get(..wanted.len());
        ours.is_some_and(|o| o.eq_ignore_ascii_case(wanted)).then_some(rest)
    }

    fn conditional(
        &mut self,
        key: &str,
        value: &str,
        at: &Source,
        blocks: &mut Vec<Block>,
        skipping: &mut bool,
    ) -> Result<(), String> {
        let standalone = matches!(key, "else" | "endif");
        if standalone != value.is_empty() {
            let what = if standalone { "takes nothing after it" } else { "needs a condition" };
            return Err(format!("{key} {what}"));
        }
        match key {
            "endif" => {
                let block = blocks.pop().ok_or("endif without an if")?;
                *skipping = block.outer_skips;
            }
            "else" => {
                if blocks.is_empty() {
                    return Err("else without an if".to_owned());
                }
                *skipping = blocks.iter().any(|b| b.outer_skips) || !*skipping;
            }
            _ => {
                let kind = if key == "if" { "if" } else { "ifplugin" };
                blocks.push(Block { kind, at: at.clone(), outer_skips: *skipping });
                let holds = if kind == "if" {
                    self.environment.holds(value)
                } else {
                    Ok(self.environment.has_plugin(value))
                };
                // A condition that cannot be read counts as false.
                *skipping |= !matches!(holds, Ok(true));
                holds.map_err(|e| format!("cannot read the condition {value:?}: {e}"))?;
            }
        }
        Ok(())
    }

    fn include(&mut self, value: &str, line: &Line, path: &Path) {
        if value.is_empty() || self.no_includes {
            let message = "include needs a file".to_owned();
            return self.problem(Severity::Error, &line.at, None, message);
        }
        let target = path.parent().unwrap_or(Path::new(".")).join(to_text(value));
        let files = match files::list(&target, Kind::Cf) {
            Ok(files) => files,
            Err(e) => {
                let message = format!("include {}: {e}", target.display());
                return self.problem(Severity::Error, &line.at, None, message);
            }
        };
        for file in files {
            let lines = match self.includes.enter(&file).map(|()| files::lines(&file)) {
                Ok(Ok(lines)) => lines,
                Ok(Err(e)) => {
                    self.includes.stack.pop();
                    let message = format!("include {}: {e}", file.display());
                    self.problem(Severity::Error, &line.at, None, message);
                    continue;
                }
                Err(message) => {
                    let message = format!("include {}: {message}", file.display());
                    self.problem(Severity::Error, &line.at, None, message);
                    continue;
                }
            };
            self.files.push(file.clone());
            self.lines(lines, &file);
            self.includes.stack.pop();
        }
    }

    fn problem(&mut self, severity: Severity, at: &Source, rule: Option<&str>, message: String) {
        self.problems.push(Problem {
            severity,
            at: at.clone(),
            rule: rule.map(Arc::from),
            message,
        });
    }

    fn finish(mut self) -> Config {
        let loose_scores = self.drafts.loose_scores();
        let rules = self.drafts.finish(&self.settings, &self.environment, &mut self.problems);
        Config {
            rules,
            loose_scores,
            settings: self.settings,
            problems: self.problems,
            plugins: self.environment.plugins.into_iter().collect(),
            files: self.files,
            sources: self.sources,
        }
    }
}

/// The first word and the rest, white space between them removed.
fn split_word(text: &str) -> (&str, &str) {
    match text.split_once(|c: char| matches!(c, ' ' | '\t'..='\r')) {
        Some((word, rest)) => (word, rest.trim_start_matches(|c| matches!(c, ' ' | '\t'..='\r'))),
        None => (text, ""),
    }
}

/// Definitions by rule name.
type ByRule<T> = BTreeMap<String, T>;
