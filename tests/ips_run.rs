//! `gauntlet ips run`: nginx and curl through it, in network namespaces of this test.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::namespaces::{LARGE, Middle, Namespaces, program};
use crate::common::running::{GAUNTLET, RULES, Running, queue_rule, until};

/// Requests one after the other until told to stop; how many there were. All are answered.
fn load(net: &Namespaces, stop: &AtomicBool) -> usize {
    let url = format!("http://{}/load[1-100]", net.server);
    let args = ["-sS", "--max-time", "30", "-o", "/dev/null", "-w", "%{http_code}\\n", &url];
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let out = net.run("client", "curl", &args);
        let codes = String::from_utf8_lossy(&out.stdout).into_owned();
        let good = codes.lines().filter(|code| *code == "200").count();
        assert_eq!(good, 100, "{codes}{}", String::from_utf8_lossy(&out.stderr));
        count += good;
    }
    count
}

#[test]
fn a_bridge_forwards_alerts_drops_and_rejects() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    assert!(net.get("/", 1).is_err(), "nothing connects the two sides");
    let more = ["--threads", "2", "--cpus", "0,0", "--profile-every", "1"];
    let running = Running::bridge(&net, &more);
    assert_eq!(net.get("/fine", 10).as_deref(), Ok("answer to /fine"));
    assert_eq!(net.get("/seen", 10).as_deref(), Ok("answer to /seen"));
    assert_eq!(running.alert(1), "allowed");
    // curl gives up: nothing comes back on a connection whose request was dropped.
    assert_eq!(net.get("/dropped", 2), Err(28));
    assert_eq!(running.alert(2), "blocked");
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "10", &url]);
    assert_eq!(refused.status.code(), Some(7), "refused by a reset, not by time");
    assert_eq!(running.alert(3), "blocked");
    assert_eq!(net.get("/large", 60).map(|body| body.len()), Ok(LARGE));
    let (errors, eve) = (running.errors.clone(), running.eve.clone());
    let (status, stats) = running.stop();
    assert!(status.success());
    let said = fs::read_to_string(&errors).unwrap();
    assert!(said.contains("%  1:2:0, tried "), "the costs of rules: {said}");
    let costs = fs::read_to_string(&eve).unwrap();
    let costs = costs.lines().rfind(|line| line.contains("\"rule_costs\"")).unwrap().to_owned();
    let costs: Value = serde_json::from_str(&costs).unwrap();
    assert_eq!(costs["rule_costs"]["rules"].as_array().map(Vec::len), Some(3), "{costs}");
    assert_eq!(stats["capture"]["kernel_drops"], 0, "{stats}");
    assert_eq!(stats["ips"]["send_failures"], 0, "{stats}");
    assert!(stats["ips"]["blocked"].as_u64() >= Some(2), "{stats}");
    assert_eq!(stats["ips"]["rejected"], 1, "{stats}");
    assert!(stats["ips"]["drop_reason"]["rules"].as_u64() >= Some(2), "{stats}");
    assert_eq!(stats["decoder"]["invalid"], Value::Null, "{stats}");
}

