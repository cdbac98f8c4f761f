use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

/// An engine with scripted answers.
#[derive(Debug)]
struct Scripted {
    calls: Arc<AtomicU32>,
    version: &'static str,
    says: fn(&EngineItem<'_>) -> Result<Answer, EngineError>,
}

impl Engine for Scripted {
    fn version(&self, _: Instant) -> Result<String, EngineError> {
        Ok(self.version.to_owned())
    }

    fn scan(&self, item: &EngineItem<'_>, _: Instant) -> Result<Answer, EngineError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.says)(item)
    }
}

fn evil(item: &EngineItem<'_>) -> Result<Answer, EngineError> {
    let found = item.bytes.windows(4).any(|w| w == b"evil");
    Ok(if found { Answer::Found(vec!["Evil.A".to_owned()]) } else { Answer::Clean })
}

fn member(
    name: &str,
    options: EngineOptions,
    says: fn(&EngineItem<'_>) -> Result<Answer, EngineError>,
) -> (Member, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let engine = Box::new(Scripted { calls: calls.clone(), version: "1", says });
    let member = Member {
        name: name.to_owned(),
        engine,
        options,
        breaker: Breaker::new(2, Duration::from_secs(60)),
        statistics: Arc::default(),
    };
    (member, calls)
}

fn set(members: Vec<Member>) -> EngineSet {
    EngineSet::new(members, Arc::new(Cache::new(100, Duration::from_secs(60))), 1 << 20)
}

/// Files as roots of a tree, with their bytes.
fn tree(files: &[&[u8]], bytes_max: u64) -> (Tree, Contents) {
    let names: Vec<String> = (0..files.len()).map(|n| format!("file-{n}")).collect();
    let roots: Vec<crate::Root<'_>> = files
        .iter()
        .zip(&names)
        .map(|(bytes, name)| crate::Root { name, declared_type: "", bytes })
        .collect();
    struct Taking<'c>(&'c Mutex<Contents>, u64);
    impl crate::Host for Taking<'_> {
        fn object(&mut self, object: &Object, bytes: &[u8]) {
            self.0.lock().unwrap().add(object, bytes, self.1);
        }
    }
    let contents = Mutex::default();
    let tree =
        crate::unpack(&roots, &crate::Limits::default(), &[], &mut Taking(&contents, bytes_max));
    (tree, contents.into_inner().unwrap())
}

fn said(object: &Object) -> Vec<(PropertyKind, &str)> {
    let engines = [PropertyKind::EngineFinding, PropertyKind::EngineSuspicion];
    let all = object.properties.iter().filter(|p| engines.contains(&p.kind));
    all.map(|p| (p.kind, p.detail.as_str())).collect()
}

#[test]
fn findings_stand_on_every_object_of_that_content() {
    let (one, calls) = member("one", EngineOptions::default(), evil);
    let (two, _) = member("two", EngineOptions::default(), evil);
    let set = set(vec![one, two]);
    let (mut tree, contents) = tree(&[b"evil", b"good", b"evil"], 1 << 20);
    set.scan(&mut tree, &contents, None);
    let both = vec![
        (PropertyKind::EngineFinding, "one: Evil.A"),
        (PropertyKind::EngineFinding, "two: Evil.A"),
    ];
    assert_eq!(said(&tree.objects[0]), both);
    assert!(said(&tree.objects[1]).is_empty());
    assert_eq!(said(&tree.objects[2]), both);
    assert_eq!(calls.load(Ordering::SeqCst), 2, "each content once");
    let reports: Vec<(&str, u32, u32)> =
        tree.engines.iter().map(|r| (r.engine.as_str(), r.scanned, r.cached)).collect();
    assert_eq!(reports, [("one", 2, 0), ("two", 2, 0)]);
    let mut again = tree.clone();
    (again.engines, again.objects[0].properties) = (Vec::new(), Vec::new());
    set.scan(&mut again, &contents, None);
    assert_eq!((again.engines[0].scanned, again.engines[0].cached), (0, 2));
    assert_eq!(said(&again.objects[0]), both, "remembered answers are answers");
}

#[test]
fn names_are_ignored_or_suspicious_by_pattern() {
    let patterns = |p: &str| NamePatterns::new(&[p.to_owned()]);
    let options = EngineOptions {
        ignore: patterns("*.Ignored"),
        suspicious: patterns("PUA.*"),
        ..EngineOptions::default()
    };
    let names = |_: &EngineItem<'_>| {
        Ok(Answer::Found(["PUA.x", "x.Ignored", "B\u{202e}ad"].map(str::to_owned).to_vec()))
    };
    let set = set(vec![member("av", options, names).0]);
    let (mut tree, contents) = tree(&[b"x"], 1 << 20);
    set.scan(&mut tree, &contents, None);
    assert_eq!(
        said(&tree.objects[0]),
        [
            (PropertyKind::EngineSuspicion, "av: PUA.x"),
            (PropertyKind::EngineFinding, "av: B\\u{202e}ad"),
        ]
    );
}

