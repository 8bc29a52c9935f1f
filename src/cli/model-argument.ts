// The MODEL argument of `serve`, `run` and `pull`: a file or directory, a repository on the hub, a recommended name, or
// NAME=SOURCE as in --model.

import { basename } from 'node:path';
import { existsSync } from 'node:fs';
import { UsageError } from '../config/arguments.js';
import { didYouMean } from '../config/did-you-mean.js';
import { expanded } from '../config/home.js';
import { isUpstreamAddress } from '../config/kinds.js';
import { quantizationOf } from '../hub/hub-files.js';
import { HUB_SCHEME, parseModelRef } from '../hub/model-ref.js';
import { RECOMMENDED, recommendedModel } from '../shared/recommended-models.js';
import { commandName } from './command-name.js';

export interface ModelArgument {
  /** The public name of the served model. */
  readonly name: string;
  /** A path, or `hf:OWNER/REPO...`: a source of the setting `model`. */
  readonly source: string;
}

/** `command`: the command's name, for errors. Throws UsageError, or HubError for an invalid reference. */
export function modelArgument(command: string, word: string): ModelArgument {
  const at = word.indexOf('=');
  // A file whose name contains "=" is still a file.
  if (at > 0 && !existsSync(expanded(word))) {
    const source = word.slice(at + 1);
    return {
      name: word.slice(0, at),
      source: isUpstreamAddress(source) ? source : modelArgument(command, source).source,
    };
  }
  if (existsSync(expanded(word))) return { name: nameOfFile(word), source: word };
  if (isUpstreamAddress(word)) throw new UsageError(`${command}: give the upstream model a name: NAME=${word}`);
  const recommended = recommendedModel(word);
  if (recommended !== undefined) return { name: recommended.name, source: HUB_SCHEME + recommended.ref };
  if (!isFileName(word) && (word.includes('/') || word.startsWith(HUB_SCHEME))) {
    const { repo } = parseModelRef(word);
    return { name: nameOfRepo(repo), source: word.startsWith(HUB_SCHEME) ? word : HUB_SCHEME + word };
  }
  if (isFileName(word)) throw new UsageError(`${command}: ${word}: no such file`);
  const names = RECOMMENDED.models.map(({ name }) => name);
  throw new UsageError(
    `${command}: "${word}" is not a file, OWNER/REPO or a recommended model.${didYouMean(word, names)} "${commandName()} models --recommended" lists models.`,
  );
}

const isFileName = (word: string): boolean => /^(\.{0,2}|~)\//.test(word) || /\.gguf$/i.test(word);

/** Qwen/Qwen3-4B-GGUF → qwen3-4b. */
export const nameOfRepo = (repo: string): string => cleaned(repo.slice(repo.indexOf('/') + 1));

/** models/hal-1.0-Q8_0.gguf → hal-1.0. */
function nameOfFile(path: string): string {
  const stem = basename(expanded(path))
    .replace(/\.gguf$/i, '')
    .replace(/-\d{5}-of-\d{5}$/, '');
  const quantization = quantizationOf(`${stem}.gguf`);
  const isSuffix = quantization !== null && stem.toUpperCase().endsWith(quantization);
  return cleaned(isSuffix ? stem.slice(0, -quantization.length) : stem);
}

/** A valid model name. */
function cleaned(text: string): string {
  const name = text
    .replace(/[-_.]?gguf$/i, '')
    .toLowerCase()
    .replace(/[^a-z0-9._:@-]+/g, '-')
    .replace(/^[^a-z0-9]+|[-_.:@]+$/g, '')
    .slice(0, 128);
  return name === '' ? 'model' : name;
}
