//! Groups of addresses for the policy: from the configuration, files, SQLite and PostgreSQL.
//!
//! What a database said last is kept in the data folder (`groups/`): a node starts and works on
//! when the database is away.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_policy::Groups;
use gauntlet_store::recipients;

use crate::admin::postgres::{self, ServerAddress};
use crate::config::{Config, GroupSettings};

/// The groups of a configuration. A database that does not answer is replaced by what it said last.
///
/// # Errors
/// If a file cannot be read, or a database neither answers nor ever did.
pub fn load(config: &Config) -> anyhow::Result<Groups> {
    load_with(config, |group, error| bail!("group {:?}: {error}", group.name))
}

/// The same, for a node that starts: mail must not wait for a database. A group whose database
/// neither answers nor ever did has its other members alone until it answers, which the log says.
///
/// # Errors
/// If a file cannot be read, or a database is neither SQLite's nor PostgreSQL's.
pub fn load_at_start(config: &Config) -> anyhow::Result<Groups> {
    load_with(config, |group, error| {
        Asked::of(group).with_context(|| format!("group {:?}", group.name))?;
        let (group, file) = (&group.name, group.file.display().to_string());
        tracing::error!(
            group,
            error,
            file,
            "the group's database does not answer and never did: policy rules take the group to \
             have the members of the configuration and its file alone, until it answers"
        );
        Ok(())
    })
}

/// Whether each database of a group answers, and with how many members; by the group's name.
pub fn examine(config: &Config) -> Vec<(&str, anyhow::Result<usize>)> {
    let groups = config.group.iter().filter(|group| !group.database.is_empty());
    groups.map(|g| (g.name.as_str(), of_database(config, g).map(|all| all.len()))).collect()
}

/// `missing` is asked about a database that neither answers nor ever did.
fn load_with(
    config: &Config,
    missing: impl Fn(&GroupSettings, &str) -> anyhow::Result<()>,
) -> anyhow::Result<Groups> {
    let mut groups = Groups::default();
    for group in &config.group {
        groups.add(&group.name, group.members.iter().cloned());
        groups.add(&group.name, of_file(group)?);
        if group.database.is_empty() {
            continue;
        }
        let copy = copy_path(config, group);
        match of_database(config, group) {
            Ok(members) => {
                if let Err(error) = keep(&copy, &members) {
                    let error = format!("{error:#}");
                    tracing::warn!(group = group.name, error, "a group could not be kept");
                }
                groups.add(&group.name, members);
            }
            Err(error) => {
                let error = format!("{error:#}");
                match std::fs::read_to_string(&copy) {
                    Ok(kept) => {
                        tracing::warn!(group = group.name, error, "the group is what it was last");
                        groups.add(&group.name, kept.lines().map(str::to_owned));
                    }
                    Err(_) => missing(group, &error)?,
                }
            }
        }
    }
    Ok(groups)
}

/// Some group may change without a reload.
pub fn may_change(config: &Config) -> bool {
    let named = |g: &GroupSettings| !g.database.is_empty() || !g.file.as_os_str().is_empty();
    config.group.iter().any(named)
}

fn of_file(group: &GroupSettings) -> anyhow::Result<Vec<String>> {
    let path = &group.file;
    if path.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("group {:?}: file {}", group.name, path.display()))?;
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|l| !l.is_empty()).map(str::to_owned).collect())
}

/// Whom a group's members are asked of.
enum Asked<'g> {
    Sqlite(&'g Path),
    Postgres(ServerAddress),
}

impl<'g> Asked<'g> {
    fn of(group: &'g GroupSettings) -> anyhow::Result<Self> {
        let database = &group.database;
        if let Some(path) = database.strip_prefix("sqlite:") {
            return Ok(Asked::Sqlite(Path::new(path)));
        }
        if !database.starts_with("postgres") {
            bail!("database: neither sqlite:PATH nor postgres://...");
        }
        Ok(Asked::Postgres(ServerAddress::parse(database).context("database")?))
    }
}

