//! What a release says of itself: crates, bill of materials, checksums and signature.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::program;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn good(what: &str, out: &Output) -> String {
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{what}: {error}{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Whether this is a crate of the workspace; one of them stands for a crate of others.
fn is_of_ours(name: &str) -> bool {
    name.starts_with("gauntlet-") || name == "crc-fast"
}

/// Name and version of a crate with its lines of `Cargo.lock`.
fn locked() -> Vec<(String, String, String)> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.split("[[package]]").skip(1);
    packages
        .map(|package| {
            let field = |name: &str| {
                let start = format!("\n{name} = \"");
                let value = package.split_once(&start).and_then(|(_, rest)| rest.split_once('"'));
                value.map_or(String::new(), |(value, _)| value.to_owned())
            };
            (field("name"), field("version"), package.to_owned())
        })
        .collect()
}

#[test]
fn every_crate_comes_from_the_registry_with_a_checksum() {
    let locked = locked();
    assert!(locked.len() > 100, "the walk finds crates");
    for (name, version, lines) in locked {
        let is_ours = name == "gauntlet" || is_of_ours(&name);
        let has = |field: &str| lines.contains(&format!("\n{field} = "));
        assert_eq!(has("source"), !is_ours, "{name} {version}");
        assert_eq!(has("checksum"), !is_ours, "{name} {version}");
        let registry = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert!(is_ours || lines.contains(registry), "{name} {version}: {lines}");
    }
}

/// Lines of `cargo tree`: what is built for the program on this platform.
fn built() -> BTreeSet<String> {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--package=gauntlet", "--edges=normal,build", "--prefix=none"])
        .args(["--target=x86_64-unknown-linux-gnu", "--locked", "--format={p}"])
        .current_dir(root())
        .output()
        .unwrap();
    let tree = good("cargo tree", &out);
    let crates = tree.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some(format!("{}@{}", words.next()?, words.next()?.trim_start_matches('v')))
    });
    crates.collect()
}

/// A crate that is not there any more would only be warned of, in the middle of a release.
#[test]
fn the_profile_of_packages_names_crates_that_there_are() {
    let profile = std::fs::read_to_string(root().join("packaging/dist.toml")).unwrap();
    let profile: toml::Table = toml::from_str(&profile).unwrap();
    let known: BTreeSet<String> = locked().into_iter().map(|(name, ..)| name).collect();
    let crates = profile["profile"]["dist"]["package"].as_table().unwrap();
    assert!(crates.len() > 50, "the walk finds crates");
    let gone: Vec<&String> =
        crates.keys().filter(|name| *name != "*" && !known.contains(*name)).collect();
    assert!(gone.is_empty(), "packaging/dist.toml names {gone:?}");
}

#[test]
fn the_bill_of_materials_names_what_is_built() {
    if program("python3").is_none() {
        return;
    }
    let make = || {
        let out = Command::new(root().join("packaging/sbom"))
            .env("SOURCE_DATE_EPOCH", "1795860000")
            .output()
            .unwrap();
        good("packaging/sbom", &out)
    };
    let text = make();
    assert_eq!(text, make(), "the same tree gives the same bytes");
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    let mut named = BTreeSet::from([format!("gauntlet@{}", env!("CARGO_PKG_VERSION"))]);
    for component in bill["components"].as_array().unwrap() {
        let (name, version) = (&component["name"], &component["version"]);
        let (name, version) = (name.as_str().unwrap(), version.as_str().unwrap());
        let purl = format!("pkg:cargo/{name}@{version}");
        assert_eq!(component["purl"], purl);
        assert_eq!(component["hashes"][0]["content"].is_string(), !is_of_ours(name), "{component}");
        let licence = component["licenses"][0]["expression"].as_str().unwrap();
        assert!(!licence.is_empty() && licence != "NOASSERTION", "{component}");
        named.insert(purl.trim_start_matches("pkg:cargo/").to_owned());
    }
    assert_eq!(named, built());
    let ring = |scope: &str| {
        let all = bill["components"].as_array().unwrap();
        all.iter().any(|c| c["name"] == "ring" && c["scope"] == scope)
    };
    assert!(ring("required") && !ring("excluded"));
}

