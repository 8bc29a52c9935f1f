// Converts files and uploads to the JSON formats of the APIs.

import type { StoredFile } from '../../storage/file-store.js';
import type { StoredUpload, UploadPart } from '../../storage/upload-store.js';

/** A file in OpenAI's format. */
export const fileObject = ({ id, bytes, createdAt, expiresAt, filename, purpose }: StoredFile): object => ({
  id,
  object: 'file',
  bytes,
  created_at: createdAt,
  expires_at: expiresAt,
  filename,
  purpose,
  status: 'processed',
});

/** A file in Anthropic's format. Every file can be downloaded. */
export const fileMetadata = ({ id, bytes, createdAt, expiresAt, filename, mediaType }: StoredFile): object => ({
  id,
  type: 'file',
  filename,
  mime_type: mediaType,
  size_bytes: bytes,
  created_at: timeOf(createdAt),
  expires_at: timeOf(expiresAt),
  downloadable: true,
});

const timeOf = (seconds: number): string => new Date(seconds * 1000).toISOString();

export const uploadObject = (
  { id, bytes, createdAt, expiresAt, filename, purpose, status }: StoredUpload,
  file: StoredFile | null,
): object => ({
  id,
  object: 'upload',
  bytes,
  created_at: createdAt,
  expires_at: expiresAt,
  filename,
  purpose,
  status,
  file: file === null ? null : fileObject(file),
});

export const partObject = (upload: string, { id, createdAt }: UploadPart): object => ({
  id,
  object: 'upload.part',
  created_at: createdAt,
  upload_id: upload,
});
