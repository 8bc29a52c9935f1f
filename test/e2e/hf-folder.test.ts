// Serves a Hugging Face directory and a GGUF file with the same weights. Clients must get the same responses from both.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { writeCheckpoint } from '../support/checkpoint.js';
import { embeddedModel, main, startMonolith } from './monolith.js';

t.setTimeout(300_000); // the machine may be busy

const scratch = mkdtempSync(join(tmpdir(), 'monolith-folder-'));
t.teardown(() => rmSync(scratch, { recursive: true, force: true }));
const folder = join(scratch, 'starter');
// Writes the 8-bit weights as floats. Loading the directory quantizes them to the same 8 bits again.
writeCheckpoint(embeddedModel, folder, 2);

function run(args: string[]): { status: number | null; out: string; err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    maxBuffer: 1 << 28,
    env: { ...process.env, MONOLITH_DATA_DIR: join(scratch, 'data') },
  });
  return { status, out: stdout, err: stderr };
}

t.test('a folder and a file with the same weights give the same responses', async (t) => {
  const overrides = { folder: { quantize: 'q8_0', sampling: { temperature: 1, top_k: 0 } } };
  const server = await startMonolith({
    args: [
      '--model',
      `file=${embeddedModel}`,
      '--model',
      `folder=${folder}`,
      '--model',
      `floats=${folder}`,
      '--models',
      JSON.stringify(overrides),
      '--threads',
      '1',
    ],
  });
  t.teardown(() => server.stop());
  // The end token is banned, because the small model would otherwise end its response too early.
  const ask = async (model: string, sampling: object): Promise<{ content: string; usage: object }> => {
    const response = await fetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model,
        messages: [{ role: 'user', content: 'Tell me about 12 foxes, Ünïcödé and <|im_end|>.' }],
        max_tokens: 24,
        logit_bias: { 1527: -100 },
        ...sampling,
      }),
    });
    t.equal(response.status, 200, model);
    const { choices, usage } = (await response.json()) as {
      choices: [{ message: { content: string } }];
      usage: object;
    };
    return { content: choices[0].message.content, usage };
  };
  for (const sampling of [{ temperature: 0 }, { temperature: 1, seed: 7 }]) {
    const [file, quantized] = [await ask('file', sampling), await ask('folder', sampling)];
    t.ok(file.content.length > 0);
    t.same(quantized, file);
  }
  // Without quantization, the checkpoint's weights are used as floats, so only the prompt length can be compared.
  t.match((await ask('floats', { temperature: 0 })).usage, {
    prompt_tokens: (await ask('file', { temperature: 0 })).usage['prompt_tokens' as never],
  });
});

t.test('the inspect and models commands describe folders', (t) => {
  const report = run(['inspect', folder]);
  t.equal(report.status, 0, report.err);
  for (const word of ['llama', '"starter"', 'mostly F32', '1535 tokens', 'chat template  1030 characters'])
    t.match(report.out, word);
  t.match(run(['inspect', folder, '--quantize', 'q4_0']).out, 'mostly Q4_0');
  t.match(
    run(['inspect', folder, '--quantize', 'q4_k']).out,
    'mostly Q8_0',
    'the length of its rows is not a multiple of 256 values',
  );
  t.match(run(['inspect', folder, '--quantize', 'q9']), {
    status: 2,
    err: 'monolith: inspect: --quantize takes q8_0, q6_k, q4_k, q4_0, fp8, not "q9"\n',
  });
  const [listed] = JSON.parse(run(['models', '--model', `mine=${folder}`, '--json']).out) as [
    { file: string; sampling: object },
  ];
  t.match(
    listed,
    { file: folder, sampling: { temperature: 0.7, top_k: 20, top_p: 1 } },
    'it has the sampling settings that its authors recommend, as far as they are supported',
  );
  t.match(run(['models', '--model', `mine=${folder}`]).out, /mine\s+5\.\d+ MiB/);
  t.end();
});

t.test('an error in a folder names the file and the key', (t) => {
  const path = join(folder, 'config.json');
  const config = readFileSync(path, 'utf8');
  writeFileSync(path, config.replace('"silu"', '"relu"'));
  t.match(run(['inspect', folder]), {
    status: 2,
    err: `monolith: inspect: ${folder}: config.json: 'hidden_act' is 'relu', expected 'silu'\n`,
  });
  writeFileSync(path, config);
  const bare = join(scratch, 'data');
  t.match(run(['serve', '--port', '0', '--model', `mine=${bare}`]), {
    status: 1,
    err: /is neither a file nor a folder with a config\.json/,
  });
  t.end();
});