#[test]
fn every_crate_of_the_program_has_a_licence_in_the_package() {
    if program("python3").is_none() {
        return;
    }
    for target in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let out = Command::new(root().join("packaging/licences")).arg(target).output().unwrap();
        let printed = good("packaging/licences", &out);
        let mut named = BTreeSet::new();
        let line = |character: &str| format!("\n{}\n", character.repeat(78));
        for entry in format!("\n{printed}").split(&line("=")).skip(1) {
            let (crates, text) = entry.split_once(&line("-")).unwrap();
            assert!(!text.trim().is_empty(), "{crates} without a text");
            named.extend(crates.trim().lines().map(|line| {
                let mut words = line.split(' ');
                format!("{}@{}", words.next().unwrap(), words.next().unwrap())
            }));
        }
        if target.starts_with("x86_64") {
            let others = built().into_iter().filter(|name| {
                !is_of_ours(name.split('@').next().unwrap()) && !name.starts_with("gauntlet@")
            });
            assert_eq!(named, others.collect());
        }
        // Code of others within crates.
        for holder in ["University of Cambridge", "Microsoft Corporation", "Meta Platforms"] {
            assert!(printed.contains(holder), "{holder}");
        }
    }
}

#[test]
fn a_release_is_signed_and_a_changed_byte_is_noticed() {
    let (Some(minisign), Some(_), Some(_)) =
        (program("minisign"), program("python3"), program("git"))
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (key, public, out) = (path("key"), path("key.pub"), path("dist"));
    let made = Command::new(&minisign)
        .args(["-G", "-W", "-s"])
        .arg(&key)
        .arg("-p")
        .arg(&public)
        .output()
        .unwrap();
    good("minisign -G", &made);
    let release = Command::new(root().join("packaging/release"))
        .args(["--skip-checks", "--only", "sbom,source", "--out"])
        .arg(&out)
        .arg("--key")
        .arg(&key)
        .output()
        .unwrap();
    let table = good("packaging/release", &release);
    for artefact in [".cdx.json", ".tar.gz", "SHA256SUMS", "SHA256SUMS.minisig"] {
        assert!(table.lines().any(|line| line.contains(artefact)), "{artefact}: {table}");
    }
    let verifies = || {
        let signed = Command::new(&minisign)
            .arg("-V")
            .arg("-p")
            .arg(&public)
            .arg("-m")
            .arg(out.join("SHA256SUMS"))
            .output()
            .unwrap();
        let mut sums = Command::new("sha256sum");
        let sums = sums.args(["-c", "SHA256SUMS"]).current_dir(&out).output().unwrap();
        (signed.status.success(), sums.status.success())
    };
    assert_eq!(verifies(), (true, true));
    let artefact = out.join(format!("gauntlet-{}.cdx.json", env!("CARGO_PKG_VERSION")));
    let mut bytes = std::fs::read(&artefact).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&artefact, &bytes).unwrap();
    assert_eq!(verifies(), (true, false), "a byte of an artefact");
    let sums = std::fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    std::fs::write(out.join("SHA256SUMS"), sums.replacen('0', "1", 1)).unwrap();
    assert!(!verifies().0, "a byte of the checksums");
}

#[test]
fn a_dry_run_of_a_release_names_all_steps_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("dist");
    let run = Command::new(root().join("packaging/release"))
        .args(["--dry-run", "--reproduce", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let said = good("packaging/release --dry-run", &run);
    for step in
        [".ci/run", "cargo deny", "build --profile dist", "cmp ", "build-deb", "build-static"]
    {
        assert!(said.contains(step), "{step}: {said}");
    }
    for step in ["container/build", "packaging/sbom", "packaging/licences", "git archive", "--tool"]
    {
        assert!(said.contains(step), "{step}: {said}");
    }
    assert!(!out.exists());
}
