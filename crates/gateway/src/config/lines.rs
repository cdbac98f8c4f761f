//! Lines of a configuration file: of an offset, of a key, of one of several tables of a name.

use std::path::Path;

use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::error::ConfigError;
use super::origin::Origin;
use super::settings::Config;
use super::validate::check;

/// Line of a byte offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count()
}

/// The setting whose value is at this offset, as `section.key`.
pub(super) fn key_at(text: &str, offset: usize) -> Option<String> {
    let spanned = DeTable::parse(text).ok()?;
    let holds = |span: std::ops::Range<usize>| span.contains(&offset) || span.start == offset;
    for (section, value) in spanned.get_ref() {
        let section = section.get_ref();
        let tables: Vec<&DeTable<'_>> = match value.get_ref() {
            DeValue::Table(table) => vec![table],
            DeValue::Array(items) => items.iter().filter_map(|i| i.get_ref().as_table()).collect(),
            _ => continue,
        };
        let mut keys = tables.into_iter().flatten();
        if let Some((key, _)) = keys.find(|(_, value)| holds(value.span())) {
            return Some(format!("{section}.{}", key.get_ref()));
        }
    }
    None
}

/// Line of a key in one of the tables `[[section]]`, from 0 on, or of the table's head where it has
/// no such key.
fn line_in(text: &str, section: &str, at: usize, key: &str) -> Option<usize> {
    let spanned = DeTable::parse(text).ok()?;
    let item = spanned.get_ref().get(section)?.get_ref().as_array()?.get(at)?;
    let mut keys = item.get_ref().as_table()?.iter();
    let set = keys.find(|(name, _)| name.get_ref() == key).map(|(name, _)| name.span().start);
    Some(line_of(text, set.unwrap_or(item.span().start)))
}

/// Where the fault is that a check of these settings found, if it is in one of several tables of a
/// name: the first of them with which the check finds it.
pub(super) fn of_fault(
    (path, text): (&Path, &str),
    table: &Table,
    error: &ConfigError,
) -> Option<Origin> {
    let ConfigError::Invalid { key: name, .. } = error else { return None };
    let (section, key) = name.split_once('.')?;
    let count = table.get(section)?.as_array()?.len();
    let has_fault = |first: usize| {
        let mut fewer = table.clone();
        if let Some(tables) = fewer.get_mut(section).and_then(Value::as_array_mut) {
            tables.truncate(first);
        }
        let config = Config::of_toml(&fewer.to_string());
        config.is_ok_and(|config| check(&config).as_ref() == Err(error))
    };
    let first = (1..count).find(|first| has_fault(*first)).unwrap_or(count);
    let line = line_in(text, section, first.checked_sub(1)?, key)?;
    Some(Origin::File { path: path.to_owned(), line })
}

/// Line of the table `[[section]]` in which a key names a file that a text speaks of.
pub(super) fn naming(text: &str, setting: &str, about: &str) -> Option<usize> {
    let (section, key) = setting.split_once('.')?;
    let table = text.parse::<Table>().ok()?;
    let tables = table.get(section)?.as_array()?;
    let is_named = |value: &Value| value.as_str().is_some_and(|path| about.contains(path));
    let names = |table: &Value| match table.get(key) {
        Some(Value::Array(values)) => values.iter().any(is_named),
        Some(value) => is_named(value),
        None => false,
    };
    line_in(text, section, tables.iter().position(names)?, key)
}
