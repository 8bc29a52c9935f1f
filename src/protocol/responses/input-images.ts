// Stores the bytes of images with their items. A continued chain uses these bytes, so later changes to the image at a
// URL have no effect. No side effects.
import type { Message } from '../../generation/types.js';
import type { StoredItem } from '../../storage/response-store.js';

export interface InputItem extends StoredItem {
  /**
   * Paths of the item's images in the request, in the order of the images. Absent if the item has no images, or if they
   * are already loaded.
   */
  readonly imagePaths?: readonly string[] | undefined;
}

/** Returns the items with the bytes of their images, taken from the messages that ImageLoader returned. */
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
