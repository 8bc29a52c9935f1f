// monolith debug vision: shows step by step how a text model and a vision encoder process a prompt with images. The
// output has the same fields as the vision test vectors.

import sharp from 'sharp';
import type { DebugVisionPiece, RgbImage } from '../engine/addon-debug-types.js';
import type { LoadOptions } from '../engine/addon-types.js';
import { loadAddon } from '../engine/load-addon.js';
import { visionFileOf } from '../engine/vision-file.js';
import type { Config } from '../config/settings.js';
import { loadOptions } from '../server/engine-settings.js';
import { UsageError } from '../config/arguments.js';
import { ofAddon } from './output.js';

export async function debugVision(
  file: string,
  values: ReadonlyMap<string, string>,
  paths: readonly string[],
  config: Config,
): Promise<number> {
  const vision = values.get('--vision') ?? visionFileOf({ file })?.path;
  const prompt = values.get('--prompt');
  if (vision === undefined)
    throw new UsageError('debug: --vision FILE is required: there is no vision file next to the model');
  if (prompt === undefined) throw new UsageError("debug: --prompt 'See <__media__>' is required");
  const images = await Promise.all(paths.map(decoded));
  const exact = values.has('--exact');
  const options: LoadOptions = { ...loadOptions(config), ...(exact ? { arithmetic: 'exact', kvType: 'f32' } : {}) };
  const count = values.get('--continue') ?? '0';
  if (!/^\d{1,4}$/.test(count)) throw new UsageError(`debug: --continue takes a number of tokens, not "${count}"`);
  const result = await ofAddon(() => loadAddon().debugVision(file, vision, options, prompt, images, Number(count)));
  const { continuation } = result;
  const embeddings = result.sequence.flatMap((entry) => (entry.tokens === undefined ? [floats(entry.embeddings)] : []));
  process.stdout.write(
    `${JSON.stringify({
      model: file,
      vision,
      arithmetic: options.arithmetic,
      prompt,
      images: paths,
      grids: result.grids.map((grid) => Array.from(grid)),
      sequence: result.sequence.map((entry) =>
        entry.tokens === undefined ? piece(entry) : { tokens: Array.from(entry.tokens), position: entry.position },
      ),
      n_tokens: result.nTokens,
      next_position: result.nPositions,
      embeddings_std: moments(embeddings).std,
      ...(continuation === null
        ? {}
        : {
            logits: base64(continuation.logits),
            ...moments([continuation.logits]),
            greedy: {
              tokens: Array.from(continuation.tokens),
              margins: Array.from(continuation.margins),
              last_logits: base64(continuation.lastLogits),
            },
          }),
    })}\n`,
  );
  return 0;
}

function piece(entry: DebugVisionPiece): object {
  const { positions } = entry;
  const { mean, std } = moments([floats(entry.embeddings)]);
  const every = (offset: number): number[] =>
    Array.from({ length: entry.nTokens }, (_, i) => positions?.[3 * i + offset] ?? 0);
  return {
    image: entry.image,
    part: entry.part,
    ...(entry.part === 'tile' ? { row: entry.row, column: entry.column } : {}),
    n_tokens: entry.nTokens,
    n_positions: entry.nPositions,
    position: entry.position,
    attention: entry.bidirectional ? 'non-causal' : 'causal',
    width: entry.width,
    height: entry.height,
    ...(positions === null ? {} : { positions_t: every(0), positions_y: every(1), positions_x: every(2) }),
    content_hash: entry.hash,
    pixels_u8_sha256: entry.pixelsU8Sha256,
    pixels_f32_sha256: entry.pixelsF32Sha256,
    embedding_size: entry.embeddingSize,
    embedding_rows: 'all',
    embeddings: Buffer.from(entry.embeddings).toString('base64'),
    embeddings_mean: mean,
    embeddings_std: std,
  };
}

/** The image's pixels: 8-bit RGB, with alpha removed without blending, grayscale expanded to RGB, and no rotation. */
async function decoded(path: string): Promise<RgbImage> {
  try {
    const { data, info } = await sharp(path)
      .removeAlpha()
      .toColourspace('srgb')
      .raw({ depth: 'uchar' })
      .toBuffer({ resolveWithObject: true });
    return { width: info.width, height: info.height, pixels: data };
  } catch (error) {
    throw new UsageError(`debug: ${path}: ${(error as Error).message}`, error);
  }
}

const base64 = (values: Float32Array): string =>
  Buffer.from(values.buffer, values.byteOffset, values.byteLength).toString('base64');
const floats = (bytes: Uint8Array): Float32Array =>
  new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

function moments(rows: readonly Float32Array[]): { mean: number; std: number } {
  let count = 0,
    sum = 0,
    squares = 0;
  for (const row of rows)
    for (const value of row) [count, sum, squares] = [count + 1, sum + value, squares + value * value];
  const mean = sum / Math.max(1, count);
  return { mean, std: Math.sqrt(Math.max(0, squares / Math.max(1, count) - mean * mean)) };
}
