// Entry point of the thread that extracts the text of one PDF file with PDF.js. The file is client data, so the
// thread's memory is limited, and pdf-reader.ts terminates the thread when its time is up. An error before the file is
// parsed is the server's fault and terminates the thread.
import { fileURLToPath } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';
import { limitBuffers } from './buffer-limit.js';
import { OUT_OF_BUFFER_MEMORY } from './messages.js';
import type { PdfOutcome, PdfTask } from './messages.js';

interface TextItem {
  readonly str?: string;
  readonly hasEOL?: boolean;
}

/** The part of PDF.js that is used here. */
interface PdfJs {
  getDocument(options: object): { readonly promise: Promise<PdfDocument> };
}

interface PdfDocument {
  readonly numPages: number;
  getPage(number: number): Promise<{
    streamTextContent(options: object): ReadableStream<{ readonly items: readonly TextItem[] }>;
    cleanup(): void;
  }>;
}

const OPTIONS = {
  verbosity: 0,
  isEvalSupported: false,
  useWasm: false,
  useWorkerFetch: false,
  useSystemFonts: false,
  disableFontFace: true,
  enableXfa: false,
  cMapPacked: true,
} as const;

/** Control characters other than tab and line break. They come from fonts with a wrong encoding. */
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f]/g;

class TooMuchText extends Error {}

async function load(folder: string): Promise<PdfJs> {
  const none = (): void => undefined;
  Object.assign(globalThis, {
    // Warnings about a file are useless to the operator, and a file can cause any number of them.
    console: { log: none, info: none, warn: none, error: none, debug: none },
    // Stubs for objects that PDF.js creates on load but needs only for drawing.
    DOMMatrix: class {},
    ImageData: class {},
    Path2D: class {},
  });
  // Makes PDF.js run its parser in this thread.
  Object.assign(globalThis, { pdfjsWorker: await import(new URL('pdf.worker.min.mjs', folder).href) });
  return (await import(new URL('pdf.min.mjs', folder).href)) as PdfJs;
}

async function read({ bytes, limits, pdfjs: folder }: PdfTask, pdfjs: PdfJs): Promise<PdfOutcome> {
  const checkBuffers = limitBuffers(limits.bufferBytes, () => process.exit(OUT_OF_BUFFER_MEMORY));
  const cMapUrl = fileURLToPath(new URL('cmaps/', folder));
  const document = await pdfjs.getDocument({ ...OPTIONS, data: bytes, cMapUrl }).promise;
  if (document.numPages > limits.pages) return { problem: 'too_many_pages' };
  const pages: string[] = [];
  let left = limits.characters;
  for (let number = 1; number <= document.numPages; number++) {
    const text = await pageText(document, number, left);
    left -= text.length;
    pages.push(text);
    checkBuffers();
  }
  return pages.some((text) => /\S/.test(text)) ? { pages } : { problem: 'no_text' };
}

/** Returns a page's text. Throws TooMuchText if it is longer than `max`. */
async function pageText(document: PdfDocument, number: number, max: number): Promise<string> {
  const page = await document.getPage(number);
  let text = '';
  for await (const { items } of page.streamTextContent({ includeMarkedContent: false })) {
    for (const { str = '', hasEOL = false } of items) text += hasEOL ? `${str}\n` : str;
    if (text.length > max) throw new TooMuchText();
  }
  page.cleanup();
  return text.replace(CONTROLS, '').replace(/\p{Surrogate}/gu, '\ufffd');
}

function problemOf(error: unknown): PdfOutcome {
  if (error instanceof TooMuchText) return { problem: 'too_much_text' };
  return { problem: (error as Error).name === 'PasswordException' ? 'encrypted' : 'damaged' };
}

const task = workerData as PdfTask;
const pdfjs = await load(task.pdfjs);
const answer = (outcome: PdfOutcome): void => parentPort?.postMessage(outcome);
// PDF.js does not handle some rejections that a damaged file causes.
process.on('uncaughtException', (error) => answer(problemOf(error)));
answer(await read(task, pdfjs).catch(problemOf));
