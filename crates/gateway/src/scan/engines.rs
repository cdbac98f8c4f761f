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

/// Problems of one engine's rules or list that are logged.
const PROBLEMS_LOGGED_MAX: usize = 20;

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
        let age_max = Duration::from_secs(content.engine_cache_seconds);
        let cache = || Arc::new(Cache::new(content.engine_cache_entries_max, age_max));
        let cache = self.cache.get_or_init(cache).clone();
        let members = engines
            .iter()
            .map(|engine| self.member(engine).with_context(|| format!("engine {:?}", engine.name)));
        let members: anyhow::Result<Vec<Vec<Member>>> = members.collect();
        let members = members?.into_iter().flatten().collect();
        Ok(EngineSet::new(members, cache, content.engine_bytes_max))
    }

    /// An engine of the settings: one member, or one for each list.
    fn member(&self, engine: &EngineSettings) -> anyhow::Result<Vec<Member>> {
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
            EngineKind::Yara => vec![Box::new(yara(engine)?)],
            EngineKind::HashList => {
                let lists = engine.paths.iter().map(|path| hash_list(engine, path));
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
        Ok(built.into_iter().map(member).collect())
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

fn yara(engine: &EngineSettings) -> anyhow::Result<Yara> {
    let (yara, report) = Yara::load(&engine.paths)?;
    for problem in report.problems.iter().take(PROBLEMS_LOGGED_MAX) {
        tracing::warn!(engine = engine.name, "YARA: {problem}; this rule is left out");
    }
    let (files, rules, problems) = (report.files, report.rules, report.problems_all);
    tracing::info!(engine = engine.name, files, rules, problems, "YARA rules loaded");
    Ok(yara)
}

fn hash_list(engine: &EngineSettings, path: &Path) -> anyhow::Result<Box<dyn Engine>> {
    let (list, report) = HashList::load(path).with_context(|| path.display().to_string())?;
    for (line, why) in &report.problems {
        tracing::warn!(engine = engine.name, "{}:{line}: {why}", path.display());
    }
    let (hashes, skipped) = (report.hashes, report.lines_skipped);
    tracing::info!(engine = engine.name, path = %path.display(), hashes, skipped, "hashes loaded");
    Ok(Box::new(list))
}
