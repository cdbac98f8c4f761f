//! What is to be set up, complete and checked as far as that needs no disk and no network.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use gauntlet_array::{DatabaseAddress, ObjectsAddress};
use gauntlet_gateway::config::{ConsoleSettings, is_host_and_port, is_same_socket, server_address};
use gauntlet_gateway::network::Network;
use gauntlet_gateway::outbound::signing::is_key_name;
use gauntlet_mail::address::ascii_domain;
use gauntlet_mail::network::is_global;

use super::given::{Given, HopTls, Keeper, Mta, Purpose};
use super::host::Host;

/// Directory of the authority that most people take.
const ACME_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Where the node takes mail by default.
pub(super) const LISTEN: &str = "127.0.0.1:2525";

/// Which recipients of our domains exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recipients {
    /// Those that the next hop takes.
    Probe,
    /// All.
    All,
    /// Those of a file.
    File(PathBuf),
}

/// By what the node proves its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Certificate {
    /// By nothing: it signs itself.
    SelfSigned,
    /// Files of the administrator's.
    Own { certificate: PathBuf, key: PathBuf },
    /// An authority gives it.
    Acme { contact: String, directory: String },
}

/// A mail server that asks for verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) mta: Mta,
    /// Address and port, or `unix:` and a path.
    pub(super) address: String,
    pub(super) held_by: Keeper,
    /// Where released mail goes, if the node keeps it.
    pub(super) release_to: String,
    /// Set the lines in Postfix, with the folder of its configuration.
    pub(super) apply: bool,
    pub(super) folder: Option<PathBuf>,
}

impl Service {
    /// The command that has this Postfix read its settings.
    pub(super) fn reload_postfix(&self) -> String {
        match &self.folder {
            Some(folder) => format!("postfix -c {} reload", folder.display()),
            None => "postfix reload".to_owned(),
        }
    }
}

/// How mail is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hop {
    /// `host:port`; the second and further ones are spares.
    pub(super) hosts: Vec<String>,
    pub(super) lmtp: bool,
    pub(super) tls: HopTls,
    pub(super) recipients: Recipients,
    /// Where our own servers hand over outbound mail.
    pub(super) outbound: Option<String>,
    pub(super) smart_host: Option<String>,
    /// Where people send after a login.
    pub(super) submission: Option<String>,
    pub(super) certificate: Certificate,
}

/// How the node comes into an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Membership {
    /// It does not yet.
    Later,
    /// By a token.
    Token(String),
    /// By the address of the database, with a password in it.
    Database { database: String, objects: Option<String> },
}

/// Everything that is to be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answers {
    pub(super) purpose: Purpose,
    /// Full name of the node; empty for a trial.
    pub(super) name: String,
    pub(super) data: PathBuf,
    /// User that root's process becomes; empty for none.
    pub(super) user: String,
    pub(super) listen: Vec<String>,
    pub(super) console: Option<String>,
    pub(super) resolvers: Vec<String>,
    pub(super) domains: Vec<String>,
    /// Addresses for the DNS records.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) report_to: Option<String>,
    /// Selector of new DKIM keys; none makes none.
    pub(super) selector: Option<String>,
    /// Networks of our own servers.
    pub(super) networks: Vec<String>,
    pub(super) service: Option<Service>,
    pub(super) hop: Option<Hop>,
    pub(super) membership: Membership,
}

