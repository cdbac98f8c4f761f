//! Reads settings, and records where each came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::ConfigError;
use super::lines::{self, key_at, line_of};
use super::masking::masked;
use super::origin::Origin;
use super::settings::Config;
use super::shared::SharedSettings;
use super::validate::check;

/// Environment variables that begin with this override settings: `GAUNTLET_SCAN__THREADS=4` is
/// `threads` of `[scan]`.
pub(super) const ENVIRONMENT_PREFIX: &str = "GAUNTLET_";

/// Variables with the prefix that are no settings.
const OTHER_VARIABLES: [&str; 3] = ["GAUNTLET_CORPUS", "GAUNTLET_BLESS", "GAUNTLET_CONFIG"];

/// A setting as it is in force, and who set it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Dotted name, e.g. `scan.threads`.
    pub key: String,
    /// The value as TOML writes it, with what is secret masked.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// Settings, and where they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// All settings; they were checked.
    pub config: Config,
    /// The file that was read, if any.
    pub path: Option<PathBuf>,
    origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// Reads the defaults, the file and the environment, in this order, and checks the result.
    ///
    /// `environment` are the process's variables; those without the prefix are ignored.
    pub fn load<I>(path: Option<&Path>, environment: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let text = path.map(read).transpose()?;
        Self::of(path.zip(text.as_deref()), environment.into_iter().collect(), None)
            .map_err(ConfigError::masked)
    }

    /// The same, with what the nodes of an array share below what the file says.
    ///
    /// # Errors
    /// As [`Loaded::load`], or if the shared settings make no sense here.
    pub fn load_over<I>(
        path: Option<&Path>,
        environment: I,
        shared: &SharedSettings,
    ) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        let text = path.map(read).transpose()?;
        let file = path.zip(text.as_deref());
        Self::of(file, environment.into_iter().collect(), Some(shared)).map_err(ConfigError::masked)
    }

    /// The same of the text of this file, read before.
    ///
    /// # Errors
    /// As [`Loaded::load_over`].
    pub fn load_text_over<I>(
        text: &str,
        path: &Path,
        environment: I,
        shared: &SharedSettings,
    ) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        Self::of(Some((path, text)), environment.into_iter().collect(), Some(shared))
            .map_err(ConfigError::masked)
    }

    /// The same of the text of this file, read before.
    pub fn load_text<I>(text: &str, path: &Path, environment: I) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = (String, String)>,
    {
        Self::of(Some((path, text)), environment.into_iter().collect(), None)
            .map_err(ConfigError::masked)
    }

    /// Not generic, so that the code that reads all settings is made once, in this crate: it took
    /// a tenth of the program's time to build.
    fn of(
        file: Option<(&Path, &str)>,
        environment: Vec<(String, String)>,
        shared: Option<&SharedSettings>,
    ) -> Result<Self, ConfigError> {
        let mut origins = BTreeMap::new();
        let mut table = Table::new();
        let path = file.map(|(path, _)| path);
        if let Some((path, text)) = file {
            table = read_file(text, path, &mut origins)?;
        }
        if let Some(shared) = shared {
            shared.put_below(&mut table, &mut origins)?;
        }
        override_by(environment, &mut table, &mut origins)?;
        let config = Config::of_toml(&table.to_string())
            .map_err(|e| ConfigError::invalid("configuration", e.message()))?;
        check(&config).map_err(|error| {
            let is_of_file = |origin: &Origin| matches!(origin, Origin::File { .. });
            let error = located(error, &origins);
            match (error, file) {
                (ConfigError::Invalid { key, message, set_by }, Some(file))
                    if is_of_file(&set_by) =>
                {
                    let plain = ConfigError::invalid(key.clone(), message.clone());
                    let in_table = lines::of_fault(file, &table, &plain);
                    ConfigError::Invalid { key, message, set_by: in_table.unwrap_or(set_by) }
                }
                (error, _) => error,
            }
        })?;
        Ok(Loaded { config, path: path.map(Path::to_owned), origins })
    }

    /// Who set what a problem with a file is about: its text begins with the name of the setting.
    /// None if that is a default.
    pub fn origin_of(&self, problem: &str) -> Option<Origin> {
        let setting = problem.split([' ', ':']).next().unwrap_or_default();
        if let Some(origin) = self.origins.get(setting) {
            return Some(origin.clone());
        }
        let section = setting.split('.').next().unwrap_or_default();
        match self.origins.get(section)? {
            Origin::File { path, line } => {
                let text = std::fs::read_to_string(path).unwrap_or_default();
                let line = lines::naming(&text, setting, problem).unwrap_or(*line);
                Some(Origin::File { path: path.clone(), line })
            }
            origin => Some(origin.clone()),
        }
    }

    /// Every setting with its value and origin, in the order of the file's documentation.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        if let Ok(Value::Table(table)) = Value::try_from(&self.config) {
            collect("", &Value::Table(table), &self.origins, &mut settings);
        }
        settings
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path)
        .map_err(|e| ConfigError::Read { path: path.display().to_string(), cause: e.to_string() })
}

