-- The table of spec 06. Columns that came later are added only where missing, so a table made by
-- the TypeScript plugin is taken over as it is, and an older reader still works (D-4).
CREATE TABLE IF NOT EXISTS breakglass_sessions (
  id varchar(12) PRIMARY KEY,
  app varchar(255) NOT NULL,
  env varchar(255) NOT NULL,
  cluster varchar(255) NOT NULL,
  namespace varchar(255) NOT NULL,
  pod varchar(255) NOT NULL,
  container varchar(255) NOT NULL,
  mode varchar(255) NOT NULL,
  reason text NOT NULL,
  requester varchar(255) NOT NULL,
  tier varchar(255) NOT NULL,
  duration_minutes integer NOT NULL,
  state varchar(255) NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
ALTER TABLE breakglass_sessions
  ADD COLUMN IF NOT EXISTS process_access boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS volume_access boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS volumes json,
  ADD COLUMN IF NOT EXISTS recycle_last_pod boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS recycled boolean,
  ADD COLUMN IF NOT EXISTS ticket_url text,
  ADD COLUMN IF NOT EXISTS approver varchar(255),
  ADD COLUMN IF NOT EXISTS approved_at timestamptz,
  ADD COLUMN IF NOT EXISTS decision_note text,
  ADD COLUMN IF NOT EXISTS glass_broken boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS review_state varchar(255),
  ADD COLUMN IF NOT EXISTS reviewed_by varchar(255),
  ADD COLUMN IF NOT EXISTS reviewed_at timestamptz,
  ADD COLUMN IF NOT EXISTS review_note text,
  ADD COLUMN IF NOT EXISTS started_at timestamptz,
  ADD COLUMN IF NOT EXISTS extended_at timestamptz,
  ADD COLUMN IF NOT EXISTS ended_at timestamptz,
  ADD COLUMN IF NOT EXISTS end_reason text,
  ADD COLUMN IF NOT EXISTS ended_by varchar(255),
  ADD COLUMN IF NOT EXISTS role_binding varchar(255),
  ADD COLUMN IF NOT EXISTS copy_pod varchar(255),
  ADD COLUMN IF NOT EXISTS debug_container varchar(255),
  ADD COLUMN IF NOT EXISTS recording_key text,
  ADD COLUMN IF NOT EXISTS recording_sha256 varchar(255),
  ADD COLUMN IF NOT EXISTS recording_bytes bigint,
  ADD COLUMN IF NOT EXISTS recording_bucket varchar(255),
  ADD COLUMN IF NOT EXISTS recording_version text,
  ADD COLUMN IF NOT EXISTS sensitive boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS hold_app boolean NOT NULL DEFAULT false,
  ADD COLUMN IF NOT EXISTS pod_image text,
  ADD COLUMN IF NOT EXISTS pod_image_id text,
  ADD COLUMN IF NOT EXISTS recycle_waived_reason text,
  ADD COLUMN IF NOT EXISTS review_reminded_at timestamptz,
  ADD COLUMN IF NOT EXISTS review_escalated_at timestamptz,
  ADD COLUMN IF NOT EXISTS recording_rekor_index bigint,
  ADD COLUMN IF NOT EXISTS recording_rekor_uuid text,
  ADD COLUMN IF NOT EXISTS anchor_attempted_at timestamptz,
  ADD COLUMN IF NOT EXISTS anchor_error text,
  ADD COLUMN IF NOT EXISTS cleanup_notes text;

-- An older table may have made these varchar(255); what goes into them can be longer. A varchar
-- becomes a text without rewriting the table, and reads the same.
DO $$
DECLARE
  narrow record;
BEGIN
  FOR narrow IN
    SELECT column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND table_name = 'breakglass_sessions'
      AND data_type = 'character varying'
      AND column_name IN ('reason', 'ticket_url', 'decision_note', 'review_note', 'end_reason',
        'cleanup_notes', 'recording_key', 'recording_version', 'pod_image', 'pod_image_id',
        'recycle_waived_reason', 'recording_rekor_uuid', 'anchor_error')
  LOOP
    EXECUTE format('ALTER TABLE breakglass_sessions ALTER COLUMN %I TYPE text', narrow.column_name);
  END LOOP;
END $$;

CREATE INDEX IF NOT EXISTS breakglass_sessions_state_index ON breakglass_sessions (state);
CREATE INDEX IF NOT EXISTS breakglass_sessions_app_env_index ON breakglass_sessions (app, env);

-- What sessions made in clusters and is not known to be gone (C-26).
CREATE TABLE breakglass_objects (
  uid text NOT NULL,
  session_id varchar(12) NOT NULL REFERENCES breakglass_sessions (id),
  cluster text NOT NULL,
  kind text NOT NULL,
  namespace text NOT NULL,
  name text NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  checked_at timestamptz,
  kept text,
  PRIMARY KEY (uid, session_id) -- two sessions can have touched the same live pod
);
CREATE INDEX breakglass_objects_session_index ON breakglass_objects (session_id);

-- Who owns the sessions (D-5): one row. The epoch is the key, so that a writer can hold it
-- (FOR KEY SHARE) against a taking over without standing in the way of a renewal.
CREATE TABLE breakglass_owner (
  epoch bigint PRIMARY KEY,
  owner text NOT NULL,
  expires_at timestamptz NOT NULL
);
INSERT INTO breakglass_owner (epoch, owner, expires_at) VALUES (0, '', '-infinity');
