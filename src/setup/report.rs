//! What a set-up says at its end: as text for a person, or as one JSON object.

use std::io::Write;

use gauntlet_policy::diff;
use serde_json::{Value, json};

use super::answers::{Answers, Membership};
use super::given::{Mta, Purpose};
use super::host::Host;
use super::journal::place;
use super::plan::Plan;
use super::records::Record;
use crate::doctor::Findings;

/// Columns of remarks.
const COLUMNS: usize = 96;

/// The result of a run.
pub(super) struct Report<'a> {
    pub(super) plan: &'a Plan,
    pub(super) answers: &'a Answers,
    pub(super) host: &'a Host,
    /// Nothing was done.
    pub(super) is_dry: bool,
    /// What was done, one line each.
    pub(super) done: Vec<String>,
    pub(super) joined: Option<Result<String, String>>,
    pub(super) records: Vec<Record>,
    pub(super) sts_policy: Option<String>,
    pub(super) findings: Option<Findings>,
}

impl Report<'_> {
    /// Prints it.
    pub(super) fn print(&self, out: &mut impl Write, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            writeln!(out, "{}", serde_json::to_string_pretty(&self.json())?)?;
        } else {
            out.write_all(self.text().as_bytes())?;
        }
        Ok(())
    }

    /// The new configuration beside the one that is there.
    fn difference(&self) -> String {
        diff::text(self.plan.old.as_deref().unwrap_or_default(), &self.plan.text)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.is_dry {
            text.push_str(&self.dry());
        }
        for line in &self.done {
            text.push_str(&format!("{line}\n"));
        }
        match &self.joined {
            Some(Ok(said)) => text.push_str(said),
            Some(Err(why)) => text.push_str(&format!("error: the node did not join: {why}\n")),
            None => {}
        }
        text.push_str(&self.dns());
        for (file, lines) in &self.plan.lines {
            text.push_str(&heading(&format!("Lines for {file}")));
            text.push_str(lines);
        }
        if let Some(findings) = &self.findings {
            text.push_str(&heading("What `gauntlet doctor` says"));
            let mut said = Vec::new();
            // Writing into memory does not fail.
            let _ = findings.print(&mut said, false);
            text.push_str(&String::from_utf8_lossy(&said));
        }
        text.push_str(&heading("Next"));
        for (number, step) in (1..).zip(self.next()) {
            text.push_str(&wrapped(&format!("{number}. "), &step));
        }
        text
    }

    /// What would be done.
    fn dry(&self) -> String {
        let place = self.plan.path.display();
        let mut text = match (&self.plan.old, self.plan.is_written()) {
            (_, true) => format!("{place}: would stay as it is\n"),
            (None, _) => format!("{place}: would be written\n"),
            (Some(_), _) if self.plan.replaces() => {
                format!("{place}: would be replaced, which takes --force\n")
            }
            (Some(_), _) => format!("{place}: would be replaced; nobody changed the package's\n"),
        };
        text.push_str(&self.difference());
        let data = &self.plan.config.node.data;
        if !data.exists() {
            text.push_str(&format!("{}: would be made\n", data.display()));
        }
        for domain in &self.plan.new_keys {
            text.push_str(&format!("a DKIM key of {domain}: would be made\n"));
        }
        if let Some(planned) = &self.plan.postfix {
            let folder = planned.postfix.folder().display();
            match planned.changes.is_empty() {
                true => text.push_str(&format!("{folder}: Postfix is set already\n")),
                false => text.push_str(&format!("{folder}: would be changed\n")),
            }
            text.push_str(&planned.changes.text());
        }
        text
    }

    fn dns(&self) -> String {
        if self.records.is_empty() {
            return String::new();
        }
        let mut text = heading("DNS records to publish");
        for record in &self.records {
            text.push_str(&wrapped("; ", &record.why));
            text.push_str(&format!("{}\n", record.line()));
        }
        if self.is_dry {
            for domain in &self.plan.new_keys {
                text.push_str(&format!(
                    "; and the key of {domain}, which a run without --dry-run makes\n"
                ));
            }
        }
        for remark in self.remarks() {
            text.push_str(&wrapped("; ", &remark));
        }
        if let Some(policy) = &self.sts_policy {
            text.push_str(&heading(
                "https://mta-sts.DOMAIN/.well-known/mta-sts.txt, of any web server",
            ));
            text.push_str(policy);
        }
        text
    }

    /// What is to be known about the records.
    fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        let is_exchanger = self.answers.hop.is_some();
        if self.answers.addresses.is_empty() && !self.answers.domains.is_empty() {
            let own: Vec<String> = self.host.addresses.iter().map(ToString::to_string).collect();
            let own = match own.is_empty() {
                true => "this machine does not reach the internet".to_owned(),
                false => format!("{} is no address of the internet", own.join(", ")),
            };
            let records = if is_exchanger { "A, AAAA and PTR records, and SPF" } else { "SPF" };
            all.push(format!("{own}: name the one that others see by --address, for {records}"));
        }
        if is_exchanger && self.sts_policy.is_none() {
            all.push(
                "no MTA-STS yet: the node signs its own certificate, which senders would refuse; \
                 set one by --acme or --certificate"
                    .to_owned(),
            );
        }
        all
    }

    /// What a person does next, in order.
    fn next(&self) -> Vec<String> {
        let config = self.plan.path.display();
        if self.is_dry {
            return vec!["the same command without --dry-run does it".to_owned()];
        }
        let mut all = Vec::new();
        if let Some(Err(_)) = &self.joined {
            all.push(format!("`gauntlet array join TOKEN --config {config}` tries the join again"));
        }
        if self.answers.purpose == Purpose::Array && self.answers.membership == Membership::Later {
            let name = &self.answers.name;
            all.push(format!(
                "on the array's manager: `gauntlet array token --ca FOLDER --name {name}`; it \
                 waits, meanwhile here: `gauntlet array join TOKEN --config {config}`"
            ));
        }
        all.push(match self.host.has_unit {
            true => "`systemctl restart gauntlet`; its log has the one-time password of the \
                     console at the first start"
                .to_owned(),
            false => format!(
                "`gauntlet serve --config {config}`; the first start prints the one-time password \
                 of the console"
            ),
        });
        if let Some(service) = &self.answers.service {
            if service.address.starts_with("unix:") {
                all.push(
                    "see to it that the mail server's user can open the socket: its folder, \
                     socket_mode, and a chroot that the mail server may run in"
                        .to_owned(),
                );
            }
            all.push(match (service.mta, service.apply) {
                (Mta::Postfix, true) => format!(
                    "`{}`, once the node runs: without it Postfix answers 451 \
                     (milter_default_action)",
                    service.reload_postfix()
                ),
                (Mta::Postfix, false) => format!(
                    "put the lines above into Postfix (`--apply-postfix` does it on this machine), \
                     then `{}`",
                    service.reload_postfix()
                ),
                (Mta::Exim, _) => "put the lines above into Exim's configuration, and reload \
                                   Exim"
                    .to_owned(),
            });
        }
        if !self.records.is_empty() {
            let has_mx = self.records.iter().any(|record| record.kind == "MX");
            let order = if has_mx { ", the MX record last" } else { "" };
            all.push(format!(
                "publish the records above{order}; `gauntlet doctor --config {config}` says what \
                 is missing"
            ));
        }
        if place(&self.plan.path).exists() {
            all.push(format!("`gauntlet setup undo --config {config}` takes this set-up back"));
        }
        all
    }

    fn json(&self) -> Value {
        let postfix =
            self.plan.postfix.as_ref().map(
                |planned| json!({"folder": planned.postfix.folder(), "changes": planned.changes}),
            );
        let lines = self.plan.lines.iter().map(|(file, text)| json!({"file": file, "text": text}));
        let findings = self.findings.as_ref().map(|found| {
            let line = |(status, check, text): &(crate::doctor::Status, &str, String)| {
                json!({"check": check, "status": status.name(), "text": text})
            };
            found.0.iter().map(line).collect::<Vec<_>>()
        });
        json!({
            "for": self.answers.purpose.name(),
            "config": self.plan.path,
            "text": self.plan.text,
            "difference": self.difference(),
            "written": !self.is_dry,
            "done": self.done,
            "joined": self.joined.as_ref().map(Result::is_ok),
            "join_error": self.joined.as_ref().and_then(|joined| joined.as_ref().err()),
            "dns": self.records.iter().map(|record| json!({
                "name": record.name, "type": record.kind, "value": record.value,
                "why": record.why, "line": record.line(),
            })).collect::<Vec<_>>(),
            "dns_remarks": self.remarks(),
            "mta_sts_policy": self.sts_policy,
            "postfix": postfix,
            "lines": lines.collect::<Vec<_>>(),
            "doctor": findings,
            "next": self.next(),
        })
    }
}

fn heading(text: &str) -> String {
    format!("\n{text}:\n")
}

/// A text in lines, with a mark before the first and as many blanks, or the mark of a remark,
/// before the others.
fn wrapped(mark: &str, text: &str) -> String {
    let others = if mark.starts_with(';') { mark.to_owned() } else { " ".repeat(mark.len()) };
    let mut lines = vec![mark.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let is_new = line.len() == mark.len();
        if !is_new && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{others}{word}"));
            continue;
        }
        line.push_str(if is_new { "" } else { " " });
        line.push_str(word);
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_remarks_are_wrapped() {
        let text = wrapped("; ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= COLUMNS && line.starts_with("; word")));
        assert_eq!(wrapped("1. ", "one two"), "1. one two\n");
    }
}
