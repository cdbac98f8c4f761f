//! What a node judges with: rules, model and lists of the program, of the configuration and of
//! channels; the policy; what opens files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_engine::classifier::Model;
use gauntlet_engine::{Settings, Snapshot, own_rules};
use gauntlet_gateway::Judge;
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::config::{Config, EngineKind, RuleSettings};
use gauntlet_gateway::node::files::FileProblems;
use gauntlet_gateway::scan::data_loss::DataLossPrevention;
use gauntlet_gateway::scan::engines::EngineHost;
use gauntlet_gateway::scan::probes::Probes;
use gauntlet_gateway::scan::shadow::Shadow;
use gauntlet_gateway::scan::unpacking::Unpacking;
use gauntlet_inputs::rules::without_rules;
use gauntlet_rules::{LoadOptions, LoadReport, Problem, Profile, Severity, Source};
use gauntlet_spamassassin::Ruleset;
use gauntlet_store::Users;
use gauntlet_verdict::Thresholds;

use crate::channel::content::Contents;
use crate::content_process::Processes;
use crate::learning;
use crate::url_lists::OpenLists;

/// Scores of unknown rules that are taken for slips of the pen.
const SLIPS_MAX: usize = 5;
/// Faults of rule files that are named one by one.
const FAULTS_NAMED_MAX: usize = 20;

/// Loads rules, lists and policy.
pub(crate) fn judge_of(
    config: &Config,
    users: &Users,
    (processes, lists): (&Processes, &OpenLists),
    (channels, shadow): (&Contents, &Shadow),
) -> anyhow::Result<Judge> {
    let mut settings = settings_of(config, lists)?;
    add_listed_senders(users, &mut settings)?;
    channels.add_to(&mut settings);
    let snapshot = snapshot_of(config, settings, channels, &mut log_loaded)?;
    let policy = policy_source::load_at_start(config, users)?;
    let probes = Probes::of(config)?;
    let unpacking = unpacking_of(config, processes, channels)?;
    let data_loss = DataLossPrevention::load(&config.dlp, unpacking.as_deref())?;
    for what in data_loss.never_found(&policy) {
        tracing::warn!("policy: {what}");
    }
    let (scans, limits, data_loss) = (config.scan.enabled, config.limits, Arc::new(data_loss));
    let shadow = shadow.clone();
    Ok(Judge { snapshot, policy, limits, probes, scans, unpacking, data_loss, shadow })
}

/// What a node of this configuration judges by, without what channels bring: for commands beside
/// it.
///
/// # Errors
/// If rules, lists, model or what the node keeps in its data folder cannot be read.
pub(crate) fn of_node(config: &Config) -> anyhow::Result<Snapshot> {
    let mut settings = settings_of(config, &OpenLists::default())?;
    let console = config.node.data.join("console");
    if console.is_dir() {
        add_listed_senders(&Users::open(&console)?, &mut settings)?;
    }
    snapshot_of(config, settings, &Contents::default(), &mut |_, _| {})
}

/// What the configuration itself says of rules, model and lists.
fn settings_of(config: &Config, lists: &OpenLists) -> anyhow::Result<Settings> {
    Ok(Settings {
        thresholds: Thresholds::from(&config.thresholds),
        allow: config.lists.allow.clone(),
        block: config.lists.block.clone(),
        url_lists: lists.open(&config.url_list)?,
        model: model_of(config)?,
        ..Settings::default()
    })
}

/// What is wrong with the files that a configuration names for what judges, by the functions that
/// read them at a start. Starts no process and writes nothing.
pub(crate) fn file_problems(config: &Config) -> FileProblems {
    let mut warnings = Vec::new();
    let mut judging = || {
        let settings = settings_of(config, &OpenLists::default())?;
        let mut faults =
            |_: &gauntlet_rules::Ruleset, report: &LoadReport| warnings.extend(faults_of(report));
        snapshot_of(config, settings, &Contents::default(), &mut faults).map(drop)
    };
    let judging = judging();
    let engines = || {
        // A command is only known to the process that starts it.
        let mut engines = config.engine.clone();
        engines.retain(|engine| engine.kind != EngineKind::Command);
        if !(config.content.enabled && config.scan.enabled) {
            return Ok(Vec::new());
        }
        let built = EngineHost::default().engines_and_faults(&engines, &config.content);
        built.map(|(_, faults)| faults)
    };
    let engines = engines().map(|faults| warnings.extend(faults));
    let dictionaries = || Ok(DataLossPrevention::names_of(&config.dlp).map(drop)?);
    let all = [judging, engines, dictionaries()];
    FileProblems { errors: all.into_iter().filter_map(Result::err).collect(), warnings }
}

