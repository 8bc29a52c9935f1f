// Limits for reading PDF files. docs/reference/limits.md lists them.

const MIB = 1024 ** 2;

export const PDF_LIMITS = {
  /** Maximum size of a PDF file in bytes. */
  bytes: 32 * MIB,
  /** Maximum number of pages of a PDF file. */
  pages: 1_000,
  /** Maximum length of a PDF file's text, in UTF-16 code units. */
  characters: 4_000_000,
  /** Maximum time for reading a PDF file, in ms. */
  ms: 30_000,
  /** Maximum total time for reading a request's PDF files, in ms. Waiting for other files does not count. */
  requestMs: 60_000,
  /** Maximum time that a PDF file waits to be read, in ms. */
  waitMs: 60_000,
  /** Maximum size of the JavaScript heap of the thread that reads a PDF file, in MiB. */
  heapMib: 256,
  /** Maximum size of the thread's buffers outside its heap, in bytes. Decompressed data is in such buffers. */
  bufferBytes: 256 * MIB,
} as const;

export type PdfLimits = { readonly [K in keyof typeof PDF_LIMITS]: number };

/**
 * Maximum number of PDF files that each server thread reads concurrently. Each file is read in a separate thread, so a
 * server uses at most this number times its number of threads times the memory in PDF_LIMITS.
 */
export const CONCURRENT_PDFS = 2;
/** Maximum number of one organization's PDF files that each server thread reads concurrently. */
export const CONCURRENT_PDFS_PER_ORGANIZATION = 1;
/** Maximum total size, in bytes, of an organization's PDF files that wait to be read on each server thread. */
export const WAITING_PDF_BYTES = 128 * MIB;
/**
 * Time budget for an organization's PDF files on each server thread. It refills at half the rate at which it is used.
 */
export const PDF_TIME = { ms: 120_000, msPerMs: 0.5 } as const;
