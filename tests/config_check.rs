//! `gauntlet config check` refuses what `gauntlet serve` would refuse.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn check(folder: &Path, text: &str, more: &[&str]) -> Output {
    let file = folder.join("gauntlet.toml");
    let data = folder.join("data");
    std::fs::write(&file, format!("[node]\ndata = {data:?}\n{text}\n")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["config", "check"])
        .args(more)
        .arg(&file)
        .output()
        .unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn files_that_a_start_would_miss_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for (text, wanted) in [
        ("[recipients]\nfile = \"/nope\"", "recipients.file /nope: No such file"),
        ("[recipients]\nfile = \"/etc/passwd\"", "none of its lines is an address"),
        ("[recipients]\nsqlite = \"/etc/passwd\"", "recipients.sqlite"),
        ("[rules]\npaths = [\"/nope\"]", "/nope"),
        ("[[local_list]]\nname = \"a\"\npath = \"/nope\"\npoints = 1.0", "local_list \"a\""),
        ("[dkim]\nseal_as = \"ours.test\"", "no key of ours.test signs"),
        ("[policy]\npath = \"/nope\"", "policy.path /nope"),
        ("[console]\ntexts = \"/nope\"", "console.texts: /nope"),
        (
            "[[listener]]\naddress = \"127.0.0.1:0\"\ncertificate = [\"/nope.pem\"]\n\
             key = [\"/nope.key\"]",
            "listener.certificate /nope.pem",
        ),
        (
            "[[listener]]\naddress = \"127.0.0.1:0\"\nrole = \"proxy\"\n\
             [proxy.content]\nphrases = [\"/nope.txt\"]",
            "proxy.content.phrases: cannot read /nope.txt",
        ),
        (
            "[[listener]]\naddress = \"127.0.0.1:0\"\nrole = \"proxy\"\n\
             [proxy.login]\nmethods = [\"basic\"]\npassword_file = \"/nope.users\"",
            "/nope.users",
        ),
        (
            "[[listener]]\naddress = \"127.0.0.1:0\"\nrole = \"proxy\"\n\
             [proxy.tls]\nca_certificate = \"/nope.ca\"\nca_key = \"/nope.key\"",
            "/nope.ca",
        ),
    ] {
        let out = check(folder.path(), text, &[]);
        assert_eq!(out.status.code(), Some(2), "{text}: {out:?}");
        assert!(said(&out).contains(wanted), "{text}: {}", said(&out));
        let elsewhere = check(folder.path(), text, &["--no-files"]);
        assert!(elsewhere.status.success(), "{text}: {elsewhere:?}");
    }
    assert!(!folder.path().join("data").exists(), "a check makes nothing");
}

/// A start reads the rules that it understands, and logs the others; who checks sees them before.
#[test]
fn faults_of_rule_files_are_warnings_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("own.cf");
    let text = "body GOOD_ONE /fine/\nscore GOOD_ONE 1.5\nbody BAD_ONE /(unclosed/\nscor X 1\n";
    std::fs::write(&rules, text).unwrap();
    let out = check(folder.path(), &format!("[rules]\npaths = [{rules:?}]"), &[]);
    assert!(out.status.success(), "{out:?}");
    for line in ["own.cf:3", "own.cf:4"] {
        let named =
            said(&out).lines().any(|l| l.starts_with("warning: rules:") && l.contains(line));
        assert!(named, "{line}: {}", said(&out));
    }
    assert!(!said(&out).contains("GOOD_ONE"), "{}", said(&out));
}

#[test]
fn values_that_a_start_would_refuse_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let twice = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[listener]]\nrole = \"outbound\"\n\
                 address = \"127.0.0.1:2525\"";
    for (text, wanted) in [
        ("[scan]\nthreads = 100000", "scan.threads: must be 1024 at most"),
        ("[[service]]\nprotocol = \"http\"\naddress = \"0.0.0.0:3599\"", "set service.token"),
        ("[[service]]\nprotocol = \"http\"\naddress = \"here\"", "\"here\" is no address"),
        ("[[folder]]\nname = \"a/b\"", "folder.name: \"a/b\""),
        (twice, "127.0.0.1:2525 is taken twice"),
    ] {
        let out = check(folder.path(), text, &[]);
        assert_eq!(out.status.code(), Some(2), "{text}: {out:?}");
        assert!(said(&out).contains(wanted), "{text}: {}", said(&out));
    }
    let shared = twice.replace("\"127.0.0.1:2525\"", "\"127.0.0.1:2525\"\nshare_port = true");
    assert!(check(folder.path(), &shared, &[]).status.success());
}

