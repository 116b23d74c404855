BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE decisions (
	id INTEGER NOT NULL, 
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
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "decisions" VALUES(1,1,'2026-01-01 12:00:00.123456','auto','batch_resize','max_num_seqs',8.0,20.0,16.0,16.0,'applied','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]',NULL,'["queue_bound: Much is spent waiting."]','{"verdict": "worse", "sentence": "Worse.", "numbers": {"instead_of": 8.0, "together_with": "hot_cache_ratio", "x": null}, "undo": true}');
INSERT INTO "decisions" VALUES(2,1,'2026-01-01 12:00:01.123456','auto','batch_resize','max_num_seqs',8.0,8.0,NULL,NULL,'hold','hold_steady','Growing 8 -> 16, 增加。','{}','[]',NULL,'["queue_bound: Much is spent waiting."]',NULL);
INSERT INTO "decisions" VALUES(3,2,'2026-01-01 12:00:02.123456','auto','batch_resize','max_num_batched_tokens',NULL,20.0,16.0,NULL,'failed','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]','the engine said ''no''; it''s busy','["queue_bound: Much is spent waiting."]',NULL);
INSERT INTO "decisions" VALUES(4,NULL,'2026-01-01 12:00:03.123456','auto','batch_resize','max_num_seqs',8.0,20.0,16.0,NULL,'intended','grow_demand','Growing 8 -> 16, 增加。','{"waiting": 20, "gpu_utilization_ratio": null, "knee": "none"}','["clamped to 16"]',NULL,'["queue_bound: Much is spent waiting."]',NULL);
CREATE TABLE kept (
	name VARCHAR(64) NOT NULL, 
	at DATETIME NOT NULL, 
	value JSON NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "kept" VALUES('rollback','2026-01-01 12:00:00.123456','{"max_num_seqs": 8.0, "none": null}');
CREATE TABLE recordings (
	id INTEGER NOT NULL, 
	run_id INTEGER, 
	from_at DATETIME NOT NULL, 
	to_at DATETIME NOT NULL, 
	ticks INTEGER NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(run_id) REFERENCES runs (id)
);
INSERT INTO "recordings" VALUES(1,1,'2026-01-01 12:00:00.123456','2026-01-01 12:00:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
INSERT INTO "recordings" VALUES(2,2,'2026-01-01 12:01:00.123456','2026-01-01 12:01:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
INSERT INTO "recordings" VALUES(3,NULL,'2026-01-01 12:02:00.123456','2026-01-01 12:02:29.123456',30,X'00112233445566778899AABBCCDDEEFF');
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
CREATE INDEX ix_decisions_knob_at ON decisions (knob, at);
CREATE INDEX ix_decisions_at ON decisions (at);
CREATE INDEX ix_recordings_to_at ON recordings (to_at);
COMMIT;