/// What packets carry decides, on live traffic, with the verdicts of an engine.
#[test]
fn a_download_is_dropped_for_what_it_carries() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let (yara, config) = (net.folder.path().join("a.yar"), net.folder.path().join("g.toml"));
    fs::write(&yara, "rule marker { strings: $m = \"marked-as-bad\" condition: $m }").unwrap();
    let files = net.folder.path().join("files");
    fs::write(files.join("good.bin"), "a file").unwrap();
    fs::write(files.join("bad.bin"), "a file that is marked-as-bad, indeed").unwrap();
    let engine = format!("[[engine]]\nname = \"y\"\nkind = \"yara\"\npaths = [{yara:?}]\n");
    fs::write(&config, engine).unwrap();
    let scan = ["--scan", "files", "--scan-config", config.to_str().unwrap()];
    // Silence: curl gives up. A reset: it is told at once.
    for (more, code) in [(&[][..], 28), (&["--reset"][..], 56)] {
        let drops = ["--drop-on", "malware"];
        let running = Running::bridge(&net, &[&scan[..], &drops[..], more].concat());
        assert_eq!(net.get("/files/good.bin", 10).as_deref(), Ok("a file"));
        assert_eq!(net.get("/files/bad.bin", 4), Err(code), "{more:?} {}", running.said());
        let found = || {
            let records = running.records("gauntlet");
            records.iter().any(|it| {
                it["gauntlet"]["verdict"] == "block" && it["gauntlet"]["action"] == "blocked"
            })
        };
        until("a record", found);
        let (status, stats) = running.stop();
        assert!(status.success());
        assert_eq!(stats["ips"]["drop_reason"]["content"], 1, "{stats}");
        assert_eq!(stats["ips"]["rejected"], if more.is_empty() { 0 } else { 2 }, "{stats}");
        fs::remove_file(net.folder.path().join("eve.json")).unwrap();
    }
}

#[test]
fn what_passes_an_interface_is_captured_by_threads() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    let running = Running::start(&net, &["--interface", "c0", "--threads", "2"]);
    running.worker();
    until("an alert", || net.get("/seen", 10).is_ok() && !running.records("alert").is_empty());
    assert_eq!(running.alert(1), "allowed");
    assert_eq!(net.get("/dropped", 10).as_deref(), Ok("answer to /dropped"), "it only listens");
    assert_eq!(running.alert(2), "allowed");
    assert_eq!(net.get("/large", 60).map(|body| body.len()), Ok(LARGE));
    let (status, stats) = running.stop();
    assert!(status.success());
    assert_eq!(stats["capture"]["kernel_drops"], 0, "{stats}");
    assert!(stats["decoder"]["bytes"].as_u64() >= Some(LARGE as u64), "{stats}");
}

/// Flows of one client are shared out, and a limit counts those of all threads together.
#[test]
fn limits_count_what_all_threads_see() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    let running = Running::start(&net, &["--interface", "c0", "--threads", "2"]);
    running.worker();
    let uri = "http any any -> any any (http.uri; content:\"/limited\"; ";
    let fifth = "threshold:type threshold, track by_rule, count 5, seconds 3600; sid:31;)";
    let once = "threshold:type limit, track by_src, count 1, seconds 3600; sid:32;)";
    let each = "sid:33;)";
    let rules = [fifth, once, each].map(|rest| format!("alert {uri}{rest}\n")).concat();
    fs::write(&running.rules, rules).unwrap();
    running.signal("-HUP", running.child.id());
    running.wait("read anew: 3 rules");
    let counted = |sid: u64| {
        let alerts = running.records("alert");
        alerts.iter().filter(|it| it["alert"]["signature_id"] == sid).count()
    };
    // A thread takes the rules between two turns, of which each lasts at most a tenth of a second.
    std::thread::sleep(Duration::from_millis(300));
    for number in 1..=20 {
        net.get("/limited", 10).unwrap();
        until("its alert", || counted(33) == number);
    }
    assert_eq!((counted(31), counted(32)), (4, 1));
    let (status, _) = running.stop();
    assert!(status.success());
}

#[test]
fn rules_are_read_anew_under_load_without_a_lost_request() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let running = Running::bridge(&net, &[]);
    let stop = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&net, &stop));
        for number in 1..=5 {
            let rule = "alert http any any -> any any (msg:\"new\"; http.uri; content:\"/load\"; ";
            let limit = "threshold:type limit, track by_src, count 1, seconds 3600; ";
            fs::write(&running.rules, format!("{rule}{limit}sid:1{number};)\n")).unwrap();
            running.signal("-HUP", running.child.id());
            running.alert(10 + number);
        }
        fs::rename(&running.rules, net.folder.path().join("away")).unwrap();
        running.signal("-HUP", running.child.id());
        running.wait("the old rules stay");
        // The log was moved away: records go on in a new one.
        fs::rename(&running.eve, net.folder.path().join("eve.old")).unwrap();
        running.signal("-HUP", running.child.id());
        until("a new log", || running.eve.exists());
        stop.store(true, Ordering::Relaxed);
        loading.join().unwrap()
    });
    assert!(count > 0);
    let (status, stats) = running.stop();
    assert!(status.success());
    assert_eq!(stats["capture"]["kernel_drops"], 0, "{stats}");
    assert_eq!(stats["ips"]["blocked"], 0, "{stats}");
}

