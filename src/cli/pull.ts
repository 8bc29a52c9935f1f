// monolith pull: downloads weights from a model hub into the cache, verifies them, and shows how to serve them.

import { commandName } from './command-name.js';
import { constants } from 'node:os';
import { commandConfig } from './command-config.js';
import { bytes, showBytes } from '../config/kinds.js';
import { Hub } from '../hub/hub.js';
import { printable } from '../hub/hub-error.js';
import { parseModelRef, showModelRef } from '../hub/model-ref.js';
import type { ModelRef } from '../hub/model-ref.js';
import { recommendedModel } from '../shared/recommended-models.js';
import { totalMemory } from '../engine/machine-memory.js';
import type { PullProgress } from '../hub/pull.js';
import { noWords, UsageError } from '../config/arguments.js';
import type { OwnFlags } from '../config/arguments.js';
import { nameOfRepo } from './model-argument.js';
import { askedForHelp } from './output.js';
import { Progress, retryLine } from './progress.js';

const HELP = `
Usage: monolith pull OWNER/REPO[:QUANTIZATION][@REVISION] [--memory SIZE] [--json]
       monolith pull NAME

Downloads a model from the hub into the Hugging Face cache: GGUF files (single or split) with the vision projector, or
a folder with safetensors files. After ":" give a quantization such as Q4_K_M, a file name, or "safetensors". Without
it, the largest quantization of at most 8 bits per weight that fits into half of the memory is chosen; --memory sets the
memory of another machine. An interrupted download is resumed. Every file is verified against its hash.

NAME is a name from "monolith models --recommended".

Examples:
  monolith pull qwen3-4b
  monolith pull Qwen/Qwen3-8B-GGUF:Q4_K_M
  monolith pull OWNER/REPO --memory 16GiB          choose for a machine with 16 GiB

Settings: --hub-endpoint (HF_ENDPOINT), --hub-token (HF_TOKEN), --hub-cache (HF_HUB_CACHE).
`;

export const FLAGS: OwnFlags = { '--json': 'switch', '--memory': 'value' };

export async function pull(argv: string[]): Promise<number> {
  if (askedForHelp(argv, HELP)) return 0;
  const { config, values, words } = commandConfig(argv, FLAGS);
  const [named, ...others] = words;
  noWords(others);
  if (named === undefined) throw new UsageError('pull: a model is required, such as OWNER/REPO:Q4_K_M');
  const ref = parseModelRef(recommendedModel(named)?.ref ?? named);
  const memory = memoryOf(values.get('--memory'));

  const stop = new AbortController();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(128 + constants.signals[signal]);
    process.exitCode = 128 + constants.signals[signal];
    stop.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  const progress = new Progress(process.stderr);
  let said = false;
  const onProgress = (at: PullProgress): void => {
    if (!said)
      process.stderr.write(
        `${ref.repo}: ${at.quantization}, ${showBytes(at.total)}${at.kept > 0 ? `, ${showBytes(at.kept)} of which is already downloaded` : ''}\n`,
      );
    said = true;
    progress.at(
      printable(at.file.slice(at.file.lastIndexOf('/') + 1)),
      at.bytes,
      at.total,
      at.waiting ? 'waiting for another download of it' : '',
    );
  };
  const onRetry = (why: string, waitMs: number): void => {
    progress.end();
    process.stderr.write(`${retryLine(ref.repo, why, waitMs)}\n`);
  };
  try {
    const pulled = await new Hub(config).pull(ref, { memory, signal: stop.signal, onProgress, onRetry });
    progress.end();
    process.stdout.write(
      values.has('--json') ? `${JSON.stringify({ ref: showModelRef(ref), ...pulled })}\n` : summarize(ref, pulled),
    );
    return 0;
  } catch (error) {
    progress.end();
    if (stop.signal.aborted) {
      process.stderr.write(`monolith: ${(error as Error).message}\n`);
      return Number(process.exitCode);
    }
    throw error;
  }
}

function memoryOf(text: string | undefined): number {
  if (text === undefined) return totalMemory();
  const kind = bytes(1, 2 ** 50);
  const read = kind.schema.safeParse(text);
  if (!read.success) throw new UsageError(`pull: --memory must be ${kind.expects}`);
  return read.data;
}

function summarize(
  { repo, revision }: ModelRef,
  { quantization, path, projector, bytes: size, fetched }: Awaited<ReturnType<Hub['pull']>>,
): string {
  const name = nameOfRepo(repo);
  const served = showModelRef({ repo, weights: quantization, revision });
  const command = commandName();
  return `${fetched === 0 ? 'Already downloaded' : 'Downloaded'}: ${quantization}, ${showBytes(size)}${projector === null ? '' : ', with a vision projector'}
  ${path}

Chat with it:  ${command} run ${served}
Serve it:      ${command} serve ${served}
               ${command} models serve ${name} ${served}      (on the running server, and after a restart)
`;
}