impl Answers {
    /// Completes what was given.
    ///
    /// # Errors
    /// Everything that is wrong or contradicts itself, each with what to do.
    pub(super) fn of(given: &Given, purpose: Purpose, host: &Host) -> Result<Self, Vec<String>> {
        let mut problems = Problems(given.strangers(purpose));
        let name = given.name.as_ref().or(host.name.as_ref());
        let name = match purpose {
            Purpose::Trial => given.name.clone().unwrap_or_default(),
            _ => problems.domain("--name", name.map_or("", String::as_str)),
        };
        let domains = given.domain.iter().map(|d| problems.domain("--domain", d)).collect();
        for network in &given.network {
            problems.network(network);
        }
        if let Some(to) = &given.report_to {
            problems.mail("--report-to", to);
        }
        let sockets = given.listen.iter().map(|address| ("--listen", address));
        let sockets = sockets.chain(given.console.iter().map(|address| ("--console", address)));
        for (flag, address) in
            sockets.chain(given.outbound.iter().map(|address| ("--outbound", address)))
        {
            problems.socket(flag, address);
        }
        if let Some(odd) = given.resolver.iter().find(|server| server_address(server).is_none()) {
            problems.add(format!(
                "--resolver {odd:?} is no address such as 192.0.2.53 or [2001:db8::53]:53"
            ));
        }
        let hop = matches!(purpose, Purpose::Front | Purpose::Array)
            .then(|| hop(given, host, &mut problems));
        let service = (purpose == Purpose::Milter).then(|| service(given, &mut problems));
        let answers = Answers {
            selector: selector(given, purpose, &name),
            purpose,
            name,
            data: data(given, purpose, host),
            user: user(given, purpose, host),
            listen: listen(given, purpose, host),
            console: given.console.clone(),
            resolvers: given.resolver.clone(),
            domains,
            addresses: addresses(given, host),
            report_to: given.report_to.clone(),
            networks: given.network.clone(),
            service,
            hop,
            membership: membership(given, &mut problems),
        };
        if let Some(selector) = answers.selector.as_ref().filter(|s| !is_key_name(s)) {
            problems.add(format!("--selector {selector:?} is none: use letters, digits and '-'"));
        }
        answers.check_listeners(given, &mut problems);
        if problems.0.is_empty() { Ok(answers) } else { Err(problems.0) }
    }

    /// Two listeners cannot have one port, and all addresses are every address.
    fn check_listeners(&self, given: &Given, problems: &mut Problems) {
        let hop = self.hop.iter();
        let flagged = |flag: &'static str| move |text: &String| Some((flag, text.parse().ok()?));
        let outbound = hop.clone().filter_map(|hop| hop.outbound.as_ref());
        let submission = hop.filter_map(|hop| hop.submission.as_ref());
        let service = self.service.iter().map(|service| &service.address);
        let console = [given.console.clone().unwrap_or(ConsoleSettings::default().address)];
        let all: Vec<(&str, SocketAddr)> = (self.listen.iter().filter_map(flagged("--listen")))
            .chain(outbound.filter_map(flagged("--outbound")))
            .chain(submission.filter_map(flagged("--submission")))
            .chain(service.filter_map(flagged("--service")))
            .chain(console.iter().filter_map(flagged("--console")))
            .collect();
        for (at, (flag, one)) in all.iter().enumerate() {
            let before = all[..at].iter().find(|(_, other)| is_same_socket(*one, *other));
            if let Some((other_flag, other)) = before {
                problems.add(format!(
                    "{flag} {one} and {other_flag} {other} are the same port of the same address; \
                     name single addresses of this machine by these flags, or another port"
                ));
            }
        }
    }

    /// The node proves its name to strangers.
    pub(super) fn has_certificate(&self) -> bool {
        self.hop.as_ref().is_some_and(|hop| hop.certificate != Certificate::SelfSigned)
    }

    /// The configuration will hold a password.
    pub(super) fn has_secret(&self) -> bool {
        matches!(self.membership, Membership::Database { .. })
    }
}

/// The port that a listener has on all addresses of the machine.
pub(super) fn everywhere(host: &Host, port: u16) -> String {
    if host.has_ipv6() { format!("[::]:{port}") } else { format!("0.0.0.0:{port}") }
}

/// A name with a port; the port is added where it is missing.
pub(super) fn with_port(text: &str, port: u16) -> String {
    let bare = text.parse::<IpAddr>();
    match bare {
        Ok(ip) => SocketAddr::new(ip, port).to_string(),
        Err(_) if text.rsplit_once(':').is_some() => text.to_owned(),
        Err(_) => format!("{text}:{port}"),
    }
}

fn listen(given: &Given, purpose: Purpose, host: &Host) -> Vec<String> {
    match (given.listen.is_empty(), purpose) {
        (false, _) => given.listen.clone(),
        (true, Purpose::Trial | Purpose::Milter) => vec![LISTEN.to_owned()],
        (true, Purpose::Front | Purpose::Array) => vec![everywhere(host, 25)],
    }
}

fn data(given: &Given, purpose: Purpose, host: &Host) -> PathBuf {
    match &given.data {
        Some(data) => host.here.join(data),
        None if host.is_root && purpose != Purpose::Trial => Path::new("/var/lib/gauntlet").into(),
        None => host.here.join("gauntlet-data"),
    }
}

