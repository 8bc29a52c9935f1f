// Extracts the text of PDF files. Each file is parsed in a new thread, which has limits on its time and memory, so that
// a malicious file can neither block nor crash the server nor affect the files of other organizations. Event-loop
// thread only.
import { Worker } from 'node:worker_threads';
import { apiError } from '../../../shared/errors.js';
import type { ApiError } from '../../../shared/errors.js';
import type { ErrorCode } from '../../../shared/error-codes.js';
import { FairSlots } from '../../../generation/fair-slots.js';
import { CONCURRENT_PDFS, CONCURRENT_PDFS_PER_ORGANIZATION, PDF_LIMITS, WAITING_PDF_BYTES } from './limits.js';
import type { PdfLimits } from './limits.js';
import { OUT_OF_BUFFER_MEMORY } from './messages.js';
import type { PdfOutcome, PdfProblem, PdfTask } from './messages.js';

type Problem = PdfProblem | 'too_large' | 'too_slow' | 'too_much_memory';

/** The request that contains the file. */
export interface PdfRequest {
  readonly organization: string;
  /** The part of the request that contains the file, for errors. */
  readonly path: string;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export class PdfReader {
  readonly #slots = new FairSlots<string>(CONCURRENT_PDFS, 'PDF files to read', WAITING_PDF_BYTES, {
    mostOfOne: CONCURRENT_PDFS_PER_ORGANIZATION,
  });

  /** `limits` is for tests. */
  constructor(private readonly limits: PdfLimits = PDF_LIMITS) {}

  /**
   * Returns the text of each page. Throws ApiError 413 file_too_large, 422 unsupported_content or invalid_value, 503
   * capacity_exhausted, or the abort reason if the signal is aborted.
   */
  async read(bytes: Uint8Array, { organization, path, signal }: PdfRequest): Promise<readonly string[]> {
    if (bytes.length > this.limits.bytes) throw this.#error('too_large', path);
    const outcome = await this.#slots.run({ organization, signal }, bytes.length, () => this.#run(bytes, signal));
    if (typeof outcome === 'string') throw this.#error(outcome, path);
    return outcome;
  }

  async #run(bytes: Uint8Array, signal: AbortSignal): Promise<readonly string[] | Problem> {
    const { heapMib, ms } = this.limits;
    // A copy, because the buffer of a small file may be shared with other data.
    const copy = new Uint8Array(bytes);
    const worker = new Worker(new URL('./pdf-worker.js', import.meta.url), {
      name: 'pdf reader',
      workerData: { bytes: copy, limits: this.limits } satisfies PdfTask,
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
        const timer = setTimeout(() => resolve('too_slow'), ms);
        stop.signal.addEventListener('abort', () => clearTimeout(timer));
        signal.addEventListener('abort', () => reject(signal.reason as Error), { signal: stop.signal });
        worker.on('message', (outcome: PdfOutcome) => resolve('pages' in outcome ? outcome.pages : outcome.problem));
        worker.on('error', (error: NodeJS.ErrnoException) =>
          resolve(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'too_much_memory' : 'damaged'),
        );
        worker.on('exit', (code) => resolve(code === OUT_OF_BUFFER_MEMORY ? 'too_much_memory' : 'damaged'));
      });
    } finally {
      stop.abort();
      await worker.terminate(); // the slot stays taken until the thread's memory is free
    }
  }

  #error(problem: Problem, path: string): ApiError {
    const { bytes, pages, characters, ms } = this.limits;
    const [code, why] = (
      {
        encrypted: ['unsupported_content', 'is encrypted. Remove its password'],
        damaged: ['invalid_value', 'is damaged or not a PDF file'],
        no_text: ['unsupported_content', 'contains no text. Send scanned pages as images'],
        too_large: ['file_too_large', `has more than ${bytes} bytes`],
        too_many_pages: ['file_too_large', `has more than ${pages} pages`],
        too_much_text: ['file_too_large', `has more than ${characters} characters of text`],
        too_slow: ['file_too_large', `takes more than ${ms / 1_000} seconds to read`],
        too_much_memory: ['file_too_large', 'takes too much memory to read'],
      } satisfies Record<Problem, [ErrorCode, string]>
    )[problem];
    return apiError(code, `${path}: the PDF file ${why}.`, path);
  }
}
