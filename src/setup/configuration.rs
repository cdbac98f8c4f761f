//! The configuration file: what differs from the defaults, each line with why.

use std::fmt::Display;
use std::path::Path;

use super::answers::{Answers, Certificate, Hop, LISTEN, Membership, Recipients, Service};
use super::given::{HopTls, Keeper, Mta, Purpose};

/// Column of the remarks behind values.
const REMARK_COLUMN: usize = 31;
/// Clients without limits by default.
const EXEMPT: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// The text of the file.
pub(super) fn text(answers: &Answers) -> String {
    let mut file = File::default();
    let purpose = answers.purpose;
    file.remark(&format!("Gauntlet: {}.", title(purpose)));
    file.remark(&format!("Written by `gauntlet setup {}`; change it as you like.", purpose.name()));
    file.remark("It has only what differs from the defaults; `gauntlet config show` prints all.");
    file.table("[node]", "");
    if !answers.name.is_empty() {
        let why = match purpose {
            Purpose::Trial | Purpose::Milter => "in header fields and logs",
            _ => "in greetings; needs A or AAAA and PTR records",
        };
        file.text("name", &answers.name, why);
    }
    file.path("data", &answers.data, "mail, log, users and keys");
    if !answers.user.is_empty() {
        file.text("user", &answers.user, "started as root, the node becomes this user");
    }
    listeners(answers, &mut file);
    if let Some(service) = &answers.service {
        self::service(answers, service, &mut file);
    }
    if let Some(hop) = &answers.hop {
        self::hop(answers, hop, &mut file);
    }
    if let Some(console) = &answers.console {
        file.table("[console]", "");
        file.text("address", console, "of the web console");
    }
    if !answers.resolvers.is_empty() {
        file.table("[dns]", "");
        file.texts("servers", &answers.resolvers, "resolvers");
    }
    if let Membership::Database { database, objects } = &answers.membership {
        file.table("[array]", "what the nodes share; this file holds passwords now");
        file.text("database", database, "");
        if let Some(objects) = objects {
            file.text("objects", objects, "bodies of held mail");
        }
    }
    file.0
}

fn title(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Trial => "a node to look at, on loopback only",
        Purpose::Milter => "judges mail for a mail server that stays the MX",
        Purpose::Front => "takes mail from the internet and passes it on",
        Purpose::Array => "a node of an array: takes mail from the internet and passes it on",
    }
}

fn listeners(answers: &Answers, file: &mut File) {
    let default = answers.listen == [LISTEN];
    let why = match answers.purpose {
        Purpose::Trial => "takes mail for every domain: loopback only",
        Purpose::Milter => "a node has one SMTP listener at least; this one does no harm",
        _ => "from the internet: mail for domains.local only",
    };
    for address in answers.listen.iter().filter(|_| !default) {
        file.table("[[listener]]", why);
        file.text("address", address, "");
        certificate(answers.hop.as_ref(), file);
    }
    let Some(hop) = &answers.hop else { return };
    if let Some(address) = &hop.outbound {
        file.table("[[listener]]", "from servers of ours: mail to anywhere");
        file.text("role", "outbound", "");
        file.text("address", address, "");
        file.texts("networks", &answers.networks, "who may; nobody else");
        certificate(Some(hop), file);
    }
    if let Some(address) = &hop.submission {
        file.table("[[listener]]", "from people, after a login (`gauntlet user add`)");
        file.text("role", "submission", "");
        file.text("address", address, "");
        certificate(Some(hop), file);
    }
}

fn certificate(hop: Option<&Hop>, file: &mut File) {
    if let Some(Certificate::Own { certificate, key }) = hop.map(|hop| &hop.certificate) {
        let one = |path: &Path| [path.display().to_string()];
        file.texts("certificate", &one(certificate), "");
        file.texts("key", &one(key), "");
    }
}

fn service(answers: &Answers, service: &Service, file: &mut File) {
    let (protocol, who) = match service.mta {
        Mta::Postfix => ("milter", "Postfix asks here"),
        Mta::Exim => ("spamd", "Exim asks here"),
    };
    file.table("[[service]]", "");
    file.text("protocol", protocol, "");
    file.text("address", &service.address, who);
    if service.held_by == Keeper::Node {
        file.text("quarantine", "node", "our quarantine holds, recipient by recipient");
    }
    if service.mta == Mta::Postfix && !answers.networks.is_empty() {
        file.texts("outbound_networks", &answers.networks, "their mail goes out: signed, no SPF");
    }
    if service.held_by == Keeper::Node {
        file.table("[route]", "");
        file.text("next_hop", &service.release_to, "takes what is released");
    }
}

