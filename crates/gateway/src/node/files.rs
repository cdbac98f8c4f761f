//! What a start reads because the configuration names it, read without a start: nothing is bound,
//! made or written. Each part is read by the function that a node reads it by.

use std::sync::Arc;

use crate::config::Config;
use crate::facts::FactCollector;
use crate::facts::local_lists::LocalLists;
use crate::inbound::rate_limiter::RateRules;
use crate::inbound::recipients::Recipients;
use crate::net::resolver::Resolver;
use crate::net::tls;
use crate::outbound::settings::OutboundSettings;
use crate::privileges;

/// What is wrong with files that a configuration names.
#[derive(Debug, Default)]
pub struct FileProblems {
    /// A node would not start: a reason for each part.
    pub errors: Vec<anyhow::Error>,
    /// It would start, and say this.
    pub warnings: Vec<String>,
}

/// Reads what a node of this configuration reads at its start, beside what judges: recipients,
/// lists, keys, certificates. Call it within an async runtime.
pub fn problems(config: &Config) -> FileProblems {
    let mut found = FileProblems::default();
    match Recipients::load(config) {
        Ok(recipients) => found.warnings.extend(recipients.odd_lines().map(str::to_owned)),
        Err(error) => found.errors.push(error),
    }
    let parts = [
        facts(config),
        LocalLists::check(&config.local_list),
        RateRules::of(config).map(drop),
        OutboundSettings::load(config, None, None).map(drop),
    ];
    found.errors.extend(parts.into_iter().filter_map(Result::err));
    match privileges::to_become(config) {
        // As who they are read is known.
        Ok(_) => found.errors.extend(tls::problems(config)),
        Err(error) => found.errors.push(error.into()),
    }
    found
}

fn facts(config: &Config) -> anyhow::Result<()> {
    let resolver = Arc::new(Resolver::new(&config.dns)?);
    let host = config.node.host_name();
    FactCollector::new(resolver, &config.facts, &config.dns_list, &host).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_file_that_a_start_would_miss_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[recipients]\nfile = \"/nope/known\"\n[dkim]\nseal_as = \"ours.test\"\n\
                    [[listener]]\naddress = \"127.0.0.1:0\"\ncertificate = [\"/nope/mx.pem\"]\n\
                    key = [\"/nope/mx.key\"]\n[[local_list]]\nname = \"ours\"\n\
                    path = \"/nope/list\"\npoints = 5.0\n";
        let mut config: Config = toml::from_str(text).unwrap();
        config.node.data = folder.path().join("data");
        let found = problems(&config);
        let errors: Vec<String> = found.errors.iter().map(|e| format!("{e:#}")).collect();
        for part in [
            "recipients.file /nope/known: No such file",
            "local_list \"ours\": /nope/list: No such file",
            "dkim.seal_as: no key of ours.test signs",
            "listener.certificate /nope/mx.pem",
        ] {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:?}");
        }
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(!config.node.data.exists(), "nothing is made");
    }

    #[test]
    fn a_key_of_another_certificate_is_named_and_so_is_a_file_without_either() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let made = rcgen::generate_simple_self_signed(vec!["gw.test".to_owned()]).unwrap();
            let pair = (format!("{name}.pem"), format!("{name}.key"));
            std::fs::write(folder.path().join(&pair.0), made.cert.pem()).unwrap();
            let key = made.signing_key.serialize_pem();
            std::fs::write(folder.path().join(&pair.1), key).unwrap();
            pair
        });
        let said = |certificate: &str, key: &str| {
            let mut config: Config = toml::from_str("[[listener]]\n[[listener]]\n").unwrap();
            for listener in &mut config.listener {
                listener.certificate = vec![folder.path().join(certificate)];
                listener.key = vec![folder.path().join(key)];
            }
            let texts = tls::problems(&config).into_iter().map(|error| format!("{error:#}"));
            texts.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(said(&one.0, &one.1), "");
        let wrong = said(&one.0, &other.1);
        assert!(wrong.contains("one.pem does not go with its key: KeyMismatch"), "{wrong}");
        assert_eq!(wrong.lines().count(), 1, "{wrong}");
        let swapped = said(&one.1, &one.0);
        assert!(swapped.contains("one.key has no certificate in it; name a PEM"), "{swapped}");
        let without = said(&one.0, &one.0);
        assert!(without.contains("listener.key") && without.contains("no private key in it"));
    }

    #[tokio::test]
    async fn the_defaults_miss_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data = folder.path().join("data");
        let found = problems(&config);
        assert!(found.errors.is_empty() && found.warnings.is_empty(), "{found:?}");
        assert!(!config.node.data.exists());
        config.node.user = "nosuch".to_owned();
        let found = problems(&config);
        let errors: Vec<String> = found.errors.iter().map(|e| format!("{e:#}")).collect();
        assert_eq!(errors, ["node.user \"nosuch\": there is no such user"]);
    }
}
