//! Checks that Suricata's tests make on the records of a run: how many match a filter.

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// The version of Suricata whose records these are.
const VERSION: [u32; 3] = [8, 0, 6];

/// A check of a test.
pub(crate) enum Check {
    /// So many records match.
    Filter(Filter),
    /// A command, a comparison of files, counters: not evaluated.
    Other,
}

/// How many records match.
pub(crate) struct Filter {
    count: usize,
    /// Dotted keys and what is wanted of them.
    conditions: Vec<(String, Value)>,
    /// Another file than that of records.
    is_of_other_file: bool,
}

/// The checks of a test.
pub(crate) fn checks(text: &str) -> Vec<Check> {
    let documents = YamlLoader::load_from_str(text).expect("YAML");
    let Some(list) = documents.first().and_then(|document| document["checks"].as_vec()) else {
        return Vec::new();
    };
    let pairs = list.iter().filter_map(Yaml::as_hash).flatten();
    pairs.map(|(kind, check)| one(kind.as_str().unwrap_or_default(), check)).collect()
}

fn one(kind: &str, check: &Yaml) -> Check {
    if kind != "filter" {
        return Check::Other;
    }
    let requires = &check["requires"];
    let is_newer = version(&requires["min-version"]).is_some_and(|least| least > VERSION);
    let is_older = version(&requires["lt-version"]).is_some_and(|limit| limit <= VERSION);
    if is_newer || is_older {
        return Check::Other;
    }
    let pairs = check["match"].as_hash().into_iter().flatten();
    let conditions = pairs.map(|(key, value)| (text(key), json(value))).collect();
    Check::Filter(Filter {
        count: usize::try_from(check["count"].as_i64().unwrap_or_default()).unwrap_or(0),
        conditions,
        is_of_other_file: !check["filename"].is_badvalue(),
    })
}

fn version(value: &Yaml) -> Option<[u32; 3]> {
    let text = text(value);
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or_default());
    let first = parts.next().filter(|_| !text.is_empty())?;
    Some([first, parts.next().unwrap_or_default(), parts.next().unwrap_or_default()])
}

fn text(value: &Yaml) -> String {
    match value {
        Yaml::String(text) | Yaml::Real(text) => text.clone(),
        Yaml::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}

fn json(value: &Yaml) -> Value {
    match value {
        Yaml::String(text) => text.clone().into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::Real(text) => text.parse::<f64>().map_or(Value::Null, Value::from),
        Yaml::Boolean(truth) => (*truth).into(),
        Yaml::Array(list) => list.iter().map(json).collect(),
        Yaml::Hash(pairs) => {
            Value::Object(pairs.iter().map(|(key, value)| (text(key), json(value))).collect())
        }
        _ => Value::Null,
    }
}

impl Filter {
    /// Why the check fails, if it does.
    pub(crate) fn fails(&self, lines: &[Value]) -> Option<String> {
        if self.is_of_other_file {
            return Some("another file".to_owned());
        }
        let count = lines.iter().filter(|line| self.matches(line)).count();
        (count != self.count).then(|| {
            let conditions: Vec<String> =
                self.conditions.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{count} of {}: {}", self.count, conditions.join(" "))
        })
    }

    fn matches(&self, line: &Value) -> bool {
        self.conditions.iter().all(|(key, wanted)| holds(line, key, wanted))
    }
}

fn holds(line: &Value, key: &str, wanted: &Value) -> bool {
    let names = |wanted: &Value| match wanted {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        other => vec![other.as_str().unwrap_or_default().to_owned()],
    };
    let is_there = |name: &String| find(line, name).is_some_and(|found| !found.is_null());
    match key {
        "has-key" => return names(wanted).iter().all(is_there),
        "not-has-key" => return !names(wanted).iter().any(is_there),
        _ => {}
    }
    let (path, operator) = match key.rsplit_once('.') {
        Some((path, operator)) if operator.starts_with("__") => (path, operator),
        _ => (key, ""),
    };
    let found = find(line, path).unwrap_or(Value::Null);
    let texts = || found.as_str().zip(wanted.as_str());
    let numbers = || found.as_f64().zip(wanted.as_f64());
    match operator {
        "" => is_equal(&found, wanted),
        "__len" => {
            let len = match &found {
                Value::String(text) => text.chars().count(),
                Value::Array(list) => list.len(),
                Value::Object(map) => map.len(),
                _ => return false,
            };
            is_equal(&Value::from(len), wanted)
        }
        "__contains" => match &found {
            Value::Array(list) => list.iter().any(|item| is_equal(item, wanted)),
            Value::String(text) => wanted.as_str().is_some_and(|wanted| text.contains(wanted)),
            _ => false,
        },
        "__find" => texts().is_some_and(|(found, wanted)| found.contains(wanted)),
        "__startswith" => texts().is_some_and(|(found, wanted)| found.starts_with(wanted)),
        "__endswith" => texts().is_some_and(|(found, wanted)| found.ends_with(wanted)),
        "__gt" => numbers().is_some_and(|(found, wanted)| found > wanted),
        "__gte" => numbers().is_some_and(|(found, wanted)| found >= wanted),
        "__lt" => numbers().is_some_and(|(found, wanted)| found < wanted),
        "__lte" => numbers().is_some_and(|(found, wanted)| found <= wanted),
        _ => false,
    }
}

/// Numbers are equal to truth values, as the tests' language has it.
fn is_equal(found: &Value, wanted: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        other => other.as_f64(),
    };
    match (number(found), number(wanted)) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => found == wanted,
    }
}

fn find(line: &Value, path: &str) -> Option<Value> {
    let mut value = line;
    for part in path.split('.') {
        let (name, place) = match part.strip_suffix(']').and_then(|part| part.rsplit_once('[')) {
            Some((name, place)) => (name, place.parse::<usize>().ok()),
            None => (part, None),
        };
        value = value.get(name)?;
        if let Some(place) = place {
            value = value.get(place)?;
        }
    }
    Some(value.clone())
}
