// Measures the throughput of embeddings: runs this server and llama-server alternately with the same model file and
// texts.
//
//   npm run bench -- make-model --like SMALL_ENCODER.gguf --set block_count=12 … --out embed.gguf
//   npm run bench -- embeddings --model embed.gguf --peer llama-server --peer-batch 512,2048,8192
//
// Inputs are token IDs, so that both servers compute the same number of tokens. Every request has new texts. The peer
// runs as a separate server for each batch size, and only the best result is compared. Wall-clock time depends on other
// load on the machine, so CPU time is reported too.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { postTo, processorSecondsOf, startOurs, startPeer, type ComparedServer } from './lib/compared-servers.js';
import { commit, machine } from './lib/machine.js';
import { mix } from './lib/random-weights.js';
import { spreadOf } from './lib/statistics.js';

const USAGE = `npm run bench -- embeddings --model FILE [options]

  --model FILE        embedding model
  --peer PROGRAM      llama-server, measured alternately
  --peer-batch LIST   its batch sizes in tokens (default 512,2048,8192), each measured as a separate server
  --texts N           texts per request (default 64)
  --tokens N          tokens per text (default 128)
  --vocabulary N      token IDs are below this number (default 300)
  --threads N         threads of each server (default 2)
  --repeats N         measured requests per server (default 5), after one warm-up request
  --json OUT          write all results to OUT
`;

/** Token IDs below this value can be special tokens. */
const FIRST_TOKEN = 10;
const MODEL = 'embed';

interface Measured {
  readonly label: string;
  readonly server: ComparedServer;
  readonly seconds: number[];
  readonly processorSeconds: number[];
}

export async function embeddingsBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      model: text,
      peer: text,
      'peer-batch': text,
      texts: text,
      tokens: text,
      vocabulary: text,
      threads: text,
      repeats: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (values.help === true || values.model === undefined) {
    process.stdout.write(USAGE);
    return;
  }
  const file = values.model;
  const texts = Number(values.texts ?? 64);
  const tokens = Number(values.tokens ?? 128);
  const vocabulary = Number(values.vocabulary ?? 300);
  const threads = values.threads ?? '2';
  const repeats = Number(values.repeats ?? 5);
  const batches = values.peer === undefined ? [] : (values['peer-batch'] ?? '512,2048,8192').split(',');

  const data = mkdtempSync(join(tmpdir(), 'monolith-embeddings-'));
  const measured: Measured[] = [];
  const add = (label: string, server: ComparedServer): void => {
    measured.push({ label, server, seconds: [], processorSeconds: [] });
  };
  try {
    add('ours', await startOurs({ model: MODEL, file, data }, ['--threads', threads]));
    for (const batch of batches)
      add(`peer, ${batch}`, await startPeer(values.peer!, peerFlags({ file, threads, batch, texts, tokens })));
    for (let pass = 0; pass <= repeats; pass++) {
      const input = inputOf(pass, { texts, tokens, vocabulary });
      for (const one of measured) {
        const before = processorSecondsOf(one.server);
        const began = performance.now();
        const answer = await postTo(one.server, '/v1/embeddings', { model: MODEL, input, encoding_format: 'base64' });
        const { data: vectors } = (await answer.json()) as { data: unknown[] };
        if (vectors.length !== texts) throw new Error(`${one.label}: ${vectors.length} vectors instead of ${texts}`);
        if (pass === 0) continue;
        one.seconds.push((performance.now() - began) / 1_000);
        one.processorSeconds.push(processorSecondsOf(one.server) - before);
      }
    }
    const results = measured.map(({ label, seconds, processorSeconds }) => ({
      label,
      seconds: spreadOf(seconds),
      processorSeconds: spreadOf(processorSeconds),
    }));
    for (const { label, seconds, processorSeconds } of results)
      process.stdout.write(
        `${label.padEnd(12)} median ${seconds.median.toFixed(2)} s, ${((texts * tokens) / seconds.median).toFixed(0)} tokens/s, ${processorSeconds.median.toFixed(2)} s of CPU time\n`,
      );
    const [ours, ...peers] = results;
    const best = peers.sort((a, b) => a.seconds.median - b.seconds.median)[0];
    if (ours !== undefined && best !== undefined)
      process.stdout.write(
        `${best.label} / ours: ${(best.seconds.median / ours.seconds.median).toFixed(2)} in wall-clock time, ${(best.processorSeconds.median / ours.processorSeconds.median).toFixed(2)} in CPU time\n`,
      );
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'embeddings', commit: commit(), at: new Date().toISOString(), machine: machine(), threads: Number(threads), texts, tokens, repeats, load: loadavg(), results }, null, 2)}\n`,
      );
  } finally {
    for (const { server } of measured) server.child.kill('SIGKILL');
    rmSync(data, { recursive: true, force: true });
  }
}

interface Size {
  readonly texts: number;
  readonly tokens: number;
}

/** The peer has one slot per text, so that a batch can contain as many texts as fit. */
function peerFlags(one: Size & { file: string; threads: string; batch: string }): string[] {
  const slots = Math.max(1, Math.min(one.texts, Math.floor(Number(one.batch) / one.tokens)));
  const flags = ['-m', one.file, '--embeddings', '-t', one.threads, '-tb', one.threads];
  return [...flags, '-b', one.batch, '-ub', one.batch, '-np', `${slots}`, '-c', `${slots * 512}`];
}

function inputOf(pass: number, { texts, tokens, vocabulary }: Size & { vocabulary: number }): number[][] {
  return Array.from({ length: texts }, (_, row) =>
    Array.from(
      { length: tokens },
      (_token, at) => FIRST_TOKEN + (mix(pass * texts + row, at + 1) % (vocabulary - FIRST_TOKEN)),
    ),
  );
}
