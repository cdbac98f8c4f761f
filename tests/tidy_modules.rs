//! Inside a crate, too, modules depend one way: among the children of one folder there is no
//! circle.
//!
//! What counts is a path that begins with `crate::` or `super::`, outside of comments and tests; it
//! leads to where the name is made, not to a module that hands it on. A module and its own children
//! may name each other: they are one thing in several files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module by its path in the crate; the crate itself is the empty one.
type Module = Vec<String>;

/// The source of each module of a crate, without comments and tests.
fn modules(src: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && path.file_name().is_some_and(|n| n != "tests.rs")
            {
                found.insert(module_of(src, &path), code(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn module_of(src: &Path, path: &Path) -> Module {
    let relative: PathBuf = path.strip_prefix(src).unwrap().with_extension("");
    let names: Module =
        relative.components().map(|c| c.as_os_str().to_str().unwrap().to_owned()).collect();
    match names.as_slice() {
        [only] if only == "lib" || only == "main" => Module::new(),
        _ => names,
    }
}

fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).fold(
        String::new(),
        |all, line| {
            // What follows `//` in a string is of no interest, either.
            all + line.split(" // ").next().unwrap() + "\n"
        },
    )
}

/// All paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let names = tree.split(" as ").next().unwrap().split("::");
        return vec![names.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()).collect()];
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let prefix = expand(head.trim_end().trim_end_matches("::")).concat();
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner.get(start..i).unwrap_or_default();
                if !part.trim().is_empty() {
                    found.extend(expand(part).into_iter().map(|p| [prefix.clone(), p].concat()));
                }
                start = i + 1;
            }
            _ => {}
        }
    }
    found
}

/// Paths in the code that begin with `crate` or `super`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code.get(..at).unwrap_or_default();
            if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            let rest = code.get(at..).unwrap_or_default();
            let is_use = before.trim_end().ends_with("use");
            let end = match is_use {
                true => rest.find(';').unwrap_or(rest.len()),
                false => rest
                    .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | ':')))
                    .unwrap_or(rest.len()),
            };
            found.extend(expand(rest.get(..end).unwrap_or_default()));
        }
    }
    found
}

/// A path as seen from `from`, from the crate's root on; none if it leads out of the crate.
fn absolute(all: &BTreeMap<Module, String>, from: &Module, path: &[String]) -> Option<Module> {
    let mut names = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            names.clear();
            rest = path.get(1..)?;
        }
        "self" => rest = path.get(1..)?,
        "super" => {
            while rest.first().is_some_and(|n| n == "super") {
                names.pop();
                rest = rest.get(1..)?;
            }
        }
        child => {
            names.push(child.to_owned());
            all.get(&names)?;
            names.pop();
        }
    }
    names.extend(rest.iter().cloned());
    Some(names)
}

/// By module, the names that it imports, and where each leads: others may use them through it.
type Imports = BTreeMap<Module, BTreeMap<String, Module>>;

fn imports(all: &BTreeMap<Module, String>) -> Imports {
    let mut found = Imports::new();
    for (module, code) in all {
        for (at, _) in code.match_indices("use ") {
            let is_word = code.get(..at).is_some_and(|b| b.ends_with(char::is_alphanumeric));
            let rest = code.get(at + 4..).unwrap_or_default();
            let Some(end) = rest.find(';').filter(|_| !is_word) else { continue };
            for mut path in expand(rest.get(..end).unwrap_or_default()) {
                if path.last().is_some_and(|n| n == "self") {
                    path.pop();
                }
                if let Some(names) = absolute(all, module, &path)
                    && let Some(name) = names.last().cloned()
                {
                    found.entry(module.clone()).or_default().insert(name, names);
                }
            }
        }
    }
    found
}

/// Modules that hand a name on, one to the next.
const HANDED_ON_MAX: usize = 8;

/// The module that a path in `from` leads to, or into.
fn target(
    all: &BTreeMap<Module, String>,
    imports: &Imports,
    from: &Module,
    path: &[String],
) -> Option<Module> {
    let mut names = absolute(all, from, path)?;
    for _ in 0..HANDED_ON_MAX {
        let known = (0..=names.len()).rev().find(|n| all.contains_key(&names[..*n]))?;
        let name = names.get(known);
        match name.and_then(|name| imports.get(&names[..known])?.get(name)) {
            Some(origin) if *origin != names => {
                names = [origin, names.get(known + 1..).unwrap_or_default()].concat();
            }
            _ => {
                names.truncate(known);
                break;
            }
        }
    }
    (!names.is_empty() && names != *from).then_some(names)
}

/// A circle among these modules, if there is one.
fn circle(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Option<Vec<Module>> {
    let mut left: BTreeMap<Module, BTreeSet<Module>> = edges.clone();
    loop {
        // What leads nowhere is in no circle.
        let ends: Vec<Module> = left
            .iter()
            .filter(|(_, to)| !to.iter().any(|t| left.contains_key(t)))
            .map(|(from, _)| from.clone())
            .collect();
        if ends.is_empty() {
            break;
        }
        ends.iter().for_each(|end| drop(left.remove(end)));
    }
    (!left.is_empty()).then(|| left.into_keys().collect())
}

/// Circles among siblings, at every level of a crate.
fn circles(src: &Path) -> Vec<String> {
    let all = modules(src);
    let levels: BTreeSet<Module> =
        all.keys().flat_map(|m| (0..m.len()).map(|n| m[..n].to_vec())).collect();
    let imports = imports(&all);
    let leads_to = |from: &Module, path: &[String]| target(&all, &imports, from, path);
    let uses: Vec<(Module, Module)> = all
        .iter()
        .flat_map(|(from, code)| {
            paths(code).into_iter().filter_map(|p| Some((from.clone(), leads_to(from, &p)?)))
        })
        .collect();
    let mut found = Vec::new();
    for level in levels {
        let n = level.len();
        let child = |m: &Module| (m.len() > n && m.starts_with(&level)).then(|| m[..=n].to_vec());
        let mut edges: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, to) in &uses {
            if let (Some(from), Some(to)) = (child(from), child(to))
                && from != to
            {
                edges.entry(from).or_default().insert(to);
            }
        }
        if let Some(circle) = circle(&edges) {
            let names: Vec<String> = circle.iter().map(|m| m.join("::")).collect();
            found.push(format!("{}: {}", src.display(), names.join(", ")));
        }
    }
    found
}

#[test]
fn modules_depend_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = circles(&root.join("src"));
    for entry in fs::read_dir(root.join("crates")).expect("crates/").flatten() {
        found.extend(circles(&entry.path().join("src")));
    }
    assert!(found.is_empty(), "in a circle, or leading into one:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    fs::create_dir(folder.path().join("b")).unwrap();
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use crate::{b::{inner::X, Y}, c};\n");
    write("b.rs", "mod inner;\n// use crate::a::Z;\n#[cfg(test)]\nmod tests { use crate::a; }\n");
    write("b/inner.rs", "use super::Y;\nuse crate::c::Z;\n");
    write("c.rs", "");
    assert_eq!(circles(folder.path()), [""; 0]);
    write("c.rs", "fn f() { crate::a::g(); }");
    assert_eq!(circles(folder.path()).len(), 1);
}

#[test]
fn a_circle_by_names_that_are_handed_on_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; pub use a::{X, f as g};");
    write("a.rs", "use crate::b;\npub struct X;\n");
    write("b.rs", "pub struct Y;\n");
    assert_eq!(circles(folder.path()), [""; 0]);
    write("b.rs", "pub struct Y(super::X);\n");
    assert_eq!(circles(folder.path()).len(), 1);
}
