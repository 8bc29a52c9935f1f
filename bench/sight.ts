// Measures the time to first token for requests with an image. This server and, optionally, a peer such as llama-server
// take turns, both with the same text model and vision file. Every request has a new image, so that no cache helps.
//
//   npm run bench -- sight --like SMALL.gguf --peer llama-server
//
// SMALL.gguf can be any small text model of the Gemma 3 architecture whose vocabulary has <start_of_image> and
// <end_of_image>. The benchmark writes a 1B model with the same metadata and a SigLIP so400m, both with random F16
// weights. Wall-clock time depends on other load on the machine, so each server's CPU time is reported too. On a
// machine that is not idle, compare the CPU times.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import sharp from 'sharp';

import { postTo, processorSecondsOf, startOurs, startPeer, type ComparedServer } from './lib/compared-servers.js';
import { commit, machine } from './lib/machine.js';
import { mix } from './lib/random-weights.js';
import { makeRandomEncoder } from './lib/random-encoder.js';
import { spreadOf } from './lib/statistics.js';
import { makeModel } from './make-model.js';

const USAGE = `npm run bench -- sight --like FILE [options]

  --like FILE      small text model of the Gemma 3 architecture whose vocabulary has the image markers
  --text FILE, --vision FILE   existing text model and vision file to use instead
  --out DIR        folder for the written pair (default bench/out)
  --peer PROGRAM   llama-server, measured alternately
  --layers N       layers of the vision encoder (default 27, as in SigLIP so400m)
  --threads N      threads of each server (default 2); with 1, no thread busy-waits for another, so CPU seconds measure only the work
  --side N         width and height of the image in pixels (default 896)
  --repeats N      measured images per server (default 3), after one warm-up image
  --precision fast|exact   precision of this server's vision encoder (default fast)
  --json OUT       write all results to OUT
`;

/** The shape of Gemma 3 1B. Every sixth layer has global attention. */
const ROW = 1_152;
const SHAPE = {
  block_count: '26',
  embedding_length: String(ROW),
  feed_forward_length: '6912',
  'attention.head_count': '4',
  'attention.head_count_kv': '1',
  'attention.key_length': '256',
  'attention.value_length': '256',
  'attention.sliding_window': '512',
};

interface Sight {
  readonly seconds: number;
  readonly processorSeconds: number;
}

