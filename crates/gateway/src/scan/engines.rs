//! The malware engines of the settings, ready for queries.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use gauntlet_content::engines::clamd::{Clamd, Transfer};
use gauntlet_content::engines::command::{CommandEngine, CommandMeaning, Launcher};
use gauntlet_content::engines::connection::EngineAddress;
use gauntlet_content::engines::hash_list::HashList;
use gauntlet_content::engines::icap::Icap;
use gauntlet_content::engines::yara::Yara;
use gauntlet_content::engines::{
    Breaker, Cache, Engine, EngineOptions, EngineSet, Member, NamePatterns,
};

use crate::config::{
    Config, ContentSettings, EngineInput, EngineKind, EngineSettings, EngineTransfer,
};

/// Faults of one engine's rules or list that are told one by one.
const FAULTS_NAMED_MAX: usize = 20;

/// What outlives a reload of the settings: the answers that were given, and the process that starts
/// commands.
#[derive(Debug, Default)]
pub struct EngineHost {
    cache: OnceLock<Arc<Cache>>,
    /// With the commands that it may start.
    launcher: Option<(Arc<Launcher>, Vec<Vec<String>>)>,
}

/// The commands of the settings: what a launcher is started with.
pub fn commands(config: &Config) -> Vec<Vec<String>> {
    let commands = config.engine.iter().filter(|e| e.kind == EngineKind::Command);
    let all: BTreeSet<Vec<String>> = commands.map(|e| e.command.clone()).collect();
    all.into_iter().collect()
}

impl EngineHost {
    /// With a process that may start these commands.
    pub fn new(launcher: Option<(Arc<Launcher>, Vec<Vec<String>>)>) -> Self {
        EngineHost { cache: OnceLock::new(), launcher }
    }

    /// Watches for the end of the process that starts commands, if there is one:
    /// [`Launcher::watch`].
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn watch(&self, told: impl FnOnce(u32, String) + Send + 'static) -> std::io::Result<()> {
        self.launcher.as_ref().map_or(Ok(()), |(launcher, _)| launcher.watch(told))
    }

    /// The engines of these settings. Rules and lists are read; what is wrong in them is logged,
    /// and the rest is used. Nothing is sent over the network yet.
    ///
    /// # Errors
    /// If a file cannot be read, or a command was not in the settings at the start.
    pub fn engines(
        &self,
        engines: &[EngineSettings],
        content: &ContentSettings,
    ) -> anyhow::Result<EngineSet> {
        let (engines, faults) = self.engines_and_faults(engines, content)?;
        faults.iter().for_each(|fault| tracing::warn!("{fault}"));
        Ok(engines)
    }

    /// The same, with what is wrong in their rules and lists instead of lines in the log.
    ///
    /// # Errors
    /// As [`EngineHost::engines`].
    pub fn engines_and_faults(
        &self,
        engines: &[EngineSettings],
        content: &ContentSettings,
    ) -> anyhow::Result<(EngineSet, Vec<String>)> {
        let age_max = Duration::from_secs(content.engine_cache_seconds);
        let cache = || Arc::new(Cache::new(content.engine_cache_entries_max, age_max));
        let cache = self.cache.get_or_init(cache).clone();
        let (mut members, mut faults) = (Vec::new(), Vec::new());
        for engine in engines {
            let of_engine = |text: String| format!("engine {:?}: {text}", engine.name);
            let (built, wrong) =
                self.member(engine).with_context(|| format!("engine {:?}", engine.name))?;
            members.extend(built);
            faults.extend(wrong.into_iter().map(of_engine));
        }
        Ok((EngineSet::new(members, cache, content.engine_bytes_max), faults))
    }

