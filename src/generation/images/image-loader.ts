// Loads the images of a request: decodes base64 or downloads them and checks them against the limits. Event-loop
// thread; the decoding itself runs on libvips' threads.
import type { Requester } from '../fair-slots.js';
import type { Message } from '../types.js';
import type { HeldImages } from './held-images.js';

export interface ImageLoader {
  /**
   * Opens the memory account for the images of one request. To be released when none of them is used any longer.
   * `elsewhere`: they are sent to an upstream.
   */
  hold(organization: number, elsewhere: boolean): HeldImages;
  /**
   * Returns the messages with every image loaded, or the same array if there is none to load. Throws ApiError 422:
   * too_many_images, image_too_large, invalid_image, unsupported_image_format, image_fetch_failed; 503:
   * capacity_exhausted. If the requester's signal aborts, stops and throws the signal's reason. `decodedLater`: only
   * headers are read, because the provider decodes each image and then rejects damaged ones. `held` accounts for the
   * images, even if this throws.
   */
  load(messages: Message[], requester: Requester, held: HeldImages, decodedLater?: boolean): Promise<Message[]>;
}
