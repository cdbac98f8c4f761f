//! What a set-up would do on this machine: read from it, and nothing changed yet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use gauntlet_gateway::config::{Config, Loaded};
use gauntlet_gateway::net::tls;
use gauntlet_gateway::outbound::signing::{Key, KeyRing, KeyState};
use gauntlet_gateway::privileges;

use super::answers::{Answers, Certificate, Recipients};
use super::configuration;
use super::given::Mta;
use super::host::Host;
use super::mta;
use super::postfix::{Changes, Postfix};
use super::records::KeyText;

/// The configuration as the Debian package installs it.
const OF_PACKAGE: &str = include_str!("../../packaging/debian/gauntlet.toml");

/// A change of Postfix's settings.
pub(super) struct PostfixPlan {
    pub(super) postfix: Postfix,
    pub(super) changes: Changes,
}

/// Everything that a set-up would do.
pub(super) struct Plan {
    /// The file that the configuration is written to, absolute.
    pub(super) path: PathBuf,
    /// Its new text, and the one that is there.
    pub(super) text: String,
    pub(super) old: Option<String>,
    /// What the new text says, read as a node reads it.
    pub(super) config: Config,
    /// Domains that get a DKIM key, and the keys that are there.
    pub(super) new_keys: Vec<String>,
    pub(super) keys: Vec<KeyText>,
    /// What is set in Postfix, if it is to be.
    pub(super) postfix: Option<PostfixPlan>,
    /// Lines to copy into the configuration of a mail server.
    pub(super) lines: Vec<(String, String)>,
}

impl Plan {
    /// Looks what is there.
    ///
    /// # Errors
    /// A file that was named cannot be read, or a node could not read the configuration.
    pub(super) fn make(path: &Path, answers: &Answers, host: &Host) -> anyhow::Result<Self> {
        let path = host.here.join(path);
        files_are_there(answers)?;
        let text = configuration::text(answers);
        let loaded = Loaded::load_text(&text, &path, crate::environment::environment())?;
        crate::array_access::check(&loaded.config)?;
        let old = match fs::read_to_string(&path) {
            Ok(old) => Some(old),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).context(path.display().to_string()),
        };
        let config = loaded.config;
        privileges::to_become(&config).with_context(|| format!("--user {:?}", answers.user))?;
        // Before anything is written: a node would not start with them.
        tls::problems(&config).into_iter().next().map_or(Ok(()), Err)?;
        let ring = KeyRing::load(&config.node.inside(&config.dkim.keys))?;
        let signs = |domain: &str| {
            ring.keys_of(domain).iter().filter(|key| key.state == KeyState::Active).map(key_text)
        };
        let domains = answers.selector.iter().flat_map(|_| answers.domains.iter());
        let (mut new_keys, mut keys) = (Vec::new(), Vec::new());
        for domain in domains {
            let there: Vec<KeyText> = signs(domain).collect();
            if there.is_empty() {
                new_keys.push(domain.clone());
            }
            keys.extend(there);
        }
        let mut plan =
            Plan { path, text, old, config, new_keys, keys, postfix: None, lines: Vec::new() };
        plan.look_at_mta(answers, host)?;
        Ok(plan)
    }

    fn look_at_mta(&mut self, answers: &Answers, host: &Host) -> anyhow::Result<()> {
        let Some(service) = &answers.service else { return Ok(()) };
        if service.apply {
            let postfix = Postfix::find(host, service.folder.as_deref())?;
            let changes = postfix.changes(service)?;
            self.postfix = Some(PostfixPlan { postfix, changes });
            return Ok(());
        }
        // The lines name the milters that a Postfix of this machine has already.
        let here = (service.mta == Mta::Postfix)
            .then(|| Postfix::find(host, service.folder.as_deref()).ok()?.milter_lists().ok());
        let [one, two] = here.flatten().unwrap_or_default();
        self.lines = mta::lines(service, [&one, &two]);
        Ok(())
    }

    /// The file says already what it is to say.
    pub(super) fn is_written(&self) -> bool {
        self.old.as_ref() == Some(&self.text)
    }

    /// The file that is there came with the package, and nobody changed it.
    pub(super) fn is_of_package(&self) -> bool {
        self.old.as_deref() == Some(OF_PACKAGE)
    }

    /// The file that is there is somebody's, and would be replaced by another.
    pub(super) fn replaces(&self) -> bool {
        self.old.is_some() && !self.is_written() && !self.is_of_package()
    }
}

/// A key's record.
pub(super) fn key_text(key: &Key) -> KeyText {
    KeyText { domain: key.domain.clone(), name: key.record_name(), record: key.record() }
}

/// Files that the configuration is to name can be read.
fn files_are_there(answers: &Answers) -> anyhow::Result<()> {
    ensure!(
        !answers.data.as_os_str().is_empty() && answers.data.parent().is_some(),
        "--data {}: name a folder of its own",
        answers.data.display()
    );
    let Some(hop) = &answers.hop else { return Ok(()) };
    let mut named: Vec<(&str, &Path)> = Vec::new();
    if let Certificate::Own { certificate, key } = &hop.certificate {
        named.extend([("--certificate", certificate.as_path()), ("--key", key.as_path())]);
    }
    if let Recipients::File(file) = &hop.recipients {
        named.push(("--recipients", file.as_path()));
    }
    for (flag, path) in named {
        fs::File::open(path).with_context(|| {
            let hint = if flag == "--recipients" { " (probe, all, or a file)" } else { "" };
            format!("{flag} {}{hint}", path.display())
        })?;
    }
    Ok(())
}