    /// An engine of the settings: one member, or one for each list. And what is wrong in its files.
    fn member(&self, engine: &EngineSettings) -> anyhow::Result<(Vec<Member>, Vec<String>)> {
        let mut faults = Vec::new();
        let built: Vec<Box<dyn Engine>> = match engine.kind {
            EngineKind::Clamd => {
                let transfer = match engine.transfer {
                    EngineTransfer::Auto => Transfer::Auto,
                    EngineTransfer::Stream => Transfer::Stream,
                };
                let address = engine.address.parse::<EngineAddress>()?;
                vec![Box::new(Clamd::new(address, engine.connections_max, transfer))]
            }
            EngineKind::Icap => {
                let address = engine.address.parse::<EngineAddress>()?;
                vec![Box::new(Icap::new(address, &engine.service, engine.connections_max))]
            }
            EngineKind::Command => vec![Box::new(self.command(engine)?)],
            EngineKind::Yara => vec![Box::new(yara(engine, &mut faults)?)],
            EngineKind::HashList => {
                let paths = engine.paths.iter();
                let lists = paths.map(|path| hash_list(engine, path, &mut faults));
                lists.collect::<anyhow::Result<_>>()?
            }
        };
        let member = |engine_itself| Member {
            name: engine.name.clone(),
            engine: engine_itself,
            options: options(engine),
            breaker: Breaker::new(engine.failures_max, Duration::from_secs(engine.pause_seconds)),
            statistics: Arc::default(),
        };
        Ok((built.into_iter().map(member).collect(), faults))
    }

    fn command(&self, engine: &EngineSettings) -> anyhow::Result<CommandEngine> {
        let known = self.launcher.as_ref().and_then(|(launcher, commands)| {
            let number = commands.iter().position(|c| *c == engine.command)?;
            Some((launcher.clone(), number))
        });
        let (launcher, number) = known.context(
            "a command that was not in the settings when the node started cannot be started; \
             restart the node",
        )?;
        let pattern = match engine.name_pattern.as_str() {
            "" => None,
            pattern => Some(regex::Regex::new(pattern).context("name_pattern")?),
        };
        let meaning = CommandMeaning {
            clean_codes: engine.clean_codes.clone(),
            infected_codes: engine.infected_codes.clone(),
            name_pattern: pattern,
        };
        Ok(CommandEngine::new(launcher, number, engine.command.clone(), meaning))
    }
}

fn options(engine: &EngineSettings) -> EngineOptions {
    EngineOptions {
        messages: engine.looks_at(EngineInput::Message),
        objects: engine.looks_at(EngineInput::Objects),
        bytes_max: engine.bytes_max,
        time_max: Duration::from_secs(engine.seconds_max.max(1)),
        on_failure: engine.on_failure,
        ignore: NamePatterns::new(&engine.ignore),
        suspicious: NamePatterns::new(&engine.suspicious),
    }
}

fn yara(engine: &EngineSettings, faults: &mut Vec<String>) -> anyhow::Result<Yara> {
    let (yara, report) = Yara::load(&engine.paths)?;
    let left_out = |problem| format!("YARA: {problem}; this rule is left out");
    faults.extend(report.problems.iter().take(FAULTS_NAMED_MAX).map(left_out));
    let more = report.problems_all.saturating_sub(FAULTS_NAMED_MAX);
    faults.extend((more > 0).then(|| format!("YARA: {more} more faults")));
    let (files, rules, problems) = (report.files, report.rules, report.problems_all);
    tracing::info!(engine = engine.name, files, rules, problems, "YARA rules loaded");
    Ok(yara)
}

fn hash_list(
    engine: &EngineSettings,
    path: &Path,
    faults: &mut Vec<String>,
) -> anyhow::Result<Box<dyn Engine>> {
    let (list, report) = HashList::load(path).with_context(|| path.display().to_string())?;
    faults.extend(
        report.problems.iter().map(|(line, why)| format!("{}:{line}: {why}", path.display())),
    );
    let (hashes, skipped) = (report.hashes, report.lines_skipped);
    tracing::info!(engine = engine.name, path = %path.display(), hashes, skipped, "hashes loaded");
    Ok(Box::new(list))
}
