// Computes this project's results for variants.py: reads one JSON request per line from stdin and writes one result per
// line to stdout.

import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { loadConfig } from '../../dist/config/load.js';
import { loadAddon } from '../../dist/engine/load-addon.js';
import { loadOptions } from '../../dist/server/engine-settings.js';

const { config } = loadConfig({ argv: ['--threads', '1'] }, {});
const served = loadOptions(config);
const exact = { ...served, arithmetic: 'exact', kvType: 'f32' };
const addon = loadAddon();

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let answer;
  try {
    answer = asked.vision === undefined ? await text(asked) : await vision(asked);
  } catch (error) {
    answer = { refused: String(error.message) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

async function text({ model, ids, tokens }) {
  const of = (options) =>
    addon.debugLogits(model, options, Int32Array.from(ids), Int32Array.of(ids.length - 1), tokens);
  const result = await of(exact);
  const rounded = await of(served);
  return {
    logits: Array.from(result.positions[0].logits),
    last: Array.from(result.continuation.last.logits),
    tokens: Array.from(result.continuation.tokens),
    served: Array.from(rounded.positions[0].logits),
  };
}

async function vision({ model, vision: file, rgb, width, height, out }) {
  const picture = { width, height, pixels: readFileSync(rgb) };
  const { sequence } = await addon.debugVision(model, file, exact, 'See <__media__> there', [picture], 0);
  let text = '';
  const rows = [];
  for (const entry of sequence) {
    if (entry.tokens !== undefined) {
      for (const id of entry.tokens) text += `${id} `;
      continue;
    }
    text += `[${entry.nTokens}/${entry.nPositions}] `;
    rows.push(Buffer.from(entry.embeddings));
  }
  writeFileSync(out, Buffer.concat(rows));
  return { sequence: text };
}
