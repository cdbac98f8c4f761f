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
    let read = config.listener.iter().map(|listener| tls::read_named(config, listener));
    found.errors.extend(read.filter_map(Result::err));
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

    #[tokio::test]
    async fn the_defaults_miss_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data = folder.path().join("data");
        let found = problems(&config);
        assert!(found.errors.is_empty() && found.warnings.is_empty(), "{found:?}");
        assert!(!config.node.data.exists());
    }
}
