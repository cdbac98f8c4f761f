//! The container's image: built of the program under test, and run by podman with a read-only root,
//! without root and capabilities. The files beside it (compose, Kubernetes) are read by the tools
//! that they are for.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{PATIENCE, Sink, Smtp, dated, message, program};
use crate::port::free_port;

/// Account in the image.
const USER: u32 = 65532;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// podman with a storage of its own, and a container in it.
struct Podman {
    folder: tempfile::TempDir,
    program: PathBuf,
    runtime: PathBuf,
}

impl Podman {
    /// None, with a note, where it is not installed or this user may not use it.
    fn new() -> Option<Self> {
        let (program, runtime) = (program("podman")?, program("runc")?);
        if !gauntlet_gateway::privileges::is_root() {
            assert!(std::env::var_os("CI").is_none(), "containers need root here");
            eprintln!("skipped: containers are tried as root only");
            return None;
        }
        Some(Podman { folder: tempfile::tempdir().unwrap(), program, runtime })
    }

    /// Options before the command. Storage by copies works on every file system; runc works with
    /// control groups of both versions at once, which crun refuses.
    fn options(&self) -> Vec<String> {
        let folder = self.folder.path().display();
        [
            format!("--root={folder}/root"),
            format!("--runroot={folder}/run"),
            "--storage-driver=vfs".to_owned(),
            "--cgroup-manager=cgroupfs".to_owned(),
            "--events-backend=file".to_owned(),
            format!("--runtime={}", self.runtime.display()),
        ]
        .to_vec()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(self.options()).args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// What a command said that must succeed.
    fn done(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "podman {arguments:?}: {error}\n{}", self.logs());
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn inspect(&self, what: &str) -> Value {
        let all: Value = serde_json::from_str(&self.done(&["inspect", what])).unwrap();
        all[0].clone()
    }

    /// What the node said on both its outputs.
    fn logs(&self) -> String {
        let out = self.run(&["logs", "gateway"]);
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    }

    /// The program in the container, beside the node.
    fn gauntlet(&self, arguments: &[&str]) -> String {
        self.done(&[&["exec", "gateway", "/usr/bin/gauntlet"], arguments].concat())
    }

    fn wait_until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !done() {
            assert!(begun.elapsed() < PATIENCE, "waited too long until {what}:\n{}", self.logs());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Waits until the health check of the image says that the node takes mail.
    fn wait_for_health(&self) {
        self.wait_until("the node is healthy", || {
            self.run(&["healthcheck", "run", "gateway"]).status.success()
        });
    }

    /// The image of the program under test; its name.
    fn build(&self) -> String {
        let tag = "localhost/gauntlet:test";
        let podman = [vec![self.program.display().to_string()], self.options()].concat().join(" ");
        let out = Command::new(root().join("packaging/container/build"))
            .args(["--binary", env!("CARGO_BIN_EXE_gauntlet"), "--tag", tag, "--podman", &podman])
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        tag.to_owned()
    }

    /// Starts the node with this configuration; none, with a note, where containers cannot run.
    fn start(&self, image: &str, config: &Path) -> Option<()> {
        let config = format!("{}:/etc/gauntlet/gauntlet.toml:ro", config.display());
        let out = self.run(&[
            "run",
            "--detach",
            "--name=gateway",
            "--network=host",
            "--read-only",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            // What podman asks for by itself needs CAP_SYS_RESOURCE.
            "--ulimit=nofile=4096:4096",
            "--ulimit=nproc=4096:4096",
            "--volume",
            &config,
            "--volume=data:/var/lib/gauntlet",
            image,
        ]);
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr).into_owned();
            assert!(std::env::var_os("CI").is_none(), "containers do not run here: {why}");
            eprintln!("skipped: podman with runc, storage vfs, network of the host: {why}");
            return None;
        }
        Some(())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _it_may_be_gone = self.run(&["rm", "--force", "--time=1", "gateway"]);
    }
}

