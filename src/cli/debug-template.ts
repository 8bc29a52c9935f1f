// monolith debug template: renders a chat template for contexts on stdin, as Jinja2 would with transformers' settings.
import { readFile } from 'node:fs/promises';
import { RenderBudget, TEMPLATE_LIMITS } from '../generation/local/template/limits.js';
import { parseJson } from '../generation/local/template/json.js';
import { Program } from '../generation/local/template/program.js';
import { Run } from '../generation/local/template/run.js';
import { Dict, TemplateFault, type Value } from '../generation/local/template/values.js';
import { UsageError } from '../config/arguments.js';

/** Prints one JSON line per context: its text, or an error. */
export async function debugTemplate(path: string): Promise<number> {
  const program = await programOf(path);
  for await (const line of linesOf(process.stdin)) process.stdout.write(`${JSON.stringify(outcome(program, line))}\n`);
  return 0;
}

/** The program, or why there is none. */
async function programOf(path: string): Promise<Program | string> {
  let source: string;
  try {
    source = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`debug: cannot read ${path}: ${(error as Error).message}`, error);
  }
  try {
    return new Program(source);
  } catch (error) {
    return messageOf(error);
  }
}

function outcome(program: Program | string, line: string): { text: string } | { error: string } {
  if (typeof program === 'string') return { error: program };
  try {
    const context = parseJson(line);
    if (!(context instanceof Dict)) return { error: 'the context is not a JSON object' };
    const now = context.get('now');
    const date = typeof now === 'string' ? new Date(now) : new Date();
    if (Number.isNaN(date.getTime())) return { error: '"now" is not a local time such as 2026-03-09T14:05:07' };
    const variables = [...context.entries()].filter(([name]) => name !== 'now') as [string, Value][];
    const run = new Run(new RenderBudget(TEMPLATE_LIMITS.mostSteps), () => date);
    return { text: program.render(run, [['documents', null], ...variables]) };
  } catch (error) {
    return { error: messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  if (error instanceof RangeError) return 'it is nested too deeply or recurses endlessly';
  return error instanceof TemplateFault ? error.message : (error as Error).message;
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
