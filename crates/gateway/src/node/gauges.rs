//! All numbers of a node as Prometheus reads them: what `/metrics` and `gauntlet status --metrics`
//! print.

use std::collections::BTreeMap;

use super::Node;
use crate::metrics;

impl Node {
    /// The metrics in Prometheus' text format.
    pub fn render_metrics(&self) -> String {
        let mut text = self.metrics.render();
        let usage = self.spool.usage();
        // A gauge that cannot be read is 0; the failing database is reported elsewhere.
        let packs = self.quarantine.pack_totals().unwrap_or_default();
        for (name, help, value) in [
            (
                "takes_mail",
                "1 while the node takes mail, else 0 (drained, disk full)",
                u64::from(self.problems().is_empty()),
            ),
            (
                "questions",
                "What an administrator should decide, as gauntlet status names it",
                self.questions().len() as u64,
            ),
            (
                "started_seconds",
                "When the node was started, in seconds since 1970",
                (self.started_ms() / 1_000).max(0).cast_unsigned(),
            ),
            (
                "queue_messages",
                "Messages in the queue, waiting or being delivered",
                self.queue.count(),
            ),
            (
                "queue_age_milliseconds",
                "Age of the oldest message in the queue in milliseconds",
                self.queue_age_ms(),
            ),
            (
                "queue_held_messages",
                "Messages in the queue that wait for a person: held, or on their way to another node",
                self.queue.held(),
            ),
            (
                "draining",
                "1 while the node drains and takes no new mail, else 0",
                u64::from(self.draining_since_ms().is_some()),
            ),
            ("spool_messages", "Messages in the spool", usage.messages),
            ("spool_bytes", "Bytes of all spool segments", usage.bytes),
            ("spool_segments", "Spool segments", usage.segments),
            (
                "hold_backlog_messages",
                "Messages to be held that wait for the quarantine",
                self.queue.hold_backlog(),
            ),
            ("quarantine_packs", "Packs of held mail", packs.packs),
            ("quarantine_pack_bytes", "Bytes of all packs of held mail", packs.bytes),
            (
                "quarantine_live_bytes",
                "Bytes of packs of held mail that are no holes",
                packs.live_bytes,
            ),
        ] {
            metrics::line(&mut text, name, help, "gauge", value);
        }
        self.render_labelled(&mut text);
        if let Some(subsystems) = self.subsystems.get() {
            text.push_str(&subsystems.metrics());
        }
        text
    }

    /// Numbers with labels, and those of parts that may not be there.
    fn render_labelled(&self, text: &mut String) {
        let help = "Bytes of memory for message bodies being received";
        metrics::line(text, "memory_body_bytes", help, "gauge", self.budgets.memory.used());
        let help = "Bytes of disk for message bodies being received";
        metrics::line(text, "disk_body_bytes", help, "gauge", self.budgets.disk.used());
        let version = [(env!("CARGO_PKG_VERSION"), 1)].into_iter();
        let help = "1, with the version of the program";
        metrics::labelled(text, "info", help, "gauge", "version", version);
        self.render_folders(text);
        self.render_certificates(text);
        if let Some(traces) = &self.traces {
            traces.counts().render(text);
        }
        self.render_refused_sign_ins(text);
        if let Some(unpacking) = &self.judge().unpacking {
            unpacking.render_metrics(text);
        }
    }

    /// Held mail by folder. What cannot be read is left out; the failing database is reported
    /// elsewhere.
    fn render_folders(&self, text: &mut String) {
        let folders = self.quarantine.folders().unwrap_or_default();
        let items = folders.iter().map(|f| (f.name.as_str(), f.items));
        let help = "Messages held, by folder";
        metrics::labelled(text, "quarantine_items", help, "gauge", "folder", items);
        let bytes = folders.iter().map(|f| (f.name.as_str(), f.bytes));
        let help = "Bytes of messages held, by folder";
        metrics::labelled(text, "quarantine_bytes", help, "gauge", "folder", bytes);
    }

    /// Until when what listeners show is good, by port: everybody may read it, and addresses would
    /// say how the network is laid out. A port without TLS has no line.
    fn render_certificates(&self, text: &mut String) {
        let config = self.config();
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        for (listener, tls) in config.mail_listeners().zip(&self.certificates) {
            let port = listener.address.rsplit(':').next().unwrap_or_default();
            if let Some(end) = tls.as_ref().and_then(|tls| tls.ends_s()) {
                let end = end.max(0).cast_unsigned();
                ends.entry(port).and_modify(|first| *first = end.min(*first)).or_insert(end);
            }
        }
        let name = "certificate_expiry_timestamp_seconds";
        let help = "When the first of the certificates ends that listeners show, in seconds since \
                    1970";
        metrics::labelled(text, name, help, "gauge", "port", ends.into_iter());
    }

    fn render_refused_sign_ins(&self, text: &mut String) {
        let (passwords, codes) = self.logins.users().attempts().refused();
        let name = "sign_in_attempts_refused_total";
        let help = "Passwords (console, API, SMTP AUTH) and codes of a second factor that were not \
                    looked at: too many were wrong before";
        let counts = [("password", passwords), ("code", codes)];
        metrics::labelled(text, name, help, "counter", "of", counts.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::Envelope;
    use gauntlet_store::QuarantineItem;
    use gauntlet_verdict::Class;

    use crate::node::test_node::TestNode;

    #[tokio::test]
    async fn a_listener_with_tls_says_when_its_certificate_ends() {
        let folder = tempfile::tempdir().unwrap();
        let [chain, secret] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["gw.test".into()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2031, 1, 1);
        std::fs::write(&chain, parameters.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        let more = format!(
            "[[listener]]\naddress = \"127.0.0.2:0\"\ncertificate = [{chain:?}]\n\
             key = [{secret:?}]\n"
        );
        // Of the two with one port, the other shows what the node signed itself, for longer.
        let text = TestNode::start(&more).node.render_metrics();
        let name = "gauntlet_certificate_expiry_timestamp_seconds{";
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
        assert_eq!(lines, ["port=\"0\"} 1924992000"], "{text}");
    }

    #[tokio::test]
    async fn folders_and_refused_sign_ins_are_among_the_numbers() {
        let node = TestNode::start("");
        let item = QuarantineItem {
            id: "one".to_owned(),
            message: "one".to_owned(),
            folder: "a\"b\\c".to_owned(),
            recipients: vec!["bob@example.net".to_owned()],
            envelope: Envelope::default(),
            received_ms: node.clock.unix_ms(),
            class: Class::Spam,
            score: 9.0,
            subject: String::new(),
            from: String::new(),
            release: None,
        };
        assert!(node.node.quarantine.put(&item, b"Subject: x\r\n\r\ny").unwrap());
        let text = node.node.render_metrics();
        for line in [
            "gauntlet_quarantine_items{folder=\"a\\\"b\\\\c\"} 1",
            "gauntlet_sign_in_attempts_refused_total{of=\"password\"} 0",
            "gauntlet_sign_in_attempts_refused_total{of=\"code\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        assert!(text.contains("gauntlet_quarantine_bytes{folder="));
    }
}
