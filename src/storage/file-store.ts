// Storage port for uploaded and generated files (see docs/internals/storage.md for the implementations). Contents are
// written and read as streams of rows of at most ROW_BYTES, so that no file is in memory as a whole. Every write
// resolves when it is durable. A file of another organization is treated as unknown.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** Size of every row of a file's contents except the last one. */
export const ROW_BYTES = 1024 ** 2;

/** An unfinished file that has not been completed within this time is erased, for example after a crash. */
export const UNFINISHED_S = 7_200;

export interface FileSettings {
  /** Maximum size of one file. */
  readonly max_bytes: number;
  /** Maximum total size of an organization's files, including unfinished ones. */
  readonly organization_bytes: number;
  /** Maximum total size of all organizations' files, including those that the server itself writes. */
  readonly total_bytes: number;
}

/** What a client or the server states about a file. */
export interface FileDescription {
  readonly purpose: string;
  readonly filename: string;
  readonly mediaType: string;
  /** In seconds since 1970. */
  readonly expiresAt: number;
  /** In seconds since 1970. Default: the time at which the file is completed. */
  readonly createdAt?: number;
}

export interface StoredFile extends FileDescription {
  readonly id: string;
  readonly organizationId: string;
  readonly bytes: number;
  readonly createdAt: number;
}

/**
 * Receives contents. If write() or finish() rejects, everything written so far is discarded. Only one call may be in
 * progress at a time.
 */
export interface ContentWriter<Description, Result> {
  /** Bytes received so far. */
  readonly bytes: number;
  /**
   * Resolves when the writer is ready for more bytes. Rejects with ApiError 413 if the file is too large, 400 if the
   * organization's files would exceed their limit, and 503 if all files would exceed theirs. The bytes are copied.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Completes the file or part, which can be found from now on. */
  finish(description: Description): Promise<Result>;
  /** Discards the contents. Has no effect after finish(). */
  discard(): Promise<void>;
}

export type FileWriter = ContentWriter<FileDescription, StoredFile>;

export interface NewFileOptions {
  /**
   * Whether the limits per file and per organization apply. Files that the server itself writes, such as the results of
   * a batch, count toward the organization's total, but only the limit of all files applies to them. Default: true.
   */
  readonly limited?: boolean;
}

export interface FileListQuery {
  readonly purpose?: string | undefined;
  readonly newestFirst: boolean;
  /** The files listed come after this ID in the order. It need not exist, but must have the form of a file ID. */
  readonly after: string | null;
  readonly limit: number;
}

export interface FilePage {
  readonly files: readonly StoredFile[];
  /** Whether further files follow. */
  readonly more: boolean;
}

export interface ReadOptions {
  /** First byte to read. Default: 0. */
  readonly start?: number;
  /** End of the range, exclusive. Default: the end of the file. */
  readonly end?: number;
  /** Also reads a file that is deleted or expired if this holder holds it. */
  readonly holder?: string;
}

export interface FileStore {
  /** Starts a new file. */
  create(organizationId: string, options?: NewFileOptions): FileWriter;
  /**
   * Returns null if the file is unknown, deleted or expired. With a `holder`, also finds a deleted or expired file that
   * this holder holds.
   */
  get(organizationId: string, id: string, holder?: string): Promise<StoredFile | null>;
  list(organizationId: string, query: FileListQuery): Promise<FilePage>;
  /**
   * Reads the contents in pieces of at most ROW_BYTES. Each piece is read when it is requested. Throws ApiError 404
   * file_not_found in the cases in which get() returns null, also if the file is erased while it is being read.
   */
  read(organizationId: string, id: string, options?: ReadOptions): AsyncIterable<Uint8Array>;
  /**
   * Deletes a file. Its contents are kept while a holder needs them. Resolves to false in the cases in which get()
   * returns null.
   */
  delete(organizationId: string, id: string): Promise<boolean>;
  /**
   * Keeps the contents of a file until release(), even if the file is deleted or expires, and across restarts.
   * `holder` is the ID of the object that needs the file, such as a batch. A repeated call has no effect. Returns null in
   * the cases in which get() returns null.
   */
  hold(organizationId: string, id: string, holder: string): Promise<StoredFile | null>;
  /** Ends a hold. Erases the file if it is deleted or expired and no other holder needs it. */
  release(organizationId: string, id: string, holder: string): Promise<void>;
  /** Total size of the organization's files, including unfinished and held ones. */
  usedBytes(organizationId: string): Promise<number>;
  eraseOrganization(organizationId: string): Promise<void>;
  /** Erases expired files that nothing holds, and abandoned unfinished ones. Resolves to the number of erased files. */
  sweep(): Promise<number>;
}

export const fileTooLarge = (maxBytes: number): ApiError =>
  apiError('file_too_large', `The file is larger than ${maxBytes} bytes (files.max_bytes).`, 'file');

export const storageQuotaExceeded = (maxBytes: number): ApiError =>
  apiError(
    'storage_quota_exceeded',
    `The organization's files would exceed ${maxBytes} bytes in total (files.organization_bytes). Delete files that are no longer needed.`,
    'file',
  );

export const fileStorageFull = (maxBytes: number): ApiError =>
  apiError(
    'capacity_exhausted',
    `The files of all organizations would exceed ${maxBytes} bytes in total (files.total_bytes).`,
    null,
    { retryAfterMs: 60_000 },
  );

export const fileNotFound = (id: string, param: string | null = 'file_id'): ApiError =>
  apiError('file_not_found', `No file found with id ${JSON.stringify(id.slice(0, 64))}.`, param);
