//! Examples for the help of subcommands that have none in their own file. They stand here together
//! so that one test can see that each is understood.

use clap::{Command, CommandFactory};

/// Subcommand, and lines of its help: a command, and perhaps what it does after two spaces or more.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "gauntlet serve                          with defaults, data in ./gauntlet-data",
            "gauntlet serve --config gauntlet.toml   with your settings",
        ],
    ),
    ("upgrade", &["gauntlet upgrade check           with the new program, before it is started"]),
    ("searches list", &["gauntlet searches list ann"]),
    (
        "searches keep",
        &["gauntlet searches keep ann bank 'class=spam&sender=@bank.example' --shared"],
    ),
    ("searches forget", &["gauntlet searches forget ann bank"]),
    ("own show", &["gauntlet own ann@example.org show"]),
    ("own strictness", &["gauntlet own ann@example.org strictness lax"]),
    ("own allow", &["gauntlet own ann@example.org allow news@shop.example"]),
    ("own block", &["gauntlet own ann@example.org block pills.example"]),
    ("own remove", &["gauntlet own ann@example.org remove pills.example"]),
    ("queue", &["gauntlet queue list", "gauntlet queue retry 1M7YFK6WX0000"]),
    ("queue list", &["gauntlet queue list"]),
    ("queue show", &["gauntlet queue show 1M7YFK6WX0000"]),
    (
        "queue retry",
        &[
            "gauntlet queue retry                    all that wait, now",
            "gauntlet queue retry 1M7YFK6WX0000",
        ],
    ),
    ("queue hold", &["gauntlet queue hold 1M7YFK6WX0000"]),
    ("queue delete", &["gauntlet queue delete 1M7YFK6WX0000"]),
    ("quarantine list", &["gauntlet quarantine list --recipient ann@example.org"]),
    ("quarantine folders", &["gauntlet quarantine folders --json"]),
    ("quarantine show", &["gauntlet quarantine show 1M7YFK6WX0000 > message.eml"]),
    ("quarantine release", &["gauntlet quarantine release 1M7YFK6WX0000 --learn"]),
    ("quarantine delete", &["gauntlet quarantine delete 1M7YFK6WX0000"]),
    ("quarantine rotate-key", &["gauntlet quarantine rotate-key"]),
    ("quarantine verify", &["gauntlet quarantine verify"]),
    (
        "quarantine rebuild",
        &["gauntlet quarantine rebuild            when the list of held mail is lost or damaged"],
    ),
    ("senders list", &["gauntlet senders list --json"]),
    ("senders allow", &["gauntlet senders allow partner.example"]),
    ("senders block", &["gauntlet senders block 192.0.2.0/24"]),
    ("senders remove", &["gauntlet senders remove partner.example"]),
    ("user change", &["gauntlet user change ann --role reviewer --folder suspect"]),
    ("trace", &["gauntlet trace 1M7YFK6WX0000            the reference in our reply"]),
    ("dlp test", &["gauntlet dlp test message.eml"]),
    ("dlp detectors", &["gauntlet dlp detectors"]),
    ("dlp fingerprint", &["gauntlet dlp fingerprint /srv/confidential"]),
    (
        "channel",
        &[
            "gauntlet channel publish /srv/www/main today --keys keys",
            "gauntlet channel show --data /var/lib/gauntlet",
        ],
    ),
    ("channel init", &["gauntlet channel init /srv/www/main --keys /media/usb/main-keys"]),
    ("channel keys", &["gauntlet channel keys /srv/www/main --keys keys list"]),
    ("channel keys list", &["gauntlet channel keys /srv/www/main --keys keys list"]),
    ("channel keys rotate", &["gauntlet channel keys /srv/www/main --keys keys rotate targets"]),
    ("channel keys add", &["gauntlet channel keys /srv/www/main --keys keys add root"]),
    ("channel keys remove", &["gauntlet channel keys /srv/www/main --keys keys remove root 3f9c"]),
    (
        "channel keys threshold",
        &["gauntlet channel keys /srv/www/main --keys keys threshold root 2"],
    ),
    ("channel keys renew", &["gauntlet channel keys /srv/www/main --keys /media/usb/keys renew"]),
    ("channel keys sign", &["gauntlet channel keys /srv/www/main --keys /media/usb/keys sign"]),
    (
        "channel publish",
        &[
            "gauntlet channel publish /srv/www/main rules-of-today --keys keys --note parcel-lures",
            "gauntlet channel publish /srv/www/main --keys keys --refresh     every few hours",
            "gauntlet channel publish /srv/www/main today --keys keys --probes /var/lib/gauntlet \
             --every 10",
        ],
    ),
    (
        "channel import",
        &[
            "gauntlet channel import /var/lib/spamassassin/4.000000/updates_spamassassin_org \
             --into today",
            "gauntlet channel import 1928000.tar.gz --keyring sa.gpg --into today",
            "gauntlet channel import --sa-channel updates.spamassassin.org --keyring sa.gpg \
             --into today",
        ],
    ),
    ("channel verify", &["gauntlet channel verify /srv/www/main"]),
    (
        "channel show",
        &[
            "gauntlet channel show /srv/www/main",
            "gauntlet channel show --data /var/lib/gauntlet   how the subscriptions are",
        ],
    ),
    ("channel diff", &["gauntlet channel diff /srv/www/main 11 12"]),
    (
        "channel subscribe",
        &["gauntlet channel subscribe main https://mirror.example/main --root main.root.json"],
    ),
    ("channel pull", &["gauntlet channel pull main"]),
    ("channel promote", &["gauntlet channel promote main 12"]),
    ("channel reject", &["gauntlet channel reject main 12 --reason newsletters-called-spam"]),
    ("channel pin", &["gauntlet channel pin main 11", "gauntlet channel pin main --off"]),
    ("channel rollback", &["gauntlet channel rollback main --reason holds-newsletters"]),
    (
        "channel upload",
        &["gauntlet channel upload /srv/www/main objects:channels/main --config gauntlet.toml"],
    ),
    (
        "channel mirror",
        &[
            "gauntlet channel mirror https://origin.example/main /srv/www/main --root main.root.json",
        ],
    ),
    ("ca new", &["gauntlet ca new --out /etc/gauntlet/ca --days 730"]),
    ("ca show", &["gauntlet ca show /etc/gauntlet/ca"]),
    (
        "ips replay",
        &[
            "gauntlet ips replay capture.pcap --rules local.rules --eve eve.json",
            "gauntlet ips replay capture.pcap --rules local.rules --json | jq .alert.signature",
            "gauntlet ips replay capture.pcap --eve - | jq 'select(.event_type == \"dns\")'",
            "gauntlet ips replay capture.pcapng.zst --eve - --set vars.address-groups.HOME_NET=any",
            "gauntlet ips replay capture.pcap --filestore files --eve eve.json",
            "gauntlet ips replay capture.pcap --rules local.rules --suricata-yaml suricata.yaml",
            "gauntlet ips replay capture.pcap --inline --packet-policy gauntlet.toml",
            "gauntlet ips replay capture.pcap --scan mail,urls --block bad.urls",
        ],
    ),
    (
        "ips run",
        &[
            "gauntlet ips run --interface eth0 --rules local.rules --eve eve.json",
            "gauntlet ips run --interface eth0 --copy-interface eth1 --rules local.rules",
            "gauntlet ips run --queue 0 --packet-policy gauntlet.toml --rules local.rules",
            "gauntlet ips run --wireguard wg0.conf --rules local.rules",
            "gauntlet ips run --queue 0-1 --fail-open --rules local.rules --user suricata",
            "gauntlet ips run --queue 0 --rules local.rules --set nfq.mode=repeat",
            "gauntlet ips run --interface eth0 --suricata-yaml suricata.yaml --rules local.rules",
            "gauntlet ips run --interface eth0 --rules local.rules --metrics 127.0.0.1:9600",
            "gauntlet ips run --queue 0 --scan mail,files --scan-config g.toml --drop-on malware",
        ],
    ),
    (
        "ips",
        &[
            "gauntlet ips replay capture.pcap --rules emerging-all.rules --eve eve.json",
            "gauntlet ips run --interface eth0 --copy-interface eth1 --rules local.rules",
            "gauntlet ips rules check emerging-all.rules local.rules",
        ],
    ),
    (
        "ips policy",
        &[
            "gauntlet ips policy check gauntlet.toml",
            "gauntlet ips policy explain gauntlet.toml --from 10.0.0.7 --to 192.0.2.1:443",
        ],
    ),
    ("ips policy check", &["gauntlet ips policy check --json gauntlet.toml"]),
    (
        "ips policy explain",
        &[
            "gauntlet ips policy explain gauntlet.toml --from 10.0.0.7 --to 192.0.2.1:443",
            "gauntlet ips policy explain g.toml --from 10.0.0.7 --to 192.0.2.1 --protocol icmp/8",
            "gauntlet ips policy explain g.toml --from 10.0.0.7 --to 192.0.2.1:25 --zone inside",
        ],
    ),
    (
        "ips rules",
        &[
            "gauntlet ips rules check emerging-all.rules local.rules",
            "gauntlet ips rules profile capture.pcap --rules emerging-all.rules",
        ],
    ),
    (
        "ips rules profile",
        &[
            "gauntlet ips rules profile capture.pcap --rules emerging-all.rules --sort average",
            "gauntlet ips rules profile capture.pcap --rules local.rules --json | jq .searches",
        ],
    ),
    (
        "ips rules parity",
        &["gauntlet ips rules parity capture.pcap --rules emerging-all.rules --eve eve.json"],
    ),
    ("ips rules check", &["gauntlet ips rules check --json local.rules"]),
    ("phrases check", &["gauntlet phrases check --json /etc/e2guardian/lists/weightedphraselist"]),
    ("phrases score", &["gauntlet phrases score casino.txt --page page.html --limit 100 --every"]),
    ("urls compile", &["gauntlet urls compile --out bad.urls /srv/blacklists"]),
    ("urls check", &["gauntlet urls check easylist.txt", "gauntlet urls check bad.urls"]),
    (
        "urls look-up",
        &[
            "gauntlet urls look-up --list bad.urls http://evil.example/",
            "gauntlet urls look-up --list bad.urls --allow good.urls --json -",
        ],
    ),
    ("policy check", &["gauntlet policy check policy.toml"]),
    ("policy explain", &["gauntlet policy explain message.eml"]),
    ("policy test", &["gauntlet policy test cases.toml"]),
    ("policy apply", &["gauntlet policy apply policy.toml --note stricter"]),
    ("policy history", &["gauntlet policy history", "gauntlet policy history --most 5 --json"]),
    (
        "policy show",
        &[
            "gauntlet policy show > policy.toml      the newest",
            "gauntlet policy show 7 --diff           what version 7 changed",
            "gauntlet policy show 7 --against 4",
        ],
    ),
    (
        "policy rollback",
        &[
            "gauntlet policy rollback                undoes the last change",
            "gauntlet policy rollback 4 --note too-strict",
        ],
    ),
    ("digest send", &["gauntlet digest send --now --config gauntlet.toml"]),
    ("digest preview", &["gauntlet digest preview ann@example.org"]),
    ("token new", &["gauntlet token new monitoring --scope status:read --days 30"]),
    ("token list", &["gauntlet token list"]),
    ("token revoke", &["gauntlet token revoke monitoring"]),
    ("config", &["gauntlet config check gauntlet.toml", "gauntlet config show"]),
    ("config check", &["gauntlet config check gauntlet.toml"]),
    (
        "config show",
        &[
            "gauntlet config show                    defaults and environment",
            "gauntlet config show --config gauntlet.toml --json",
        ],
    ),
    ("rules", &["gauntlet rules check /usr/share/spamassassin", "gauntlet rules test rules"]),
    ("rules check", &["gauntlet rules check /usr/share/spamassassin --site /etc/spamassassin"]),
    ("rules test", &["gauntlet rules test", "gauntlet rules test /etc/gauntlet/rules"]),
    (
        "rules order",
        &["gauntlet rules order --rules /usr/share/spamassassin --yesterday ~/sunday ~/monday"],
    ),
    ("rules diff", &["gauntlet rules diff old.cf new.cf ~/Maildir"]),
    ("dmarc report", &["gauntlet dmarc report --config gauntlet.toml --day 2026-11-20"]),
    ("dmarc send", &["gauntlet dmarc send --config gauntlet.toml"]),
    ("tlsrpt report", &["gauntlet tlsrpt report --config gauntlet.toml --day 2026-11-20"]),
    ("tlsrpt send", &["gauntlet tlsrpt send --config gauntlet.toml"]),
    ("dkim new", &["gauntlet dkim new --config gauntlet.toml example.org"]),
    ("dkim list", &["gauntlet dkim list --config gauntlet.toml"]),
    ("dkim rotate", &["gauntlet dkim rotate --config gauntlet.toml example.org"]),
    ("user", &["gauntlet user add ann", "gauntlet user list"]),
    ("user add", &["gauntlet user add ann                   prints a one-time password"]),
    ("user list", &["gauntlet user list"]),
    ("user passwd", &["gauntlet user passwd ann                a new one-time password"]),
    ("user new-database", &["gauntlet user new-database              where the old one is lost"]),
    (
        "user second-factor-off",
        &["gauntlet user second-factor-off ann      who lost the telephone"],
    ),
    ("user remove", &["gauntlet user remove ann"]),
    ("user app-password", &["gauntlet user app-password new ann phone"]),
    (
        "user app-password new",
        &["gauntlet user app-password new ann phone   prints a password for SMTP AUTH, once"],
    ),
    ("user app-password list", &["gauntlet user app-password list ann"]),
    ("user app-password revoke", &["gauntlet user app-password revoke ann phone"]),
    ("bench", &["gauntlet bench scan ~/Maildir"]),
    ("bench scan", &["gauntlet bench scan ~/Maildir --threads 1 --seconds 10"]),
    (
        "bench packets",
        &[
            "gauntlet bench packets capture.pcap",
            "gauntlet bench packets capture.pcap --rules emerging-all.rules --rounds 4",
            "gauntlet bench packets capture.pcap --rules emerging-all.rules --threads 2 --json",
            "gauntlet bench packets --experiment --rounds 5 --report experiment/",
        ],
    ),
    (
        "completions",
        &["gauntlet completions bash > ~/.local/share/bash-completion/completions/gauntlet"],
    ),
    (
        "man",
        &[
            "gauntlet man | man -l -",
            "gauntlet man /usr/local/share/man/man1",
            "gauntlet man --settings > /usr/local/share/man/man5/gauntlet.toml.5",
        ],
    ),
];

