// The text that replaces an image for a model without a vision encoder. No side effects.
import type { ImagePart } from './types.js';

export function imageNote({ source }: ImagePart): string {
  return source.kind === 'loaded'
    ? `[image: ${source.image.format.toUpperCase()}, ${source.image.width} x ${source.image.height}]`
    : '[image]';
}
