// Data exchanged with the thread that reads a PDF file.
import type { PdfLimits } from './limits.js';

export interface PdfTask {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly limits: PdfLimits;
  /** URL of the folder with the files of PDF.js. */
  readonly pdfjs: string;
}

/** Why a PDF file's text is not usable. */
export type PdfProblem = 'encrypted' | 'damaged' | 'no_text' | 'too_many_pages' | 'too_much_text';

/** The text of each page, or why the file could not be read. */
export type PdfOutcome = { readonly pages: readonly string[] } | { readonly problem: PdfProblem };

/** Exit code of a thread that exceeded its memory limit for buffers. */
export const OUT_OF_BUFFER_MEMORY = 71;
