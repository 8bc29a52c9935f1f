// What a model that does not see is given to know of an image. Pure.
import type { ImagePart } from './types.js';

export function imageNote({ source }: ImagePart): string {
  return source.kind === 'loaded'
    ? `[image: ${source.image.format.toUpperCase()}, ${source.image.width} x ${source.image.height}]`
    : '[image]';
}
