//! What an administrator says: by flags, by the environment, or as answers to questions. All three
//! end in the same value, so that a question can be answered beforehand and a script can do what a
//! person did.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::BoolishValueParser;

/// What the node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// Look at it on this machine: loopback only, mail ends in a Maildir
    Trial,
    /// Judge mail for a Postfix or Exim that stays the MX
    Milter,
    /// Be the MX in front of Exchange, Dovecot or another mail server
    Front,
    /// The same as one node of an array
    Array,
}

impl Purpose {
    /// The word of the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Purpose::Trial => "trial",
            Purpose::Milter => "milter",
            Purpose::Front => "front",
            Purpose::Array => "array",
        }
    }
}

/// The mail server that asks for verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mta {
    /// By the milter protocol
    Postfix,
    /// By spamd's protocol
    Exim,
}

/// Who keeps what the policy holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Keeper {
    /// Postfix, in its hold queue
    Mta,
    /// The node, in its quarantine
    Node,
}

/// TLS towards the next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HopTls {
    /// Plain text
    Off,
    /// If it is offered
    Opportunistic,
    /// Always, with any certificate
    Required,
    /// Always, with a certificate of a trusted authority
    Verified,
}

impl HopTls {
    /// The word in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            HopTls::Off => "off",
            HopTls::Opportunistic => "opportunistic",
            HopTls::Required => "required",
            HopTls::Verified => "verified",
        }
    }
}

const NODE: &str = "Node";
const DNS: &str = "DNS records and signing";
const MILTER: &str = "For milter";
const FRONT: &str = "For front and array";
const ARRAY: &str = "For array";

