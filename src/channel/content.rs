//! What a version of a channel means to this program: files compiled, ready to be judged with.
//!
//! | Folder | Becomes |
//! |---|---|
//! | `rules/*.cf` | our own rules: instead of the shipped file of that name, or beside it |
//! | `spamassassin/` | rules in SpamAssassin's language, read after `rules.paths` |
//! | `model/NAME.model` | the classifier's model, unless `learning.model` names one |
//! | `signatures/*` | known mail; tables are looked up in place |
//! | `urls/MEANING/NAME` | a list of URLs: `phishing`, `spam`, `none`, `allow` |
//! | `order/*` | how often rules hit: what `rules.early_stop` tries first |
//! | `phrases/*` | weighted phrases, read after `proxy.content.phrases` |
//! | `yara/*.yar`, `hashes/*` | engines for the files of mail, beside `[[engine]]` |
//!
//! What else a version has is kept and passed on, and nothing reads it; `publish` refuses it.
//!
//! What did not change since a version that is in force already is not read again but shared
//! ([`Known`]): a small file of signatures beside a table of a gigabyte costs what the small file
//! costs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_channel::bundle::Kind;
use gauntlet_channel::generations::Manifest;
use gauntlet_channel::hex::sha256_of_file;
use gauntlet_engine::classifier::Model;
use gauntlet_engine::own_rules::{self, Text};
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::{MailUrlLists, Settings, UrlListMeaning};
use gauntlet_gateway::config::{EngineKind, EngineSettings};
use gauntlet_learning::signatures;
use gauntlet_rules::{HitRates, LoadOptions};
use gauntlet_spamassassin::Ruleset;
use gauntlet_urlfilter::sources::Source;
use gauntlet_urlfilter::{Role, UrlList, compile};

use super::files;

/// Bytes of a file of rules.
const RULES_BYTES_MAX: u64 = 32 << 20;
/// Bytes of a model.
const MODEL_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a file of hit rates.
const ORDER_BYTES_MAX: u64 = gauntlet_rules::hit_rates::BYTES_MAX as u64;
/// Bytes of a file of signatures that is no table, and is read into memory.
const ENTRIES_BYTES_MAX: u64 = 64 << 20;
/// Days that published signatures are believed, as those of the site are.
const SIGNATURE_DAYS: u16 = gauntlet_engine::signatures::known::DAYS_DEFAULT;

/// A version of a channel.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// The channel's name.
    pub(crate) channel: String,
    /// Its version.
    pub(crate) version: u64,
    own_rules: Vec<Text>,
    spamassassin: Vec<PathBuf>,
    model: Option<Arc<Model>>,
    /// By name and hash.
    signatures: Vec<(String, Arc<KnownSignatures>)>,
    url_lists: Vec<(Arc<UrlList>, UrlListMeaning)>,
    rates: HitRates,
    phrases: Vec<PathBuf>,
    yara: Vec<PathBuf>,
    hashes: Vec<PathBuf>,
    /// What its lists of URLs are called, by file.
    url_names: BTreeMap<String, String>,
    /// Kind, name and hash of each file: what is another in the next version.
    files: BTreeSet<(Kind, String)>,
}

/// What is known of a version before its files are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'k> {
    /// Hashes of files that were verified when they were written; without it they are computed.
    pub(crate) manifest: Option<&'k Manifest>,
    /// A version that was read and tested: what is the same in it is taken from there.
    pub(crate) before: Option<&'k Content>,
}

impl Known<'_> {
    fn hash(&self, name: &str, path: &Path) -> anyhow::Result<String> {
        match self.manifest.and_then(|manifest| manifest.files.get(name)) {
            Some(held) => Ok(held.sha256.clone()),
            None => Ok(sha256_of_file(path)?.1),
        }
    }
}

