// Limits for reading PDF files. docs/reference/limits.md lists them.

const MIB = 1024 ** 2;

export const PDF_LIMITS = {
  /** Maximum size of a PDF file in bytes. */
  bytes: 32 * MIB,
  /** Maximum number of pages of a PDF file. */
  pages: 1_000,
  /** Maximum length of a PDF file's text, in UTF-16 code units. */
  characters: 4_000_000,
  /** Time in which a PDF file must have been read, in ms. */
  ms: 30_000,
  /** Time in which all PDF files of a request must have been read, in ms. Waiting for other files does not count. */
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
 * PDF files that a thread of the server reads concurrently. Each takes a thread of its own, so a server's PDF files
 * take at most this number times its threads times the memory in PDF_LIMITS.
 */
export const CONCURRENT_PDFS = 2;
/** PDF files of one organization that a thread of the server reads concurrently. */
export const CONCURRENT_PDFS_PER_ORGANIZATION = 1;
/** Maximum total size in bytes of an organization's PDF files that wait to be read, on each thread of the server. */
export const WAITING_PDF_BYTES = 128 * MIB;
/**
 * Budget for the time that an organization's PDF files take, on each thread of the server. It refills at half the speed
 * at which it is used.
 */
export const PDF_TIME = { ms: 120_000, msPerMs: 0.5 } as const;