/// An address that the internet does not reach would be wrong in the DNS.
fn addresses(given: &Given, host: &Host) -> Vec<IpAddr> {
    if !given.address.is_empty() {
        return given.address.clone();
    }
    host.addresses.iter().copied().filter(|address| is_global(*address)).collect()
}

/// A trial lies where whoever tries it works, and another user could often not get there.
fn user(given: &Given, purpose: Purpose, host: &Host) -> String {
    let default = host.user.clone().filter(|_| purpose != Purpose::Trial);
    given.user.clone().or(default).unwrap_or_default()
}

/// Nodes of an array have keys of their own, which differ by the selector.
fn selector(given: &Given, purpose: Purpose, name: &str) -> Option<String> {
    let default = match purpose {
        Purpose::Array => name.split('.').next().unwrap_or_default(),
        _ => "g1",
    };
    // Exim asks for a verdict, and changes nothing.
    let is_exim = purpose == Purpose::Milter && given.mta == Some(Mta::Exim);
    let signs = purpose != Purpose::Trial && !is_exim && !given.no_dkim;
    signs.then(|| given.selector.clone().unwrap_or_else(|| default.to_owned()))
}

fn service(given: &Given, problems: &mut Problems) -> Service {
    let mta = given.mta.unwrap_or(Mta::Postfix);
    let default = if mta == Mta::Postfix { "127.0.0.1:8891" } else { "127.0.0.1:783" };
    let address = given.service.clone().unwrap_or_else(|| default.to_owned());
    if !address.strip_prefix("unix:").is_some_and(|path| path.starts_with('/')) {
        problems.socket("--service", &address);
    }
    let held_by = given.held_by.unwrap_or(Keeper::Mta);
    let apply = given.apply_postfix;
    if mta == Mta::Exim && (apply || held_by == Keeper::Node) {
        problems.add("--apply-postfix and --held-by node are for Postfix; leave them out".into());
    }
    if given.release_to.is_some() && held_by == Keeper::Mta {
        problems.add("--release-to is for --held-by node; add that, or leave it out".into());
    }
    let release_to = given.release_to.clone().unwrap_or_else(|| "127.0.0.1:10026".to_owned());
    problems.socket("--release-to", &release_to);
    Service { mta, address, held_by, release_to, apply, folder: given.postfix_config.clone() }
}

fn hop(given: &Given, host: &Host, problems: &mut Problems) -> Hop {
    let port = if given.lmtp { 24 } else { 25 };
    let hosts: Vec<String> = given.next_hop.iter().map(|hop| with_port(hop, port)).collect();
    let smart_host = given.smart_host.as_ref().map(|smart| with_port(smart, 25));
    for (hop, text) in hosts.iter().zip(&given.next_hop) {
        problems.host_and_port("--next-hop", (hop, text));
    }
    for (smart, text) in smart_host.iter().zip(&given.smart_host) {
        problems.host_and_port("--smart-host", (smart, text));
    }
    if given.domain.is_empty() {
        problems.add("--domain is missing: the domains that mail is taken for".into());
    }
    if hosts.is_empty() {
        problems.add("--next-hop is missing: the mail server behind the node".into());
    }
    if given.outbound.is_some() == given.network.is_empty() {
        problems.add(
            "--outbound and --network belong together: where your servers hand mail over, and \
             their networks"
                .into(),
        );
    }
    let recipients = match given.recipients.as_deref() {
        None | Some("probe") => Recipients::Probe,
        Some("all") => Recipients::All,
        Some(file) => Recipients::File(host.here.join(file)),
    };
    let submission = given.submission.as_ref().map(|address| match address.as_str() {
        "" => everywhere(host, 587),
        address => address.to_owned(),
    });
    submission.iter().for_each(|address| problems.socket("--submission", address));
    Hop {
        hosts,
        lmtp: given.lmtp,
        tls: given.next_hop_tls.unwrap_or(HopTls::Opportunistic),
        recipients,
        outbound: given.outbound.clone(),
        smart_host,
        submission,
        certificate: certificate(given, host, problems),
    }
}

