// The content of a prompt's positions, as bytes that are equal only if the content is equal, and the digests used to
// find pages. No side effects.
import { createHmac, hkdfSync } from 'node:crypto';
import type { PromptSpan } from '../addon-types.js';

/** Positions per page. Must match the engine. */
export const PAGE_TOKENS = 16;
export const DIGEST_BYTES = 16;

/** A prompt, or any other run of positions that starts at position 0. */
export interface PositionText {
  readonly tokens: Int32Array;
  /** Positions of images, in ascending order. */
  readonly spans: readonly PromptSpan[];
  /** AdapterInfo.cacheKey of the LoRA adapter used to compute the pages; '' or absent = no adapter. */
  readonly adapter?: string;
}

// Each position takes four fields: its kind (0 = token, 1 = image row), the token ID or row index, the number of the
// image's rows if they attend to each other, and the content hash.
const POSITION_BYTES = 4 + 4 + 4 + 16;
export const CONTENT_BYTES = PAGE_TOKENS * POSITION_BYTES;

/** The content of one full page. */
export function pageContent({ tokens, spans }: PositionText, page: number): Buffer {
  const bytes = Buffer.alloc(CONTENT_BYTES);
  const first = page * PAGE_TOKENS;
  for (let i = 0; i < PAGE_TOKENS; i++) bytes.writeInt32LE(tokens[first + i] ?? -1, i * POSITION_BYTES + 4);
  for (const span of spans) {
    const end = Math.min(first + PAGE_TOKENS, span.first + span.rows);
    for (let at = Math.max(first, span.first); at < end; at++) {
      const offset = (at - first) * POSITION_BYTES;
      bytes.writeUInt32LE(1, offset);
      bytes.writeInt32LE(at - span.first, offset + 4);
      bytes.writeUInt32LE(span.bidirectional ? span.rows : 0, offset + 8);
      bytes.writeBigUInt64LE(span.hash[0], offset + 12);
      bytes.writeBigUInt64LE(span.hash[1], offset + 20);
    }
  }
  return bytes;
}

/** Keys derived from an organization's stored key. */
export interface OrganizationKeys {
  readonly id: string;
  readonly encryption: Buffer;
  readonly chain: Buffer;
}

export function organizationKeys(id: string, key: Uint8Array): OrganizationKeys {
  const derive = (purpose: string): Buffer => Buffer.from(hkdfSync('sha256', key, '', `monolith kv ${purpose}`, 32));
  return { id, encryption: derive('pages'), chain: derive('chain') };
}

/**
 * Returns the digest of the prefix that ends with a page. `parent`: the digest of the preceding page; empty for the
 * first page. `adapter`: PositionText.adapter for the first page, '' for later pages, whose digests depend on the
 * adapter through `parent`.
 */
export function chainDigest(keys: OrganizationKeys, parent: Buffer, content: Buffer, adapter = ''): Buffer {
  return createHmac('sha256', keys.chain)
    .update(keys.id)
    .update('\0')
    .update(parent)
    .update(content)
    .update(adapter)
    .digest()
    .subarray(0, DIGEST_BYTES);
}

export interface ChainPage {
  readonly index: number;
  readonly digest: Buffer;
  readonly parent: Buffer;
  readonly content: Buffer;
}

/** Caches the page digests of a text, because an import needs them several times. */
const known = new WeakMap<PositionText, { readonly keys: OrganizationKeys; readonly pages: ChainPage[] }>();

/** Yields the first `count` pages of a text. The text must not change afterwards, because its digests are cached. */
export function* chainPages(keys: OrganizationKeys, text: PositionText, count: number): Generator<ChainPage> {
  let chain = known.get(text);
  if (chain === undefined || chain.keys !== keys) known.set(text, (chain = { keys, pages: [] }));
  const { pages } = chain;
  for (let index = 0; index < count; index++) {
    if (pages[index] === undefined) {
      const parent = pages[index - 1]?.digest ?? Buffer.alloc(0);
      const content = pageContent(text, index);
      const adapter = index === 0 ? text.adapter : '';
      pages.push({ index, digest: chainDigest(keys, parent, content, adapter), parent, content });
    }
    yield pages[index]!;
  }
}
