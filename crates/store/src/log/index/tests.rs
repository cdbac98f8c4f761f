use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn empty() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for step in super::super::schema::MIGRATIONS {
        connection.execute_batch(step).unwrap();
    }
    begin(&connection).unwrap();
    connection
}

fn all_of(terms: &[&str]) -> Vec<Clause> {
    let one = |term: &&str| {
        let is_prefix = term.ends_with('*');
        vec![Pattern { term: term.trim_end_matches('*').to_owned(), is_prefix }]
    };
    terms.iter().map(one).collect()
}

fn collect(connection: &Connection, terms: &[&str]) -> Vec<i64> {
    find(connection, &all_of(terms), (0, i64::MAX)).unwrap()
}

/// Terms of a message: one that all have, some that many have, a long one, one of its own.
fn terms_of(key: i64) -> String {
    let long = "x".repeat(usize::try_from(key % 90).unwrap());
    format!("all third{} {long} one{key} seventh{}", key % 3, key % 7)
}

#[test]
fn what_was_put_in_is_found_while_parts_are_put_together_and_after() {
    let connection = empty();
    let mut index = Index::default();
    index.load(&connection).unwrap();
    let mut expected: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    for batch in 0..300_i64 {
        // Some keys are late, and some are repeated.
        for n in 0..20 {
            let key = 1_000 + (batch * 20 + n) * 3 - (batch % 5) * 1_000 / 7;
            let terms = terms_of(key);
            index.batch.push(key, &terms);
            for term in terms.split(' ').filter(|t| !t.is_empty()) {
                let term = term.get(..TERM_BYTES_MAX).unwrap_or(term);
                expected.entry(term.to_owned()).or_default().insert(key);
            }
        }
        index.write(&connection).unwrap();
        if batch % 50 == 49 {
            for (term, keys) in expected.iter().step_by(37) {
                let found = collect(&connection, &[term]);
                assert_eq!(found, keys.iter().copied().collect::<Vec<_>>(), "{term} {batch}");
            }
        }
        if batch == 150 {
            // As after a crash in the middle of a merge.
            assert!(index.merging.is_some() || index.parts.len() > 1);
            index = Index::default();
            index.load(&connection).unwrap();
        }
    }
    while index.merge_all(&connection, 8).unwrap() {}
    assert_eq!(index.parts.len(), 1);
    for (term, keys) in &expected {
        assert_eq!(
            collect(&connection, &[term]),
            keys.iter().copied().collect::<Vec<_>>(),
            "{term}"
        );
    }
    let both =
        |a: &str, b: &str| expected[a].intersection(&expected[b]).copied().collect::<Vec<i64>>();
    assert_eq!(collect(&connection, &["third1", "seventh4"]), both("third1", "seventh4"));
    assert_eq!(collect(&connection, &["all", "seventh4"]), both("all", "seventh4"));
    let begin_so = |start: &str| {
        let some = expected.range(start.to_owned()..).take_while(|(t, _)| t.starts_with(start));
        some.flat_map(|(_, keys)| keys.iter().copied()).collect::<BTreeSet<i64>>()
    };
    for start in ["one12", "third", "xxx", "a", "z"] {
        let found = collect(&connection, &[&format!("{start}*")]);
        assert_eq!(found, begin_so(start).into_iter().collect::<Vec<_>>(), "{start}");
    }
    let orphans: i64 = connection
        .query_row(
            "SELECT count(*) FROM term_leaf WHERE place >> 24 NOT IN (SELECT part FROM term_part)",
            [],
            |r| r.get(0),
        )
        .unwrap();
    assert_eq!(orphans, 0);
}

#[test]
fn a_long_list_goes_on_in_further_leaves() {
    let ordinals: Vec<u32> = (0..20_000).map(|n| n * 200).collect();
    let mut writer = LeafWriter::default();
    writer.push(b"a", &[7]);
    writer.push(b"long", &ordinals);
    writer.push(b"longer", &[1, 2]);
    let leaves = writer.finish();
    assert!(leaves.leaves.len() > 5);
    assert_eq!(leaf::first_terms(&leaves.first_terms).count(), leaves.leaves.len());
    let mut read = Vec::new();
    for bytes in leaves.leaves {
        assert!(bytes.len() <= 4040);
        let mut reader = leaf::LeafReader::default();
        reader.begin(bytes);
        while reader.step().is_some() {
            if reader.term == b"long" {
                leaf::read_list(reader.list(), &mut read);
            }
        }
    }
    assert_eq!(read, ordinals);
}

#[test]
fn damage_is_an_end_and_no_panic() {
    let mut writer = LeafWriter::default();
    for n in 0..40_u32 {
        writer.push(format!("term{n:03}").as_bytes(), &[n, n + 300]);
    }
    let whole = writer.finish().leaves.concat();
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let mut reader = leaf::LeafReader::default();
            reader.begin(bytes);
            let mut read = Vec::new();
            while reader.step().is_some() {
                leaf::read_list(reader.list(), &mut read);
            }
        }
    }
}

#[test]
fn searches_report_damage_and_writing_continues() {
    let connection = empty();
    let mut index = Index::default();
    index.load(&connection).unwrap();
    let mut write = |from: i64| {
        for key in from..from + 5 {
            index.batch.push(key, &terms_of(key));
        }
        index.write(&connection).unwrap();
        (index.is_damaged, index.parts.len())
    };
    write(0);
    // Cut short within its last entry.
    let cut = "UPDATE term_leaf SET entries = substr(entries, 1, length(entries) - 1)";
    assert!(connection.execute(cut, []).unwrap() > 0);
    let found = find(&connection, &all_of(&["zzz"]), (0, i64::MAX));
    assert!(found.err().unwrap().to_string().contains("damaged"));
    for batch in 1..40 {
        write(batch * 5);
    }
    assert_eq!(write(200), (true, 41), "nothing was put together, everything was written");
    assert_eq!(collect(&connection, &["one203"]), [203]);
    let unfinished = "SELECT count(*) FROM term_part WHERE level < 0";
    assert_eq!(connection.query_row(unfinished, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}
