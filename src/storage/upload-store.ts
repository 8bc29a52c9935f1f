// Interface for storing uploads. An upload consists of parts, which become one file when the client completes the
// upload. Parts count toward the total size of the organization's files. They are erased when the upload is cancelled
// or expires. An upload of another organization is treated as unknown.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';
import type { ContentWriter, FileDescription, StoredFile } from './file-store.js';

/** Lifetime of an upload in seconds, counted from its creation. After that, it can no longer be completed. */
export const UPLOAD_S = 3_600;
/** How long an upload's record is kept after its `expiresAt`, in seconds, regardless of its status. */
export const ENDED_UPLOAD_S = 86_400;
/** Maximum number of upload records kept per organization. */
export const MAX_UPLOADS = 2_000;
/** Maximum number of parts of an upload. */
export const MAX_PARTS = 1_000;

export interface NewUpload extends Omit<FileDescription, 'expiresAt' | 'createdAt'> {
  readonly id: string;
  readonly organizationId: string;
  /** Size of the complete file in bytes, as declared by the client. */
  readonly bytes: number;
  readonly createdAt: number; // seconds since 1970
  /** Lifetime of the file in seconds, counted from the completion of the upload. Null selects files.retention_days. */
  readonly fileLifetimeS: number | null;
}

export interface StoredUpload extends NewUpload {
  readonly expiresAt: number; // seconds since 1970
  readonly status: 'pending' | 'completed' | 'cancelled' | 'expired';
  /** ID of the created file. Null unless the upload is completed. */
  readonly fileId: string | null;
}

export interface UploadPart {
  readonly id: string;
  readonly bytes: number;
  readonly createdAt: number; // seconds since 1970
}

export type PartWriter = ContentWriter<void, UploadPart>;

export interface UploadStore {
  /** Rejects with ApiError 400 if the organization already has MAX_UPLOADS uploads. */
  create(upload: NewUpload): Promise<StoredUpload>;
  get(organizationId: string, id: string): Promise<StoredUpload | null>;
  /** Starts a new part. finish() of the writer rejects with ApiError 422 if the upload is no longer pending. */
  addPart(upload: StoredUpload): PartWriter;
  /** Returns the parts of an upload, in no particular order. */
  parts(upload: StoredUpload): Promise<readonly UploadPart[]>;
  /** Reads the contents of the given parts, in order. */
  read(parts: readonly UploadPart[]): AsyncIterable<Uint8Array>;
  /**
   * Creates a file from `parts` in the given order, and discards all other parts of the upload. Rejects with ApiError
   * 422 if the upload is no longer pending.
   */
  complete(upload: StoredUpload, parts: readonly UploadPart[], file: FileDescription): Promise<StoredFile>;
  /** Discards the parts. Returns the changed upload. Rejects with ApiError 422 if the upload is no longer pending. */
  cancel(upload: StoredUpload): Promise<StoredUpload>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases uploads that expired ENDED_UPLOAD_S ago. FileStore.sweep() erases the contents of expired parts. */
  sweep(): Promise<void>;
}

export const uploadNotPending = (status: StoredUpload['status']): ApiError =>
  apiError('invalid_value', `The upload is ${status}; only a pending upload can be changed.`, 'upload_id');

export const partTooLarge = (maxBytes: number): ApiError =>
  apiError(
    'file_too_large',
    `The part is larger than the ${maxBytes} bytes with which the upload was created.`,
    'data',
  );

export const tooManyUploads = (): ApiError =>
  apiError(
    'storage_quota_exceeded',
    `The organization has reached the maximum of ${MAX_UPLOADS} uploads in ${Math.round((UPLOAD_S + ENDED_UPLOAD_S) / 3_600)} hours. Use POST /v1/files for small files.`,
  );

export const tooManyParts = (): ApiError =>
  apiError('invalid_value', `An upload may have at most ${MAX_PARTS} parts.`, 'upload_id');
