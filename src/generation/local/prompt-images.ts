// Prepares a request's images for the model: computes the number of tokens of each image from its size, then decodes,
// splits and resizes the images for the vision encoder. One instance per loaded model with a vision encoder; has no
// per-request state. Event-loop thread; decoding and resizing run on other threads.
import type { NativeImage, PlannedImage } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import { apiError } from '../../shared/errors.js';
import type { ImageTokenLimits } from '../generation-limits.js';
import { decodeRgb } from '../images/decode-image.js';
import type { RequestContext } from '../provider.js';
import type { ImagePart, LoadedImage, Message } from '../types.js';

export class PromptImages {
  /**
   * How images are processed, by image size and level of detail. Cached, because fitting a prompt into the context
   * needs this many times.
   */
  readonly #plans = new Map<string, PlannedImage>();

  constructor(
    private readonly engine: Pick<Engine, 'planImage' | 'prepareImage'>,
    private readonly limits: ImageTokenLimits,
  ) {}

  /** Throws ApiError 422 if images take too many tokens, with the path of the first image over the limit. */
  check(messages: readonly Message[]): void {
    const { perImage, perRequest } = this.limits;
    let all = 0;
    for (const { content } of messages) {
      if (typeof content !== 'object' || content === null) continue;
      for (const part of content) {
        if (part.type !== 'image') continue;
        const tokens = this.tokensOf(part);
        if (tokens > perImage)
          throw apiError(
            'image_too_large',
            `${part.path}: the image takes ${tokens} prompt tokens; the maximum is ${perImage}.`,
            part.path,
          );
        all += tokens;
        if (all > perRequest)
          throw apiError(
            'image_too_large',
            `${part.path}: the request's images take more than ${perRequest} prompt tokens in total.`,
            part.path,
          );
      }
    }
  }

  /** Returns the number of prompt tokens of an image. Throws ApiError 422. */
  tokensOf(part: ImagePart): number {
    return this.#planOf(part).tokens;
  }

  /**
   * Prepares the images in the order of the parts, each distinct image once. Throws ApiError 422, 503, or the reason of
   * the requester's signal.
   */
  async prepare(parts: readonly ImagePart[], context: RequestContext): Promise<NativeImage[]> {
    const known = new Map<string, Map<LoadedImage, Promise<NativeImage>>>();
    const settled = await Promise.allSettled(
      parts.map((part) => {
        const detail = isLow(part) ? 'low' : 'high';
        const image = loaded(part);
        let ofDetail = known.get(detail);
        if (ofDetail === undefined) known.set(detail, (ofDetail = new Map()));
        let preparing = ofDetail.get(image);
        if (preparing === undefined) ofDetail.set(image, (preparing = this.#prepare(part, image, context)));
        return preparing;
      }),
    );
    return settled.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    });
  }

  async #prepare(part: ImagePart, image: LoadedImage, context: RequestContext): Promise<NativeImage> {
    const { width, height } = image;
    return decodeRgb(image, { path: part.path, requester: context }, (pixels) =>
      this.engine.prepareImage(pixels, width, height, isLow(part)),
    );
  }

  #planOf(part: ImagePart): PlannedImage {
    const { width, height } = loaded(part);
    const key = `${width} ${height} ${isLow(part)}`;
    let plan = this.#plans.get(key);
    if (plan !== undefined) return plan;
    try {
      plan = this.engine.planImage(width, height, isLow(part));
    } catch (error) {
      throw apiError(
        'invalid_image',
        `${part.path}: ${error instanceof Error ? error.message : String(error)}.`,
        part.path,
      );
    }
    if (this.#plans.size >= MAX_PLANS) this.#plans.clear();
    this.#plans.set(key, plan);
    return plan;
  }
}

/** Maximum number of cached plans. */
const MAX_PLANS = 1_000;

/** Whether the image gets the model's minimum number of tokens. */
const isLow = ({ detail }: ImagePart): boolean => detail === 'low';

function loaded({ source, path }: ImagePart): LoadedImage {
  if (source.kind !== 'loaded') throw new Error(`${path} was not loaded`);
  return source.image;
}
