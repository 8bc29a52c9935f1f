// Writes vectors as JSON, in slices: a response with thousands of vectors can be 100 MB in size.
import type { Exchange } from '../../http/exchange.js';
import { JsonText } from '../../http/json-text.js';
import { inTurns } from '../../shared/in-turns.js';

export type VectorEncoding = 'float' | 'base64';

/** Approximate memory per value of a vector, in bytes: the value itself plus its text in the response. */
const BYTES_PER_VALUE: Readonly<Record<VectorEncoding, number>> = { float: 4 + 14, base64: 4 + 6 };

export const vectorBytes = (encoding: VectorEncoding, values: number): number => BYTES_PER_VALUE[encoding] * values;

/** Nine significant digits are enough to restore a 32-bit float exactly. */
const DIGITS = 9;

/** Returns a vector as JSON: a list of numbers, or a base64 string of little-endian 32-bit floats. */
export function vectorText(vector: Float32Array, encoding: VectorEncoding): string {
  if (encoding === 'base64')
    return `"${Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')}"`;
  let text = '[';
  for (let at = 0; at < vector.length; at++) text += (at === 0 ? '' : ',') + (vector[at] as number).toPrecision(DIGITS);
  return `${text}]`;
}

/**
 * Returns the text `before`, the comma-separated entries of all vectors, and the text `after`. Yields to other requests
 * between slices and charges the event-loop time to the organization.
 */
export async function writeVectors(
  exchange: Exchange,
  vectors: readonly Float32Array[],
  entry: (vector: Float32Array, index: number) => string,
  { before, after }: { readonly before: string; readonly after: string },
): Promise<JsonText> {
  const text = new JsonText().add(before);
  await inTurns(vectors.entries(), ([index, vector]) => {
    exchange.charged(vector.byteLength, () => text.add((index === 0 ? '' : ',') + entry(vector, index)));
  });
  return text.add(after);
}
