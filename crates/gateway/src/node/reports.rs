//! Reports that the node sends by itself, every day, and by order of the command line.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_mail::date::HOUR_MS;

use super::Node;
use crate::clock::Day;
use crate::config::ReportSettings;
use crate::reports::round::{Ready, Reported, reports};
use crate::reports::tls_round::tls_reports;
use crate::reports::{Reporter, dmarc};

/// Between two polls whether reports are due.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Folder of the data folder for the days whose reports are sent.
const FOLDER: &str = "reports";

impl Node {
    /// Makes and sends the DMARC reports of a day. Blocks; not for a thread of the runtime.
    ///
    /// # Errors
    /// If the log cannot be read or a report cannot be made; what cannot be spooled is in the
    /// result.
    pub fn send_dmarc_reports(&self, day: Day) -> anyhow::Result<Vec<Reported>> {
        let config = self.config();
        let settings = &config.dmarc_reports;
        let reporter = Reporter::of(&config, settings);
        let collected = dmarc::collect(&self.log, day, settings.messages_max, settings.rows_max)
            .context("the message log")?;
        if collected.cut {
            let messages = collected.messages;
            tracing::warn!(
                messages,
                "DMARC reports do not count all mail of the day (messages_max)"
            );
        }
        let made = reports(&self.resolver, &reporter, settings, day, &collected);
        let ready = self.runtime.block_on(made)?;
        Ok(self.send_all(ready))
    }

    /// Makes and sends the TLS reports of a day. Blocks; not for a thread of the runtime.
    ///
    /// # Errors
    /// If a report cannot be made; what cannot be sent is in the result.
    pub fn send_tls_reports(&self, day: Day) -> anyhow::Result<Vec<Reported>> {
        let config = self.config();
        let reporter = Reporter::of(&config, &config.tls_reports);
        let outbound = self.in_force.get().outbound.clone();
        let counted = self.outcomes.of(day);
        let made = tls_reports(
            &self.resolver,
            &outbound.hop_tls,
            &reporter,
            &config.tls_reports,
            day,
            &counted,
        );
        let ready = self.runtime.block_on(made)?;
        Ok(self.send_all(ready))
    }

    /// Spools what is to go by mail.
    fn send_all(&self, ready: Vec<Ready>) -> Vec<Reported> {
        let mut sent = Vec::new();
        for report in ready {
            let mut reported = report.reported;
            for (to, mail) in report.mails {
                if let Err(why) = self.send_own(&to, self.signed(mail.into_bytes())) {
                    reported.to.retain(|address| *address != to);
                    reported.refused.push((to, why.to_string()));
                }
            }
            sent.push(reported);
        }
        sent
    }

    /// A message of our own with the signatures of its From domain's keys, if there are any.
    fn signed(&self, mail: Vec<u8>) -> Vec<u8> {
        match self.in_force.get().outbound.key_ring.sign(&mail[..].into(), self.clock.unix_s()) {
            Ok(fields) => [fields.as_bytes(), &mail].concat(),
            Err(error) => {
                tracing::error!(%error, "a report goes out unsigned");
                mail
            }
        }
    }

    /// Sends reports once a day, on a thread of its own, until the process ends.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn watch_reports(self: &Arc<Self>) -> std::io::Result<()> {
        let node = Arc::downgrade(self);
        std::thread::Builder::new().name("reports".to_owned()).spawn(move || {
            loop {
                std::thread::sleep(POLL_INTERVAL);
                let Some(node) = node.upgrade() else { return };
                let settings = node.config().dmarc_reports.clone();
                node.report_if_due(&settings, "dmarc-reports-sent", |day| {
                    let sent = node.send_dmarc_reports(day)?;
                    Ok(sent.iter().map(|r| r.to.len()).sum())
                });
                if let Err(error) = node.outcomes.flush() {
                    tracing::warn!(%error, "counts of TLS connections cannot be kept");
                }
                let settings = node.config().tls_reports.clone();
                node.report_if_due(&settings, "tls-reports-sent", |day| {
                    let sent = node.send_tls_reports(day)?;
                    Ok(sent.iter().map(|r| r.to.len()).sum())
                });
            }
        })?;
        Ok(())
    }

    /// Sends the reports of yesterday, if that was not done and it is time. A file remembers the
    /// day.
    fn report_if_due(
        &self,
        settings: &ReportSettings,
        file: &str,
        send: impl FnOnce(Day) -> anyhow::Result<usize>,
    ) {
        let now = self.clock.unix_ms();
        let day = Day::of(now).before();
        let due = day.end_ms() + i64::from(settings.hour) * HOUR_MS;
        let data = self.config().node.data.clone();
        // Each write replaces the file, and a sandboxed node may read what was replaced by the
        // rights of its folder only. Earlier builds kept the file in the data folder itself.
        let path: PathBuf = data.join(FOLDER).join(file);
        let kept =
            std::fs::read_to_string(&path).or_else(|_| std::fs::read_to_string(data.join(file)));
        let sent = kept.ok().and_then(|text| Day::parse(text.trim()));
        if !settings.enabled || now < due || sent.is_some_and(|sent| sent >= day) {
            return;
        }
        // Before they are sent: a crash then costs reports, never sends them without end.
        let write = || {
            gauntlet_store::files::create_folder(&data.join(FOLDER))?;
            gauntlet_store::files::write_durably(&path, day.name().as_bytes())
        };
        if let Err(error) = write() {
            tracing::error!(%error, path = %path.display(), "reports are not sent: the day is not kept");
            return;
        }
        match send(day) {
            Ok(mails) => tracing::info!(day = day.name(), mails, file, "reports"),
            Err(error) => tracing::error!(error = format!("{error:#}"), file, "no reports"),
        }
    }
}
