// Converts a prompt to the form in which the prefix cache compares prompts. Pure except for the engine's vocabulary.
import { createHash, hash } from 'node:crypto';
import type { NativeImage } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import type { PromptContent } from '../provider.js';
import type { ImagePart } from '../types.js';
import type { Prompt } from './prompter.js';

/** Tokens per page. Must match kPageTokens in native/backend/kv_cache.h. */
const PAGE_TOKENS = 16;

/** `images`: the prompt's images, in the same order. `snapshotTokens`: see LoadOptions. */
export function promptContent(
  engine: Pick<Engine, 'tokenBytes' | 'plan'>,
  prompt: Prompt,
  images: readonly NativeImage[],
  snapshotTokens: number,
): PromptContent {
  const { tokens, length } = prompt;
  return {
    keys: images.length === 0 ? tokens : withImages(prompt, images),
    history: length - endTokens(engine, prompt),
    // Recurrent state is saved only at snapshots, so a prefix of such a model can be reused only up to a snapshot.
    granularity: engine.plan.slotBytes > 0 ? Math.max(snapshotTokens, PAGE_TOKENS) : PAGE_TOKENS,
  };
}

/** Number of tokens of the generation prompt. A token that also contains text before it is included. */
function endTokens(engine: Pick<Engine, 'tokenBytes'>, { tokens, endBytes }: Prompt): number {
  let count = 0;
  for (let bytes = endBytes; bytes > 0 && count < tokens.length; count++)
    bytes -= engine.tokenBytes(tokens[tokens.length - 1 - count] as number).length;
  return count;
}

function withImages({ tokens, images: placed, length }: Prompt, images: readonly NativeImage[]): Int32Array {
  const keys = new Int32Array(length);
  let from = 0;
  let to = 0;
  for (const [index, { at, part }] of placed.entries()) {
    keys.set(tokens.subarray(from, at), to);
    to += at - from;
    from = at;
    const words = wordsOf(part);
    const end = to + (images[index] as NativeImage).tokens;
    for (let row = 0; to < end; row++, to++) keys[to] = (words[row % words.length] as number) | NEGATIVE;
  }
  keys.set(tokens.subarray(from), to);
  return keys;
}

const NEGATIVE = 0x8000_0000;

/** Large files are hashed in samples, because hashing whole photos would delay other requests. */
const SAMPLES = 16;
const SAMPLE_BYTES = 16 * 1024;

function sampleDigest(bytes: Uint8Array): Buffer {
  if (bytes.length <= SAMPLES * SAMPLE_BYTES) return hash('sha256', bytes, 'buffer');
  const step = (bytes.length - SAMPLE_BYTES) / (SAMPLES - 1);
  const sum = createHash('sha256').update(`${bytes.length}\n`);
  for (let sample = 0; sample < SAMPLES; sample++) {
    const from = Math.floor(sample * step);
    sum.update(bytes.subarray(from, from + SAMPLE_BYTES));
  }
  return sum.digest();
}

/** Returns four 32-bit words that identify an image file and its level of detail. */
function wordsOf({ source, detail }: ImagePart): Int32Array {
  if (source.kind !== 'loaded') throw new Error('the image was not loaded');
  const digest = sampleDigest(source.image.bytes);
  return Int32Array.from({ length: 4 }, (_, at) => digest.readInt32LE(4 * at) ^ (detail === 'low' ? 1 : 0));
}
