//! DuckDB, which reads what was exported.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python that has it. None, with a loud note, if it is not installed; then a test in CI fails.
pub(crate) fn python() -> Option<PathBuf> {
    let named = std::env::var_os("GAUNTLET_DUCKDB_PYTHON").map(PathBuf::from);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let usual =
        ["target", "../../target"].map(|folder| own.join(folder).join("peers/duckdb/bin/python"));
    let found = named.into_iter().chain(usual).find(|path| path.is_file());
    if found.is_none() {
        let missing = "DuckDB is not installed (./check does it)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
    }
    found
}

/// The rows of a query as JSON. `messages` in it are the exported ones in this folder.
pub(crate) fn ask(python: &Path, folder: &Path, sql: &str) -> String {
    let program = "import duckdb, json, sys; \
        print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=str))";
    let table = format!("read_parquet('{}/messages/*/*.parquet')", folder.display());
    let sql = sql.replace("messages", &table);
    let asked = Command::new(python).args(["-c", program, &sql]).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}
