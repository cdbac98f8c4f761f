//! What packets carry, judged as mail and web are: the options, and what judges.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context;
use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_gateway::config::Config;
use gauntlet_gateway::scan::unpacking::{self, Unpacking, is_ambiguous};
use gauntlet_ids::pipeline::Wishes;
use gauntlet_inspection::{Inspector, JudgeMail, Kinds, MailLimits, Parts, Settings};
use gauntlet_mail::{Envelope, Facts, Limits, Message};
use gauntlet_phrases::PhraseSet;
use gauntlet_policy::{Groups, Policy};
use gauntlet_proxy::content::{ContentJudge, ScanDownload};
use gauntlet_proxy::policy_judge::PolicyJudge;
use gauntlet_proxy::settings::Settings as ProxySettings;
use gauntlet_urlfilter::UrlLists;
use gauntlet_verdict::{Class, Verdict};

use crate::ruleset::RulesetArgs;
use crate::web_content::DownloadScanner;
use crate::{content_process, dlp, phrases, url_lists, urls};

/// What can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Messages of SMTP, POP3 and IMAP
    Mail,
    /// Files of HTTP, FTP, SMB and others: unpacked, and given to the [[engine]]s
    Files,
    /// URLs of HTTP, names that TLS and DNS ask for: lists and the policy's web rules
    Urls,
    /// Weighted words on web pages
    Words,
}

/// Highest limit of points that the settings take.
const PHRASE_LIMIT_MAX: i64 = 1_000_000;

/// Options of what packets carry.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ScanArgs {
    /// Judge what packets carry as the mail and web paths would; several with commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND")]
    scan: Vec<Kind>,
    /// Judge by this node's configuration: thresholds, lists, [content], [[engine]]s, [proxy]
    #[arg(long, value_name = "FILE", requires = "scan")]
    scan_config: Option<PathBuf>,
    /// Block URLs and names that this list has: a file of `gauntlet urls compile`; may be repeated
    #[arg(long, value_name = "FILE", requires = "scan")]
    block: Vec<PathBuf>,
    /// Allow what this list has, whatever others say
    #[arg(long, value_name = "FILE", requires = "scan")]
    allow: Vec<PathBuf>,
    /// Decide by the web rules of this policy; without one, what is on a list is blocked
    #[arg(long, value_name = "FILE", requires = "scan")]
    policy: Option<PathBuf>,
    /// Judge pages by this list of weighted phrases; may be repeated
    #[arg(long, value_name = "FILE", requires = "scan")]
    phrases: Vec<PathBuf>,
    /// Block pages with more points than this
    #[arg(long, value_name = "N", requires = "phrases")]
    phrase_limit: Option<i64>,
    /// Inline: drop flows with a message or file of this class or a more severe one
    #[arg(long, value_name = "CLASS", requires = "scan")]
    drop_on: Option<Class>,
}

/// What judges, for any number of pipelines.
pub(crate) struct Judges {
    args: ScanArgs,
    settings: Settings,
    mail: Option<Arc<MailParts>>,
    web: Option<WebParts>,
    scanner: Option<Arc<dyn ScanDownload>>,
    mail_limits: Option<MailLimits>,
}

struct WebParts {
    judge: Arc<PolicyJudge>,
    content: Arc<ContentJudge>,
    policy: Arc<Mutex<Arc<Policy>>>,
    settings: Arc<ProxySettings>,
}

struct MailParts {
    /// Replaced whole.
    snapshot: Mutex<Arc<Snapshot>>,
    limits: Limits,
    config: Config,
    /// Started for the first message with files.
    unpacking: OnceLock<Result<Unpacking, String>>,
}

impl ScanArgs {
    /// URLs that this compiled list has, and nothing else.
    pub(crate) fn of_urls(list: &Path) -> Self {
        Self { scan: vec![Kind::Urls], block: vec![list.to_owned()], ..Self::none() }
    }

    /// Pages by this list of weighted phrases, however many points they get.
    pub(crate) fn of_words(list: &Path) -> Self {
        let (scan, phrases) = (vec![Kind::Words], vec![list.to_owned()]);
        Self { scan, phrases, phrase_limit: Some(PHRASE_LIMIT_MAX), ..Self::none() }
    }

    fn none() -> Self {
        Self {
            scan: Vec::new(),
            scan_config: None,
            block: Vec::new(),
            allow: Vec::new(),
            policy: None,
            phrases: Vec::new(),
            phrase_limit: None,
            drop_on: None,
        }
    }

