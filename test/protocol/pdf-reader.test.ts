// Tests the text of PDF files and the limits on files that are malicious. test/e2e/pdf-files.test.ts tests PDF files in
// requests.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { PDF_LIMITS } from '../../src/protocol/file-inputs/pdf/limits.js';
import { PdfReader } from '../../src/protocol/file-inputs/pdf/pdf-reader.js';
import type { PdfRequest } from '../../src/protocol/file-inputs/pdf/pdf-reader.js';
import { bombOf, pdfOf } from '../support/pdf.js';

t.setTimeout(300_000); // the machine may be busy

const request = (signal = new AbortController().signal, organization = 'org_a'): PdfRequest => ({
  organization,
  path: 'input[0]',
  signal,
  used: { ms: 0 },
});
const reader = new PdfReader({ ...PDF_LIMITS, ms: 120_000, requestMs: 120_000 });
const read = (
  bytes: Buffer,
  limits: Partial<typeof PDF_LIMITS> | Record<string, number> = {},
): Promise<readonly string[]> =>
  (Object.keys(limits).length === 0
    ? reader
    : new PdfReader({ ...PDF_LIMITS, ms: 120_000, requestMs: 120_000, ...limits })
  ).read(bytes, request());
const refusal = (code: string, message: RegExp) => ({ code, param: 'input[0]', message });

t.test('returns the text of each page, with its line breaks', async (t) => {
  t.same(await read(pdfOf([['First line', 'second (line)'], [], ['Pag\xe9']])), [
    'First line\nsecond (line)',
    '',
    'Pag\xe9',
  ]);
});

t.test('reads text in a predefined encoding for Japanese', async (t) => {
  const font =
    '/Subtype /Type0 /BaseFont /Ryumin-Light /Encoding /UniJIS-UTF16-H /DescendantFonts [<< /Type /Font /Subtype ' +
    '/CIDFontType0 /BaseFont /Ryumin-Light /FontDescriptor << /Type /FontDescriptor /FontName /Ryumin-Light /Flags 4 >> /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 4 >> >>]';
  const text = '日本語';
  const hex = Buffer.from(text, 'utf16le').swap16().toString('hex');
  t.same(await read(pdfOf([[`<${hex}>`]], { font })), [text]);
});

t.test('reads pages that are compressed, once or several times', async (t) => {
  const content = Buffer.from('BT /F1 12 Tf (packed) Tj ET');
  t.same(await read(bombOf(content)), ['packed']);
  t.same(await read(bombOf(content, 3)), ['packed']);
});

t.test('a wrong number of pages in the file is ignored', async (t) => {
  t.same(await read(pdfOf([['a']], { count: 1e9 })), ['a']);
});

t.test('states why a file cannot be read', async (t) => {
  const one = pdfOf([['text']]);
  await t.rejects(read(pdfOf([['text']], { encrypted: true })), refusal('unsupported_content', /is encrypted/));
  await t.rejects(read(Buffer.from('no PDF file')), refusal('invalid_value', /damaged/));
  await t.rejects(read(Buffer.alloc(0)), refusal('invalid_value', /damaged/));
  await t.rejects(read(one.subarray(0, 100)), refusal('invalid_value', /damaged/));
  await t.rejects(read(pdfOf([{ content: Buffer.from('0 0 9 9 re f') }])), refusal('unsupported_content', /no text/));
  await t.rejects(read(pdfOf([])), refusal('unsupported_content', /no text/));
  await t.rejects(read(one, { bytes: one.length - 1 }), refusal('file_too_large', /more than \d+ bytes/));
  await t.rejects(read(pdfOf([['a'], ['b']]), { pages: 1 }), refusal('file_too_large', /more than 1 pages/));
  await t.rejects(read(pdfOf([['abc'], ['def']]), { characters: 5 }), refusal('file_too_large', /more than 5 char/));
  t.same(await read(pdfOf([['abc'], ['def']]), { characters: 6 }), ['abc', 'def']);
});

t.test('ends a thread that takes too long', async (t) => {
  const slow = bombOf(Buffer.alloc(64 * 1024 ** 2, '0 0 m '));
  const started = performance.now();
  await t.rejects(read(slow, { ms: 3_000 }), refusal('file_too_large', /more than 3 seconds/));
  t.ok(performance.now() - started < 20_000);
});

