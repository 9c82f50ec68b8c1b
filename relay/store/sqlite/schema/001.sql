-- Times are milliseconds since 1970. A column "body" holds the whole row as
-- JSON; the columns beside it repeat what is searched, and are written with it.

CREATE TABLE boxes (
	id            TEXT PRIMARY KEY,
	token         BLOB NOT NULL UNIQUE, -- SHA-256
	registered_at INTEGER NOT NULL,
	body          TEXT NOT NULL
) STRICT;

-- Outlives the registration: numbers must not start again for a reader, and
-- what a box has put into the audit log must not be forgotten with it.
CREATE TABLE counters (
	box_id      TEXT PRIMARY KEY,
	events      INTEGER NOT NULL DEFAULT 0,
	audit_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE statuses (
	box_id     TEXT PRIMARY KEY,
	updated_at INTEGER NOT NULL,
	snapshot   TEXT NOT NULL
) STRICT;

CREATE TABLE approvals (
	id         TEXT PRIMARY KEY,
	box_id     TEXT NOT NULL,
	digest     TEXT NOT NULL,
	state      TEXT NOT NULL,
	deadline   INTEGER NOT NULL,
	updated_at INTEGER NOT NULL,
	body       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX approvals_live ON approvals (box_id, digest) WHERE state IN ('pending', 'approved', 'executing');
CREATE INDEX approvals_due ON approvals (deadline) WHERE state IN ('pending', 'approved');

CREATE TABLE intents (
	id     TEXT PRIMARY KEY,
	box_id TEXT NOT NULL,
	digest TEXT NOT NULL,
	body   TEXT NOT NULL,
	UNIQUE (box_id, digest)
) STRICT;

CREATE TABLE results (
	box_id     TEXT NOT NULL,
	request_id TEXT NOT NULL,
	digest     TEXT NOT NULL,
	at         INTEGER NOT NULL,
	body       TEXT NOT NULL,
	PRIMARY KEY (box_id, request_id)
) STRICT;

CREATE TABLE audit (
	seq    INTEGER PRIMARY KEY,
	at     INTEGER NOT NULL,
	box_id TEXT NOT NULL,
	actor  TEXT NOT NULL,
	action TEXT NOT NULL,
	detail TEXT,
	prev   TEXT NOT NULL,
	hash   TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_cut BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- With one writer, feed grows in the order of the commits, so it can serve as
-- the cursor of a reader of all boxes.
CREATE TABLE events (
	feed        INTEGER PRIMARY KEY AUTOINCREMENT,
	box_id      TEXT NOT NULL,
	seq         INTEGER NOT NULL,
	type        TEXT NOT NULL,
	received_at INTEGER NOT NULL,
	ts          TEXT NOT NULL,
	payload     TEXT,
	UNIQUE (box_id, seq)
) STRICT;
