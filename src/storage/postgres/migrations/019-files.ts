// Creates the tables of files and uploads, and adds the scopes of files and batches to keys that have all earlier
// scopes. Times are seconds since 1970.

import type { Migration } from './migration.js';

export const files: Migration = {
  what: 'files',
  oldest: 1,
  statements: [
    // deadline: time at which unfinished contents are erased; null if they belong to a file.
    `CREATE TABLE file_contents (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      bytes bigint NOT NULL,
      deadline bigint
    )`,
    'CREATE INDEX file_contents_unfinished ON file_contents (deadline) WHERE deadline IS NOT NULL',
    `CREATE TABLE file_rows (
      contents_id text COLLATE "C" NOT NULL REFERENCES file_contents ON DELETE CASCADE,
      position integer NOT NULL,
      data bytea NOT NULL,
      PRIMARY KEY (contents_id, position)
    )`,
    // Stored uncompressed, because most large files are compressed already, and a part of a row can then be read.
    'ALTER TABLE file_rows ALTER COLUMN data SET STORAGE EXTERNAL',
    `CREATE TABLE file_sizes (
      organization text COLLATE "C" PRIMARY KEY,
      bytes bigint NOT NULL
    )`,
    // segments: JSON; the contents in order, with their sizes.
    `CREATE TABLE files (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      purpose text COLLATE "C" NOT NULL,
      filename text NOT NULL,
      media_type text NOT NULL,
      bytes bigint NOT NULL,
      created_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      segments text NOT NULL,
      deleted boolean NOT NULL DEFAULT false
    )`,
    'CREATE INDEX files_of ON files (organization, id)',
    'CREATE INDEX files_with_purpose ON files (organization, purpose, id)',
    'CREATE INDEX files_by_expiry ON files (expires_at)',
    `CREATE TABLE file_holds (
      file_id text COLLATE "C" NOT NULL REFERENCES files ON DELETE CASCADE,
      holder text COLLATE "C" NOT NULL,
      PRIMARY KEY (file_id, holder)
    )`,
    `CREATE TABLE uploads (
      id text COLLATE "C" PRIMARY KEY,
      organization text COLLATE "C" NOT NULL,
      purpose text NOT NULL,
      filename text NOT NULL,
      media_type text NOT NULL,
      bytes bigint NOT NULL,
      created_at bigint NOT NULL,
      expires_at bigint NOT NULL,
      file_lifetime bigint,
      status text NOT NULL,
      file_id text COLLATE "C"
    )`,
    'CREATE INDEX uploads_of ON uploads (organization)',
    'CREATE INDEX uploads_by_expiry ON uploads (expires_at)',
    `CREATE TABLE upload_parts (
      upload_id text COLLATE "C" NOT NULL REFERENCES uploads ON DELETE CASCADE,
      id text COLLATE "C" NOT NULL,
      bytes bigint NOT NULL,
      created_at bigint NOT NULL,
      PRIMARY KEY (upload_id, id)
    )`,
    `UPDATE api_keys SET scopes = (scopes::jsonb || '["files.read", "files.write", "batches"]'::jsonb)::json
     WHERE scopes::jsonb @> '["inference", "responses.read", "responses.delete", "models.read", "tokens.count"]'::jsonb`,
  ],
};
