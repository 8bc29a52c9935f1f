// Extracts the text of PDF files. Each file is parsed in a new thread, which has limits on its time and memory, so that
// a malicious file can neither block nor crash the server nor affect the files of other organizations. Event-loop
// thread only.
import { Worker } from 'node:worker_threads';
import { apiError } from '../../../shared/errors.js';
import type { ApiError } from '../../../shared/errors.js';
import type { ErrorCode } from '../../../shared/error-codes.js';
import { FairSlots } from '../../../generation/fair-slots.js';
import {
  CONCURRENT_PDFS,
  CONCURRENT_PDFS_PER_ORGANIZATION,
  PDF_LIMITS,
  PDF_TIME,
  WAITING_PDF_BYTES,
} from './limits.js';
import type { PdfLimits } from './limits.js';
import { OUT_OF_BUFFER_MEMORY } from './messages.js';
import type { PdfOutcome, PdfProblem, PdfTask } from './messages.js';

type Problem = PdfProblem | 'too_large' | 'too_slow' | 'too_slow_together' | 'too_much_memory';

/** The build copies PDF.js's files to this folder. */
const PDFJS = new URL('../../../pdfjs/', import.meta.url).href;

const RETRY_AFTER_MS = 10_000;

/** The request that contains the file. */
export interface PdfRequest {
  readonly organization: string;
  /** The part of the request that contains the file, for errors. */
  readonly path: string;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** Time spent on the request's PDF files so far. Increased by read(). */
  readonly used: { ms: number };
}

export class PdfReader {
  readonly #slots = new FairSlots<string>(CONCURRENT_PDFS, 'PDF files to read', WAITING_PDF_BYTES, {
    mostOfOne: CONCURRENT_PDFS_PER_ORGANIZATION,
    budget: PDF_TIME,
  });

  /** The arguments are for tests. `pdfjs`: URL of the folder with the files of PDF.js. */
  constructor(
    private readonly limits: PdfLimits = PDF_LIMITS,
    private readonly pdfjs: string = PDFJS,
  ) {}

  /**
   * Returns the text of each page. Throws ApiError 413 file_too_large, 422 unsupported_content or invalid_value, 503
   * capacity_exhausted, the abort reason if the signal is aborted, or another error if the server is at fault.
   */
  async read(bytes: Uint8Array, { organization, path, signal, used }: PdfRequest): Promise<readonly string[]> {
    if (bytes.length > this.limits.bytes) throw this.#error('too_large', path);
    const waiting = new AbortController();
    const timer = setTimeout(() => waiting.abort(tooLongWait()), this.limits.waitMs);
    const requester = { organization, signal: AbortSignal.any([signal, waiting.signal]) };
    try {
      const outcome = await this.#slots.run(requester, bytes.length, async () => {
        clearTimeout(timer);
        const started = performance.now();
        try {
          return await this.#run(bytes, signal, this.limits.requestMs - used.ms);
        } finally {
          const took = performance.now() - started;
          used.ms += took;
          this.#slots.charge(organization, took);
        }
      });
      if (typeof outcome === 'string') throw this.#error(outcome, path);
      return outcome;
    } finally {
      clearTimeout(timer);
    }
  }

  /** `leftMs`: remaining time for the request's files. */
  async #run(bytes: Uint8Array, signal: AbortSignal, leftMs: number): Promise<readonly string[] | Problem> {
    if (leftMs <= 0) return 'too_slow_together';
    const { heapMib, ms } = this.limits;
    // A copy, because the buffer of a small file may be shared with other data.
    const copy = new Uint8Array(bytes);
    const worker = new Worker(new URL('./pdf-worker.js', import.meta.url), {
      name: 'pdf reader',
      workerData: { bytes: copy, limits: this.limits, pdfjs: this.pdfjs } satisfies PdfTask,
      transferList: [copy.buffer],
      resourceLimits: { maxOldGenerationSizeMb: heapMib, maxYoungGenerationSizeMb: heapMib / 8 },
      argv: [],
      execArgv: [],
      env: {},
      stdin: false,
      stdout: true,
      stderr: true,
    });
    const stop = new AbortController();
    try {
      return await new Promise<readonly string[] | Problem>((resolve, reject) => {
        const timer = setTimeout(() => resolve(leftMs < ms ? 'too_slow_together' : 'too_slow'), Math.min(leftMs, ms));
        stop.signal.addEventListener('abort', () => clearTimeout(timer));
        signal.addEventListener('abort', () => reject(signal.reason as Error), { signal: stop.signal });
        worker.on('message', (outcome: PdfOutcome) => resolve('pages' in outcome ? outcome.pages : outcome.problem));
        worker.on('error', (error: NodeJS.ErrnoException) =>
          error.code === 'ERR_WORKER_OUT_OF_MEMORY'
            ? resolve('too_much_memory')
            : reject(new Error('cannot read PDF files', { cause: error })),
        );
        worker.on('exit', (code) =>
          code === OUT_OF_BUFFER_MEMORY
            ? resolve('too_much_memory')
            : reject(new Error(`cannot read PDF files: the thread ended with code ${code}`)),
        );
      });
    } finally {
      stop.abort();
      await worker.terminate(); // the slot stays taken until the thread's memory is free
    }
  }

  #error(problem: Problem, path: string): ApiError {
    const { bytes, pages, characters, ms, requestMs } = this.limits;
    const [code, why] = (
      {
        encrypted: ['unsupported_content', 'is encrypted. Remove its password'],
        damaged: ['invalid_value', 'is damaged or not a PDF file'],
        no_text: ['unsupported_content', 'contains no text. Send scanned pages as images'],
        too_large: ['file_too_large', `has more than ${bytes} bytes`],
        too_many_pages: ['file_too_large', `has more than ${pages} pages`],
        too_much_text: ['file_too_large', `has more than ${characters} characters of text`],
        too_slow: ['file_too_large', `takes more than ${ms / 1_000} seconds to read`],
        too_slow_together: [
          'file_too_large',
          `cannot be read, because the request's PDF files take more than ${requestMs / 1_000} seconds`,
        ],
        too_much_memory: ['file_too_large', 'takes too much memory to read'],
      } satisfies Record<Problem, [ErrorCode, string]>
    )[problem];
    return apiError(code, `${path}: the PDF file ${why}.`, path);
  }
}

const tooLongWait = (): ApiError =>
  apiError('capacity_exhausted', 'Too many PDF files are waiting to be read.', null, { retryAfterMs: RETRY_AFTER_MS });
