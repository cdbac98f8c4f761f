//! A request as a row.

use gauntlet_web::WebRecord;
use rusqlite::{Connection, params};

use super::listed::write_listed;
use super::schema::MIGRATIONS;
use crate::day_log::{DayRecord, bounded, signed};

impl DayRecord for WebRecord {
    const LOG: &str = "web-log";
    const MIGRATIONS: &[&str] = MIGRATIONS;

    fn at_ms(&self) -> i64 {
        self.at_ms
    }

    fn insert(connection: &mut Connection, records: &[&Self]) -> rusqlite::Result<()> {
        let batch = connection.transaction()?;
        let mut statement = batch.prepare_cached(
            "INSERT INTO request (at_ms, took_ms, reference, client, user, method, host, url, \
             status, outcome, rule, category, evidence, content_type, bytes_in, bytes_out, \
             action, listed, bytes_declared, server_address) VALUES (?1, ?2, ?3, ?4, ?5, ?6, \
             ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        )?;
        for r in records {
            let listed = r.listed.as_deref().map(write_listed);
            statement.execute(params![
                r.at_ms,
                signed(r.took_ms),
                bounded(&r.reference),
                bounded(&r.client),
                bounded(&r.user),
                bounded(&r.method),
                bounded(&r.host),
                bounded(&r.url),
                r.status,
                r.outcome.name(),
                bounded(&r.rule),
                bounded(&r.category),
                bounded(&r.evidence),
                bounded(&r.content_type),
                signed(r.bytes_in),
                signed(r.bytes_out),
                r.action.as_deref().map(bounded),
                listed.as_deref().map(bounded),
                r.bytes_declared.map(signed),
                Some(bounded(&r.server_address)).filter(|address| !address.is_empty()),
            ])?;
        }
        drop(statement);
        batch.commit()
    }
}
