// Converts a text and its origin to the JSON that a sealed value contains, and back. If a member of the upstream's
// block is equal to the text, the JSON contains that member's name instead of its value. No side effects.
import { parseExact, stringifyExact, withMembers } from '../../shared/exact-json.js';
import type { SealedOrigin } from './sealer.js';

interface Packed {
  model?: string;
  text?: string;
  upstream: string;
  block: Readonly<Record<string, unknown>> | null;
  /** Name of the block's member that is equal to the text. In the stored block, that member is null. */
  same?: string;
}

/** `stored`: the members that the JSON contains in addition to the origin. */
export function packOrigin(
  text: string,
  { upstream, block }: SealedOrigin,
  stored: Pick<Packed, 'model' | 'text'>,
): Buffer {
  const same = text === '' || block === null ? undefined : Object.keys(block).find((name) => block[name] === text);
  const packed: Packed =
    block === null || same === undefined
      ? { ...stored, upstream, block }
      : { ...stored, upstream, block: withMembers(block, { [same]: null }), same };
  return Buffer.from(stringifyExact(packed));
}

/** `visible`: the text, if the sealed value does not contain it. */
export function unpackOrigin(
  plain: Buffer,
  visible: string | null,
): { text: string; model: string; origin: SealedOrigin } {
  const { model = '', text = visible ?? '', upstream, block, same } = parseExact(plain.toString()) as Packed;
  return {
    text,
    model,
    origin: {
      upstream,
      block: block === null || same === undefined ? block : withMembers(block, { [same]: text }),
    },
  };
}
