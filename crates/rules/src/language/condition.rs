//! `if`, `ifplugin` and `else`: which lines count.

use std::collections::BTreeSet;

use super::plugins;
use crate::expression::{self, Cursor, Expr};

/// The version whose language this is; `if (version >= 4.000001)` compares with it.
pub(crate) const VERSION: f64 = 4.000_001;
/// Perl's version in `if (perl_version >= ...)`.
const PERL_VERSION: f64 = 5.036_000;

/// What conditions ask about.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// Packages of loaded plugins.
    pub(crate) plugins: BTreeSet<String>,
    /// Features switched on by `enable_compat`.
    pub(crate) compat: BTreeSet<String>,
    /// Whether network tests are off.
    pub(crate) local_tests_only: bool,
}

impl Environment {
    /// Whether a plugin of this package is loaded.
    pub(crate) fn has_plugin(&self, package: &str) -> bool {
        let package = modern_package(package);
        // A plugin that 4.1 moved into the core; 4.0.1 answers yes for it.
        package == "Mail::SpamAssassin::Plugin::RaciallyCharged" || self.plugins.contains(package)
    }

    /// Whether `can(method)` or `has(method)` holds.
    fn has_method(&self, method: &str) -> Result<bool, String> {
        let Some((module, name)) = method.rsplit_once("::") else {
            return Err(format!("no :: in {method:?}"));
        };
        if module == "Mail::SpamAssassin::Conf" {
            let compat = name.strip_prefix("compat_").is_some_and(|c| self.compat.contains(c));
            return Ok(compat || plugins::CORE_FEATURES.split_ascii_whitespace().any(|f| f == name));
        }
        let features = plugins::find(module).map_or("", |p| p.features);
        Ok(self.has_plugin(module) && features.split_ascii_whitespace().any(|f| f == name))
    }

    /// The value of the condition after `if`; the error says what cannot be parsed.
    pub(crate) fn holds(&self, condition: &str) -> Result<bool, String> {
        let tokens = expression::tokens(condition);
        let mut leaf = |name: &str, cursor: &mut Cursor<'_>| -> Result<Expr<()>, String> {
            let value = match name {
                "version" => VERSION,
                "perl_version" => PERL_VERSION,
                "local_tests_only" => f64::from(u8::from(self.local_tests_only)),
                "plugin" => f64::from(u8::from(self.has_plugin(&cursor.argument()?))),
                "can" | "has" => f64::from(u8::from(self.has_method(&cursor.argument()?)?)),
                _ => return Err(format!("{name:?} is no condition")),
            };
            Ok(Expr::Number(value))
        };
        let expr = expression::parse(&tokens, &mut leaf)?;
        let value = expr.value(&|()| 0.0).map_err(|_| "division by zero".to_owned())?;
        Ok(value != 0.0)
    }
}

/// The present name of a plugin that was renamed.
pub(crate) fn modern_package(package: &str) -> &str {
    match package {
        "Mail::SpamAssassin::Plugin::Dmarc" => "Mail::SpamAssassin::Plugin::DMARC",
        "Mail::SpamAssassin::Plugin::WhiteListSubject" => {
            "Mail::SpamAssassin::Plugin::WelcomeListSubject"
        }
        _ => package,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_the_stock_rules() {
        let mut environment = Environment::default();
        environment.plugins.insert("Mail::SpamAssassin::Plugin::DKIM".to_owned());
        let holds = |text: &str| environment.holds(text).unwrap();
        assert!(holds("(version >= 3.004002)"));
        assert!(!holds("(version < 4.000000)"));
        assert!(holds("!((version >= 4.001000))"));
        assert!(holds("plugin (Mail::SpamAssassin::Plugin::DKIM)"));
        assert!(holds("!plugin(Mail::SpamAssassin::Plugin::SPF)"));
        assert!(holds("can(Mail::SpamAssassin::Conf::feature_bug6558_free)"));
        assert!(!holds("can(Mail::SpamAssassin::Conf::compat_welcomelist_blocklist)"));
        assert!(holds("can(Mail::SpamAssassin::Plugin::DKIM::has_arc)"));
        assert!(!holds("can(Mail::SpamAssassin::Plugin::ASN::has_check_asn)"));
        assert!(environment.holds("nonsense").is_err());
    }
}
