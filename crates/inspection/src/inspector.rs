//! What a pipeline tells, handed to the parts that look at it.

use std::sync::Arc;

use gauntlet_ids::eve::{Finder, Found};
use gauntlet_ids::pipeline::gate::{functions, may_look};
use gauntlet_ids::pipeline::observer::{
    FilePart, FlowEnd, MailEvent, Observer, TransactionEvent, Wishes,
};
use gauntlet_packet::Direction;
use gauntlet_protocols::{Protocol, mail};
use gauntlet_proxy::content::ScanDownload;
use gauntlet_proxy::judge::Judge;
use gauntlet_proxy::settings::Settings as ProxySettings;
use tokio::runtime::Runtime;

use crate::action::Item;
use crate::files::Files;
use crate::mail::JudgeMail;
use crate::settings::{Kinds, Settings};
use crate::web::Web;

/// What judges.
pub struct Parts {
    /// Of messages; needed for [`Kinds::mail`].
    pub mail: Option<Box<dyn JudgeMail>>,
    /// Of requests and responses, with its settings; needed for [`Kinds::urls`] and
    /// [`Kinds::words`], and for files of the web.
    pub web: Option<(Arc<dyn Judge>, Arc<ProxySettings>)>,
    /// Of other files.
    pub scanner: Option<Arc<dyn ScanDownload>>,
}

/// Looks at what one pipeline tells.
pub struct Inspector {
    settings: Settings,
    is_inline: bool,
    mail: Option<Box<dyn JudgeMail>>,
    web: Option<Web>,
    files: Option<Files>,
    runtime: Runtime,
    found: Vec<Found>,
    drops: bool,
}

impl Inspector {
    /// With what judges. `is_inline`: what it drops is dropped.
    ///
    /// # Errors
    /// If the system gives no resources for waiting on scanners.
    pub fn new(settings: Settings, parts: Parts, is_inline: bool) -> std::io::Result<Self> {
        let Kinds { urls, words, files, .. } = settings.kinds;
        let web = parts.web.filter(|_| urls || words || files);
        let web = web.map(|(judge, proxy)| Web::new(judge, proxy, (urls, settings.files_max)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            is_inline,
            mail: parts.mail.filter(|_| settings.kinds.mail),
            web,
            files: parts.scanner.filter(|_| files).map(Files::new),
            settings,
            runtime,
            found: Vec::new(),
            drops: false,
        })
    }

    /// Limits of messages, for [`gauntlet_protocols::Settings::mail`]; none if none are looked at.
    /// Pipelines that get copies share the limit of all messages.
    pub fn mail_settings(settings: &Settings) -> Option<mail::Settings> {
        let (each, all) = (settings.message_bytes_max, settings.messages_held_bytes_max);
        settings.kinds.mail.then(|| mail::Settings::new(each, all))
    }

    /// What it wants to be told.
    pub fn wishes_of(settings: &Settings) -> Wishes {
        let Kinds { mail, files, urls, words } = settings.kinds;
        let bodies = files || words;
        Wishes {
            requests: urls,
            files: bodies,
            all_files: bodies,
            flows: bodies,
            file_depth: bodies.then(|| depth(settings.file_bytes_max)),
            mail,
            decides: true,
            ..Wishes::default()
        }
    }

    fn add(&mut self, item: Item) {
        self.drops |= item.drops;
        self.found.push(item.found(self.is_inline));
    }
}

/// Bytes of a stream with files: what is around a file comes on top.
fn depth(file_bytes_max: u64) -> u32 {
    u32::try_from(file_bytes_max.saturating_mul(2)).unwrap_or(0)
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inspector").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Observer for Inspector {
    fn wishes(&self) -> Wishes {
        Self::wishes_of(&self.settings)
    }

    fn request(&mut self, event: &TransactionEvent<'_>) {
        let items = self.web.as_ref().map(|web| web.request(event));
        items.into_iter().flatten().for_each(|item| self.add(item));
    }

    fn mail(&mut self, event: &MailEvent<'_>) {
        if let Some(judge) = &mut self.mail {
            let item = crate::mail::look(event, judge.as_mut(), &self.settings);
            self.add(item);
        }
    }

    fn file(&mut self, part: &FilePart<'_>) {
        let is_response = part.direction == Direction::ToClient
            && matches!(part.protocol, Protocol::Http1 | Protocol::Http2);
        let wanted =
            if is_response { functions::FILES | functions::WORDS } else { functions::FILES };
        if part.moment.flow.is_some_and(|flow| !may_look(flow.core, wanted)) {
            return;
        }
        let item = if is_response {
            self.web.as_mut().and_then(|web| web.part(part, &self.runtime))
        } else if part.protocol == Protocol::Smtp && self.mail.is_some() {
            // Looked at with their message.
            None
        } else {
            let (settings, runtime) = (&self.settings, &self.runtime);
            self.files.as_mut().and_then(|files| files.part(part, settings, runtime))
        };
        if let Some(item) = item {
            self.add(item);
        }
    }

    fn flow(&mut self, end: &FlowEnd<'_>) {
        let number = end.core.number;
        self.web.iter_mut().for_each(|web| web.forget(number));
        self.files.iter_mut().for_each(|files| files.forget(number));
    }

    fn drops_flow(&mut self) -> bool {
        std::mem::take(&mut self.drops)
    }
}

impl Finder for Inspector {
    fn take(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }
}
