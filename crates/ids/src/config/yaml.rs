//! Reads YAML into a flat table: events of the parser become dotted keys.

use std::collections::HashMap;
use std::path::Path;

use yaml_rust2::Event;
use yaml_rust2::parser::Parser;

use super::{ConfigError, FILE_BYTES_MAX, Settings};

/// Deepest nesting of maps and lists, and of includes.
const DEPTH_MAX: usize = 32;
/// Most settings of a file, aliases counted as often as they are used.
const ENTRIES_MAX: usize = 200_000;

/// Reads a file into the settings.
pub(super) fn read(path: &Path, settings: &mut Settings, depth: usize) -> Result<(), ConfigError> {
    let failed = |error| ConfigError::Read(path.to_owned(), error);
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(ConfigError::Syntax(path.to_owned(), "it is too long".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    read_text(path, &String::from_utf8_lossy(&bytes), settings, depth)
}

/// Reads the text of a file into the settings.
pub(super) fn read_text(
    path: &Path,
    text: &str,
    settings: &mut Settings,
    depth: usize,
) -> Result<(), ConfigError> {
    let bad = |reason: String| ConfigError::Syntax(path.to_owned(), reason);
    if depth > DEPTH_MAX {
        return Err(bad("files include each other".to_owned()));
    }
    let nodes = Nodes::of(text).map_err(bad)?;
    let mut out = Vec::new();
    flatten(&nodes.root, "", &mut out, 0).map_err(bad)?;
    for (key, value) in out {
        let directory = path.parent().unwrap_or(Path::new("."));
        let is_include = key == "include" || key.starts_with("include.");
        match value {
            // What stands behind it replaces what it says.
            Some(value) if is_include => read(&directory.join(value), settings, depth + 1)?,
            Some(value) => settings.set(&key, &value),
            None => settings.clear_list(&key),
        }
    }
    Ok(())
}

/// A value of YAML, its texts as they are written.
#[derive(Debug, Clone)]
enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Text, or a list that begins, for the table.
type Entry = (String, Option<String>);

fn flatten(node: &Node, key: &str, out: &mut Vec<Entry>, depth: usize) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("nested deeper than {DEPTH_MAX}"));
    }
    if out.len() > ENTRIES_MAX {
        return Err(format!("more than {ENTRIES_MAX} settings"));
    }
    let below = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match node {
        Node::Text(text) => out.push((key.to_owned(), Some(text.clone()))),
        Node::List(items) => {
            out.push((key.to_owned(), None));
            for (at, item) in items.iter().enumerate() {
                flatten(item, &below(&at.to_string()), out, depth + 1)?;
            }
        }
        Node::Map(pairs) => {
            for (name, value) in pairs {
                flatten(value, &below(name), out, depth + 1)?;
            }
        }
    }
    Ok(())
}

struct Nodes {
    root: Node,
}

/// A list or map that is not closed yet; of a map, the key that waits for its value.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<String>),
}

impl Nodes {
    fn of(text: &str) -> Result<Self, String> {
        let mut parser = Parser::new_from_str(text);
        let mut stack: Vec<(Open, usize)> = Vec::new();
        let mut anchors: HashMap<usize, Node> = HashMap::new();
        let mut root = Node::Map(Vec::new());
        loop {
            let (event, _) = parser.next_token().map_err(|error| error.to_string())?;
            let (node, anchor) = match event {
                Event::StreamEnd => return Ok(Self { root }),
                Event::Scalar(text, _, anchor, _) => (Node::Text(text), anchor),
                Event::Alias(anchor) => {
                    let known = anchors.get(&anchor).cloned();
                    (known.ok_or("an alias without its anchor")?, 0)
                }
                Event::SequenceStart(anchor, _) => {
                    open(&mut stack, Open::List(Vec::new()), anchor)?;
                    continue;
                }
                Event::MappingStart(anchor, _) => {
                    open(&mut stack, Open::Map(Vec::new(), None), anchor)?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                    Some((Open::List(items), anchor)) => (Node::List(items), anchor),
                    Some((Open::Map(pairs, _), anchor)) => (Node::Map(pairs), anchor),
                    None => continue,
                },
                _ => continue,
            };
            if anchor > 0 {
                anchors.insert(anchor, node.clone());
            }
            match stack.last_mut() {
                None => root = node,
                Some((Open::List(items), _)) => items.push(node),
                Some((Open::Map(pairs, waiting), _)) => match (waiting.take(), node) {
                    (Some(key), node) => pairs.push((key, node)),
                    (None, Node::Text(key)) => *waiting = Some(key),
                    (None, _) => return Err("a key that is no text".to_owned()),
                },
            }
        }
    }
}

fn open(stack: &mut Vec<(Open, usize)>, open: Open, anchor: usize) -> Result<(), String> {
    if stack.len() >= DEPTH_MAX {
        return Err(format!("nested deeper than {DEPTH_MAX}"));
    }
    stack.push((open, anchor));
    Ok(())
}