/// Everything that was said so far. What is absent has a default, or is asked for.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Given {
    /// What the node is for; before --for
    #[arg(value_name = "FOR", value_enum)]
    pub(super) purpose: Option<Purpose>,
    /// The same as an option
    #[arg(long = "for", value_name = "FOR", value_enum, env = "GAUNTLET_SETUP_FOR")]
    pub(super) purpose_option: Option<Purpose>,

    /// Full host name of the node [default: the machine's, if that is full]
    #[arg(long, env = "GAUNTLET_SETUP_NAME", help_heading = NODE)]
    pub(super) name: Option<String>,
    /// Data folder [default: /var/lib/gauntlet for root, else ./gauntlet-data]
    #[arg(long, value_name = "DIR", env = "GAUNTLET_SETUP_DATA", help_heading = NODE)]
    pub(super) data: Option<PathBuf>,
    /// User that the node becomes if root starts it [default: gauntlet, if root asks and there is
    /// such a user]
    #[arg(long, env = "GAUNTLET_SETUP_USER", help_heading = NODE)]
    pub(super) user: Option<String>,
    /// Address and port where mail is taken [default: 127.0.0.1:2525; front and array: port 25 of
    /// all addresses]
    #[arg(long, value_name = "ADDRESS", env = "GAUNTLET_SETUP_LISTEN", value_delimiter = ',', help_heading = NODE)]
    pub(super) listen: Vec<String>,
    /// Address and port of the web console [default: 127.0.0.1:8025]
    #[arg(long, value_name = "ADDRESS", env = "GAUNTLET_SETUP_CONSOLE", help_heading = NODE)]
    pub(super) console: Option<String>,
    /// Resolver that the node asks [default: the system's]
    #[arg(long, value_name = "SERVER", env = "GAUNTLET_SETUP_RESOLVER", value_delimiter = ',', help_heading = NODE)]
    pub(super) resolver: Vec<String>,

    /// Domain that mail is taken for; milter: whose outbound mail is signed. Repeat for more
    #[arg(long, env = "GAUNTLET_SETUP_DOMAIN", value_delimiter = ',', help_heading = DNS)]
    pub(super) domain: Vec<String>,
    /// Address that the internet reaches the node by, for the DNS records; repeat for more
    /// [default: those of this machine]
    #[arg(long, value_name = "IP", env = "GAUNTLET_SETUP_ADDRESS", value_delimiter = ',', help_heading = DNS)]
    pub(super) address: Vec<IpAddr>,
    /// Mail address for reports of DMARC and TLS [default: postmaster@ each domain]
    #[arg(long, value_name = "MAIL", env = "GAUNTLET_SETUP_REPORT_TO", help_heading = DNS)]
    pub(super) report_to: Option<String>,
    /// Selector of the DKIM keys [default: g1; array: the first label of the name]
    #[arg(long, env = "GAUNTLET_SETUP_SELECTOR", help_heading = DNS)]
    pub(super) selector: Option<String>,
    /// Make no DKIM keys
    #[arg(long, env = "GAUNTLET_SETUP_NO_DKIM", value_parser = BoolishValueParser::new(), help_heading = DNS)]
    pub(super) no_dkim: bool,

    /// Mail server that asks for verdicts [default: postfix]
    #[arg(long, value_enum, env = "GAUNTLET_SETUP_MTA", help_heading = MILTER)]
    pub(super) mta: Option<Mta>,
    /// Where it asks: address and port, or unix: and a path [default: 127.0.0.1:8891; Exim:
    /// 127.0.0.1:783]
    #[arg(long, value_name = "ADDRESS", env = "GAUNTLET_SETUP_SERVICE", help_heading = MILTER)]
    pub(super) service: Option<String>,
    /// Who keeps held mail [default: mta]
    #[arg(long, value_enum, env = "GAUNTLET_SETUP_HELD_BY", help_heading = MILTER)]
    pub(super) held_by: Option<Keeper>,
    /// Port of Postfix that takes what the node's quarantine releases [default: 127.0.0.1:10026]
    #[arg(long, value_name = "ADDRESS", env = "GAUNTLET_SETUP_RELEASE_TO", help_heading = MILTER)]
    pub(super) release_to: Option<String>,
    /// Set the lines in Postfix by postconf; `setup undo` restores it
    #[arg(long, env = "GAUNTLET_SETUP_APPLY_POSTFIX", value_parser = BoolishValueParser::new(), help_heading = MILTER)]
    pub(super) apply_postfix: bool,
    /// Folder of main.cf [default: postconf's own]
    #[arg(long, value_name = "DIR", env = "GAUNTLET_SETUP_POSTFIX_CONFIG", help_heading = MILTER)]
    pub(super) postfix_config: Option<PathBuf>,

    /// Mail server behind the node, host and port; repeat for spares, first first
    #[arg(long, value_name = "HOST:PORT", env = "GAUNTLET_SETUP_NEXT_HOP", value_delimiter = ',', help_heading = FRONT)]
    pub(super) next_hop: Vec<String>,
    /// The next hop uses LMTP (Dovecot); its port is 24 then, if none is said
    #[arg(long, env = "GAUNTLET_SETUP_LMTP", value_parser = BoolishValueParser::new(), help_heading = FRONT)]
    pub(super) lmtp: bool,
    /// TLS towards it [default: opportunistic]
    #[arg(long, value_enum, env = "GAUNTLET_SETUP_NEXT_HOP_TLS", help_heading = FRONT)]
    pub(super) next_hop_tls: Option<HopTls>,
    /// Which recipients exist: probe (ask the next hop), all, or a file with one a line [default:
    /// probe]
    #[arg(long, value_name = "HOW", env = "GAUNTLET_SETUP_RECIPIENTS", help_heading = FRONT)]
    pub(super) recipients: Option<String>,
    /// Network of your own servers, whose mail goes out (also for milter); repeat for more
    #[arg(long, value_name = "NETWORK", env = "GAUNTLET_SETUP_NETWORK", value_delimiter = ',', help_heading = FRONT)]
    pub(super) network: Vec<String>,
    /// Address and port where these hand it over
    #[arg(long, value_name = "ADDRESS", env = "GAUNTLET_SETUP_OUTBOUND", help_heading = FRONT)]
    pub(super) outbound: Option<String>,
    /// Host and port that outbound mail goes to [default: by the DNS]
    #[arg(long, value_name = "HOST:PORT", env = "GAUNTLET_SETUP_SMART_HOST", help_heading = FRONT)]
    pub(super) smart_host: Option<String>,
    /// Address and port where people send after a login [without a value: port 587 of all
    /// addresses]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "", env = "GAUNTLET_SETUP_SUBMISSION", help_heading = FRONT)]
    pub(super) submission: Option<String>,
    /// PEM chain of the certificate; without one the node signs its own
    #[arg(long, value_name = "FILE", env = "GAUNTLET_SETUP_CERTIFICATE", help_heading = FRONT)]
    pub(super) certificate: Option<PathBuf>,
    /// Its PEM private key
    #[arg(long, value_name = "FILE", env = "GAUNTLET_SETUP_KEY", help_heading = FRONT)]
    pub(super) key: Option<PathBuf>,
    /// Get a certificate by ACME, and agree to the authority's terms; it may write to this address
    #[arg(long, value_name = "MAIL", env = "GAUNTLET_SETUP_ACME", help_heading = FRONT)]
    pub(super) acme: Option<String>,
    /// Its directory [default: Let's Encrypt's]
    #[arg(long, value_name = "URL", env = "GAUNTLET_SETUP_ACME_DIRECTORY", help_heading = FRONT)]
    pub(super) acme_directory: Option<String>,

    /// What `gauntlet array token` printed; - reads it from standard input
    #[arg(long, env = "GAUNTLET_SETUP_TOKEN", hide_env_values = true, help_heading = ARRAY)]
    pub(super) token: Option<String>,
    /// The array's PostgreSQL database, instead of a token: postgres://user:password@host/database
    #[arg(long, value_name = "URL", env = "GAUNTLET_SETUP_DATABASE", hide_env_values = true, help_heading = ARRAY)]
    pub(super) database: Option<String>,
    /// Its object store: s3://key:secret@host/bucket
    #[arg(long, value_name = "URL", env = "GAUNTLET_SETUP_OBJECTS", hide_env_values = true, help_heading = ARRAY)]
    pub(super) objects: Option<String>,
}