/// Writes the node's configuration: free ports of this machine, the rest as the image has it.
fn configuration(podman: &Podman, next_hop: std::net::SocketAddr) -> (PathBuf, u16) {
    let own = std::fs::read_to_string(root().join("packaging/container/gauntlet.toml")).unwrap();
    let (smtp, console) = (free_port(&["127.0.0.1"]), free_port(&["127.0.0.1"]));
    let text = own
        .replace("0.0.0.0:2525", &format!("127.0.0.1:{smtp}"))
        .replace("0.0.0.0:8025", &format!("127.0.0.1:{console}"))
        .replace("[node]\n", "[node]\nname = \"gw.test\"\n");
    assert_ne!(text, own);
    let path = podman.folder.path().join("gauntlet.toml");
    let more = format!("\n[facts]\nenabled = false\n[route]\nnext_hop = \"{next_hop}\"\n");
    std::fs::write(&path, text + &more).unwrap();
    // The account in the image is nobody here.
    for path in [podman.folder.path(), path.as_path()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    (path, smtp)
}

#[test]
fn a_container_judges_mail_without_root_and_keeps_it_over_a_restart() {
    let Some(podman) = Podman::new() else { return };
    let image = podman.build();
    the_image_is_what_it_says(&podman, &image);
    let sink = Sink::start();
    let (config, port) = configuration(&podman, sink.address);
    let Some(()) = podman.start(&image, &config) else { return };
    podman.wait_for_health();
    the_process_may_do_nothing(&podman);

    // In by SMTP, judged, and out.
    let address = ([127, 0, 0, 1], port).into();
    let mut client = Smtp::connect(address).unwrap();
    let said = client.send("ann@example.org", &["bob@example.net"], &message("one", 0)).unwrap();
    assert!(said.starts_with("250"), "{said}");
    podman.wait_until("the next hop has it", || sink.messages.lock().unwrap().len() == 1);
    let delivered = String::from_utf8(sink.messages.lock().unwrap()[0].clone()).unwrap();
    assert!(delivered.contains("X-Gauntlet-"), "{delivered}");
    let spam = std::fs::read(root().join("samples/spam-pills.eml")).unwrap();
    let said = client.send("ann@example.org", &["bob@example.net"], &dated(&spam)).unwrap();
    assert!(said.starts_with("250"), "{said}");
    podman.wait_until("spam is held", || {
        podman.gauntlet(&["quarantine", "list"]).contains("bob@example.net")
    });

    // What has begun is finished before it stops.
    for line in ["MAIL FROM:<ann@example.org>", "RCPT TO:<bob@example.net>", "DATA"] {
        let said = client.say(line).unwrap();
        assert!(said.starts_with(['2', '3']), "{said}");
    }
    podman.done(&["kill", "--signal=TERM", "gateway"]);
    podman.wait_until("it stops", || podman.logs().contains("stopping: no new sessions"));
    client.write(&message("two", 0)).unwrap();
    let said = client.say(".").unwrap();
    assert!(said.starts_with("250"), "{said}");
    drop(client);
    assert_eq!(podman.done(&["wait", "gateway"]), "0", "{}", podman.logs());

    podman.done(&["start", "gateway"]);
    podman.wait_for_health();
    podman.wait_until("the next hop has the second", || sink.messages.lock().unwrap().len() == 2);
    assert_eq!(podman.gauntlet(&["messages"]).lines().count(), 3);
    assert!(podman.gauntlet(&["quarantine", "list"]).contains("bob@example.net"));
    podman.done(&["stop", "--time=60", "gateway"]);
    assert_eq!(podman.inspect("gateway")["State"]["ExitCode"], 0);
}

fn the_image_is_what_it_says(podman: &Podman, image: &str) {
    let about = podman.inspect(image);
    let config = &about["Config"];
    assert_eq!(config["User"], format!("{USER}:{USER}"));
    let volumes = config["Volumes"].as_object().unwrap();
    assert_eq!(volumes.keys().collect::<Vec<_>>(), ["/var/lib/gauntlet"]);
    assert_eq!(about["Healthcheck"]["Test"][1], "/usr/bin/gauntlet", "{about}");
    // Nothing but the program, what it needs and text.
    let mount = PathBuf::from(podman.done(&["image", "mount", image]));
    let programs = std::fs::read_dir(mount.join("usr/bin")).unwrap().flatten();
    assert_eq!(programs.map(|e| e.file_name()).collect::<Vec<_>>(), ["gauntlet"]);
    assert!(!mount.join("bin").exists() && !mount.join("sbin").exists());
    let size = |path: PathBuf| std::fs::metadata(path).map_or(0, |about| about.len());
    let whole = about["Size"].as_u64().unwrap();
    let beside = whole - size(mount.join("usr/bin/gauntlet"));
    assert!(beside < 8_000_000, "{beside} bytes beside the program");
    podman.done(&["image", "unmount", image]);
}

/// The node runs as nobody that this machine knows, with no capability, on a root that is
/// read-only; its own sandbox is in force beside that of the container.
fn the_process_may_do_nothing(podman: &Podman) {
    let pid = podman.inspect("gateway")["State"]["Pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {status}")).trim().to_owned()
    };
    assert_eq!(field("Uid:"), format!("{USER}\t{USER}\t{USER}\t{USER}"));
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(u64::from_str_radix(&field(set), 16).unwrap(), 0, "{set}");
    }
    assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let of_root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).unwrap();
    assert!(of_root.split(' ').nth(5).unwrap().split(',').any(|o| o == "ro"), "{of_root}");
    assert!(podman.logs().contains("Landlock"), "{}", podman.logs());
}