/// Rules, model, lists and what was learned, of configuration and channels. Says what was loaded,
/// and its faults.
fn snapshot_of(
    config: &Config,
    mut settings: Settings,
    channels: &Contents,
    loaded: &mut dyn FnMut(&gauntlet_rules::Ruleset, &LoadReport),
) -> anyhow::Result<Snapshot> {
    let RuleSettings { paths, own, strict, network, early_stop, order_by_hits } = &config.rules;
    let profile = if *network { Profile::Full } else { Profile::Local };
    let options = LoadOptions { strict: *strict, profile, ..LoadOptions::default() };
    let alone = !own && !paths.is_empty();
    if *early_stop && !alone {
        bail!(
            "rules.early_stop needs rules.own = false and rules.paths: beside filters and classifier \
             any rule may change the class"
        );
    }
    let sources: Vec<PathBuf> = paths.iter().cloned().chain(channels.spamassassin()).collect();
    if alone {
        let (mut ruleset, report) = Ruleset::load(&sources, &options)?;
        if *early_stop {
            if *order_by_hits {
                ruleset = ruleset.ordered_by(&channels.hit_rates());
            }
            ruleset = Snapshot::stopping_early(ruleset, &settings.thresholds);
        }
        if ruleset.rules().is_empty() {
            return Err(without_rules(paths).context("rules.paths"));
        }
        loaded(&ruleset, &report);
        let mut snapshot = Snapshot::of_rules(Arc::new(ruleset));
        snapshot.thresholds = settings.thresholds;
        snapshot.url_lists = settings.url_lists.lists;
        return Ok(snapshot);
    }
    let texts = channels.own_rules();
    if !sources.is_empty() || !texts.is_empty() {
        let (own, mut own_report) = own_rules::with(&sources, &texts, &options)?;
        settings.scores = scores_of_filters(&mut own_report);
        loaded(&own, &own_report);
        if !sources.is_empty() {
            let (ruleset, mut report) = Ruleset::load(&sources, &options)?;
            // Scores for our own rules in these files are no error: the own rules were loaded with
            // them.
            let is_own = |name: &str| own.rules().iter().any(|rule| *rule.name == *name);
            report.problems.retain(|p| !p.rule.as_deref().is_some_and(is_own));
            loaded(&ruleset, &report);
            settings.rules = Some(ruleset.into());
        }
        settings.own_rules = Some(own.into());
    }
    Ok(Snapshot::build(&settings)?
        .with_learned(learning::load(&config.node.data, config.learning.signature_days)?)
        .with_published(channels.signatures()))
}