fn certificate(given: &Given, host: &Host, problems: &mut Problems) -> Certificate {
    match (&given.certificate, &given.key, &given.acme) {
        (Some(certificate), Some(key), None) => {
            Certificate::Own { certificate: host.here.join(certificate), key: host.here.join(key) }
        }
        (None, None, Some(contact)) => {
            problems.mail("--acme", contact);
            let directory = given.acme_directory.as_deref().unwrap_or(ACME_DIRECTORY).to_owned();
            Certificate::Acme { contact: contact.clone(), directory }
        }
        (None, None, None) if given.acme_directory.is_none() => Certificate::SelfSigned,
        (None, None, None) => {
            problems.add("--acme-directory needs --acme MAIL, which agrees to its terms".into());
            Certificate::SelfSigned
        }
        _ => {
            problems.add(
                "--certificate and --key belong together, and --acme is instead of both".into(),
            );
            Certificate::SelfSigned
        }
    }
}

fn membership(given: &Given, problems: &mut Problems) -> Membership {
    match (&given.token, &given.database, &given.objects) {
        (Some(token), None, None) => Membership::Token(token.clone()),
        (None, Some(database), objects) => {
            // Neither is repeated: they hold passwords.
            if DatabaseAddress::parse(database).is_err() {
                problems.add("--database is no postgres://user:password@host/database".into());
            }
            if objects.as_ref().is_some_and(|objects| ObjectsAddress::parse(objects).is_err()) {
                problems.add(
                    "--objects is no s3://key:secret@host/bucket, and no file:///folder".into(),
                );
            }
            Membership::Database { database: database.clone(), objects: objects.clone() }
        }
        (None, None, None) => Membership::Later,
        _ => {
            problems.add(
                "--token brings database and object store along; give it alone, or --database \
                 and --objects"
                    .into(),
            );
            Membership::Later
        }
    }
}