#[test]
fn a_bit_of_a_flow_outlives_a_reload() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let running = Running::bridge(&net, &[]);
    let uri = |word: &str| format!("http any any -> any any (http.uri; content:\"/{word}\"; ");
    let set = format!("alert {}flowbits:set,begun; flowbits:noalert; sid:20;)\n", uri("first"));
    let test = format!("alert {}flowbits:isset,begun; sid:21;)\n", uri("second"));
    let other = format!("alert {}flowbits:set,another; sid:22;)\n", uri("third"));
    fs::write(&running.rules, &set).unwrap();
    running.signal("-HUP", running.child.id());
    running.wait("read anew: 1 rules");
    // Two requests on one connection, and a reload between them.
    let script = format!(
        "exec 3<>/dev/tcp/{}/80; printf 'GET /first HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&3; \
         read -r line <&3; echo begun; read -r go; \
         printf 'GET /second HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&3; sleep 1",
        net.server
    );
    let mut client = net.command("client", "bash");
    let client = client.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = client.spawn().unwrap();
    client.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    fs::write(&running.rules, format!("{other}{test}{set}")).unwrap();
    running.signal("-HUP", running.child.id());
    running.wait("read anew: 3 rules");
    // A thread takes the rules between two turns, of which each lasts at most a tenth of a second.
    std::thread::sleep(Duration::from_millis(300));
    drop(client.stdin.take());
    assert_eq!(running.alert(21), "allowed");
    client.wait().unwrap();
}

#[test]
fn a_worker_that_is_killed_or_hangs_is_started_anew() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let running = Running::bridge(&net, &["--on-crash", "pass", "--watchdog", "1"]);
    for signal in ["-KILL", "-STOP"] {
        let before = running.worker();
        running.signal(signal, before);
        let killed = Instant::now();
        until("traffic", || net.get("/seen", 1).is_ok());
        eprintln!("{signal}: traffic again after {:?}", killed.elapsed());
        until("a new worker", || running.worker() != before);
        until("inspection", || net.get("/dropped", 1) == Err(28));
    }
    running.wait("the worker says nothing any more");
    let (status, _) = running.stop();
    assert!(status.success());
}

/// With `pass`, connections outlive the process that inspects them.
#[test]
fn a_download_goes_on_when_the_worker_is_killed() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let running = Running::bridge(&net, &["--on-crash", "pass"]);
    let url = format!("http://{}/large", net.server);
    let slow = ["-sS", "--max-time", "60", "--limit-rate", "4M", "-o", "/dev/null", "-w"];
    let mut curl = net.command("client", "curl");
    let curl = curl.args(slow).args(["%{size_download}", &url]).stdout(Stdio::piped());
    let curl = curl.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let before = running.worker();
    running.signal("-KILL", before);
    until("a new worker", || running.worker() != before);
    let out = curl.wait_with_output().unwrap();
    assert!(out.status.success(), "{:?}", out.status);
    assert_eq!(String::from_utf8_lossy(&out.stdout), LARGE.to_string());
    until("inspection", || net.get("/dropped", 1) == Err(28));
    assert!(running.stop().0.success());
}

