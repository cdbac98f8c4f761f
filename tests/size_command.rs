//! `gauntlet size`: what it prints, and what it refuses.

use std::process::{Command, Output};

fn size(args: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_gauntlet");
    Command::new(program).arg("size").args(args.split_whitespace()).output().expect("it runs")
}

fn said(output: &Output) -> (i32, String) {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn mailmarshal_s_worked_examples() {
    let output = size("--users 100000 --sustained 32 --keep mailmarshal --json");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let plan = &answer["plan"];
    assert_eq!((plan["nodes_min"].as_u64(), plan["nodes"].as_u64()), (Some(2), Some(3)));
    assert_eq!(plan["node_bytes_per_user"].as_f64(), Some(2_207_000.0));
    let (code, text) = said(&size("--users 22500 --sustained 32 --link e1"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("22500 users"), "{text}");
    assert!(text.contains("2.0 Mbit/s"), "{text}");
}

#[test]
fn what_is_extrapolated_says_so() {
    let points = "--users 100000 --points 1=100,2=195,4=372,8=680,16=1150";
    let (code, text) = said(&size(&format!("{points} --cpus 32")));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("EXTRAPOLATED: "), "{text}");
    let (code, text) = said(&size(&format!("{points} --cpus 65")));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("more than 4 times the 16 that were measured"), "{text}");
}

#[test]
fn senseless_figures_are_refused_by_name() {
    let (code, text) = said(&size("--users 1000 --points 1=440,2=733 --cpus 8"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("2 different numbers of CPUs were measured; a fit needs 4"), "{text}");
    let (code, text) = said(&size("--users 1000 --sustained 0"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("messages/s sustained is 0: it must be above 0"), "{text}");
    let (code, text) = said(&size("--users 1000"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("--sustained"), "{text}");
}

#[test]
fn an_array_needs_a_database_and_a_store() {
    let (code, text) = said(&size("--users 100000 --sustained 32"));
    assert!(code == 0 && !text.contains("database traffic"), "{text}");
    let (code, text) = said(&size("--users 100000 --sustained 32 --array"));
    assert_eq!(code, 0, "{text}");
    for row in ["database traffic", "database disk", "object store", "PUT/s"] {
        assert!(text.contains(row), "{text}");
    }
    let output = size("--users 100000 --sustained 32 --array --json");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(answer["array"]["wal_bytes_per_day"].as_f64().unwrap() > 0.0, "{answer}");
}