    /// Whether anything is to be looked at.
    pub(super) fn is_used(&self) -> bool {
        !self.scan.is_empty()
    }

    fn kinds(&self) -> Kinds {
        let has = |kind| self.scan.contains(&kind);
        let (mail, files) = (has(Kind::Mail), has(Kind::Files));
        Kinds { mail, files, urls: has(Kind::Urls), words: has(Kind::Words) }
    }

    /// What judges; none if nothing is to be looked at.
    ///
    /// # Errors
    /// If a file cannot be read, or a process not be started.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Judges>> {
        if self.scan.is_empty() {
            return Ok(None);
        }
        let config = dlp::config_of(self.scan_config.as_deref())?;
        let kinds = self.kinds();
        let ips = &config.ips;
        let settings = Settings {
            kinds,
            drop_on: self.drop_on,
            message_bytes_max: ips.message_bytes_max,
            messages_held_bytes_max: ips.messages_held_bytes_max,
            file_bytes_max: ips.file_bytes_max,
            files_held_bytes_max: ips.files_held_bytes_max,
            files_max: ips.files_max,
        };
        let scanner = match kinds.files {
            true => Some(Arc::new(DownloadScanner::start(&config)?) as Arc<dyn ScanDownload>),
            false => None,
        };
        let web = match kinds.urls || kinds.words || kinds.files {
            true => Some(WebParts::open(self, &config, scanner.clone())?),
            false => None,
        };
        let mail = match kinds.mail {
            true => Some(Arc::new(MailParts::new(self.scan_config.as_deref(), config)?)),
            false => None,
        };
        let mail_limits = Inspector::mail_settings(&settings);
        let args = self.clone();
        Ok(Some(Judges { args, settings, mail, web, scanner, mail_limits }))
    }

    /// Lists of URLs, and weighted phrases.
    fn lists(&self, config: &Config) -> anyhow::Result<(UrlLists, Option<Arc<PhraseSet>>)> {
        let lists = match self.block.is_empty() && self.allow.is_empty() {
            true => url_lists::open_to_keep(&config.url_list)?.lists,
            false => urls::open_to_keep(&self.block, &self.allow)?,
        };
        let files = [config.proxy.content.phrases.as_slice(), &self.phrases].concat();
        let set = match self.kinds().words {
            true => phrases::open(&files)?,
            false => None,
        };
        Ok((lists, set))
    }
}

impl WebParts {
    fn open(
        args: &ScanArgs,
        config: &Config,
        scanner: Option<Arc<dyn ScanDownload>>,
    ) -> anyhow::Result<Self> {
        let mut settings = config.proxy.clone();
        let content = &mut settings.content;
        content.phrase_limit = args.phrase_limit.unwrap_or(content.phrase_limit);
        let (lists, set) = args.lists(config)?;
        settings.check().context("[proxy]")?;
        settings.check_held(set.is_some() || scanner.is_some()).context("[proxy]")?;
        let policy = Arc::new(Mutex::new(Arc::new(policy(args.policy.as_deref(), config)?)));
        let of_judge = Arc::clone(&policy);
        let in_force = Box::new(move || current(&of_judge) as Arc<dyn AsRef<Policy>>);
        let judge = Arc::new(PolicyJudge::new(in_force, lists));
        let content = ContentJudge::new(judge.clone(), settings.content.clone(), set, scanner);
        let (content, settings) = (Arc::new(content), Arc::new(settings));
        Ok(Self { judge, content, policy, settings })
    }
}

/// What is in force now.
fn current<T>(place: &Mutex<Arc<T>>) -> Arc<T> {
    Arc::clone(&place.lock().unwrap_or_else(PoisonError::into_inner))
}

fn replace<T>(place: &Mutex<Arc<T>>, new: T) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
}

/// That of a file; else that of the configuration, else the default.
fn policy(file: Option<&Path>, config: &Config) -> anyhow::Result<Policy> {
    let configured = Some(config.policy.path.as_path()).filter(|path| !path.as_os_str().is_empty());
    let Some(file) = file.or(configured) else {
        return Ok(Policy::default_policy(&Groups::default()));
    };
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("cannot read {}", file.display()))?;
    Policy::parse(&text, &Groups::default()).with_context(|| file.display().to_string())
}