impl Content {
    /// Reads and compiles the files of a version. What is compiled from them goes below `derived`.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub(crate) fn load(
        channel: &str,
        version: u64,
        (folder, derived): (&Path, &Path),
        known: Known<'_>,
    ) -> anyhow::Result<Arc<Self>> {
        let mut content = Content { channel: channel.to_owned(), version, ..Content::default() };
        let mut names = Vec::new();
        collect(folder, "", &mut names)?;
        names.sort();
        content.url_names = url_names(&names);
        let mut used = BTreeSet::new();
        for name in names {
            let Some(kind) = Kind::of(&name) else { continue };
            let path = folder.join(&name);
            let hash = known.hash(&name, &path)?;
            let file = (kind, format!("{name} {hash}"));
            let added = content.add(&file, &name, &path, (&hash, derived), (&mut used, known));
            added.with_context(|| name.clone())?;
            content.files.insert(file);
        }
        let changed = |kinds: &[Kind]| !known.before.is_some_and(|b| b.has_same(&content, kinds));
        if changed(&[Kind::Rules, Kind::SpamAssassin]) {
            content.read_rules()?;
        }
        if changed(&[Kind::Phrases, Kind::Yara, Kind::Hashes]) {
            files::check(&content.phrases, &content.yara, &content.hashes)?;
        }
        remove_others(derived, &used);
        Ok(Arc::new(content))
    }

    fn add(
        &mut self,
        file: &(Kind, String),
        name: &str,
        path: &Path,
        (hash, derived): (&str, &Path),
        (used, known): (&mut BTreeSet<PathBuf>, Known<'_>),
    ) -> anyhow::Result<()> {
        let before = known.before.filter(|before| before.files.contains(file));
        match file.0 {
            Kind::Rules => {
                let text = String::from_utf8_lossy(&read(path, RULES_BYTES_MAX)?).into_owned();
                self.own_rules.push((Cow::Owned(name.to_owned()), Cow::Owned(text)));
            }
            Kind::SpamAssassin => {
                within(path, RULES_BYTES_MAX)?;
                self.spamassassin.push(path.to_owned());
            }
            Kind::Model if self.model.is_some() => bail!("a version has one model"),
            Kind::Model => {
                self.model = match before.and_then(|before| before.model.clone()) {
                    Some(same) => Some(same),
                    None => Some(Arc::new(Model::from_bytes(&read(path, MODEL_BYTES_MAX)?)?)),
                };
            }
            Kind::Signatures => {
                let same = before.and_then(|b| b.signatures.iter().find(|s| s.0 == file.1));
                let known = match same {
                    Some((_, same)) => same.clone(),
                    None => Arc::new(known_mail(path)?),
                };
                self.signatures.push((file.1.clone(), known));
            }
            Kind::Urls => {
                let list = self.url_list(name, path, &derived.join(format!("{hash}.urls")))?;
                used.insert(derived.join(format!("{hash}.urls")));
                self.url_lists.push(list);
            }
            Kind::Order => {
                let text = String::from_utf8_lossy(&read(path, ORDER_BYTES_MAX)?).into_owned();
                self.rates.merge(&HitRates::parse(&text)?);
            }
            Kind::Phrases => self.phrases.push(path.to_owned()),
            Kind::Yara => self.yara.push(path.to_owned()),
            Kind::Hashes => self.hashes.push(path.to_owned()),
            Kind::Policy => {}
        }
        Ok(())
    }

    /// Opens a list that is compiled, or compiles it, once for each content of the file.
    fn url_list(
        &self,
        name: &str,
        path: &Path,
        compiled: &Path,
    ) -> anyhow::Result<(Arc<UrlList>, UrlListMeaning)> {
        let mut parts = name.split('/').skip(1);
        let (meaning, role) = match parts.next() {
            Some("phishing") => (UrlListMeaning::Phishing, Role::Match),
            Some("spam") => (UrlListMeaning::Spam, Role::Match),
            Some("none") => (UrlListMeaning::None, Role::Match),
            Some("allow") => (UrlListMeaning::None, Role::Allow),
            _ => bail!("a list lies in urls/phishing, urls/spam, urls/none or urls/allow"),
        };
        let known = self.url_names.get(name).map_or("", String::as_str);
        let called = format!("{}/{known}", self.channel);
        if UrlList::is_compiled(path) {
            return Ok((Arc::new(UrlList::open(path, &called, role)?), meaning));
        }
        if let Ok(list) = UrlList::open(compiled, &called, role) {
            return Ok((Arc::new(list), meaning));
        }
        if let Some(folder) = compiled.parent() {
            gauntlet_store::files::create_folder(folder)?;
        }
        let category = name.split('/').nth(1).unwrap_or_default().to_owned();
        compile(&[Source { path: path.to_owned(), format: None, category }], compiled)?;
        Ok((Arc::new(UrlList::open(compiled, &called, role)?), meaning))
    }

    /// Compiles the rules by themselves: a fault in one of them is a fault of the version.
    fn read_rules(&self) -> anyhow::Result<()> {
        if !self.own_rules.is_empty() {
            let options = LoadOptions { strict: true, ..LoadOptions::default() };
            own_rules::with(&[], &self.own_rules, &options)?;
        }
        if !self.spamassassin.is_empty() {
            let (ruleset, _) = Ruleset::load(&self.spamassassin, &LoadOptions::default())?;
            if ruleset.rules().is_empty() {
                bail!("spamassassin/: no rule in {} files", self.spamassassin.len());
            }
        }
        Ok(())
    }

    /// Whether the files of these kinds are the same in this version.
    pub(crate) fn has_same(&self, other: &Content, kinds: &[Kind]) -> bool {
        !self.files.symmetric_difference(&other.files).any(|(kind, _)| kinds.contains(kind))
    }

    /// Whether nothing is another than in this version but files of these kinds.
    pub(crate) fn differs_only_in(&self, other: &Content, kinds: &[Kind]) -> bool {
        self.files.symmetric_difference(&other.files).all(|(kind, _)| kinds.contains(kind))
    }
}

