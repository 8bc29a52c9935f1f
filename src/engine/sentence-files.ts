// Reads the files that sentence-transformers adds to a Hugging Face model directory. modules.json lists the steps after
// the encoder. config_sentence_transformers.json contains the prompts that the model was trained with.
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { MAX_EMBEDDING_PROMPTS, MAX_PROMPT_TEXT } from '../config/kinds.js';

export interface SentenceFiles {
  /** Whether vectors are scaled to length 1. True if there is no valid modules.json. */
  readonly normalizes: boolean;
  /** Texts that the model expects before its inputs, by name. */
  readonly prompts: Readonly<Record<string, string>>;
  /** The prompt that applies if the request names none. Null if there is no default. */
  readonly defaultPrompt: string | null;
}

const MAX_FILE_BYTES = 1 << 20;

const modules = z.array(z.object({ type: z.string() }));
const promptFile = z.object({
  prompts: z.record(z.string(), z.string().max(MAX_PROMPT_TEXT)).nullish().catch(undefined),
  default_prompt_name: z.string().nullish().catch(undefined),
});

/**
 * `path`: a model directory. If it is a single file instead, there are no such settings. Missing and invalid files are
 * ignored.
 */
export function readSentenceFiles(path: string): SentenceFiles {
  const steps = modules.safeParse(jsonIn(path, 'modules.json')).data;
  const config = promptFile.safeParse(jsonIn(path, 'config_sentence_transformers.json')).data;
  const prompts = Object.fromEntries(Object.entries(config?.prompts ?? {}).slice(0, MAX_EMBEDDING_PROMPTS));
  const name = config?.default_prompt_name ?? null;
  return {
    normalizes: steps === undefined || steps.some(({ type }) => type.endsWith('.Normalize')),
    prompts,
    defaultPrompt: name === null ? null : (prompts[name] ?? null),
  };
}

function jsonIn(folder: string, name: string): unknown {
  try {
    const file = join(folder, name);
    return statSync(file).size > MAX_FILE_BYTES ? undefined : JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
