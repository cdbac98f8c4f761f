-- history.db as version 1 of its schema left it: a sender, and a triplet that has passed.
CREATE TABLE sender (key TEXT PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL,
    ham REAL NOT NULL, spam REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX sender_by_last ON sender (last_s);
CREATE TABLE waiting (key BLOB PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL,
    passed INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX waiting_by_last ON waiting (last_s);
INSERT INTO sender VALUES ('d example.org', 1000, 2000, 3.0, 1.0);
INSERT INTO waiting VALUES (X'00112233445566778899aabbccddeeff', 1000, 2000, 1);
PRAGMA user_version = 1;