/// All channels in force, and what the node itself counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// In the order of the configuration: later ones count more.
    pub(crate) all: Vec<Arc<Content>>,
    /// How often rules hit on this node of late.
    pub(crate) own_rates: Arc<HitRates>,
}

/// Messages of the last day from which the node's own hits say in which order rules decide.
const OWN_MESSAGES_MIN: u64 = 500;

impl Contents {
    /// Files of rules that stand in place of shipped ones, or beside them.
    pub(crate) fn own_rules(&self) -> Vec<Text> {
        let mut all: Vec<Text> = Vec::new();
        for text in self.all.iter().flat_map(|content| &content.own_rules) {
            match all.iter_mut().find(|(name, _)| *name == text.0) {
                Some(same) => same.1 = text.1.clone(),
                None => all.push(text.clone()),
            }
        }
        all
    }

    /// Rules in SpamAssassin's language.
    pub(crate) fn spamassassin(&self) -> impl Iterator<Item = PathBuf> {
        self.all.iter().flat_map(|content| content.spamassassin.iter().cloned())
    }

    /// Known mail.
    pub(crate) fn signatures(&self) -> Vec<Arc<KnownSignatures>> {
        let all = self.all.iter().flat_map(|content| &content.signatures);
        all.map(|(_, known)| known.clone()).collect()
    }

    /// How often rules hit of late: on this node, or where it has seen little, as channels say.
    pub(crate) fn hit_rates(&self) -> HitRates {
        if self.own_rates.messages() >= OWN_MESSAGES_MIN {
            return HitRates::clone(&self.own_rates);
        }
        let mut rates = HitRates::default();
        self.all.iter().for_each(|content| rates.merge(&content.rates));
        rates
    }

    /// Lists of weighted phrases, for the web path.
    pub(crate) fn phrases(&self) -> Vec<PathBuf> {
        self.all.iter().flat_map(|content| content.phrases.iter().cloned()).collect()
    }