#[test]
fn the_images_own_configurations_are_valid() {
    let folder = root().join("packaging");
    for file in [
        "container/gauntlet.toml",
        "container/gauntlet-clamd.toml",
        "container/gauntlet-array.toml",
        "kubernetes/base/gauntlet.toml",
        "kubernetes/overlays/clamd/gauntlet.toml",
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
            .args(["config", "check"])
            .arg(folder.join(file))
            .env("GAUNTLET_DOMAINS__LOCAL", "example.org")
            .output()
            .unwrap();
        assert!(out.status.success(), "{file}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn an_image_from_source_is_set_up_as_one_of_a_ready_program() {
    let file = std::fs::read_to_string(root().join("packaging/container/Containerfile")).unwrap();
    let settings = |stage: &str| {
        let (_, rest) = file.split_once(stage).expect("the stage");
        let stage = rest.split("\n\n").next().unwrap_or_default();
        stage.lines().filter(|line| !line.starts_with("COPY")).skip(1).collect::<Vec<_>>()
    };
    let (binary, source) = (settings("FROM scratch AS binary"), settings("FROM scratch AS source"));
    assert!(binary.len() > 8, "{binary:?}");
    assert_eq!(binary, source);
}

#[test]
fn without_domains_the_image_does_not_start() {
    let config = root().join("packaging/container/gauntlet.toml");
    let out = Command::new(env!("CARGO_BIN_EXE_gauntlet"))
        .args(["serve", "--config"])
        .arg(config)
        .env_remove("GAUNTLET_DOMAINS__LOCAL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && said.contains("would take mail for everybody"), "{said}");
}

#[test]
fn haproxy_reads_the_balancer_of_the_array_in_containers() {
    let Some(haproxy) = program("haproxy") else { return };
    let config = root().join("packaging/container/haproxy.cfg");
    let out = Command::new(haproxy).args(["-c", "-f"]).arg(config).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn podman_compose_understands_the_compose_files() {
    let Some(compose) = program("podman-compose") else { return };
    let folder = root().join("packaging/container");
    // It asks for networks and makes those that are missing, even so: `true` has them all.
    for (file, services) in [
        ("compose.yaml", &["gateway", "clamd"][..]),
        ("compose-array.yaml", &["mx1", "mx2", "balancer", "database", "objects"]),
    ] {
        let out = Command::new(&compose)
            .args(["--podman-path", "true", "--dry-run", "-p", "test", "-f", file, "up", "-d"])
            .current_dir(&folder)
            .env("GAUNTLET_NODE__NAME", "mx.example.org")
            .env("GAUNTLET_DOMAINS__LOCAL", "example.org")
            .env("GAUNTLET_ROUTE__NEXT_HOP", "192.0.2.20:25")
            .env("ARRAY_DATABASE_PASSWORD", "secret1")
            .env("ARRAY_OBJECTS_SECRET", "secret2")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success(), "{file}: {said}");
        for service in services {
            let run = format!("--name=test_{service}_1");
            assert!(said.contains(&run), "{file} starts no {service}: {said}");
        }
        assert!(said.contains("--read-only") && said.contains("--cap-drop"), "{file}: {said}");
    }
}

/// The manifests with what kustomize makes of them: that of `GAUNTLET_KUSTOMIZE`, or kubectl's.
fn kustomized(folder: &str) -> Option<String> {
    let own = std::env::var_os("GAUNTLET_KUSTOMIZE").filter(|path| Path::new(path).is_file());
    let (program, word) = match own {
        Some(kustomize) => (PathBuf::from(kustomize), "build"),
        None => (program("kubectl")?, "kustomize"),
    };
    let out = Command::new(program)
        .arg(word)
        .arg(root().join("packaging/kubernetes").join(folder))
        .output()
        .unwrap();
    assert!(out.status.success(), "{folder}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap())
}

#[test]
fn manifests_of_kubernetes_fit_its_schemas() {
    let path = std::env::var_os("GAUNTLET_KUBERNETES_VALIDATE").map(PathBuf::from);
    let Some(validate) = path.filter(|path| path.is_file()) else {
        assert!(std::env::var_os("CI").is_none(), "kubernetes-validate is missing");
        eprintln!("skipped: GAUNTLET_KUBERNETES_VALIDATE names no program");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for overlay in ["base", "overlays/clamd", "overlays/array"] {
        let Some(text) = kustomized(overlay) else { return };
        let file = folder.path().join("all.yaml");
        std::fs::write(&file, &text).unwrap();
        let out = Command::new(&validate).args(["--strict"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.success(), "{overlay}: {said}");
        assert!(said.contains("statefulset/gauntlet"), "{overlay}: {said}");
    }
}

#[test]
fn the_plain_manifest_is_what_kustomize_makes_of_the_base() {
    let Some(made) = kustomized("base") else { return };
    let plain = root().join("packaging/kubernetes/gauntlet.yaml");
    let plain = std::fs::read_to_string(plain).unwrap();
    assert_eq!(plain, made, "kubectl kustomize packaging/kubernetes/base makes it");
}