/// Scores that rule files have for rules of the filters. A few for rules that there are nowhere are
/// slips of the pen, and become a warning; many are those of a rule set for plugins that it lacks.
fn scores_of_filters(report: &mut LoadReport) -> BTreeMap<String, f64> {
    let loose = std::mem::take(&mut report.loose_scores);
    if loose.is_empty() {
        return loose;
    }
    let filters = Snapshot::default_rules();
    let is_known = |name: &str| filters.registry.rules().iter().any(|rule| *rule.name == *name);
    let (known, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
        loose.into_iter().partition(|(name, _)| is_known(name));
    if (1..=SLIPS_MAX).contains(&unknown.len()) {
        for name in unknown.keys() {
            report.problems.push(Problem {
                severity: Severity::Warning,
                at: Source::default(),
                rule: Some(name.as_str().into()),
                message: "has a score, but there is no rule of this name".to_owned(),
            });
        }
    }
    known
}

/// What opens files and asks engines about them.
fn unpacking_of(
    config: &Config,
    processes: &Processes,
    channels: &Contents,
) -> anyhow::Result<Option<Arc<Unpacking>>> {
    let Some(pool) = processes.pool.as_ref().filter(|_| config.content.enabled) else {
        return Ok(None);
    };
    let all = [config.engine.clone(), channels.engines()].concat();
    let engines = processes.engines.engines(&all, &config.content)?;
    let unpacking = Unpacking::new(&config.content, pool.clone(), Arc::new(engines));
    Ok(Some(Arc::new(unpacking)))
}

/// The faults of rule files, one by one, and how many more there are.
fn faults_of(report: &LoadReport) -> Vec<String> {
    let faults = report.problems.iter().filter(|p| p.severity > Severity::Note);
    let named = faults.clone().take(FAULTS_NAMED_MAX).map(|fault| format!("rules: {fault}"));
    let more = faults.count().saturating_sub(FAULTS_NAMED_MAX);
    let more = (more > 0).then(|| format!("rules: {more} more faults: see gauntlet rules check"));
    named.chain(more).collect()
}

/// Logs what was loaded, and its faults.
fn log_loaded(ruleset: &gauntlet_rules::Ruleset, report: &LoadReport) {
    for fault in faults_of(report) {
        tracing::warn!("{fault}");
    }
    let problems = report.problems.iter().filter(|p| p.severity > Severity::Note).count();
    let (rules, files) = (ruleset.rules().len(), report.files.len());
    tracing::info!(rules, files, problems, version = ruleset.version(), "rules loaded");
}

/// The model that the configuration names, if it names one.
fn model_of(config: &Config) -> anyhow::Result<Option<Arc<Model>>> {
    let path = &config.learning.model;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bytes =
        std::fs::read(path).with_context(|| format!("learning.model {}", path.display()))?;
    let model = Model::from_bytes(&bytes);
    Ok(Some(Arc::new(model.with_context(|| format!("learning.model {}", path.display()))?)))
}

/// Adds the senders that were allowed or blocked in the console.
fn add_listed_senders(users: &Users, settings: &mut Settings) -> anyhow::Result<()> {
    for sender in users.listed_senders()? {
        let list = if sender.allow { &mut settings.allow } else { &mut settings.block };
        list.push(sender.entry);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_files_set_the_points_of_filters_rules_and_the_nodes_lists_count() {
        let folder = tempfile::tempdir().unwrap();
        let rules = folder.path().join("own.cf");
        std::fs::write(&rules, "score DATE_PAST 0\nscore HTML_ONLY 1.5\nscore DATE_PASD 0\n")
            .unwrap();
        let mut config = Config::default();
        config.rules.paths = vec![rules];
        config.node.data = folder.path().join("data");
        std::fs::create_dir_all(config.node.data.join("console")).unwrap();
        let users = Users::open(&config.node.data.join("console")).unwrap();
        users.list_sender("bad.example", false, "admin", 1).unwrap();
        let snapshot = of_node(&config).unwrap();
        let rule = |name: &str| {
            let rules = snapshot.registry.rules();
            rules.iter().find(|rule| &*rule.name == name).unwrap().clone()
        };
        assert!(!rule("DATE_PAST").enabled);
        assert_eq!(rule("HTML_ONLY").score, 1.5);
        let envelope =
            gauntlet_mail::Envelope { mail_from: "a@bad.example".into(), ..Default::default() };
        let message = gauntlet_mail::Message::parse(b"Subject: a\r\n\r\nb\r\n");
        let verdict = gauntlet_engine::scan(
            &message,
            &envelope,
            &Default::default(),
            &snapshot,
            &mut Default::default(),
        );
        assert!(verdict.hits.iter().any(|hit| &*hit.rule == "BLOCK_SENDER"), "{verdict:?}");
        let problems = file_problems(&config);
        assert!(problems.errors.is_empty(), "{:?}", problems.errors);
        let warnings = problems.warnings.join("\n");
        assert!(warnings.contains("DATE_PASD") && !warnings.contains("HTML_ONLY"), "{warnings}");
    }
}
