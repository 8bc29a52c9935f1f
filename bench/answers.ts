// Checks the responses of the embedded models for loops and stray markers: sends many prompts through the whole server,
// with greedy and default sampling, with and without thinking.
//
//   npm run bench -- answers
//   npm run bench -- answers --model NAME=FILE.gguf --prompts 1000
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { packageRoot } from '../src/engine/load-addon.js';
import { commit, machine } from './lib/machine.js';
import { loopIn, promptsOf, strayMarkers } from './lib/answer-faults.js';

const USAGE = `npm run bench -- answers [options]

  --prompts N       prompts per model and kind of sampling (default 1000)
  --model NAME=FILE model to test instead of the embedded ones; takes the settings of --models
  --models JSON     settings of the models
  --clients N       concurrent requests (default 16)
  --json OUT        write every faulty response and all results to OUT
`;

const KEY = 'bench-answers-00000000';

interface Fault {
  model: string;
  way: string;
  prompt: string;
  answer: string;
  what: string;
}
interface Answer {
  content: string;
  finish: string;
}

export async function answersBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: { prompts: text, model: text, models: text, clients: text, json: text, help: { type: 'boolean' } },
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return;
  }
  const prompts = promptsOf(
    Number(values.prompts ?? 1_000),
    readFileSync(join(packageRoot, 'models', 'training', 'conversation', 'held_out.jsonl'), 'utf8'),
  );
  const data = mkdtempSync(join(tmpdir(), 'monolith-bench-'));
  const server = spawn(
    process.execPath,
    [
      join(packageRoot, 'dist', 'main.js'),
      'serve',
      '--log',
      'json',
      '--log-level',
      'silent',
      '--port',
      '0',
      '--data-dir',
      data,
      '--api-key',
      KEY,
      '--limits-rpm',
      'off',
      '--limits-tpm',
      'off',
      '--limits-concurrency',
      'off',
      ...(values.model === undefined ? [] : ['--model', values.model]),
      ...(values.models === undefined ? [] : ['--models', values.models]),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  try {
    const [line] = (await Promise.race([
      once(createInterface({ input: server.stdout }), 'line'),
      once(server, 'exit').then(() => ['']),
    ])) as [string];
    if (line === '') throw new Error('the server did not start');
    const { url, models } = JSON.parse(line) as { url: string; models: string[] };
    const faults: Fault[] = [];
    process.stdout.write(`${commit()}: ${prompts.length} prompts, up to 300 tokens each\n\n`);
    for (const model of models) {
      for (const [way, body] of [
        ['greedy', { temperature: 0, reasoning_effort: 'none' }],
        ['greedy, thinking', { temperature: 0, reasoning_effort: 'medium' }],
        ['default sampling', {}],
      ] as const) {
        const found = await asked(url, model, prompts, body, Number(values.clients ?? 16));
        const mine = found.flatMap(({ content }, at): Fault[] =>
          [...strayMarkers(content), ...loopIn(content)].map((what) => ({
            model,
            way,
            prompt: prompts[at] ?? '',
            answer: content,
            what,
          })),
        );
        faults.push(...mine);
        const cut = found.filter(({ finish }) => finish === 'length').length;
        process.stdout.write(
          `${model.padEnd(12)} ${way.padEnd(22)} stray markers ${mine.filter(({ what }) => what.startsWith('marker')).length}, loops ${mine.filter(({ what }) => what.startsWith('loop')).length}; ${cut} truncated\n`,
        );
      }
    }
    for (const { model, way, what, prompt, answer } of faults.slice(0, 10))
      process.stdout.write(
        `\n${model}, ${way}: ${what}\n  ${JSON.stringify(prompt)}\n  ${JSON.stringify(answer.slice(0, 300))}\n`,
      );
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ machine: machine(), commit: commit(), prompts: prompts.length, faults }, null, 1)}\n`,
      );
    process.exitCode = faults.length > 0 ? 1 : 0;
  } finally {
    server.kill();
    await once(server, 'exit');
    rmSync(data, { recursive: true, force: true });
  }
}

async function asked(
  url: string,
  model: string,
  prompts: readonly string[],
  body: object,
  clients: number,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: clients }, async () => {
      for (let at = next++; at < prompts.length; at = next++) {
        const response = await fetch(`${url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
          body: JSON.stringify({
            model,
            max_tokens: 300,
            seed: at,
            messages: [{ role: 'user', content: prompts[at] }],
            ...body,
          }),
        });
        const answer = (await response.json()) as {
          choices?: { message: { content: string | null }; finish_reason: string }[];
          error?: { message: string };
        };
        const choice = answer.choices?.[0];
        if (choice === undefined)
          throw new Error(answer.error?.message ?? `the server responded with status ${response.status}`);
        answers[at] = { content: choice.message.content ?? '', finish: choice.finish_reason };
      }
    }),
  );
  return answers;
}
