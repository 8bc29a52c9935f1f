// Tests the multipart parser: bodies of real clients, in pieces of every size, and hostile bodies.
import t from 'tap';
import { boundaryOf, MultipartParser } from '../../src/http/multipart.js';
import type { PartHead } from '../../src/http/multipart.js';

interface Part {
  head: PartHead;
  text: string;
}

function parse(body: Uint8Array, boundary: string, pieceBytes: number): { parts: Part[]; isComplete: boolean } {
  const parser = new MultipartParser(boundary);
  const parts: (Part & { isEnded?: boolean })[] = [];
  for (let at = 0; at < body.length; at += pieceBytes)
    for (const event of parser.push(body.subarray(at, at + pieceBytes))) {
      if (event.kind === 'part') parts.push({ head: event.head, text: '' });
      else if (event.kind === 'data') parts.at(-1)!.text += Buffer.from(event.bytes).toString('latin1');
      else parts.at(-1)!.isEnded = true;
    }
  if (parser.isComplete && !parts.every(({ isEnded }) => isEnded)) throw new Error('a part has no end');
  return { parts: parts.map(({ head, text }) => ({ head, text })), isComplete: parser.isComplete };
}

const body = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const HEAD = 'Content-Disposition: form-data; name="a"';

t.test('the form of fetch() is parsed, in pieces of every size', async (t) => {
  const form = new FormData();
  const data = `\r\n--x\r\n-${'line\r\n'.repeat(20)}--`;
  form.append('file', new File([data], 'a "b"\n.txt', { type: 'Text/Plain' }));
  form.append('purpose', 'batch');
  form.append('empty', '');
  const response = new Response(form);
  const boundary = boundaryOf(response.headers.get('content-type')!);
  const bytes = new Uint8Array(await response.arrayBuffer());
  for (const size of [1, 2, 3, 7, 64, bytes.length]) {
    const { parts, isComplete } = parse(bytes, boundary, size);
    t.ok(isComplete);
    t.same(
      parts,
      [
        { head: { name: 'file', filename: 'a "b"\n.txt', mediaType: 'text/plain' }, text: data },
        { head: { name: 'purpose', filename: null, mediaType: null }, text: 'batch' },
        { head: { name: 'empty', filename: null, mediaType: null }, text: '' },
      ],
      `pieces of ${size} bytes`,
    );
  }
});

t.test('a preamble, an epilogue, padding and other forms of parameters are accepted', (t) => {
  const bytes = body(
    'ignored',
    '--b \t',
    'content-disposition: form-data; name=a; filename*=UTF-8\'\'%e2%82%ac.txt; filename="x"',
    '',
    'one',
    '--b',
    'Content-Disposition: form-data; name="q\\"\\\\"',
    'Content-Transfer-Encoding: binary',
    '',
    '',
    '--b--',
    'ignored --b',
  );
  for (const size of [1, 5, bytes.length])
    t.same(parse(bytes, 'b', size), {
      isComplete: true,
      parts: [
        { head: { name: 'a', filename: '€.txt', mediaType: null }, text: 'one' },
        { head: { name: 'q"\\', filename: null, mediaType: null }, text: '' },
      ],
    });
  t.end();
});

t.test('parameters within quoted values are not parameters', (t) => {
  const bytes = body(
    '--b',
    'Content-Disposition: form-data; filename="a; name=b; filename*=utf-8\'\'c"; name="file"',
    '',
    'one',
    '--b--',
    '',
  );
  t.same(parse(bytes, 'b', bytes.length), {
    isComplete: true,
    parts: [{ head: { name: 'file', filename: "a; name=b; filename*=utf-8''c", mediaType: null }, text: 'one' }],
  });
  t.end();
});

t.test('a truncated body is not complete', (t) => {
  const bytes = body('--b', HEAD, '', 'text', '--b');
  t.equal(parse(bytes, 'b', 4).isComplete, false);
  t.end();
});

t.test('malformed and excessive bodies are refused', (t) => {
  const refused = {
    'no name': body('--b', 'Content-Disposition: form-data', '', 'x', '--b--'),
    'no headers': body('--b', '', 'x', '--b--'),
    'not form-data': body('--b', 'Content-Disposition: attachment; name="a"', '', 'x', '--b--'),
    'text after a boundary': body('--bx', HEAD, '', 'x', '--b--'),
    'long padding': body(`--b${' '.repeat(1_000)}`, HEAD, '', 'x', '--b--'),
    'long headers': body('--b', HEAD, `X: ${'x'.repeat(10_000)}`, '', 'x', '--b--'),
    'headers without an end': body('--b', `X: ${'x'.repeat(10_000)}`),
    'too many parts': body(...Array.from({ length: 100 }, () => ['--b', HEAD, '', 'x']).flat(), '--b--'),
    base64: body('--b', HEAD, 'Content-Transfer-Encoding: base64', '', 'x', '--b--'),
    'a broken filename': body('--b', `${HEAD}; filename*=UTF-8''%ff`, '', 'x', '--b--'),
  };
  for (const [name, bytes] of Object.entries(refused))
    for (const size of [3, bytes.length])
      t.throws(() => parse(bytes, 'b', size), { status: 400, code: 'invalid_body' }, `${name}, ${size}`);
  t.end();
});

t.test('a Content-Type without a usable boundary is refused', (t) => {
  for (const type of [
    'multipart/form-data',
    'multipart/form-data; boundary=',
    `multipart/form-data; boundary=${'x'.repeat(71)}`,
    'multipart/form-data; boundary="a\tb"',
  ])
    t.throws(() => boundaryOf(type), { status: 400, code: 'invalid_header' }, type);
  for (const type of ['', 'application/json', 'multipart/mixed; boundary=b'])
    t.throws(() => boundaryOf(type), { status: 400, code: 'unsupported_media_type' }, type);
  t.equal(boundaryOf('Multipart/Form-Data; charset=utf-8; Boundary="a b"'), 'a b');
  t.end();
});