#[test]
fn without_a_worker_nothing_passes_if_so_told() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    let running = Running::bridge(&net, &["--on-crash", "stop"]);
    // A worker that does not get ready: its rules are gone.
    fs::rename(&running.rules, net.folder.path().join("away")).unwrap();
    running.signal("-KILL", running.worker());
    running.wait("it is started anew, and packets stop");
    assert!(net.get("/", 2).is_err());
    fs::rename(net.folder.path().join("away"), &running.rules).unwrap();
    until("traffic", || net.get("/", 1).is_ok());
    assert!(running.stop().0.success());
}

#[test]
fn a_queue_gives_verdicts_and_lets_packets_pass_without_a_program() {
    let Some(net) = Namespaces::new(Middle::Router) else { return };
    let Some(()) = queue_rule(&net) else { return };
    assert!(net.get("/bypassed", 10).is_ok(), "nobody has the queue");
    let args = ["--queue", "0", "--fail-open", "--user", "nobody"];
    // What --user becomes must be able to write the records.
    fs::set_permissions(net.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let running = Running::start(&net, &args);
    until("an alert", || net.get("/seen", 10).is_ok() && !running.records("alert").is_empty());
    assert_eq!(net.get("/dropped", 2), Err(28));
    assert_eq!(running.alert(2), "blocked");
    let url = format!("http://{}:81/", net.server);
    let refused = net.run("client", "curl", &["-sS", "--max-time", "10", &url]);
    assert_eq!(refused.status.code(), Some(7), "refused by a reset, not by time");
    assert_eq!(net.get("/large", 60).map(|body| body.len()), Ok(LARGE));
    let second = ["ips", "run", "--queue", "0", "--rules", running.rules.to_str().unwrap()];
    let second = net.run("middle", GAUNTLET, &second);
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("queue 0 is taken"), "{said}");
    running.signal("-KILL", running.worker());
    until("traffic", || net.get("/", 1).is_ok());
    until("inspection", || net.get("/dropped", 1) == Err(28));
    let (status, stats) = running.stop();
    assert!(status.success());
    assert_eq!(stats["capture"]["kernel_drops"], 0, "{stats}");
    assert!(net.get("/bypassed", 10).is_ok(), "nobody has the queue");
}

#[test]
fn counters_are_served_and_root_is_given_up() {
    let Some(net) = Namespaces::new(Middle::Bridge) else { return };
    fs::set_permissions(net.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    let running = Running::bridge(&net, &["--user", "nobody", "--metrics", "127.0.0.1:9600"]);
    assert!(net.get("/seen", 10).is_ok());
    running.alert(1);
    let status = fs::read_to_string(format!("/proc/{}/status", running.worker())).unwrap();
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    assert!(!status.contains("Uid:\t0"), "{status}");
    let mut text = String::new();
    until("counters", || {
        let out = net.run("middle", "curl", &["-sS", "http://127.0.0.1:9600/metrics"]);
        text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.contains("gauntlet_ips_alerts_total 1\n")
    });
    assert!(text.contains("gauntlet_ips_kernel_drops_total 0\n"), "{text}");
    running.wait("rules, ");
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("a.rules");
    fs::write(&rules, RULES).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(GAUNTLET);
        let out = command.args(["ips", "run", "--rules"]).arg(&rules).args(args).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let (code, said) = run(&["--interface", "absent0"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no network interface \"absent0\""), "{said}");
    let (code, said) = run(&["--interface", "lo", "--set", "af-packet.0.cluster-type=cluster_odd"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("cluster-type"), "{said}");
    let (code, said) = run(&["--queue", "3-1"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no range"), "{said}");
    let (code, said) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(said.contains("--interface"), "{said}");
    // Without capabilities. The program's folder may be closed to others, hence the copy.
    let Some(setpriv) = program("setpriv") else { return };
    let drop = ["--bounding-set=-all", "--inh-caps=-all"];
    let mut command = Command::new(setpriv);
    command.args(drop).arg(GAUNTLET).args(["ips", "run", "--interface", "lo", "--rules"]);
    let out = command.arg(&rules).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("CAP_NET_RAW") && said.contains("setcap"), "{said}");
}