#[test]
fn what_only_others_may_read_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known");
    std::fs::write(&known, "ann@ours.test\nbob\n").unwrap();
    let text = format!("[recipients]\nfile = {known:?}");
    let out = check(folder.path(), &text, &[]);
    assert!(out.status.success(), "{out:?}");
    assert!(said(&out).contains("warning: ") && said(&out).contains("line 2 is no address"));
    std::fs::set_permissions(&known, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&known).is_ok() {
        eprintln!("run by root, who may read every file: no file is denied");
        return;
    }
    let out = check(folder.path(), &text, &[]);
    assert!(out.status.success(), "{out:?}");
    assert!(said(&out).contains("not checked"), "{}", said(&out));
}

/// A rule of the policy that asks for what there is not does nothing: who checks is told.
#[test]
fn rules_that_do_nothing_are_warnings_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let text = "[[web_rule]]\nname = \"games\"\nwhen.url = { host = \".games.example\", \
                list = \"games\" }\ndo = { block = \"Not here.\" }\n";
    std::fs::write(&policy, text).unwrap();
    let config = format!("[policy]\npath = {policy:?}");
    let out = check(folder.path(), &config, &[]);
    assert!(out.status.success(), "{out:?}");
    for part in [
        "policy, line 1: rule \"games\": url.host = \".games.example\" fits no host",
        "url.list = \"games\": no [[url_list]] has it",
    ] {
        assert!(said(&out).contains(part), "{part}: {}", said(&out));
    }
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["policy", "check"])
        .arg(&policy)
        .args(["--config"])
        .arg(folder.path().join("gauntlet.toml"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(told.contains("no [[url_list]] has it") && told.contains("2 warnings"), "{told}");
}

/// The one JSON object that a command prints.
fn object(out: &Output) -> serde_json::Value {
    serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out:?}"))
}

#[test]
fn config_check_gives_one_json_object_whatever_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known");
    std::fs::write(&known, "ann@ours.test\nbob\n").unwrap();
    let warned = check(folder.path(), &format!("[recipients]\nfile = {known:?}"), &["--json"]);
    assert!(warned.status.success(), "{warned:?}");
    let found = object(&warned);
    assert_eq!((&found["valid"], &found["settings_changed"]), (&true.into(), &2.into()), "{found}");
    assert!(found["warnings"][0].as_str().unwrap().contains("line 2 is no address"), "{found}");
    assert_eq!(found["errors"].as_array().unwrap().len(), 0, "{found}");
    // A file that names what there is not, and one that cannot be read.
    for (text, wanted) in [
        ("[recipients]\nfile = \"/nope\"", "recipients.file /nope"),
        ("[scan]\nthreads = 100000", "scan.threads"),
        ("[nonsense]", "nonsense"),
    ] {
        let out = check(folder.path(), text, &["--json"]);
        assert_eq!(out.status.code(), Some(2), "{text}: {out:?}");
        let found = object(&out);
        assert_eq!(found["valid"], false, "{found}");
        assert!(found["errors"][0].as_str().unwrap().contains(wanted), "{found}");
    }
}

#[test]
fn policy_check_gives_one_json_object_whatever_it_finds() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let check = |text: &str| {
        std::fs::write(&policy, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauntlet"));
        command.args(["policy", "check", "--json"]).arg(&policy).env_remove("GAUNTLET_CONFIG");
        command.output().unwrap()
    };
    let text = "[[rule]]\nname = \"all\"\ndo = \"deliver\"\n[[web_rule]]\nname = \"games\"\n\
                when.url = { host = \".games.example\" }\ndo = { block = \"Not here.\" }\n";
    let out = check(text);
    assert!(out.status.success(), "{out:?}");
    let found = object(&out);
    assert_eq!((&found["rules"], &found["web_rules"]), (&1.into(), &1.into()), "{found}");
    let warning = &found["warnings"][0];
    assert_eq!((&warning["line"], &warning["rule"]), (&4.into(), &"games".into()), "{found}");
    assert!(warning["message"].as_str().unwrap().starts_with("url.host"), "{found}");
    let out = check("[[rule]]\nname = \"no end\"\ndo = \"delivr\"\n");
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    let found = object(&out);
    assert_eq!(found["valid"], false, "{found}");
    assert!(found["errors"][0].as_str().unwrap().contains("line "), "{found}");
}
