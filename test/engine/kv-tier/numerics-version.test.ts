// Stored KV pages are used by later releases as long as kNumericsVersion is the same, so logits must not change unless
// it does. Tests one file per family, on each instruction set that this machine supports. With
// MONOLITH_WRITE_NUMERICS=1, writes the hashes.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadOptions } from '../../addon/starter.js';
import { loadAddon, packageRoot } from '../../../src/engine/load-addon.js';

t.setTimeout(300_000);

interface Expected {
  version: number;
  /** The start of the SHA-256 hash of the logits, by file and instruction set. */
  hashes: Record<string, Record<string, string>>;
}

const EXPECTED = join(packageRoot, 'test', 'data', 'numerics.json');
const FILES = [
  'vectors/models/llama.q8_0.gguf',
  'vectors/models/llama.q4_k_m.gguf',
  'vectors/models/qwen3.f16.gguf',
  'vectors2/models/deepseek2-glm47flash.q8_0.gguf',
  'vectors2/models/deepseek32.q8_0.gguf',
  'vectors2/models/deepseek4.mxfp4_moe.gguf',
  'vectors2/models/falcon-h1.q8_0.gguf',
  'vectors2/models/gemma4-ple.q8_0.gguf',
  'vectors2/models/kimi-linear.q8_0.gguf',
  'vectors2/models/lfm2moe.q8_0.gguf',
  'vectors2/models/llama4.q4_0.gguf',
  'vectors2/models/mimo2.q8_0.gguf',
  'vectors2/models/mistral3.f16.gguf',
  'vectors2/models/nemotron-h-moe.q8_0.gguf',
  'vectors2/models/qwen35.f16.gguf',
];
const IDS = Int32Array.from({ length: 40 }, (_, i) => 3 + ((i * 37) % 90));

t.test('logits have the bits of this numerics version', async (t) => {
  const addon = loadAddon();
  const found: Expected = { version: addon.numericsVersion, hashes: {} };
  for (const file of FILES) {
    const path = join(packageRoot, 'test', 'data', file);
    if (!existsSync(path)) continue;
    const hashes: Record<string, string> = (found.hashes[file] = {});
    for (const isa of addon.isas) {
      const options = { ...loadOptions, threads: 1, isa, maxContext: 64 };
      const { positions } = await addon.debugLogits(path, options, IDS, Int32Array.of(0, 15, 16, 39), 0);
      const hash = createHash('sha256');
      for (const { logits } of positions) hash.update(Buffer.from(logits.buffer, logits.byteOffset, logits.byteLength));
      hashes[isa] = hash.digest('hex').slice(0, 32);
    }
  }
  if (process.env['MONOLITH_WRITE_NUMERICS'] === '1') {
    const before = existsSync(EXPECTED) ? (JSON.parse(readFileSync(EXPECTED, 'utf8')) as Expected) : null;
    const kept = before?.version === found.version ? before.hashes : {};
    for (const [file, hashes] of Object.entries(found.hashes)) found.hashes[file] = { ...kept[file], ...hashes };
    writeFileSync(EXPECTED, `${JSON.stringify(found, null, 2)}\n`);
  }
  const expected = JSON.parse(readFileSync(EXPECTED, 'utf8')) as Expected;
  t.equal(found.version, expected.version, 'kNumericsVersion has changed: write the hashes again');
  t.ok(Object.keys(found.hashes).length >= 3);
  for (const [file, hashes] of Object.entries(found.hashes))
    for (const [isa, hash] of Object.entries(hashes)) {
      const known = expected.hashes[file]?.[isa];
      // The hashes were never written on a machine with this instruction set.
      if (known === undefined) t.comment(`no hash for ${file} on ${isa}`);
      else t.equal(hash, known, `${file} on ${isa}: the bits have changed, increase kNumericsVersion`);
    }
});