fn collect(
    prefix: &str,
    value: &Value,
    origins: &BTreeMap<String, Origin>,
    settings: &mut Vec<Setting>,
) {
    if let Value::Table(table) = value {
        for (key, value) in table {
            let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            collect(&key, value, origins, settings);
        }
        return;
    }
    let origin = origins.get(prefix).cloned().unwrap_or(Origin::Default);
    let value = masked(prefix, value.clone()).to_string();
    settings.push(Setting { key: prefix.to_owned(), value, origin });
}

/// Says where the setting that makes no sense was set.
fn located(error: ConfigError, origins: &BTreeMap<String, Origin>) -> ConfigError {
    let ConfigError::Invalid { key, message, .. } = error else { return error };
    let section = key.split('.').next().unwrap_or(&key);
    let origin = origins.get(&key).or_else(|| origins.get(section)).or_else(|| {
        // A condition on several keys of a table: the first that was set.
        let mut set = origins.iter().filter(|(k, _)| k.starts_with(&format!("{key}.")));
        set.next().map(|(_, origin)| origin)
    });
    let set_by = origin.cloned().unwrap_or(Origin::Default);
    ConfigError::Invalid { set_by, key, message }
}

/// Reads the file for its mistakes (with their lines), its values and their lines.
fn read_file(
    text: &str,
    path: &Path,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<Table, ConfigError> {
    let wrong = |error: toml::de::Error| ConfigError::File {
        path: path.display().to_string(),
        line: error.span().map_or(1, |s| line_of(text, s.start)),
        message: {
            let message = with_nearest(error.message());
            // An unknown key names itself; a wrong value needs the name of its key.
            let unknown = message.starts_with("unknown field");
            let key = error.span().filter(|_| !unknown).and_then(|s| key_at(text, s.start));
            key.map_or_else(|| message.clone(), |key| format!("{key}: {message}"))
        },
    };
    Config::of_toml(text).map_err(wrong)?;
    let spanned = toml::de::DeTable::parse(text).map_err(wrong)?;
    for (section, value) in spanned.get_ref() {
        let file = |offset| Origin::File { path: path.to_owned(), line: line_of(text, offset) };
        match value.get_ref() {
            toml::de::DeValue::Table(keys) => {
                for key in keys.keys() {
                    let name = format!("{}.{}", section.get_ref(), key.get_ref());
                    origins.insert(name, file(key.span().start));
                }
            }
            _ => {
                origins.insert(section.get_ref().to_string(), file(section.span().start));
            }
        }
    }
    text.parse().map_err(wrong)
}

/// Applies `GAUNTLET_SECTION__KEY` variables to the table.
fn override_by(
    mut variables: Vec<(String, String)>,
    table: &mut Table,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), ConfigError> {
    variables.sort();
    let Ok(Value::Table(defaults)) = Value::try_from(Config::default()) else { return Ok(()) };
    for (name, text) in variables {
        let Some(key) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
        if OTHER_VARIABLES.contains(&name.as_str()) || !key.contains("__") {
            continue;
        }
        let wrong = |message: String| ConfigError::Environment { name: name.clone(), message };
        let lower = key.to_lowercase();
        let (section, key) = lower.split_once("__").unwrap_or((&lower, ""));
        let default = defaults.get(section).and_then(|s| s.get(key));
        let default = default.ok_or_else(|| wrong(no_setting(&defaults, section, key)))?;
        let value = read_value(&text, default).map_err(wrong)?;
        let slot = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        if let Some(slot) = slot.as_table_mut() {
            slot.insert(key.to_owned(), value);
        }
        origins.insert(format!("{section}.{key}"), Origin::Environment(name.clone()));
        Config::of_toml(&table.to_string())
            .map_err(|e| wrong(e.message().lines().next().unwrap_or_default().to_owned()))?;
    }
    Ok(())
}

/// What to say of a setting that there is not, with the nearest one that there is.
fn no_setting(defaults: &Table, section: &str, key: &str) -> String {
    let given = format!("{section}.{key}");
    let names = defaults.iter().filter_map(|(section, keys)| {
        let keys = keys.as_table()?.keys().map(move |key| format!("{section}.{key}"));
        Some(keys)
    });
    let nearest = gauntlet_policy::suggestion::nearest(&given, names.flatten());
    match nearest {
        Some(name) => format!("no setting {given}; did you mean {name}?"),
        None => format!("no setting {given}; `gauntlet config show` lists all"),
    }
}

/// Reads a variable's text as the type that the default has.
fn read_value(text: &str, default: &Value) -> Result<Value, String> {
    let number = |kind: &str| format!("{text:?} is no {kind}");
    Ok(match default {
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| number("whole number"))?),
        Value::Float(_) => Value::Float(text.parse().map_err(|_| number("number"))?),
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| number("true or false"))?),
        Value::Array(items) => {
            let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
            let integers = matches!(items.first(), Some(Value::Integer(_)));
            let read = |p: &str| match integers {
                true => p.parse().map(Value::Integer).map_err(|_| number("list of whole numbers")),
                false => Ok(Value::String(p.to_owned())),
            };
            Value::Array(parts.map(read).collect::<Result<_, _>>()?)
        }
        _ => Value::String(text.to_owned()),
    })
}