/// What is wrong with the answers.
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: String) {
        self.0.push(problem);
    }

    /// A domain in ASCII; empty if it is none.
    fn domain(&mut self, flag: &str, text: &str) -> String {
        let plain = text.trim().trim_end_matches('.');
        let fits = |domain: &String| {
            let label = |l: &str| {
                !l.is_empty()
                    && l.len() < 64
                    && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
            };
            domain.contains('.')
                && domain.parse::<IpAddr>().is_err()
                && domain.split('.').all(label)
        };
        let domain = ascii_domain(plain).map(|d| d.to_ascii_lowercase()).filter(fits);
        if domain.is_none() {
            let problem = match text {
                "" => format!("{flag} is missing: a full name such as mx.example.org"),
                _ => format!("{flag} {text:?} is no full name such as mx.example.org"),
            };
            self.add(problem);
        }
        domain.unwrap_or_default()
    }

    fn socket(&mut self, flag: &str, text: &str) {
        if text.parse::<SocketAddr>().is_err() {
            self.add(format!(
                "{flag} {text:?} is no address and port such as 192.0.2.10:25 or [::]:25"
            ));
        }
    }

    /// A host with its port, which may have been added to what was `given`.
    fn host_and_port(&mut self, flag: &str, (whole, given): (&str, &str)) {
        if !is_host_and_port(whole) {
            self.add(format!("{flag} {given:?} is no host and port such as mail.example.org:25"));
        }
    }

    fn network(&mut self, text: &str) {
        match text.parse::<Network>() {
            Err(_) => self.add(format!("--network {text:?} is no network such as 10.0.0.0/24")),
            Ok(network) if network.holds_strangers() => self.add(format!(
                "--network {text} holds strangers, who could send to anywhere through the node; \
                 name your own networks"
            )),
            Ok(_) => {}
        }
    }

    fn mail(&mut self, flag: &str, text: &str) {
        let parts = text.rsplit_once('@');
        let plain = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_graphic());
        if !parts.is_some_and(|(local, domain)| plain(local) && plain(domain))
            || text.contains([',', ';', '<', '>', '"', '!'])
        {
            self.add(format!("{flag} {text:?} is no mail address such as postmaster@example.org"));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A machine that unit tests set up.
    pub(in crate::setup) fn host() -> Host {
        Host {
            name: Some("mx.example.org".into()),
            addresses: vec!["192.0.2.10".parse().unwrap()],
            is_root: true,
            user: Some("gauntlet".into()),
            postconf: None,
            has_unit: false,
            here: "/srv/trial".into(),
        }
    }

    /// The answers to these flags on that machine.
    pub(in crate::setup) fn answers(line: &str) -> Result<Answers, Vec<String>> {
        let given = given(line);
        let purpose = given.purpose().expect("a purpose");
        Answers::of(&given, purpose, &host())
    }

    /// What these flags say.
    pub(in crate::setup) fn given(line: &str) -> Given {
        use clap::{Args, FromArgMatches};
        let command = Given::augment_args(clap::Command::new("setup").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace());
        Given::from_arg_matches(&matches.unwrap_or_else(|e| panic!("{e}"))).unwrap()
    }

    #[test]
    fn defaults_follow_from_purpose_and_machine() {
        let trial = answers("trial").unwrap();
        assert_eq!(trial.data, Path::new("/srv/trial/gauntlet-data"));
        assert_eq!((trial.listen, trial.selector), (vec![LISTEN.to_owned()], None));
        let front = answers("front --domain example.org --next-hop 10.0.0.5").unwrap();
        assert_eq!(front.listen, ["0.0.0.0:25"]);
        assert_eq!(front.hop.unwrap().hosts, ["10.0.0.5:25"]);
        assert_eq!((front.name.as_str(), front.user.as_str()), ("mx.example.org", "gauntlet"));
        let array = answers("array --domain example.org --next-hop fd00::5 --lmtp").unwrap();
        assert_eq!(array.selector.as_deref(), Some("mx"));
        assert_eq!(array.hop.unwrap().hosts, ["[fd00::5]:24"]);
        let both = answers("--for front --domain a.example,b.example --next-hop h:26").unwrap();
        assert_eq!(both.domains, ["a.example", "b.example"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_mend_and_all_at_once() {
        let wrong = |line: &str| answers(line).unwrap_err().join("\n");
        let front = "front --domain example.org --next-hop 10.0.0.5 ";
        for (line, said) in [
            ("front", "--domain is missing"),
            ("front", "--next-hop is missing"),
            ("trial --token x", "--token is for array, and this is trial"),
            ("milter --next-hop a:25", "--next-hop is for front, array, and this is milter"),
            ("milter --mta exim --apply-postfix", "are for Postfix"),
            ("milter --release-to 127.0.0.1:1", "--held-by node"),
            ("milter --network 0.0.0.0/0", "holds strangers"),
            ("milter --service 8891", "--service \"8891\" is no address and port"),
            ("milter --service 127.0.0.1:2525", "--service 127.0.0.1:2525 and --listen 127"),
            ("milter --selector ../../x", "--selector \"../../x\" is none"),
            ("trial --listen localhost", "--listen \"localhost\" is no address and port"),
            ("trial --resolver foo", "--resolver \"foo\" is no address"),
            ("trial --listen 127.0.0.1:1 --console 127.0.0.1:1", "--console 127.0.0.1:1 and"),
        ] {
            assert!(wrong(line).contains(said), "{line}: {}", wrong(line));
        }
        for (more, said) in [
            ("--name localhost", "no full name"),
            ("--domain nodots", "no full name"),
            ("--domain 192.0.2.1", "no full name"),
            ("--next-hop a:b", "--next-hop \"a:b\" is no host and port"),
            ("--next-hop=", "--next-hop \"\" is no host and port"),
            ("--certificate c.pem", "belong together"),
            ("--certificate c --key k --acme a@example.org", "instead of both"),
            ("--acme-directory https://ca.example", "needs --acme"),
            ("--acme nobody", "no mail address"),
            ("--report-to a,b@example.org", "no mail address"),
            ("--outbound 10.0.0.10:25", "--network"),
            ("--outbound 0.0.0.0:25 --network 10.0.0.5", "--outbound 0.0.0.0:25 and --listen 0"),
            ("--outbound 10.0.0.10:25 --network 10.0.0.5", "same port"),
            ("--network 10.0.0.5", "--outbound"),
        ] {
            assert!(wrong(&format!("{front}{more}")).contains(said), "{more}");
        }
        let fine = "--listen 192.0.2.10:25 --outbound 10.0.0.10:25 --network 10.0.0.5";
        assert!(answers(&format!("{front}{fine}")).is_ok());
        assert!(
            answers("array --domain example.org --next-hop a --token t --database postgres://x")
                .is_err()
        );
        for (flags, said) in [
            ("--database foo", "--database is no postgres://"),
            ("--database postgres://u:p@h/d --objects x", "--objects is no s3://"),
        ] {
            let line = format!("array --domain example.org --next-hop a {flags}");
            assert!(wrong(&line).contains(said), "{line}: {}", wrong(&line));
        }
    }
}
