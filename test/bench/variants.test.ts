// Compares two settings of the engine and a peer, which is a script that reports fixed rates.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { variantsBenchCommand } from '../../bench/variants.js';

t.setTimeout(120_000); // the machine may be busy

const MODEL = join('test', 'data', 'vision', 'text-llama-bpe.gguf');

interface Result {
  readonly variants: Readonly<Record<string, { isa: string; arithmetic: string }>>;
  readonly rates: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;
}

t.test('measures every variant and peer once per round', async (t) => {
  const folder = t.testdir({});
  const script = (name: string, text: string): void => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`);
    chmodSync(join(folder, name), 0o755);
  };
  script('llama-bench', `case "$*" in *"-rtr 1"*) echo '[{"avg_ts": 21}]';; *) echo '[{"avg_ts": 7}]';; esac`);
  // Forks of llama.cpp print the table to stderr.
  script('llama-batched-bench', `echo '| 16 | 300 | 2 | 632 | 0.1 | 320.0 | 0.1 | 80.5 | 0.2 | 200.0 |' >&2`);
  const out = join(folder, 'variants.json');
  const peers = ['--peer', `peer=${folder}`, '--peer', `repacked=${folder} -rtr 1`];
  const lists = ['--prefill', '32', '--batch', '1,2', '--depth', '64', '--tokens', '300', '--rounds', '2'];
  await variantsBenchCommand([
    ...['--model', MODEL, '--variant', 'plain=plain', '--variant', 'exact=auto:exact', '--threads', '1'],
    ...[...peers, ...lists, '--json', out],
  ]);
  const { variants, rates } = JSON.parse(readFileSync(out, 'utf8')) as Result;
  t.strictSame(variants, {
    plain: { isa: 'plain', arithmetic: 'production' },
    exact: { isa: 'auto', arithmetic: 'exact' },
  });
  t.strictSame(Object.keys(rates), ['prefill 32', 'decode batch 1', 'decode batch 2', 'decode depth 64']);
  for (const [point, of] of Object.entries(rates))
    for (const label of ['plain', 'exact'])
      t.ok(of[label]?.length === 2 && of[label].every((rate) => rate > 0), `${label} has two rates for ${point}`);
  t.strictSame(rates['prefill 32']?.peer, [7, 7]);
  t.strictSame(rates['prefill 32']?.repacked, [21, 21], 'the arguments after the folder are passed on');
  t.strictSame(rates['decode batch 2']?.peer, [80.5, 80.5]);
  t.notOk(rates['decode batch 2'] !== undefined && 'repacked' in rates['decode batch 2']);
});

t.test('invalid options are refused with an error message', async (t) => {
  const model = ['--model', MODEL];
  for (const [options, message] of [
    [['--variant', 'amx'], /--variant: "amx" has no label; expected LABEL=…/],
    [['--variant', 'a=auto:quick'], /unknown arithmetic "quick"; expected one of exact, production, fast/],
    [['--variant', 'a=auto:fast:x'], /"a=auto:fast:x" has more than an ISA and an arithmetic/],
    [['--variant', 'a=auto', '--peer', 'a=/bin'], /the label "a" is used twice/],
    [['--rounds', '0'], /--rounds: "0" is not an integer of at least 1/],
    [['--batch', '1,x'], /--batch: "x" is not an integer of at least 1/],
  ] as const)
    await t.rejects(variantsBenchCommand([...model, ...options]), { message });
});
