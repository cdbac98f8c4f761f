//! `dataset`, `datarep`, `entropy`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::content::place_of;
use super::draft::{Draft, List, Outcome};
use super::files::find_file;
use super::keyword::{Keyword, keyword};
use crate::rule::matches::{
    DataReputation, Dataset, DatasetCommand, DatasetDeclaration, DatasetFormat, DatasetType,
    Entropy, FloatCompare, Match,
};
use crate::rule::number::{Compare, value};

pub(super) const KEYWORDS: &[Keyword] =
    &[keyword("dataset", dataset), keyword("datarep", reputation), keyword("entropy", entropy)];

/// Longest name of a set.
const NAME_MAX: usize = 63;

fn declaration(name: &str) -> Outcome<DatasetDeclaration> {
    if name.is_empty() || name.len() > NAME_MAX || name.contains([' ', '\t']) {
        return Err("the name of the set is missing, too long, or has spaces".into());
    }
    Ok(DatasetDeclaration {
        name: name.to_owned(),
        kind: None,
        load: None,
        save: None,
        memory_max: None,
        hash_size: None,
        format: DatasetFormat::Csv,
        context_key: None,
        value_key: None,
        array_key: None,
        remove_key: false,
    })
}

fn kind(word: &str) -> Outcome<DatasetType> {
    Ok(match word {
        "string" => DatasetType::Text,
        "md5" => DatasetType::Md5,
        "sha256" => DatasetType::Sha256,
        "ipv4" => DatasetType::Ipv4,
        "ipv6" | "ip" => DatasetType::Ip,
        _ => return Err(format!("bad type {word}").into()),
    })
}

/// The list of the active buffer.
fn buffer(draft: &mut Draft<'_>) -> Outcome<List> {
    draft.settle()?.ok_or_else(|| "it needs a sticky buffer".into())
}

fn load_path(draft: &Draft<'_>, name: &str) -> PathBuf {
    find_file(draft.directory, draft.shared.settings.get("default-rule-path"), name)
}

fn save_path(draft: &Draft<'_>, name: &str) -> Outcome<PathBuf> {
    let settings = &draft.shared.settings;
    if settings.flag("datasets.rules.allow-write") == Some(false) {
        return Err("rules may not save sets (datasets.rules.allow-write)".into());
    }
    let path = Path::new(name);
    let goes_up = path.components().any(|part| part == Component::ParentDir);
    let may_be_anywhere = settings.flag("datasets.rules.allow-absolute-filenames") == Some(true);
    if !may_be_anywhere && (path.is_absolute() || goes_up) {
        return Err(format!("{name:?} is not below the data directory").into());
    }
    let data = settings.get("default-data-dir").unwrap_or("/var/lib/suricata/data");
    Ok(Path::new(data).join(path))
}

fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split(',').map(|word| word.trim_matches([' ', '\t']));
    words.filter(|word| !word.is_empty()).map(|word| {
        let (key, value) = word.split_once(' ').unwrap_or((word, ""));
        (key, value.trim_start())
    })
}

fn dataset(draft: &mut Draft<'_>, text: &str) -> Outcome {
    let list = buffer(draft)?;
    let mut words = pairs(text);
    let (command, _) = words.next().ok_or("the action is missing")?;
    let (name, _) = words.next().ok_or("the name of the set is missing")?;
    let mut set = declaration(name)?;
    let (mut load, mut save, mut state) = (None, None, None);
    for (key, argument) in words {
        match key {
            "type" => set.kind = Some(kind(argument)?),
            "load" => load = Some(argument),
            "save" => save = Some(argument),
            "state" => state = Some(argument),
            "format" => {
                set.format = match argument {
                    "csv" => DatasetFormat::Csv,
                    "json" => DatasetFormat::Json,
                    "ndjson" => DatasetFormat::NdJson,
                    _ => return Err(format!("unknown format {argument}").into()),
                };
            }
            "memcap" => set.memory_max = value(argument, u64::MAX).map(|(size, _)| size),
            "hashsize" => set.hash_size = argument.parse().ok(),
            "value_key" => set.value_key = Some(argument.to_owned()),
            "array_key" => set.array_key = Some(argument.to_owned()),
            "context_key" => set.context_key = Some(argument.to_owned()),
            "remove_key" => set.remove_key = true,
            _ if argument.is_empty() => return Err(format!("{key:?} is not known").into()),
            _ => {}
        }
    }
    if state.is_some() && (load.is_some() || save.is_some()) {
        return Err("state cannot be mixed with load and save".into());
    }
    let command = match command {
        "isset" => DatasetCommand::IsSet,
        "isnotset" => DatasetCommand::IsNotSet,
        "set" => DatasetCommand::Set,
        "unset" => DatasetCommand::Unset,
        _ => return Err(format!("dataset action {command:?} is not supported").into()),
    };
    if set.format != DatasetFormat::Csv {
        let changes = matches!(command, DatasetCommand::Set | DatasetCommand::Unset);
        if changes || save.is_some() || state.is_some() {
            return Err("sets in JSON cannot be changed or saved".into());
        }
        if set.context_key.is_none() || set.value_key.is_none() {
            return Err("sets in JSON need context_key and value_key".into());
        }
    }
    if let Some(name) = state {
        let path = save_path(draft, name)?;
        (set.load, set.save) = (Some(path.clone()), Some(path));
    } else {
        set.save = save.map(|name| save_path(draft, name)).transpose()?;
        set.load = load.map(|name| load_path(draft, name));
    }
    let set = register(draft, set)?;
    draft.append(list, Match::Dataset(Dataset { command, set })).map(|_| ())
}

