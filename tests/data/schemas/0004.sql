BEGIN TRANSACTION;
CREATE TABLE actions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	node VARCHAR(255) NOT NULL, 
	at DATETIME NOT NULL, 
	actor VARCHAR(255) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	target TEXT NOT NULL, 
	detail JSON NOT NULL, 
	result TEXT NOT NULL, 
	request_id VARCHAR(64)
);
INSERT INTO "actions" VALUES(1,'gpu1','2026-01-01 12:00:00.123456','ada','rollback','the engine','{"comment": "latency"}','ok','r1');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
CREATE TABLE alerts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	node VARCHAR(255) NOT NULL, 
	fingerprint VARCHAR(32) NOT NULL, 
	rule VARCHAR(128) NOT NULL, 
	severity VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	starts_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	ends_at DATETIME, 
	value FLOAT, 
	labels JSON NOT NULL, 
	annotations JSON NOT NULL, 
	CONSTRAINT uq_alerts UNIQUE (node, fingerprint, starts_at)
);
INSERT INTO "alerts" VALUES(1,'gpu1','6060540146a0af30','KvCacheFull','critical','firing','2026-01-01 12:00:00.123456','2026-01-01 12:00:00.123456',NULL,0.97,'{"alertname": "KvCacheFull", "instance": "gpu1"}','{}');
CREATE TABLE decisions (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid VARCHAR(32), 
	node VARCHAR(255) DEFAULT '' NOT NULL, 
	run_id INTEGER, 
	at DATETIME NOT NULL, 
	mode VARCHAR(16) NOT NULL, 
	policy VARCHAR(64) NOT NULL, 
	knob VARCHAR(64) NOT NULL, 
	old FLOAT, 
	wanted FLOAT, 
	requested FLOAT, 
	observed FLOAT, 
	status VARCHAR(16) NOT NULL, 
	reason VARCHAR(64) NOT NULL, 
	sentence TEXT NOT NULL, 
	evidence JSON NOT NULL, 
	guards JSON NOT NULL, 
	error TEXT, 
	diagnoses JSON, 
	outcome JSON, 
	verdict VARCHAR(16), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "decisions" VALUES(1,'00000000000000000000000000000001','gpu1',1,'2026-01-01 12:00:00.123456','auto','batch_resize','max_num_seqs',8.0,20.0,16.0,16.0,'applied','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]',NULL,'["queue_bound: Much is spent waiting."]','{"verdict": "worse", "sentence": "Worse.", "numbers": {"instead_of": 8.0, "together_with": "hot_cache_ratio", "x": null}, "undo": true}','worse');
INSERT INTO "decisions" VALUES(2,'00000000000000000000000000000002','gpu1',1,'2026-01-01 12:00:01.123456','auto','batch_resize','max_num_seqs',8.0,8.0,NULL,NULL,'hold','hold_steady','Growing 8 -> 16, 增加。','{}','[]',NULL,'["queue_bound: Much is spent waiting."]',NULL,NULL);
INSERT INTO "decisions" VALUES(3,'00000000000000000000000000000003','gpu2',2,'2026-01-01 12:00:02.123456','auto','batch_resize','max_num_batched_tokens',NULL,20.0,16.0,NULL,'failed','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]','the engine said ''no''; it''s busy','["queue_bound: Much is spent waiting."]',NULL,NULL);
INSERT INTO "decisions" VALUES(4,'00000000000000000000000000000004','',NULL,'2026-01-01 12:00:03.123456','auto','batch_resize','max_num_seqs',8.0,20.0,16.0,NULL,'intended','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]',NULL,'["queue_bound: Much is spent waiting."]',NULL,NULL);
CREATE TABLE deliveries (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	uid VARCHAR(64) NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	receiver VARCHAR(128) NOT NULL, 
	group_key TEXT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	created_at DATETIME NOT NULL, 
	not_before DATETIME, 
	delivered_at DATETIME, 
	attempts INTEGER NOT NULL, 
	error TEXT, 
	body JSON NOT NULL, 
	CONSTRAINT uq_deliveries_uid UNIQUE (uid)
);
INSERT INTO "deliveries" VALUES(1,'n1','gpu1','ops','{}','pending','2026-01-01 12:00:00.123456',NULL,NULL,0,NULL,'{"group_labels": {"alertname": "KvCacheFull"}, "incidents": [{"rule": "KvCacheFull", "severity": "critical", "labels": {"alertname": "KvCacheFull", "instance": "gpu1"}, "state": "firing", "starts_at": "2026-01-01T12:00:00.123456+00:00", "updated_at": "2026-01-01T12:00:00.123456+00:00", "ends_at": null, "value": 0.97, "annotations": {}}], "truncated": 0}');
CREATE TABLE kept (
	node VARCHAR(255) NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	at DATETIME NOT NULL, 
	value JSON NOT NULL, 
	PRIMARY KEY (node, name)
);
INSERT INTO "kept" VALUES('gpu1','rollback','2026-01-01 12:00:00.123456','{"max_num_seqs": 8.0, "none": null}');
CREATE TABLE ledger (
	id INTEGER NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	run_id INTEGER, 
	resolution_s INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	setting_key TEXT NOT NULL, 
	energy_source VARCHAR(16) NOT NULL, 
	seconds FLOAT NOT NULL, 
	gap_s FLOAT NOT NULL, 
	idle_s FLOAT NOT NULL, 
	gpu_s FLOAT, 
	memory_byte_s FLOAT, 
	energy_j FLOAT, 
	idle_energy_j FLOAT, 
	requests FLOAT, 
	prompt_tokens FLOAT, 
	generation_tokens FLOAT, 
	response_bytes FLOAT, 
	cache_queries FLOAT, 
	cache_hits FLOAT, 
	note TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_ledger UNIQUE (node, resolution_s, at, setting_key, energy_source), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "ledger" VALUES(1,'gpu1',1,60,'2026-01-01 12:00:00.000000','{"max_num_queued_reqs":null,"max_num_seqs":64.0}','counter',60.0,0.0,0.0,120.0,NULL,36000.0,NULL,10.0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger" VALUES(2,'gpu1',1,60,'2026-01-01 12:01:00.000000','{"max_num_seqs":8.0}','counter',60.0,0.0,0.0,120.0,NULL,36000.0,NULL,10.0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger" VALUES(3,'gpu2',2,60,'2026-01-01 12:00:00.000000','{"max_num_queued_reqs":null,"max_num_seqs":64.0}','counter',60.0,0.0,0.0,120.0,NULL,36000.0,NULL,10.0,NULL,NULL,NULL,NULL,NULL,'a counter began anew');
CREATE TABLE quarantine (
	id INTEGER NOT NULL, 
	moved_at DATETIME NOT NULL, 
	origin VARCHAR(64) NOT NULL, 
	"row" JSON NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE readings (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	node VARCHAR(255) NOT NULL, 
	run_id INTEGER, 
	resolution_s INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	samples INTEGER NOT NULL, 
	means BLOB NOT NULL, 
	highs BLOB, 
	CONSTRAINT uq_readings UNIQUE (node, resolution_s, at), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "readings" VALUES(1,'gpu1',1,1,'2026-01-01 12:00:00.000000',1,X'01AB465419C638E2CCCC04BF13F34A73726A01',NULL);
INSERT INTO "readings" VALUES(2,'gpu1',1,60,'2026-01-01 11:59:00.000000',60,X'01AB465419C638E2CCCC04BF13F34A73726A01',X'01AB46541996402E00');
CREATE TABLE recordings (
	id INTEGER NOT NULL, 
	node VARCHAR(255) DEFAULT '' NOT NULL, 
	run_id INTEGER, 
	from_at DATETIME NOT NULL, 
	to_at DATETIME NOT NULL, 
	ticks INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "recordings" VALUES(1,'gpu1',1,'2026-01-01 12:00:00.123456','2026-01-01 12:00:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
INSERT INTO "recordings" VALUES(2,'gpu2',2,'2026-01-01 12:01:00.123456','2026-01-01 12:01:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
INSERT INTO "recordings" VALUES(3,'',NULL,'2026-01-01 12:02:00.123456','2026-01-01 12:02:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
CREATE TABLE runs (
	id INTEGER NOT NULL, 
	started_at DATETIME NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	engine_url TEXT NOT NULL, 
	boot_id TEXT NOT NULL, 
	vllm_version VARCHAR(64) NOT NULL, 
	plugin_version VARCHAR(64) NOT NULL, 
	envelope JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES(1,'2026-01-01 11:59:30.123456','gpu1','http://127.0.0.1:8000','boot-a','0.32.0','0.1.0','{"max_num_seqs": 64, "max_num_batched_tokens": 2048}');
INSERT INTO "runs" VALUES(2,'2026-01-01 11:59:30.123456','gpu2','http://127.0.0.1:8000','boot-b','0.32.0','0.1.0','{"max_num_seqs": 64, "max_num_batched_tokens": 2048}');
CREATE TABLE silences (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	node VARCHAR(255) NOT NULL, 
	matchers JSON NOT NULL, 
	starts_at DATETIME NOT NULL, 
	ends_at DATETIME NOT NULL, 
	created_by VARCHAR(255) NOT NULL, 
	comment TEXT NOT NULL
);
INSERT INTO "silences" VALUES(1,'gpu1','[{"name": "alertname", "value": "KvCacheFull", "is_regex": false, "is_equal": true}]','2026-01-01 12:00:00.123456','2026-01-01 13:00:00.123456','ada','known');
CREATE INDEX ix_alerts_state ON alerts (node, state);
CREATE INDEX ix_deliveries_due ON deliveries (node, receiver, status, id);
CREATE INDEX ix_actions_at ON actions (at);
CREATE INDEX ix_decisions_at ON decisions (at);
CREATE INDEX ix_decisions_find ON decisions (id, at, knob, policy, status, reason, verdict, node);
CREATE UNIQUE INDEX ix_decisions_uid ON decisions (uid);
CREATE INDEX ix_decisions_run ON decisions (run_id, knob, at);
CREATE INDEX ix_recordings_node ON recordings (node, id);
CREATE INDEX ix_recordings_to_at ON recordings (to_at);
CREATE INDEX ix_recordings_run ON recordings (run_id);
CREATE INDEX ix_readings_resolution_at ON readings (resolution_s, at);
CREATE INDEX ix_readings_run ON readings (run_id);
CREATE INDEX ix_ledger_run ON ledger (run_id);
CREATE INDEX ix_ledger_at ON ledger (at);
CREATE INDEX ix_ledger_setting ON ledger (setting_key, at, node, seconds);
CREATE INDEX ix_ledger_note ON ledger (at) WHERE note IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('decisions',4);
INSERT INTO "sqlite_sequence" VALUES('readings',2);
INSERT INTO "sqlite_sequence" VALUES('actions',1);
INSERT INTO "sqlite_sequence" VALUES('alerts',1);
INSERT INTO "sqlite_sequence" VALUES('deliveries',1);
INSERT INTO "sqlite_sequence" VALUES('silences',1);
COMMIT;
