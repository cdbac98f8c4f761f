//! Prints the tree of objects in files, as JSON: `cargo run --example tree FILE...`.

use gauntlet_content::{Limits, NoHost, Root, unpack};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let root = Root { name, declared_type: "", bytes: &bytes };
        let tree = unpack(&[root], &Limits::default(), &[], &mut NoHost);
        let mut out = std::io::stdout().lock();
        serde_json::to_writer_pretty(&mut out, &tree)?;
        std::io::Write::write_all(&mut out, b"\n")?;
    }
    Ok(())
}
