-- policies.db as version 1 of its schema left it: two versions of a policy.
CREATE TABLE version (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    note   TEXT NOT NULL,
    text   TEXT NOT NULL
);
INSERT INTO version VALUES (1, 1000, 'gauntlet', 'comes with the program', 'one'), (2, 2000, 'ada', 'stricter', 'two');
PRAGMA user_version = 1;