export async function sightBenchCommand(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({
    args,
    strict: true,
    options: {
      like: text,
      text,
      vision: text,
      out: text,
      peer: text,
      threads: text,
      side: text,
      repeats: text,
      precision: text,
      layers: text,
      json: text,
      help: { type: 'boolean' },
    },
  });
  if (
    values.help === true ||
    (values.like === undefined && (values.text === undefined || values.vision === undefined))
  ) {
    process.stdout.write(USAGE);
    return;
  }
  const out = resolve(values.out ?? join('bench', 'out'));
  const model =
    values.text ??
    makeModel({ like: values.like!, set: SHAPE, type: 'q8_0', out: join(out, 'sight-text-1b-q8_0.gguf') }).path;
  const layers = Number(values.layers ?? 27);
  const vision = values.vision ?? join(out, `sight-so400m-${layers}-f16.mmproj.gguf`);
  if (values.vision === undefined) makeRandomEncoder({ out: vision, rowWidth: ROW, layers });
  const threads = values.threads ?? '2',
    side = Number(values.side ?? 896),
    repeats = Number(values.repeats ?? 3);
  const precision = values.precision ?? 'fast';

  const data = mkdtempSync(join(tmpdir(), 'monolith-sight-'));
  const servers: ComparedServer[] = [];
  try {
    servers.push(
      await startOurs({ model: 'sight', file: model, data }, [
        '--threads',
        threads,
        '--max-context',
        '2048',
        '--models',
        JSON.stringify({ sight: { vision, vision_precision: precision } }),
      ]),
    );
    if (values.peer !== undefined) {
      const flags = ['-m', model, '--mmproj', vision, '-t', threads, '-tb', threads];
      servers.push(await startPeer(values.peer, [...flags, '-c', '2048', '--parallel', '1', '--no-warmup']));
    }
    const sights = new Map<string, Sight[]>(servers.map(({ name }) => [name, []]));
    for (let pass = 0; pass <= repeats; pass++) {
      for (const server of servers) {
        const sight = await see(server, await picture(side, pass));
        process.stdout.write(
          `${pass === 0 ? 'warm-up ' : ''}${server.name}: ${sight.seconds.toFixed(2)} s to the first token, ${sight.processorSeconds.toFixed(2)} s of CPU time; load ${loadavg()[0]!.toFixed(1)}\n`,
        );
        if (pass > 0) sights.get(server.name)!.push(sight);
      }
    }
    const results = [...sights].map(([name, all]) => ({
      name,
      seconds: spreadOf(all.map(({ seconds }) => seconds)),
      processorSeconds: spreadOf(all.map(({ processorSeconds }) => processorSeconds)),
    }));
    for (const { name, seconds, processorSeconds } of results)
      process.stdout.write(
        `${name.padEnd(6)} median ${seconds.median.toFixed(2)} s, ${processorSeconds.median.toFixed(2)} s of CPU time\n`,
      );
    const [ours, peer] = results;
    if (ours !== undefined && peer !== undefined) {
      process.stdout.write(
        `peer / ours: ${(peer.seconds.median / ours.seconds.median).toFixed(2)} in wall-clock time, ${(peer.processorSeconds.median / ours.processorSeconds.median).toFixed(2)} in CPU time\n`,
      );
    }
    if (values.json !== undefined)
      writeFileSync(
        values.json,
        `${JSON.stringify({ bench: 'sight', commit: commit(), at: new Date().toISOString(), machine: machine(), threads: Number(threads), layers: values.vision === undefined ? layers : null, side, repeats, precision, load: loadavg(), results }, null, 2)}\n`,
      );
  } finally {
    for (const { child } of servers) child.kill('SIGKILL');
    rmSync(data, { recursive: true, force: true });
  }
}

/** Creates an image of smooth shapes with noise that differs in every pass. */
async function picture(side: number, seed: number): Promise<string> {
  const pixels = Buffer.alloc(side * side * 3);
  for (let y = 0, at = 0; y < side; y++) {
    for (let x = 0; x < side; x++, at += 3) {
      const noise = mix(y * side + x, seed + 1) & 31;
      for (let c = 0; c < 3; c++)
        pixels[at + c] = Math.floor(112 + 100 * Math.sin((x * (c + 1) + y * (seed + 2)) / 90)) + noise;
    }
  }
  return (
    await sharp(pixels, { raw: { width: side, height: side, channels: 3 } })
      .png({ compressionLevel: 1 })
      .toBuffer()
  ).toString('base64');
}

/** Sends a request and measures the time to the first event with a token. */
async function see(server: ComparedServer, base64: string): Promise<Sight> {
  const body = {
    model: 'sight',
    stream: true,
    max_tokens: 2,
    temperature: 0,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: `data:image/png;base64,${base64}` } },
          { type: 'text', text: 'What is this?' },
        ],
      },
    ],
  };
  const before = processorSecondsOf(server),
    began = performance.now();
  const answer = await postTo(server, '/v1/chat/completions', body);
  if (answer.body === null) throw new Error(`${server.name} returned no body`);
  let first: Sight | null = null,
    received = '';
  for await (const chunk of answer.body) {
    received += Buffer.from(chunk as Uint8Array).toString('utf8');
    // Matches a token's text, or the finish reason if there is no text.
    if (first === null && /"content":"[^"]|"finish_reason":"/.test(received))
      first = { seconds: (performance.now() - began) / 1_000, processorSeconds: processorSecondsOf(server) - before };
  }
  if (first === null) throw new Error(`${server.name} returned no token: ${received.slice(0, 400)}`);
  return first;
}