/// Adds the nearest valid key to serde's "unknown field `x`, expected one of `a`, `b`".
fn with_nearest(message: &str) -> String {
    gauntlet_policy::suggestion::with_nearest(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gauntlet.toml");
        std::fs::write(&path, text).unwrap();
        let pairs = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Loaded::load(Some(&path), pairs)
    }

    fn origin(loaded: &Loaded, key: &str) -> (String, Origin) {
        let setting = loaded.settings().into_iter().find(|s| s.key == key).unwrap();
        (setting.value, setting.origin)
    }

    #[test]
    fn the_documented_file_is_the_defaults() {
        let text = include_str!("../../../../config/gauntlet.toml");
        assert_eq!(toml::from_str::<Config>(text).unwrap(), Config::default());
        let documented: Table = text.parse().unwrap();
        let Ok(Value::Table(defaults)) = Value::try_from(Config::default()) else { panic!() };
        for (section, value) in &defaults {
            let Some(keys) = value.as_table() else { continue };
            for key in keys.keys() {
                assert!(documented[section].get(key).is_some(), "{section}.{key} is undocumented");
            }
        }
    }

    #[test]
    fn a_mistake_names_line_and_nearest_key() {
        let error = load("[scan]\n\nthread = 4\n", &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:3: unknown field `thread`"), "{error}");
        assert!(error.ends_with("did you mean `threads`?"), "{error}");
        let error = load("[scan]\nthreads = \"four\"\n", &[]).unwrap_err().to_string();
        assert!(error.contains(
            "gauntlet.toml:2: scan.threads: invalid type: string \"four\", expected a whole number"
        ));
        let error = load("\n[log]\nformat = \"xml\"\n", &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:3: log.format: unknown value `xml`"), "{error}");
        let text = "[[listener]]\naddress = 4\n";
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(error.contains("gauntlet.toml:2: listener.address: invalid type"), "{error}");
    }

    #[test]
    fn a_fault_in_one_of_several_tables_has_its_line() {
        let two = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[listener]]\n";
        for (text, wanted) in [
            ("networks = [\"10.0.0.0/99\"]\n", "gauntlet.toml:4: listener.networks: "),
            (
                "address = \"127.0.0.1:26\"\nself_signed = false\nrole = \"submission\"\n",
                "gauntlet.toml:3: listener.certificate: ",
            ),
            ("key = [\"a.key\"]\n", "gauntlet.toml:4: listener.key: "),
            (
                "address = \"127.0.0.1:26\"\n[[listener]]\naddress = \"127.0.0.1:2525\"\n",
                "gauntlet.toml:6: listener.address: 127.0.0.1:2525 is taken twice",
            ),
            (
                "address = \"127.0.0.1:26\"\n[[next_hop]]\nfor = [\"a.test\"]\nhosts = \
                 [\"a:25\"]\n[[next_hop]]\nfor = [\"b.test\"]\nhosts = [\"b\"]\n",
                "gauntlet.toml:10: next_hop.hosts: ",
            ),
            (
                "address = \"127.0.0.1:26\"\n[[service]]\naddress = \"127.0.0.1:27\"\n\
                 [[service]]\naddress = \"nowhere\"\n",
                "gauntlet.toml:8: service.address: ",
            ),
        ] {
            let error = load(&format!("{two}{text}"), &[]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_problem_with_a_file_leads_to_who_named_it() {
        let text = "[policy]\npath = \"p.toml\"\n[[listener]]\naddress = \"127.0.0.1:25\"\n\
                    [[listener]]\ncertificate = [\"b.pem\"]\nkey = [\"b.key\"]\n";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gauntlet.toml");
        std::fs::write(&path, text).unwrap();
        let variable = ("GAUNTLET_RECIPIENTS__FILE".to_owned(), "known".to_owned());
        let loaded = Loaded::load(Some(&path), [variable]).unwrap();
        let place = |problem: &str| loaded.origin_of(problem).map(|origin| origin.to_string());
        let ends = |problem: &str, end: &str| place(problem).unwrap().ends_with(end);
        assert!(ends("policy.path p.toml: no such file", "gauntlet.toml:2"));
        assert!(ends("listener.certificate b.pem does not go with its key", "gauntlet.toml:6"));
        assert!(ends("listener.key b.key has no key", "gauntlet.toml:7"));
        assert!(ends("recipients.file known: no such file", "$GAUNTLET_RECIPIENTS__FILE"));
        assert_eq!(place("dkim.keys: no such folder"), None);
    }

    #[test]
    fn a_value_that_cannot_work_names_its_place() {
        let said = |text: &str, environment: &[(&str, &str)]| {
            load(text, environment).unwrap_err().to_string()
        };
        let error = said("[console]\n\naddress = \"here\"\n", &[]);
        assert!(
            error.ends_with("gauntlet.toml:3: console.address: \"here\" is no address and port")
        );
        let error = said("[thresholds]\nspam = 1.0\n", &[]);
        assert!(error.contains("gauntlet.toml:2: thresholds: must rise"), "{error}");
        let error = said("[thresholds]\nspam_error = 0.5\n", &[]);
        assert!(error.contains("shares of good mail that fall"), "{error}");
        let error = said("", &[("GAUNTLET_SCAN__QUEUE_MAX", "0")]);
        assert_eq!(error, "$GAUNTLET_SCAN__QUEUE_MAX: scan.queue_max: must be 1 at least");
    }

    #[test]
    fn a_level_of_the_log_is_one() {
        for good in ["info", "WARN", "off", "gauntlet_smtp=debug,info", "gauntlet::scan=trace"] {
            load(&format!("[log]\nlevel = \"{good}\"\n"), &[]).unwrap();
        }
        for bad in ["warning", "", "debug,foo=bar", "=info", "info,", "a b=info"] {
            let error = load(&format!("[log]\nlevel = \"{bad}\"\n"), &[]).unwrap_err();
            assert!(error.to_string().contains("log.level"), "{bad}: {error}");
        }
    }

    #[test]
    fn origins_are_reported() {
        let loaded =
            load("[scan]\nthreads = 4\nqueue_max = 9\n", &[("GAUNTLET_SCAN__THREADS", "2")])
                .unwrap();
        assert_eq!(loaded.config.scan.threads, 2);
        let (value, from) = origin(&loaded, "scan.threads");
        assert_eq!((value.as_str(), from.to_string().as_str()), ("2", "$GAUNTLET_SCAN__THREADS"));
        assert!(matches!(origin(&loaded, "scan.queue_max").1, Origin::File { line: 3, .. }));
        assert_eq!(origin(&loaded, "spool.backend").1, Origin::Default);
    }

    #[test]
    fn wrong_variables_are_named() {
        let error = load("", &[("GAUNTLET_SCAN__THREADS", "x")]).unwrap_err().to_string();
        assert_eq!(error, "environment variable GAUNTLET_SCAN__THREADS: \"x\" is no whole number");
        let error = load("", &[("GAUNTLET_SCAN__TREADS", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("no setting scan.treads; did you mean scan.threads?"), "{error}");
        let error = load("", &[("GAUNTLET_NOTHING__LIKE_THIS", "1")]).unwrap_err().to_string();
        assert!(error.ends_with("`gauntlet config show` lists all"), "{error}");
    }

    #[test]
    fn no_open_relay_by_an_empty_list() {
        let text = "[[listener]]\naddress = \"0.0.0.0:2525\"\n";
        let error = load(text, &[]).unwrap_err().to_string();
        assert!(error.contains("would take mail for everybody"), "{error}");
        assert!(load(&format!("{text}[domains]\nlocal = [\"a.example\"]\n"), &[]).is_ok());
    }

    #[test]
    fn the_own_file_wins_and_what_is_a_nodes_own_is_refused() {
        let shared = |text: &str| SharedSettings { number: 7, text: text.to_owned() };
        let own = "[digest]\nhour = 9\n[[folder]]\nname = \"spam\"\n";
        let edition = shared(
            "[digest]\nhour = 5\nlink_days = 3\n[greylist]\nenabled = true\n\
             [[folder]]\nname = \"bulk\"\n",
        );
        edition.check().unwrap();
        let path = Path::new("gauntlet.toml");
        let hour = ("GAUNTLET_GREYLIST__ENABLED".to_owned(), "false".to_owned());
        let loaded = Loaded::load_text_over(own, path, [hour], &edition).unwrap();
        let config = &loaded.config;
        assert_eq!((config.digest.hour, config.digest.link_days), (9, 3));
        assert!(!config.greylist.enabled, "the environment wins, too");
        assert_eq!(config.folder.len(), 1);
        assert_eq!(config.folder[0].name, "spam");
        let settings = loaded.settings();
        let from = settings.iter().find(|setting| setting.key == "digest.link_days").unwrap();
        assert_eq!(from.origin.to_string(), "settings 7 of the array");
        for (text, why) in [
            ("[node]\nname = \"x\"", "[node] is a node's own"),
            ("[digest]\nhuor = 1", "unknown field"),
            ("[digest", "expected"),
            ("[digest]\nhour = \"x\"", "invalid type"),
        ] {
            let error = shared(text).check().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        // Names and types are right, the value is not: the node says so.
        let late =
            Loaded::load_text_over("", path, [], &shared("[digest]\nhour = 99")).unwrap_err();
        assert!(late.to_string().contains("no hour"), "{late}");
    }
}
