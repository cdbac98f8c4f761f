//! `gauntlet facts`: what the network says about a message.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use gauntlet_gateway::facts::FactCollector;
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_inputs::file;
use gauntlet_inputs::rules::{ProfileName, ReadingArgs};
use gauntlet_mail::{Envelope, Facts, Message, trace};
use gauntlet_spamassassin::Ruleset;

/// Arguments of `gauntlet facts`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Client, HELO and sender are those of the message's own trace fields \
(Received, Return-Path) unless given.

JSON: {\"facts\":{...},\"envelope\":{...},\"millis\"}: the facts as the message log keeps them,
each look-up with effect, kind, name, outcome, answers and millis.

Examples:
  gauntlet facts message.eml
  gauntlet facts --client 192.0.2.1 --helo mail.example.org --mail-from a@example.org message.eml
  gauntlet facts --rules /usr/share/spamassassin --site /etc/spamassassin message.eml
  gauntlet facts --dns 127.0.0.1:5353 --json - < message.eml")]
pub(crate) struct Args {
    /// The message, or `-` for standard input
    message: PathBuf,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// What the client called itself
    #[arg(long, value_name = "NAME")]
    helo: Option<String>,
    /// Envelope sender; empty for the null sender
    #[arg(long, value_name = "ADDRESS")]
    mail_from: Option<String>,
    /// Resolver to ask, with or without a port; repeat for more [default: the configuration's]
    #[arg(long, value_name = "SERVER")]
    dns: Vec<String>,
    /// The configuration file; without one, defaults and environment
    #[arg(short, long, env = "GAUNTLET_CONFIG")]
    config: Option<PathBuf>,
    /// Ask what these SpamAssassin rules ask too: a folder or file (may be repeated)
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    /// Folder with .pre files (plugins) and further .cf files, as /etc/spamassassin (may be
    /// repeated)
    #[arg(long, value_name = "DIR", requires = "rules")]
    site: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded =
        crate::shared_settings::load(args.config.as_deref(), crate::environment::environment)?;
    let mut config = loaded.config;
    config.facts.enabled = true;
    if !args.dns.is_empty() {
        config.dns.servers.clone_from(&args.dns);
    }
    if args.client.is_some() {
        // A client that is named is to be examined.
        config.facts.our_networks.clear();
    }
    let raw = file::with_crlf(&file::read(&args.message)?);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let mut envelope = trace::of_trace(&Message::parse(&raw), now);
    envelope.client_ip = args.client.or(envelope.client_ip);
    if let Some(helo) = &args.helo {
        envelope.helo.clone_from(helo);
    }
    if let Some(sender) = &args.mail_from {
        sender.trim_matches(['<', '>']).clone_into(&mut envelope.mail_from);
    }
    let ruleset = ruleset(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = Instant::now();
    let facts = runtime.block_on(async {
        let resolver = Arc::new(Resolver::new(&config.dns)?);
        let host = config.node.host_name();
        let collector = FactCollector::new(resolver, &config.facts, &config.dns_list, &host)?
            .with_limits(&config.limits)
            .with_rules(ruleset.as_ref());
        anyhow::Ok(collector.gather(&envelope, &raw).await)
    })?;
    let millis = start.elapsed().as_millis();
    let mut out = std::io::stdout().lock();
    if args.json {
        let line = serde_json::json!({ "facts": facts, "envelope": envelope, "millis": millis });
        writeln!(out, "{line}")?;
    } else {
        write!(out, "{}", table(&facts, &envelope))?;
        writeln!(out, "\n{} look-ups in {millis} ms", facts.lookups.len())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The rules whose questions are asked too.
fn ruleset(args: &Args) -> anyhow::Result<Option<Arc<Ruleset>>> {
    if args.rules.is_empty() {
        return Ok(None);
    }
    let reading = ReadingArgs { profile: ProfileName::Full, site: args.site.clone() };
    Ok(Some(Arc::new(reading.load(&args.rules, false, false)?)))
}

/// A word of serde's for a value: `pass`, `reject`, ...
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn table(facts: &Facts, envelope: &Envelope) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str, about: &str| {
        text.push_str(format!("{name:<10} {value:<10} {about}").trim_end());
        text.push('\n');
    };
    let client = envelope.client_ip.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string());
    line("client", &client, &format!("helo {:?}, from <{}>", envelope.helo, envelope.mail_from));
    let confirmed = match (facts.reverse_confirmed, &facts.reverse_name) {
        (Some(true), _) => "confirmed",
        (Some(false), None) => "no name",
        (Some(false), Some(_)) => "false",
        (None, _) => "unknown",
    };
    line("reverse", confirmed, facts.reverse_name.as_deref().unwrap_or_default());
    line("spf", &word(&facts.spf), facts.spf_explanation.as_deref().unwrap_or_default());
    line("spf helo", &word(&facts.spf_helo), "");
    for signature in &facts.dkim {
        let part = if signature.partial_body { ", a part of the body" } else { "" };
        let key = match signature.key_bits {
            0 => "no key that can be read".to_owned(),
            bits => format!("{bits} bits"),
        };
        let about = format!("{} of {}, {key}{part}", signature.selector, signature.domain);
        line("dkim", &word(&signature.result), &about);
    }
    if facts.dkim.is_empty() {
        line("dkim", "none", "no signature");
    }
    line("arc", &word(&facts.arc), facts.arc_domain.as_deref().unwrap_or_default());
    let policy = match &facts.dmarc_domain {
        Some(domain) => format!("{domain} asks for {}", word(&facts.dmarc_policy)),
        None => String::new(),
    };
    line("dmarc", &word(&facts.dmarc), &policy);
    for listing in &facts.listings {
        let about =
            format!("{} on {}: {}", listing.subject, listing.zone, listing.answers.join(" "));
        line("listed", &format!("{:+}", listing.points), &about);
    }
    for answer in &facts.rule_answers {
        let about = match answer.answers.as_slice() {
            [] => "there is nothing".to_owned(),
            answers => answers.join(" "),
        };
        line("rule asks", &answer.question, &about);
    }
    for note in &facts.notes {
        text.push_str(&format!("note       {note}\n"));
    }
    text.push('\n');
    text.push_str(&lookups(facts));
    text
}

fn lookups(facts: &Facts) -> String {
    let mut text = String::new();
    for l in &facts.lookups {
        let outcome = if l.cached { format!("{}, known", l.outcome) } else { l.outcome.clone() };
        let answers = l.answers.join(" | ");
        text.push_str(
            format!("{:<8} {:<4} {}  {outcome}, {} ms", l.effect, l.kind, l.name, l.millis)
                .trim_end(),
        );
        if !answers.is_empty() {
            text.push_str(&format!("\n              {answers}"));
        }
        text.push('\n');
    }
    text
}