t.test('ends a thread whose decompressed data takes too much memory', async (t) => {
  const zeros = bombOf(Buffer.alloc(2 ** 30), 3);
  t.ok(zeros.length < 1_000, `the file has ${zeros.length} bytes`);
  const before = process.memoryUsage.rss();
  let peak = before;
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20);
  await t.rejects(read(zeros, { bufferBytes: 64 * 1024 ** 2 }), refusal('file_too_large', /too much memory/));
  // PDF.js itself decodes this filter.
  const runs = pdfOf([{ content: Buffer.alloc(8 * 1024 ** 2, '\x81 ', 'latin1'), filter: '/RunLengthDecode' }]);
  await t.rejects(read(runs, { bufferBytes: 64 * 1024 ** 2 }), refusal('file_too_large', /too much memory/));
  clearInterval(timer);
  t.ok(peak - before < 512 * 1024 ** 2, `the process grew by ${Math.round((peak - before) / 1024 ** 2)} MiB`);
});

/** Resolves to the exit code of a thread that runs `script` with a limit of 64 MiB for its buffers. */
async function exitOf(script: string): Promise<unknown> {
  const url = new URL('../../src/protocol/file-inputs/pdf/buffer-limit.js', import.meta.url).href;
  const limited = `const { limitBuffers } = await import('${url}'); limitBuffers(2 ** 26, () => process.exit(71)); ${script}`;
  const worker = new Worker(`(async () => { ${limited} })()`, { eval: true });
  return (await once(worker, 'exit'))[0];
}

t.test('no allocation gets around the limit on buffers', async (t) => {
  const keep = 'const kept = []; for (let at = 0; at < 200; at++) kept.push';
  t.equal(await exitOf(`${keep}(new Uint8Array(2 ** 10));`), 0);
  t.equal(await exitOf(`${keep}(new Uint8Array(2 ** 20));`), 71);
  t.equal(await exitOf(`try { new Uint8Array(-1e9); } catch {} ${keep}(new Uint8Array(2 ** 20));`), 71, 'negative');
  t.equal(await exitOf(`const one = new Uint8Array(2 ** 20); ${keep}(one.slice());`), 71, 'slice');
  t.equal(await exitOf(`const one = new ArrayBuffer(2 ** 20); ${keep}(one.slice(0));`), 71, 'ArrayBuffer slice');
});

t.test('a fault of the server is not attributed to the file', async (t) => {
  const own = new PdfReader(PDF_LIMITS, new URL('missing/', import.meta.url).href);
  await t.rejects(own.read(pdfOf([['text']]), request()), { code: undefined, message: /^cannot read PDF files/ });
});

t.test('limits the time of all files of a request, and how long a file waits', async (t) => {
  const own = new PdfReader({ ...PDF_LIMITS, ms: 120_000, waitMs: 500 });
  await t.rejects(
    own.read(pdfOf([['text']]), { ...request(), used: { ms: PDF_LIMITS.requestMs } }),
    refusal('file_too_large', /PDF files take more than 60 seconds/),
  );
  const client = new AbortController();
  const slow = own.read(bombOf(Buffer.alloc(64 * 1024 ** 2, '0 0 m ')), request(client.signal));
  const ended = Promise.allSettled([slow]);
  await t.rejects(own.read(pdfOf([['text']]), request()), { code: 'capacity_exhausted' });
  client.abort(new Error('left'));
  await ended;
});

t.test('ends a thread whose objects take too much memory', async (t) => {
  const names = pdfOf([{ content: Buffer.from(Array.from({ length: 2e6 }, (_, at) => `/n${at} gs `).join('')) }]);
  await t.rejects(read(names, { heapMib: 32 }), refusal('file_too_large', /too much memory/));
});

t.test('ends the thread when the client disconnects', async (t) => {
  const slow = bombOf(Buffer.alloc(64 * 1024 ** 2, '0 0 m '));
  const client = new AbortController();
  const own = new PdfReader();
  const both = Promise.allSettled([1, 2].map(() => own.read(slow, request(client.signal))));
  setTimeout(() => client.abort(new Error('left')), 500);
  for (const one of await both) t.match(one, { reason: { message: 'left' } });
  t.same(await own.read(pdfOf([['next']]), request()), ['next'], 'the slot is free again');
});

t.test('an organization with slow files does not delay another', async (t) => {
  const slow = bombOf(Buffer.alloc(64 * 1024 ** 2, '0 0 m '));
  const client = new AbortController();
  const own = new PdfReader();
  const running = Promise.allSettled([1, 2, 3].map(() => own.read(slow, request(client.signal))));
  t.same(await own.read(pdfOf([['mine']]), request(undefined, 'org_b')), ['mine']);
  client.abort(new Error('left'));
  for (const one of await running) t.match(one, { reason: { message: 'left' } });
});
