// Interface for storing uploaded and generated files (see docs/internals/storage.md for the implementations). Contents
// are stored in rows of at most ROW_BYTES, and written and read as streams, so that no whole file is in memory. Every
// write resolves when it is durable. A file of another organization is treated as unknown.

import { apiError } from '../shared/errors.js';
import type { ApiError } from '../shared/errors.js';

/** Size in bytes of every row of a file's contents except the last one. */
export const ROW_BYTES = 1024 ** 2;

/**
 * Minimum number of bytes that a file or part counts toward the total sizes, because its entry also takes space.
 * Otherwise, the number of empty files would be unlimited.
 */
export const MIN_COUNTED_BYTES = 1_024;

/** Age, in seconds, at which an incomplete file is erased, for example after a crash. */
export const UNFINISHED_S = 7_200;

export interface FileSettings {
  /** Maximum size of one file, in bytes. */
  readonly max_bytes: number;
  /**
   * Maximum total size of an organization's files in bytes, including incomplete ones. Each counts as at least
   * MIN_COUNTED_BYTES.
   */
  readonly organization_bytes: number;
  /** Maximum total size of all organizations' files in bytes, including files that the server itself creates. */
  readonly total_bytes: number;
}

/** The file properties set by its creator. */
export interface FileDescription {
  readonly purpose: string;
  readonly filename: string;
  readonly mediaType: string;
  /** In seconds since 1970. */
  readonly expiresAt: number;
  /** In seconds since 1970. Defaults to the time at which the file is completed. */
  readonly createdAt?: number;
}

export interface StoredFile extends FileDescription {
  readonly id: string;
  readonly organizationId: string;
  readonly bytes: number;
  readonly createdAt: number;
}

/**
 * Writes the contents of a file or part. If write() or finish() rejects, everything written so far is discarded. Each
 * call must settle before the next one is made.
 */
export interface ContentWriter<Description, Result> {
  /** Number of bytes passed to write() so far. */
  readonly bytes: number;
  /**
   * Copies the bytes, and resolves when the writer is ready for more. Rejects with ApiError 413 if the file is too
   * large, 400 if the organization's files would exceed their limit, and 503 if all organizations' files would.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Completes the file or part. Only then can it be found. */
  finish(description: Description): Promise<Result>;
  /** Discards the contents. Has no effect after finish(). */
  discard(): Promise<void>;
}

export type FileWriter = ContentWriter<FileDescription, StoredFile>;

export interface NewFileOptions {
  /**
   * Whether the limits per file and per organization apply. Defaults to true. False for files that the server itself
   * creates, such as batch results. These still count toward the total sizes, and `total_bytes` still applies.
   */
  readonly limited?: boolean;
  /**
   * ID of the new file. Defaults to a new ID. If a file with this ID exists when the writer finishes, the written
   * contents are discarded, and finish() resolves to the existing file.
   */
  readonly id?: string;
}

export interface FileListQuery {
  readonly purpose?: string | undefined;
  readonly newestFirst: boolean;
  /**
   * ID after which the list starts; null = start at the beginning. Must be a well-formed file ID, but need not
   * exist.
   */
  readonly after: string | null;
  readonly limit: number;
}

export interface FilePage {
  readonly files: readonly StoredFile[];
  /** Whether there are more files after this page. */
  readonly more: boolean;
}

export interface ReadOptions {
  /** Offset of the first byte to read. Defaults to 0. */
  readonly start?: number;
  /** Offset after the last byte to read. Defaults to the file size. */
  readonly end?: number;
  /** If this holder has a hold on the file (see hold()), the file is read even if it is deleted or expired. */
  readonly holder?: string;
}

export interface FileStore {
  /** Starts a new file. */
  create(organizationId: string, options?: NewFileOptions): FileWriter;
  /**
   * Resolves to null if the file is unknown, deleted or expired. With a `holder`, also finds deleted and expired files
   * that this holder has a hold on.
   */
  get(organizationId: string, id: string, holder?: string): Promise<StoredFile | null>;
  list(organizationId: string, query: FileListQuery): Promise<FilePage>;
  /**
   * Reads the contents in chunks of at most ROW_BYTES. A chunk is read when the consumer requests it. Throws ApiError
   * 404 file_not_found if get() would resolve to null, or if the file is erased while it is being read.
   */
  read(organizationId: string, id: string, options?: ReadOptions): AsyncIterable<Uint8Array>;
  /**
   * Deletes a file. Its contents are kept until its last hold is released. Resolves to false if get() would resolve to
   * null.
   */
  delete(organizationId: string, id: string): Promise<boolean>;
  /**
   * Places a hold on a file: its contents are kept until release(), even if the file is deleted or expires. Holds are
   * stored, so they survive restarts. `holder` is the ID of the object that needs the file, such as a batch. A repeated
   * call has no effect. Resolves to null if get() would resolve to null.
   */
  hold(organizationId: string, id: string, holder: string): Promise<StoredFile | null>;
  /** Removes a hold. Erases the file if it is deleted or expired and has no other hold. */
  release(organizationId: string, id: string, holder: string): Promise<void>;
  /**
   * Returns the total size of the organization's files in bytes, including incomplete and held files. Each counts as at
   * least MIN_COUNTED_BYTES.
   */
  usedBytes(organizationId: string): Promise<number>;
  eraseOrganization(organizationId: string): Promise<void>;
  /**
   * Removes each hold for which `isNeeded` resolves to false. A hold becomes obsolete if a process crashes after the
   * holder has finished but before release().
   */
  releaseUnneeded(isNeeded: (organizationId: string, holder: string) => Promise<boolean>): Promise<void>;
  /** Erases expired files without a hold, and abandoned incomplete files. Returns the number of expired files. */
  sweep(): Promise<number>;
}

/** Returns the number of bytes that a row counts toward the total sizes. */
export const countedBytes = (position: number, row: Uint8Array): number =>
  position === 0 ? Math.max(MIN_COUNTED_BYTES, row.length) : row.length;

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
