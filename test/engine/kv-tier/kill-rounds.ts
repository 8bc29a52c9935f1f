// Kills a process that runs an engine with its storage tier, in several rounds. In each round, the process repeats some
// requests of earlier rounds, then runs new requests whose pages are exported, and is killed with SIGKILL. Pages that
// are read from disk must lead to the same output tokens as prefilling the prompt. Pages that the process reported as
// written must be found.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { TieredEngine } from '../../../bench/lib/tiered-engine.js';
import { loadOptions, starterPath, submitOptions } from '../../addon/starter.js';

const TOKENS = 160;
const FULL_PAGES = 16 * Math.floor((TOKENS - 1) / 16);
/** Number of requests of earlier rounds that are repeated in each round. */
const CHECKED = 12;

interface Answered {
  readonly seed: number;
  readonly tokens: string;
  /** After this response, the process reported that no pages were waiting to be written. */
  isWritten: boolean;
}
type Line =
  | { readonly type: 'answered'; readonly seed: number; readonly tokens: string }
  | { readonly type: 'written'; readonly seed: number }
  | { readonly type: 'wrong'; readonly text: string }
  | { readonly type: 'checked'; readonly read: number };

export interface KillResult {
  readonly rounds: number;
  /** Rounds in which the process was killed when no pages were waiting to be written. */
  readonly settled: number;
  readonly answers: number;
  /** Number of prompts whose pages were read from disk. */
  readonly read: number;
  readonly failures: readonly string[];
}

export async function killRounds(rounds: number): Promise<KillResult> {
  const folder = mkdtempSync(join(tmpdir(), 'kv-kills-'));
  const answered: Answered[] = [];
  const failures: string[] = [];
  let read = 0;
  let settled = 0;
  try {
    // In the last round, the process only repeats requests of earlier rounds.
    for (let round = 0; round <= rounds; round++) {
      const waits = round % 2 === 1;
      const isLast = round === rounds;
      const checked = [...answered.slice(-3), ...sample(answered.slice(0, -3), CHECKED - 3)];
      const child = spawn(process.execPath, [fileURLToPath(import.meta.url), folder], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const exited = new Promise((resolve) => child.once('exit', resolve));
      child.stdin.end(JSON.stringify({ checked, first: isLast ? null : round * 1_000, waits }));
      const wanted = 1 + Math.floor(Math.random() * 4);
      let count = 0;
      let isChecked = false;
      for await (const text of createInterface({ input: child.stdout })) {
        const line = JSON.parse(text) as Line;
        if (line.type === 'wrong') failures.push(`round ${round}: ${line.text}`);
        else if (line.type === 'checked') {
          read += line.read;
          isChecked = true;
        } else if (line.type === 'answered') answered.push({ ...line, isWritten: false });
        else answered.find(({ seed }) => seed === line.seed)!.isWritten = true;
        if (line.type !== (waits ? 'written' : 'answered') || ++count < wanted) continue;
        if (waits) settled++;
        else await new Promise((done) => setTimeout(done, Math.random() * 60));
        child.kill('SIGKILL');
        break;
      }
      await exited;
      if (!isChecked) failures.push(`round ${round}: the process has ended before it had checked anything`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { rounds, settled, answers: answered.length, read, failures };
}

function sample<T>(all: readonly T[], count: number): T[] {
  if (all.length <= count) return [...all];
  return Array.from({ length: count }, () => all[Math.floor(Math.random() * all.length)]!);
}

async function work(folder: string): Promise<void> {
  let input = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) input += String(chunk);
  const { checked, first, waits } = JSON.parse(input) as {
    checked: Answered[];
    first: number | null;
    waits: boolean;
  };
  const say = (line: Line): void => void process.stdout.write(`${JSON.stringify(line)}\n`);
  const tiered = await TieredEngine.open({ model: starterPath, load: loadOptions, folder });
  const request = (seed: number) =>
    submitOptions(
      Int32Array.from({ length: TOKENS }, (_, i) => 3 + ((i * 37 + seed * 11 + (seed >> 4) * (i % 7)) % 90)),
      { maxTokens: 4, ignoreEos: true },
    );
  let read = 0;
  for (const { seed, tokens, isWritten } of checked) {
    const pages = await tiered.read(request(seed).prompt, 100);
    if (pages.tokens > 0) read++;
    if (isWritten && pages.tokens !== FULL_PAGES && pages.miss?.reason !== 'in memory')
      say({ type: 'wrong', text: `only ${pages.tokens} tokens of prompt ${seed} are found (${pages.miss?.reason})` });
    pages.release();
    const again = (await tiered.answer({ ...request(seed), organization: 100 }, false)).tokens.join(' ');
    if (again !== tokens) say({ type: 'wrong', text: `prompt ${seed} gives ${again} instead of ${tokens}` });
  }
  say({ type: 'checked', read });
  if (first === null) return tiered.close();
  for (let seed = first; ; seed++) {
    const { tokens } = await tiered.answer(request(seed));
    say({ type: 'answered', seed, tokens: tokens.join(' ') });
    if (!waits) continue;
    await tiered.written();
    say({ type: 'written', seed });
  }
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href)
  await work(process.argv[2]!);
