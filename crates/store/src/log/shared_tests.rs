use super::tests::{DAY, ids, record};
use super::*;

/// A command that reads a log while the node makes its day, again and again.
#[test]
fn a_day_is_made_while_others_open_it() {
    for round in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let node = Log::open(folder.path()).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let other = Log::open(folder.path()).unwrap();
                        if ids(&other, &Query::default()).len() == 2 {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(round % 7));
            node.append(vec![record(1, DAY)]).unwrap();
            node.append(vec![record(2, DAY + 1)]).unwrap();
        });
    }
}