/// The set of this name: one for all rules, declared by the first.
fn register(draft: &mut Draft<'_>, set: DatasetDeclaration) -> Outcome<Arc<DatasetDeclaration>> {
    let known = draft.shared.datasets.iter().find(|known| known.name == set.name);
    if let Some(known) = known {
        if set.kind.is_some() && set.kind != known.kind {
            return Err(format!("set {} has another type already", set.name).into());
        }
        return Ok(Arc::clone(known));
    }
    if set.kind.is_none() {
        return Err(format!("set {} is not declared and has no type", set.name).into());
    }
    if let Some(load) = set.load.as_ref().filter(|load| !load.exists())
        && set.save.as_ref() != Some(load)
    {
        return Err(format!("cannot read {}", load.display()).into());
    }
    let set = Arc::new(set);
    draft.shared.datasets.push(Arc::clone(&set));
    Ok(set)
}

fn reputation(draft: &mut Draft<'_>, text: &str) -> Outcome {
    let list = buffer(draft)?;
    let mut words = pairs(text);
    let mut next = |what: &str| words.next().map(|(word, _)| word).ok_or(what.to_owned());
    let name = next("the name of the set is missing")?;
    let operator = next("the operator is missing")?;
    let number = next("the value is missing")?;
    let number = u64::from(number.parse::<u16>().map_err(|_| "the value is no number")?);
    let compare = match operator {
        ">" => Compare::More(number),
        "<" => Compare::Less(number),
        "==" => Compare::Equal(number),
        _ => return Err(format!("datarep operation {operator:?} is not supported").into()),
    };
    let mut set = declaration(name)?;
    for (key, argument) in words {
        match key {
            "type" => set.kind = Some(kind(argument)?),
            "load" => set.load = Some(load_path(draft, argument)),
            "memcap" => set.memory_max = value(argument, u64::MAX).map(|(size, _)| size),
            "hashsize" => set.hash_size = argument.parse().ok(),
            _ => {}
        }
    }
    let set = register(draft, set)?;
    draft.append(list, Match::DataReputation(DataReputation { set, compare })).map(|_| ())
}

fn entropy(draft: &mut Draft<'_>, text: &str) -> Outcome {
    let (mut bytes, mut offset, mut wanted) = (0, 0, None);
    for word in text.split(',').map(str::trim) {
        let (name, argument) = word.split_once([' ', '\t']).unwrap_or((word, ""));
        let argument = argument.trim();
        match name {
            "bytes" => bytes = argument.parse::<i32>().map_err(|_| "bytes is a number")?,
            "offset" => offset = argument.parse::<i32>().map_err(|_| "offset is a number")?,
            "value" => wanted = Some(float(argument)?),
            _ => return Err(format!("{word:?} is not known").into()),
        }
    }
    let compare = wanted.ok_or("the value is missing")?;
    let (list, _) = place_of(draft, false)?;
    let item = Match::Entropy(Entropy { offset, bytes, relative: false, compare });
    draft.append(list, item).map(|_| ())
}

/// Makes a comparison with a number.
type Make = fn(f64) -> FloatCompare;

fn float(text: &str) -> Outcome<FloatCompare> {
    let bad = || format!("{text:?} is no comparison");
    let number = |text: &str| {
        let number = text.trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
        number.ok_or_else(bad)
    };
    let range = |text: &str| -> Result<Option<(f64, f64)>, String> {
        let ends = text.split_once("<>").or_else(|| text.split_once('-'));
        let Some((low, high)) = ends else { return Ok(None) };
        let (low, high) = (number(low)?, number(high)?);
        if low < high { Ok(Some((low, high))) } else { Err(bad()) }
    };
    let text = text.trim();
    let inner = text.strip_prefix('!').filter(|rest| !rest.starts_with('='));
    if let Some((low, high)) = range(inner.unwrap_or(text))? {
        return Ok(match inner {
            Some(_) => FloatCompare::Outside(low, high),
            None => FloatCompare::Between(low, high),
        });
    }
    let operators: [(&str, Make); 8] = [
        (">=", FloatCompare::AtLeast),
        ("<=", FloatCompare::AtMost),
        (">", FloatCompare::More),
        ("<", FloatCompare::Less),
        ("!=", FloatCompare::NotEqual),
        ("!", FloatCompare::NotEqual),
        ("==", FloatCompare::Equal),
        ("=", FloatCompare::Equal),
    ];
    for (sign, make) in operators {
        if let Some(rest) = text.strip_prefix(sign) {
            return Ok(make(number(rest)?));
        }
    }
    Ok(FloatCompare::Equal(number(text)?))
}