    /// Engines that look at the files of mail.
    pub(crate) fn engines(&self) -> Vec<EngineSettings> {
        let of = |content: &Arc<Content>| {
            let named = |what: &str| format!("{}/{what}", content.channel);
            let yara = yara_engine(&content.channel);
            let yara = EngineSettings::of_files(yara, EngineKind::Yara, &content.yara);
            let hashes =
                EngineSettings::of_files(named("hashes"), EngineKind::HashList, &content.hashes);
            [yara, hashes].into_iter().filter(|engine| !engine.paths.is_empty()).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of).collect()
    }

    /// Adds model and lists to what the configuration has.
    pub(crate) fn add_to(&self, settings: &mut Settings) {
        if settings.model.is_none() {
            settings.model = self.all.iter().rev().find_map(|content| content.model.clone());
        }
        let MailUrlLists { lists, meanings } = &mut settings.url_lists;
        for (list, meaning) in self.all.iter().flat_map(|content| &content.url_lists) {
            meanings.insert(list.name().to_owned(), *meaning);
            *lists = lists.with(list.clone());
        }
    }

    /// The same with another version of a channel; its place is that of the name in `order`.
    pub(crate) fn with(&self, content: Arc<Content>, order: &[String]) -> Contents {
        let mut all = self.without(&content.channel).all;
        let place = |channel: &str| order.iter().position(|name| name == channel);
        let at = all.partition_point(|other| place(&other.channel) < place(&content.channel));
        all.insert(at, content);
        Contents { all, ..self.clone() }
    }

    /// The same without a channel.
    pub(crate) fn without(&self, channel: &str) -> Contents {
        let stays = |content: &&Arc<Content>| content.channel != channel;
        Contents { all: self.all.iter().filter(stays).cloned().collect(), ..self.clone() }
    }

    /// The version of a channel.
    pub(crate) fn get(&self, channel: &str) -> Option<&Arc<Content>> {
        self.all.iter().find(|content| content.channel == channel)
    }
}

/// What lists of URLs are called: the file without its ending; behind the meaning, where two
/// meanings have a list of this name.
fn url_names(files: &[String]) -> BTreeMap<String, String> {
    let lists = files.iter().filter_map(|file| {
        let (meaning, rest) = file.strip_prefix("urls/")?.split_once('/')?;
        Some((file, meaning, rest.split('.').next().unwrap_or_default()))
    });
    let is_single = |name: &str| lists.clone().filter(|list| list.2 == name).count() == 1;
    let called = lists.clone().map(|(file, meaning, name)| match is_single(name) {
        true => (file.clone(), name.to_owned()),
        false => (file.clone(), format!("{meaning}/{name}")),
    });
    called.collect()
}

/// What the engine of a channel's YARA rules is called.
pub(super) fn yara_engine(channel: &str) -> String {
    format!("{channel}/yara")
}

/// A file of known mail.
fn known_mail(path: &Path) -> anyhow::Result<KnownSignatures> {
    let (table, entries) = signatures::open_file(path)?;
    if table.is_none() {
        within(path, ENTRIES_BYTES_MAX)?;
    }
    Ok(KnownSignatures::new(table, &entries, &[], SIGNATURE_DAYS))
}

fn collect(folder: &Path, prefix: &str, names: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => collect(&entry.path(), &format!("{name}/"), names)?,
            false => names.push(name),
        }
    }
    Ok(())
}

fn within(path: &Path, bytes_max: u64) -> anyhow::Result<()> {
    let bytes = fs::metadata(path)?.len();
    anyhow::ensure!(bytes <= bytes_max, "{bytes} bytes, at most {bytes_max}");
    Ok(())
}

fn read(path: &Path, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    within(path, bytes_max)?;
    Ok(fs::read(path)?)
}

/// Removes what was compiled for earlier versions. Those who have it open keep it.
fn remove_others(folder: &Path, used: &BTreeSet<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|e| e == "urls") && !used.contains(&path) {
            // It is made again where it is missing, and costs room where it stays.
            let _left = fs::remove_file(&path);
        }
    }
}