/// The command line with its examples.
pub(crate) fn command() -> Command {
    let mut command = crate::Cli::command();
    for (path, lines) in EXAMPLES {
        command = with_examples(command, path, lines);
    }
    command
}

fn with_examples(command: Command, path: &str, lines: &[&str]) -> Command {
    let Some((first, rest)) = path.split_once(' ').or(Some((path, ""))) else { return command };
    if first.is_empty() {
        let before = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
        return command.after_help(format!("{before}Examples:{lines}"));
    }
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(first, |sub| with_examples(sub, rest, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every subcommand with the words that call it.
    fn all(command: &Command, path: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|s| s.get_name() != "help" && !s.is_hide_set())
        {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            found.push(path.clone());
            all(sub, &path, found);
        }
    }

    #[test]
    fn no_subcommand_has_an_option_twice() {
        command().debug_assert();
    }

    #[test]
    fn every_example_is_of_a_subcommand() {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        assert!(found.len() > 20);
        for (path, _) in EXAMPLES {
            assert!(found.iter().any(|known| known == path), "there is no `gauntlet {path}`");
        }
    }

    #[test]
    fn every_subcommand_has_an_example() {
        let mut found = Vec::new();
        all(&command(), "", &mut found);
        let shown = |path: &String| {
            let sub = path.split(' ').fold(command(), |command, name| {
                command.find_subcommand(name).expect("it was listed").clone()
            });
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            help.matches("Examples:\n  gauntlet ").count() == 1
        };
        found.retain(|path| !shown(path));
        assert!(found.is_empty(), "no examples, or two lists of them, in the help of: {found:?}");
    }

    #[test]
    fn every_help_fits_100_columns() {
        fn check(command: &mut Command, path: &str) {
            let help = command.render_long_help().to_string();
            let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(wide.is_empty(), "{path}: {wide:#?}");
            for sub in command.get_subcommands_mut() {
                let path = format!("{path} {}", sub.get_name());
                check(sub, &path);
            }
        }
        let mut command = command();
        command.build();
        check(&mut command, "gauntlet");
    }

    /// Text of these commands is long: broken by the terminal it would end in orphans.
    #[test]
    fn long_texts_fit_a_terminal_of_80_columns() {
        for name in ["tune", "train", "evaluate"] {
            let text =
                command().find_subcommand(name).unwrap().get_after_help().unwrap().to_string();
            let wide: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
            assert!(wide.is_empty(), "{name}: {wide:?}");
        }
    }

    #[test]
    fn every_example_is_understood() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let call = line.split("  ").next().unwrap_or_default();
            let call = call.split([' ', '\t']).take_while(|w| !matches!(*w, "|" | ">"));
            let parsed = command().try_get_matches_from(call);
            assert!(parsed.is_ok(), "{line}: {:?}", parsed.err().map(|e| e.to_string()));
        }
    }
}