impl Judges {
    /// What pipelines are to tell.
    pub(crate) fn wishes(&self) -> Wishes {
        Inspector::wishes_of(&self.settings)
    }

    /// Limits of messages; all pipelines share them.
    pub(crate) fn mail_limits(&self) -> Option<MailLimits> {
        self.mail_limits.clone()
    }

    /// Starts what must be started while the process may start programs.
    pub(crate) fn start(&self) {
        if let Some(mail) = &self.mail {
            // What went wrong is told with each message that needs it.
            let _ = mail.unpacking();
        }
    }

    /// Reads lists, phrases, policy, thresholds and rules anew; all of them or none.
    ///
    /// # Errors
    /// If one cannot be read; everything stays as it was.
    pub(crate) fn reload(&self) -> anyhow::Result<()> {
        let config = dlp::config_of(self.args.scan_config.as_deref())?;
        let web = match &self.web {
            Some(web) => {
                let policy = policy(self.args.policy.as_deref(), &config)?;
                Some((web, self.args.lists(&config)?, policy))
            }
            None => None,
        };
        if let Some(mail) = &self.mail {
            replace(&mail.snapshot, snapshot(self.args.scan_config.as_deref(), &config)?);
        }
        if let Some((web, (lists, set), policy)) = web {
            replace(&web.policy, policy);
            web.judge.replace_lists(lists);
            web.content.replace_phrases(set);
        }
        Ok(())
    }

    /// Looks at what one pipeline tells.
    ///
    /// # Errors
    /// If the system has no resources.
    pub(crate) fn inspector(&self, is_inline: bool) -> std::io::Result<Inspector> {
        let mail = self.mail.as_ref().map(|parts| {
            let scratch = Scratch::default();
            Box::new(MailJudge { parts: Arc::clone(parts), scratch }) as Box<dyn JudgeMail>
        });
        let web = self.web.as_ref();
        let web = web.map(|web| (web.content.clone() as _, web.settings.clone()));
        let parts = Parts { mail, web, scanner: self.scanner.clone() };
        Inspector::new(self.settings.clone(), parts, is_inline)
    }
}

/// Rules, model, thresholds and lists.
fn snapshot(file: Option<&Path>, config: &Config) -> anyhow::Result<Snapshot> {
    RulesetArgs::default().load_with(file.map(|_| config))
}

impl MailParts {
    fn new(file: Option<&Path>, config: Config) -> anyhow::Result<Self> {
        let snapshot = Mutex::new(Arc::new(snapshot(file, &config)?));
        Ok(Self { snapshot, limits: config.limits, config, unpacking: OnceLock::new() })
    }

    fn unpacking(&self) -> &Result<Unpacking, String> {
        let workers_max = self.config.content.workers();
        let start = || {
            content_process::start_unpacking(&self.config, workers_max)
                .map_err(|error| format!("{error:#}"))
        };
        self.unpacking.get_or_init(start)
    }

    /// The files of a message, and what engines say of it.
    fn unpacked(&self, message: &Message<'_>, raw: &[u8]) -> Result<Facts, String> {
        let mut facts = Facts::default();
        if !self.config.content.enabled {
            return Ok(facts);
        }
        facts.content = self.unpacking().as_ref().map_err(Clone::clone)?.tree(message, raw);
        match unpacking::tempfail(&facts.content) {
            Some(report) => Err(format!("engine {:?}: {}", report.engine, report.error)),
            None => Ok(facts),
        }
    }
}

/// The engine, as mail is judged that is received. Nothing is asked of the network.
struct MailJudge {
    parts: Arc<MailParts>,
    scratch: Scratch,
}

impl JudgeMail for MailJudge {
    fn judge(&mut self, raw: &[u8], envelope: &Envelope) -> Result<Verdict, String> {
        let parts = &self.parts;
        let message = Message::parse_with(raw, &parts.limits);
        let wants = !message.files().is_empty() || !parts.config.engine.is_empty();
        let facts = match wants {
            true => parts.unpacked(&message, raw)?,
            false => Facts::default(),
        };
        let snapshot = current(&parts.snapshot);
        let verdict = scan(&message, envelope, &facts, &snapshot, &mut self.scratch);
        // Rare enough to be scanned twice.
        if !wants && is_ambiguous(&verdict.defects) {
            let facts = parts.unpacked(&message, raw)?;
            return Ok(scan(&message, envelope, &facts, &snapshot, &mut self.scratch));
        }
        Ok(verdict)
    }
}
