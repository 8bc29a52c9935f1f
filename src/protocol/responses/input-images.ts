// Bytes of images, kept with the items that named them: a chain re-sends them from here, and a later change
// or loss of a URL does not matter to it. Pure.
import type { Message } from '../../generation/types.js';
import type { StoredItem } from '../../storage/response-store.js';

export interface InputItem extends StoredItem {
  /** Where the item's images stand in the request, by index; absent for one without, or with their bytes already. */
  readonly imagePaths?: readonly string[] | undefined;
}

/** The items with the bytes of their images, from the messages as ImageLoader returned them. */
export function withImages(items: readonly InputItem[], messages: readonly Message[]): StoredItem[] {
  if (!items.some(({ imagePaths }) => imagePaths !== undefined)) return [...items];
  const loaded = new Map<string, Uint8Array>();
  for (const { content } of messages) {
    if (typeof content !== 'object' || content === null) continue;
    for (const part of content) {
      if (part.type === 'image' && part.source.kind === 'loaded') loaded.set(part.path, part.source.image.bytes);
    }
  }
  return items.map(({ imagePaths, ...item }) => {
    const images = imagePaths?.flatMap((path) => loaded.get(path) ?? []);
    return images === undefined || images.length !== imagePaths?.length ? item : { ...item, images };
  });
}
