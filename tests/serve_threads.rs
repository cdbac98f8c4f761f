//! A system that gives too few threads: the node says so and ends, instead of breaking on the way.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::program;

/// The program where another user can run it, and a folder that everybody may write.
fn place(folder: &Path) -> PathBuf {
    let open = |path: &Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    };
    open(folder);
    let copy = folder.join("gauntlet");
    let built = Path::new(env!("CARGO_BIN_EXE_gauntlet"));
    if std::fs::hard_link(built, &copy).is_err() {
        std::fs::copy(built, &copy).unwrap();
        open(&copy);
    }
    copy
}

#[test]
fn too_few_threads_are_an_error_with_a_remedy() {
    let (Some(prlimit), Some(setpriv)) = (program("prlimit"), program("setpriv")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let gauntlet = place(folder.path());
    let limit = |count: usize| {
        // The limit does not bind root: then somebody else runs it.
        let mut command = if is_root() {
            let mut command = Command::new(&setpriv);
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&prlimit);
            command
        } else {
            Command::new(&prlimit)
        };
        command.arg(format!("--nproc={count}")).arg(&gauntlet).args(["serve", "--config"]);
        command.arg(folder.path().join("none.toml")).env_remove("GAUNTLET_CONFIG");
        command.current_dir(folder.path()).output().unwrap()
    };
    std::fs::write(folder.path().join("none.toml"), "[node]\ndata = \"data\"\n").unwrap();
    for count in [2, 4] {
        let output = limit(count);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("RLIMIT_NPROC") && said.contains("ulimit -u"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(!folder.path().join("data").exists(), "nothing was begun");
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt;
        me.uid() == 0
    })
}
