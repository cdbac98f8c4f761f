-- A day of the log as version 3 of its schema left it: one delivered and one quarantined message. What is packed (`rest`) is put in
-- by the test.
CREATE TABLE message (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL,
    class      TEXT NOT NULL,
    score      REAL NOT NULL,
    size       INTEGER NOT NULL,
    sender     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    message_id TEXT NOT NULL,
    latency_ms INTEGER NOT NULL,
    rest       BLOB NOT NULL
);
CREATE UNIQUE INDEX message_id_once ON message (id);
CREATE TABLE recipient (
    seq       INTEGER NOT NULL,
    recipient TEXT NOT NULL,
    place     INTEGER NOT NULL,
    action    TEXT NOT NULL,
    rest      TEXT NOT NULL,
    PRIMARY KEY (seq, recipient)
) WITHOUT ROWID;
CREATE TABLE delivery (
    seq      INTEGER NOT NULL,
    address  TEXT NOT NULL,
    outcome  TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    next_hop TEXT NOT NULL,
    reply    TEXT NOT NULL,
    PRIMARY KEY (seq, address)
) WITHOUT ROWID;
CREATE TABLE event (
    seq       INTEGER NOT NULL,
    at_ms     INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    recipient TEXT NOT NULL,
    detail    TEXT NOT NULL,
    PRIMARY KEY (seq, at_ms, kind, recipient)
) WITHOUT ROWID;
CREATE TABLE tally (
    minute   INTEGER NOT NULL,
    class    TEXT NOT NULL,
    action   TEXT NOT NULL,
    messages INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    PRIMARY KEY (minute, class, action)
) WITHOUT ROWID;
CREATE TABLE tally_top (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE TABLE dictionary (
    number INTEGER PRIMARY KEY,
    words  BLOB NOT NULL
);
CREATE TABLE term_part (
    part   INTEGER PRIMARY KEY,
    level  INTEGER NOT NULL,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    leaves BLOB NOT NULL,
    keys   BLOB NOT NULL
);
CREATE TABLE term_leaf (
    place   INTEGER PRIMARY KEY,
    entries BLOB NOT NULL
);
ALTER TABLE message ADD COLUMN people BLOB NOT NULL DEFAULT x'';
CREATE TABLE pack (
    number  INTEGER PRIMARY KEY,
    records BLOB NOT NULL
);
CREATE TABLE tally_part (
    number INTEGER PRIMARY KEY,
    names  BLOB NOT NULL
);
INSERT INTO message (seq, id, class, score, size, sender, subject, message_id, latency_ms, rest)
VALUES
  (7341342003200000, 'M1', 'ham', -0.4, 831, 'Ada <ada@example.org>', 'Lunch on Friday', 'a@example.org', 23, x'00'),
  (7341342044160000, 'M2', 'spam', 9.5, 1200, 'Eve <eve@example.net>', 'Win a lunch', 'b@example.net', 31, x'00');
INSERT INTO recipient VALUES
  (7341342003200000, 'bob@example.org', 0, 'deliver', '{"recipient":"bob@example.org","action":"deliver","changes":[],"rules":["Deliver"]}'),
  (7341342044160000, 'bob@example.org', 0, 'quarantine',
   '{"recipient":"bob@example.org","action":"quarantine","folder":"suspect","changes":[],"rules":["Hold"]}');
INSERT INTO delivery VALUES
  (7341342003200000, 'bob@example.org', 'delivered', 1792319825040, 1, 'maildir', ''),
  (7341342044160000, 'bob@example.org', 'quarantined', 1792319835040, 1, 'suspect', '');
INSERT INTO event VALUES (7341342044160000, 1792319900000, 'released', 'bob@example.org', 'by ada');
INSERT INTO term_part VALUES (1, 0, 7341342003200000, 7341342044160000, x'086164656c69766572', x'00000000000000710200');
INSERT INTO term_leaf VALUES (16777216,
  x'00086164656c697665720100010a71756172616e74696e65010100046368616d010001047370616d0101000a6f64656c6976657265640100010b71756172616e74696e656401010002776101010106667269646179010001056c756e636802000101026f6e0100010377696e010100097872656c65617365640101');
INSERT INTO tally VALUES (29871997, 'ham', 'deliver', 1, 831), (29871997, 'spam', 'quarantine', 1, 1200);
INSERT INTO tally_top VALUES ('rule', 'EXAMPLE', 1), ('sender', 'example.net', 1);
PRAGMA user_version = 4;