fn hop(answers: &Answers, hop: &Hop, file: &mut File) {
    if let Certificate::Acme { contact, directory } = &hop.certificate {
        file.table("[acme]", "port 80 of node.name must lead here");
        file.text("directory", directory, "");
        file.text("contact", contact, "the authority may write to it");
    }
    file.table("[domains]", "");
    file.texts("local", &answers.domains, "mail is taken for these");
    match &hop.recipients {
        Recipients::All => {}
        Recipients::Probe => {
            file.table("[recipients]", "");
            file.bare("probe", true, "the next hop is asked who exists");
        }
        Recipients::File(path) => {
            file.table("[recipients]", "");
            file.path("file", path, "who exists, one a line");
        }
    }
    let simple = hop.hosts.len() == 1 && !hop.lmtp && hop.tls == HopTls::Opportunistic;
    if simple || hop.smart_host.is_some() {
        file.table("[route]", "");
    }
    if simple {
        let host = hop.hosts.first().map_or("", String::as_str);
        file.text("next_hop", host, "the mail server behind this node");
    }
    if let Some(smart) = &hop.smart_host {
        file.text("smart_host", smart, "takes outbound mail");
    }
    if !simple {
        file.table("[[next_hop]]", "the mail server behind this node");
        file.texts("for", &answers.domains, "");
        file.texts("hosts", &hop.hosts, "");
        if hop.hosts.len() > 1 {
            let weights = (0..hop.hosts.len()).map(|at| if at == 0 { "1" } else { "0" });
            let weights = weights.collect::<Vec<_>>().join(", ");
            file.bare("weights", format!("[{weights}]"), "0 is a spare");
        }
        if hop.tls != HopTls::Opportunistic {
            file.text("tls", hop.tls.name(), "");
        }
        if hop.lmtp {
            file.bare("lmtp", true, "");
        }
    }
    if !answers.networks.is_empty() {
        let own = EXEMPT.iter().map(ToString::to_string).chain(answers.networks.iter().cloned());
        file.table("[receiver]", "");
        file.texts("exempt_networks", &own.collect::<Vec<_>>(), "no limits for our own servers");
    }
}

/// A file that grows line by line.
#[derive(Default)]
struct File(String);

impl File {
    fn remark(&mut self, text: &str) {
        self.0.push_str(&format!("# {text}\n"));
    }

    fn table(&mut self, name: &str, why: &str) {
        self.0.push('\n');
        self.line(name, why);
    }

    fn text(&mut self, key: &str, value: &str, why: &str) {
        self.bare(key, toml::Value::from(value), why);
    }

    fn path(&mut self, key: &str, value: &Path, why: &str) {
        self.text(key, &value.display().to_string(), why);
    }

    fn texts(&mut self, key: &str, values: &[String], why: &str) {
        let values = values.iter().map(|value| toml::Value::from(value.as_str()).to_string());
        self.bare(key, format!("[{}]", values.collect::<Vec<_>>().join(", ")), why);
    }

    fn bare(&mut self, key: &str, value: impl Display, why: &str) {
        self.line(&format!("{key} = {value}"), why);
    }

    fn line(&mut self, code: &str, why: &str) {
        if why.is_empty() {
            self.0.push_str(&format!("{code}\n"));
        } else {
            let width = REMARK_COLUMN;
            self.0.push_str(&format!("{code:<width$} # {why}\n"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use gauntlet_gateway::config::{Loaded, Origin};

    use super::super::answers::tests::answers;
    use super::*;

    /// Name of the golden text, and the flags that lead to it.
    const CASES: [(&str, &str); 9] = [
        ("trial", "trial --listen 127.0.0.1:2526 --console 127.0.0.1:8026"),
        ("milter", "milter --network 10.0.0.0/24"),
        ("milter-node", "milter --held-by node --domain example.org --service unix:/run/g.sock"),
        ("exim", "milter --mta exim"),
        ("front", "front --domain example.org --next-hop 10.0.0.5"),
        (
            "exchange",
            "front --domain example.org,example.net --next-hop 10.0.0.5,10.0.0.6 \
             --next-hop-tls required --listen 192.0.2.10:25 --outbound 10.0.0.10:25 \
             --network 10.0.0.5 --network 10.0.0.6 --recipients recipients.txt \
             --certificate /etc/gauntlet-tls/cert.pem --key /etc/gauntlet-tls/key.pem",
        ),
        (
            "dovecot",
            "front --domain example.org --next-hop 127.0.0.1 --lmtp --submission=192.0.2.10:587 \
             --listen 192.0.2.10:25 --acme postmaster@example.org --smart-host relay.example.net",
        ),
        ("array", "array --domain example.org --next-hop 10.0.0.5 --resolver 127.0.0.1"),
        (
            "array-database",
            "array --name mx1.example.org --domain example.org --next-hop 10.0.0.5 \
             --recipients all --database postgres://g:secret@10.0.0.9/g --objects s3://k:s@h/b",
        ),
    ];

    #[test]
    fn every_path_writes_its_golden_text() {
        for (name, flags) in CASES {
            let text = text(&answers(flags).unwrap());
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/setup/golden");
            let path = folder.join(format!("{name}.toml"));
            if std::env::var_os("GAUNTLET_BLESS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, &text).unwrap();
            }
            let golden = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(text, golden, "{name}: GAUNTLET_BLESS=1 writes it anew");
        }
    }

    #[test]
    fn a_node_reads_every_text_and_each_setting_differs_from_its_default() {
        let none = Loaded::load(None, []).unwrap().settings();
        for (name, flags) in CASES {
            let text = text(&answers(flags).unwrap());
            let loaded = Loaded::load_text(&text, Path::new("gauntlet.toml"), []);
            let loaded = loaded.unwrap_or_else(|e| panic!("{name}: {e}"));
            for setting in loaded.settings() {
                if matches!(setting.origin, Origin::File { .. }) {
                    assert!(
                        !none.iter().any(|d| d.key == setting.key && d.value == setting.value),
                        "{name}: {} is the default",
                        setting.key
                    );
                }
            }
        }
    }

    #[test]
    fn what_people_type_stays_a_value() {
        let mut odd = answers("front --domain example.org --next-hop 10.0.0.5").unwrap();
        odd.data = "/srv/a \"b\"\\c\n[array]".into();
        let text = text(&odd);
        let loaded = Loaded::load_text(&text, Path::new("gauntlet.toml"), []).unwrap();
        assert_eq!(loaded.config.node.data, odd.data);
        assert!(!loaded.config.array.is_on());
    }
}
