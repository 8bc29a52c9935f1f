// Pulls a model from a local test hub, lists it, serves it and chats with it, all with real processes.

import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import t from 'tap';
import { Progress } from '../../src/cli/progress.js';
import { embeddedModel, eventually, main, startMonolith } from '../e2e/monolith.js';
import { startHub } from '../support/hub-server.js';

t.setTimeout(300_000);

t.test('pulls a model from a hub and generates a response', async (t) => {
  const hub = await startHub({
    'acme/tiny-GGUF': {
      files: { 'tiny-Q8_0.gguf': readFileSync(embeddedModel), 'tiny-F16.gguf': Buffer.alloc(5_000_000) },
      token: 'hf_right',
    },
  });
  const folder = mkdtempSync(join(tmpdir(), 'monolith-pull-'));
  t.teardown(async () => {
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const env = {
    HOME: join(folder, 'home'),
    XDG_STATE_HOME: '',
    HF_ENDPOINT: hub.endpoint,
    HF_TOKEN: 'hf_right',
    HF_HUB_CACHE: join(folder, 'hub'),
    MONOLITH_DATA_DIR: join(folder, 'data'),
  };
  const monolith = (
    args: string[],
    input = '',
    more: Record<string, string> = {},
  ): Promise<{ status: number | null; out: string; err: string }> =>
    new Promise((resolve) => {
      const child = spawn(process.execPath, [main, ...args], { env: { ...process.env, ...env, ...more } });
      let out = '',
        err = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        out += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        err += text;
      });
      child.stdin.on('error', () => undefined).end(input);
      child.on('close', (status) => resolve({ status, out, err }));
    });

  t.match(await monolith(['pull']), {
    status: 2,
    err: 'monolith: pull: a model is required, such as OWNER/REPO:Q4_K_M\n',
  });
  t.match(await monolith(['pull', 'tiny']), {
    status: 1,
    out: '',
    err: /^monolith: "tiny" is not a model reference: .*\n$/,
  });
  t.match(await monolith(['pull', 'acme/tiny-GGUF'], '', { HF_TOKEN: '' }), {
    status: 1,
    out: '',
    err: /^monolith: acme\/tiny-GGUF@main: .*a token is required.*\n$/,
  });
  t.match(await monolith(['models', '--model', 'tiny=hf:acme/tiny-GGUF']), {
    status: 1,
    out: /^NAME .*\ntiny .*cannot be served: not downloaded yet: \S*monolith pull acme\/tiny-GGUF\n$/,
  });

  hub.faults = { answers: [{ status: 500 }] };
  const pulled = await monolith(['pull', 'acme/tiny-GGUF']);
  t.match(pulled, {
    status: 0,
    out: /^Downloaded: Q8_0, .*\n.*tiny-Q8_0\.gguf\n\nChat with it: +\S*monolith run acme\/tiny-GGUF:Q8_0\nServe it: +\S*monolith serve acme\/tiny-GGUF:Q8_0\n/,
    err: /^acme\/tiny-GGUF: 127\.0\.0\.1:\d+ returned status 500; retrying in 1 s\nacme\/tiny-GGUF: Q8_0, .*\n(.*\n)*tiny-Q8_0\.gguf +100 % .*\n$/,
  });
  t.notMatch(pulled.out + pulled.err, 'hf_right');
  t.match(await monolith(['pull', 'acme/tiny-GGUF', '--json']), { status: 0, out: /"fetched":0/ });

  const listed = await monolith(['models']);
  t.equal(listed.status, 0);
  t.match(
    listed.out,
    /hal-1\.0 .*\n(.*\n)*\nThese are small demonstration models\. For full-size models: \S*monolith models --recommended\n\nOn disk, .*monolith models serve.*\n\n.*\nacme\/tiny-GGUF:Q8_0 .* llama Q8_0 .* yes /,
  );
  const lines = JSON.parse((await monolith(['models', '--json'])).out) as {
    name: string;
    served: boolean;
    fits: string;
    file: string;
  }[];
  t.match(lines.at(-1), { name: 'acme/tiny-GGUF:Q8_0', served: false, fits: 'yes' });
  t.equal(basename(lines.at(-1)!.file), 'tiny-Q8_0.gguf');

  hub.seen.length = 0;
  // Under this name, the model has no sampling settings from the catalog, and one response in eight would consist only
  // of reasoning.
  const greedy = { MONOLITH_MODELS: '{"tiny":{"sampling":{"temperature":0}}}' };
  const said = await monolith(['run', 'acme/tiny-GGUF'], 'Hello\n', greedy);
  t.match(said, { status: 0, out: /^[^\n]+\n$/, err: /^API key: sk-\S+ .*\ntiny at http/ }, said.err);
  t.equal(hub.seen.length, 0, 'a cached model needs no hub');
  t.match(await monolith(['ps']), { status: 1, out: '', err: /^monolith: no server uses / });

  rmSync(join(folder, 'hub'), { recursive: true });
  const server = await startMonolith({ args: ['acme/tiny-GGUF:Q8_0'], env: { ...env, ...greedy } });
  t.teardown(() => server.stop());
  const answer = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${server.key}` } });
  t.match(await answer.json(), { data: [{ id: 'tiny', demonstration: false }] });
  t.ok(
    hub.seen.some(({ origin }) => origin === 'store'),
    'the server downloaded the model at start',
  );

  // Commands that use the running server. The server has a key that the commands do not know.
  const child = spawn(process.execPath, [main, 'logs', '-f', '-n0'], { env: { ...process.env, ...env } });
  t.teardown(() => child.kill());
  let followed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    followed += text;
  });
  t.match(JSON.parse((await monolith(['ps', '--json'])).out), {
    url: server.url,
    pid: server.process.pid,
    models: [{ names: ['tiny'], state: 'ready', running: 0, waiting: 0, problem: null }],
  });
  t.match(await monolith(['ps']), {
    status: 0,
    out: /^monolith \S+ at http.*, process \d+, up \d+ s\n\nMODEL .*\ntiny +loaded +[\d.]+ MiB +[\d.]+ [MG]iB +cpu +\d+ +0 of 32 +0\n$/,
  });
  for (const model of ['acme/tiny-GGUF', 'tiny']) {
    const shared = await monolith(['run', model, 'Hello']);
    t.match(shared, { status: 0, out: /^[^\n]+\n$/ }, shared.err);
    t.notMatch(shared.err, 'second');
  }
  // Greedy, because the small model sometimes samples a response that is all reasoning.
  const startersSampling = '{"starter":{"sampling":{"temperature":0}}}';
  t.match(await monolith(['run', embeddedModel, 'Hello'], '', { MONOLITH_MODELS: startersSampling }), {
    status: 0,
    err: /^The running server does not have starter; starting a second server /,
  });
  t.equal(statSync(join(folder, 'data', 'status.sock')).mode & 0o777, 0o600, 'only the same user may connect');
  t.match(await monolith(['rm', 'acme/tiny-GGUF', '--yes']), {
    status: 2,
    err: `monolith: rm: acme/tiny-GGUF is in use: the server at ${server.url} serves it as tiny\n`,
  });
  t.match(await monolith(['rm', 'tiny', '--yes']), {
    status: 2,
    err: /rm: tiny is not in the cache of downloaded models; it is served from .*tiny-Q8_0\.gguf\n$/,
  });
  t.match(await monolith(['doctor']), { status: 0, out: new RegExp(`ports +a server runs at ${server.url} `) });
  t.match(await monolith(['logs']), { status: 0, out: /"msg":"model loaded"/ });
  t.ok(await eventually(() => followed.includes('/v1/chat/completions')), 'logs -f shows new lines');
  child.stdout.destroy();
  t.notMatch(followed, 'model loaded', '-n0 shows no earlier lines');
  await server.stop();
  t.ok(await eventually(() => child.exitCode === 0), 'logs -f ends when its reader has closed the pipe');

  t.equal((await monolith(['models', 'serve', 'small', 'acme/tiny-GGUF:Q8_0'])).status, 0);
  t.match(await monolith(['rm', 'acme/tiny-GGUF', '--yes']), { status: 2, err: /models unserve small" first\n$/ });
  t.equal((await monolith(['models', 'unserve', 'small'])).status, 0);
  t.match(await monolith(['rm', 'qwen3-4']), {
    status: 2,
    err: /rm: "qwen3-4" is not a downloaded model; .* Did you mean qwen3-4b\? ".* models" lists the models on disk/,
  });
  t.match(await monolith(['rm', 'acme/tiny-GGUF']), { status: 2, err: /--yes is required/ });
  t.match(await monolith(['rm', 'acme/tiny-GGUF:Q8_0', '--yes']), {
    status: 0,
    out: /^deleted acme\/tiny-GGUF: Q8_0, .*\n$/,
  });
  t.match(await monolith(['rm', 'acme/tiny-GGUF', '--yes']), {
    status: 1,
    err: 'monolith: acme/tiny-GGUF is not on disk\n',
  });
});

t.test('shows progress as a bar on a terminal and as lines elsewhere', (t) => {
  let now = 0;
  let text = '';
  const out = (isTTY: boolean) => ({
    isTTY,
    columns: 200,
    write: (piece: string) => {
      text += piece;
    },
  });
  const bar = new Progress(out(true), () => now);
  for (now = 0; now <= 2_000; now += 50) bar.at('m.gguf', (now * 1_048_576) / 100, 40 * 1_048_576);
  t.match(text, /\r\u001b\[Km\.gguf {2}\[={6} {18}\] {2}25 % {2}10 MiB of 40 MiB {2}10 MiB\/s {2}0:03 left/);
  t.ok(text.split('\r').length <= 23, 'the bar is drawn at most ten times per second');
  bar.end();
  t.ok(text.endsWith('\n'));
  text = '';
  const lines = new Progress(out(false), () => now);
  for (now = 0; now <= 25_000; now += 100) lines.at('m.gguf', now, 100_000);
  lines.at('m.gguf', 100_000, 100_000);
  t.match(text, /^m\.gguf {2}0 % .*\nm\.gguf {2}10 % .*\nm\.gguf {2}20 % .*\nm\.gguf {2}100 % .*\n$/);
  t.notMatch(text, '\u001b');
  t.end();
});