impl Given {
    /// What the node is for, however it was said.
    pub(super) fn purpose(&self) -> Option<Purpose> {
        self.purpose.or(self.purpose_option)
    }

    /// Flags that were given and mean nothing for this purpose, with those that they are for.
    pub(super) fn strangers(&self, purpose: Purpose) -> Vec<String> {
        use Purpose::{Array, Front, Milter, Trial};
        let front: &[Purpose] = &[Front, Array];
        let mail: &[Purpose] = &[Milter, Front, Array];
        let flags: [(&str, bool, &[Purpose]); 25] = [
            ("--listen", !self.listen.is_empty(), &[Trial, Milter, Front, Array]),
            ("--domain", !self.domain.is_empty(), mail),
            ("--address", !self.address.is_empty(), mail),
            ("--report-to", self.report_to.is_some(), mail),
            ("--selector", self.selector.is_some(), mail),
            ("--no-dkim", self.no_dkim, mail),
            ("--network", !self.network.is_empty(), mail),
            ("--mta", self.mta.is_some(), &[Milter]),
            ("--service", self.service.is_some(), &[Milter]),
            ("--held-by", self.held_by.is_some(), &[Milter]),
            ("--release-to", self.release_to.is_some(), &[Milter]),
            ("--apply-postfix", self.apply_postfix, &[Milter]),
            ("--postfix-config", self.postfix_config.is_some(), &[Milter]),
            ("--next-hop", !self.next_hop.is_empty(), front),
            ("--lmtp", self.lmtp, front),
            ("--next-hop-tls", self.next_hop_tls.is_some(), front),
            ("--recipients", self.recipients.is_some(), front),
            ("--outbound", self.outbound.is_some(), front),
            ("--smart-host", self.smart_host.is_some(), front),
            ("--submission", self.submission.is_some(), front),
            ("--certificate", self.certificate.is_some() || self.key.is_some(), front),
            ("--acme", self.acme.is_some() || self.acme_directory.is_some(), front),
            ("--token", self.token.is_some(), &[Array]),
            ("--database", self.database.is_some(), &[Array]),
            ("--objects", self.objects.is_some(), &[Array]),
        ];
        let wrong = flags.iter().filter(|(_, given, of)| *given && !of.contains(&purpose));
        let names = |of: &[Purpose]| of.iter().map(|p| p.name()).collect::<Vec<_>>().join(", ");
        wrong
            .map(|(flag, _, of)| {
                format!("{flag} is for {}, and this is {}; leave it out", names(of), purpose.name())
            })
            .collect()
    }
}
