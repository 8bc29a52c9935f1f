// Images of a request: decoded from base64 or fetched, checked against the limits. Event-loop thread; the
// decoding itself runs on libvips' threads.
import type { Claimant } from '../fair-slots.js';
import type { Message } from '../types.js';
import type { HeldImages } from './held-images.js';

export interface ImageLoader {
  /** What the images of one request hold of memory, to be released when nothing of them is kept any more. `elsewhere`: they are sent to another server. */
  hold(organization: number, elsewhere: boolean): HeldImages;
  /**
   * The messages with every image loaded; the very same array if there is none to load. Throws ApiError 422:
   * too_many_images, image_too_large, invalid_image, unsupported_image_format, image_fetch_failed; 503:
   * capacity_exhausted. If the claimant's signal aborts, it stops and throws the signal's reason. `decodedLater`: whoever gets
   * them decodes each, and refuses the damaged then; here only headers are read. `held` counts them, also if it throws.
   */
  load(messages: Message[], claimant: Claimant, held: HeldImages, decodedLater?: boolean): Promise<Message[]>;
}