#[test]
fn a_message_is_an_object_once_something_is_found_in_it() {
    let options = EngineOptions { messages: true, ..EngineOptions::default() };
    let (member, calls) = member("av", options, evil);
    let set = set(vec![member]);
    let (mut tree, contents) = tree(&[b"good"], 1 << 20);
    set.scan(&mut tree, &contents, Some(b"Subject: x\n\ngood\n"));
    assert_eq!(tree.objects.len(), 1);
    set.scan(&mut tree, &contents, Some(b"Subject: x\n\nevil\n"));
    assert_eq!(tree.objects.len(), 2);
    assert_eq!((tree.objects[1].path.as_str(), tree.objects[1].root), ("message", 1));
    assert_eq!(said(&tree.objects[1]), [(PropertyKind::EngineFinding, "av: Evil.A")]);
    assert_eq!(calls.load(Ordering::SeqCst), 3, "one file was known");
}

#[test]
fn failures_are_reported_and_open_the_breaker() {
    let down = |_: &EngineItem<'_>| Err(EngineError::Unreachable("refused".to_owned()));
    let (member, calls) = member("av", EngineOptions::default(), down);
    let set = set(vec![member]);
    for round in 1..=4u32 {
        let (mut tree, contents) = tree(&[b"a", b"b"], 1 << 20);
        set.scan(&mut tree, &contents, None);
        assert_eq!(tree.engines[0].error, "not reachable: refused");
        assert_eq!(tree.engines[0].on_failure, OnFailure::Tempfail);
        assert_eq!(calls.load(Ordering::SeqCst), round.min(2), "after two it is left alone");
    }
    assert!(set.statistics().all(|(_, counts, error)| {
        counts.failed.load(Ordering::Relaxed) == 4 && error.is_some()
    }));
}

#[test]
fn what_it_cannot_read_is_a_defect_and_closes_nothing() {
    let broken = |_: &EngineItem<'_>| Err(EngineError::Failed("bad archive".to_owned()));
    let set = set(vec![member("av", EngineOptions::default(), broken).0]);
    for _ in 0..4 {
        let (mut tree, contents) = tree(&[b"a"], 1 << 20);
        set.scan(&mut tree, &contents, None);
        assert_eq!(tree.engines[0].error, "");
        assert_eq!(tree.objects[0].defects[0].kind, DefectKind::DecoderFailed);
        assert_eq!(tree.objects[0].defects[0].detail, "av: bad archive");
    }
}

#[test]
fn what_is_too_large_for_an_engine_or_for_memory_is_a_defect() {
    let options = EngineOptions { bytes_max: 4, ..EngineOptions::default() };
    let small = set(vec![member("av", options.clone(), evil).0]);
    let (mut files, contents) = tree(&[b"evil!", b"evil"], 1 << 20);
    small.scan(&mut files, &contents, None);
    assert_eq!(files.objects[0].defects[0].kind, DefectKind::ObjectTooLarge);
    assert_eq!(said(&files.objects[1]).len(), 1);
    let (mut files, contents) = tree(&[b"evil!", b"evil"], 5);
    small.scan(&mut files, &contents, None);
    assert_eq!(files.objects[1].defects[0].kind, DefectKind::TooManyBytes);
    let lenient = EngineOptions { on_failure: OnFailure::Accept, ..options };
    let lenient = set(vec![member("av", lenient, evil).0]);
    let (mut files, contents) = tree(&[b"evil!"], 1 << 20);
    lenient.scan(&mut files, &contents, None);
    assert!(files.objects[0].defects.is_empty());
}

#[test]
fn an_engine_that_panics_is_one_that_failed() {
    let panics = |_: &EngineItem<'_>| panic!("a defect in an engine");
    let (good, bad) = (
        member("good", EngineOptions::default(), evil).0,
        member("bad", EngineOptions::default(), panics).0,
    );
    let set = set(vec![good, bad]);
    let (mut tree, contents) = tree(&[b"evil"], 1 << 20);
    set.scan(&mut tree, &contents, None);
    assert_eq!(said(&tree.objects[0]).len(), 1);
    assert_eq!(tree.engines[1].error, "the engine's code failed");
}