fn of_database(config: &Config, group: &GroupSettings) -> anyhow::Result<Vec<String>> {
    let query = &group.query;
    let address = match Asked::of(group)? {
        Asked::Sqlite(path) => return Ok(recipients::first_column(path, query)?),
        Asked::Postgres(address) => address,
    };
    let tls = crate::net::web::hop_tls(&config.sender.roots)?;
    let (query, limits) = (query.clone(), config.postgres);
    // A runtime of its own: the caller may be on a thread of one.
    let asked = std::thread::spawn(move || -> anyhow::Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let rows = runtime.block_on(postgres::rows(&address, &query, &tls, limits));
        let rows = rows.with_context(|| format!("{address:?}"))?;
        Ok(rows.into_iter().map(|(first, _)| first).collect())
    });
    asked.join().map_err(|_| anyhow::anyhow!("the thread of the query failed"))?
}

/// Where a group is kept: named by what is asked, so that another question has another answer.
fn copy_path(config: &Config, group: &GroupSettings) -> PathBuf {
    let asked = [&group.name, "\n", &group.database, "\n", &group.query].concat();
    let name: String = blake3::hash(asked.as_bytes()).to_hex().chars().take(32).collect();
    config.node.data.join("groups").join(name)
}

fn keep(path: &Path, members: &[String]) -> anyhow::Result<()> {
    let text = members.join("\n");
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let folder = path.parent().context("no folder")?;
    // A configuration may be checked before there is a node.
    if !folder.parent().is_some_and(Path::is_dir) {
        return Ok(());
    }
    std::fs::create_dir_all(folder)?;
    gauntlet_store::files::write_durably(path, text.as_bytes())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &Path, group: GroupSettings) -> Config {
        let mut config = Config { group: vec![group], ..Config::default() };
        config.node.data = folder.to_owned();
        config
    }

    #[test]
    fn members_come_from_all_places_together() {
        let folder = tempfile::tempdir().unwrap();
        let (file, database) = (folder.path().join("sales.txt"), folder.path().join("staff.db"));
        std::fs::write(&file, "# the team\nBob@example.org # boss\n\n@shop.example\n").unwrap();
        // Somebody else's file, as `sqlite3` would have made it.
        let made = gauntlet_store::database::open_write(
            &database,
            &["CREATE TABLE staff (mail TEXT, team TEXT); INSERT INTO staff VALUES \
               ('carl@example.org', 'sales'), ('dora@example.org', 'board'), (NULL, 'sales');"],
        );
        drop(made.unwrap());
        let group = GroupSettings {
            name: "sales".into(),
            members: vec!["ann@example.org".into()],
            file,
            database: format!("sqlite:{}", database.display()),
            query: "SELECT mail FROM staff WHERE team = 'sales'".into(),
        };
        let config = config(folder.path(), group);
        let groups = load(&config).unwrap();
        for (who, is) in [
            ("ann@example.org", true),
            ("BOB@example.org", true),
            ("x@shop.example", true),
            ("carl@example.org", true),
            ("dora@example.org", false),
        ] {
            assert_eq!(groups.contains("sales", who), is, "{who}");
        }
        // The database goes; the group stays as it was.
        std::fs::remove_file(&database).unwrap();
        assert!(load(&config).unwrap().contains("sales", "carl@example.org"));
        let mut other = config.clone();
        other.group[0].query = "SELECT 1".into();
        let error = format!("{:#}", load(&other).unwrap_err());
        assert!(error.contains("group \"sales\"") && error.contains("staff.db"), "{error}");
        // A start does not wait for it: the group has its other members.
        let groups = load_at_start(&other).unwrap();
        assert!(groups.contains("sales", "ann@example.org"));
        assert!(!groups.contains("sales", "carl@example.org"));
        assert!(examine(&other)[0].1.is_err());
        // What can never be a database is no start.
        for wrong in ["oracle:x", "postgres://ann:s3cret%@h/d", "postgres://a@h/d?password=s3cret"]
        {
            other.group[0].database = wrong.into();
            for error in [load(&other).unwrap_err(), load_at_start(&other).unwrap_err()] {
                let error = format!("{error:#}");
                assert!(error.contains("database") && !error.contains("s3cret"), "{error}");
            }
        }
    }
}
