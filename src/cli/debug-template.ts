// monolith debug template: renders a chat template for contexts read from stdin, as Jinja2 would with transformers'
// settings.
import { readFile } from 'node:fs/promises';
import { UsageError } from '../config/arguments.js';
import { templateRenderer } from '../generation/render-template.js';

/** Prints one JSON line per context, with its text or an error. */
export async function debugTemplate(path: string): Promise<number> {
  let source: string;
  try {
    source = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`debug: cannot read ${path}: ${(error as Error).message}`, error);
  }
  const render = templateRenderer(source);
  for await (const line of linesOf(process.stdin)) process.stdout.write(`${JSON.stringify(render(line))}\n`);
  return 0;
}

// node:readline would also split at U+2028, which JSON allows within a string.
async function* linesOf(stream: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let pieces: Buffer[] = [];
  for await (let chunk of stream) {
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a)) {
      yield Buffer.concat([...pieces, chunk.subarray(0, end)]).toString();
      pieces = [];
      chunk = chunk.subarray(end + 1);
    }
    if (chunk.length > 0) pieces.push(chunk);
  }
  if (pieces.length > 0) yield Buffer.concat(pieces).toString();
}
