// The images of a request as one model sees them: how many tokens each takes, known from its size, and then the picture itself,
// decoded, cut and resized for the model's tower. One per loaded model that sees; it holds no state of any request.
// Event-loop thread; decoding and resizing run on others.
import type { NativeImage, PlannedImage } from '../../engine/addon-types.js';
import type { Engine } from '../../engine/engine.js';
import { apiError } from '../../shared/errors.js';
import type { ImageTokenLimits } from '../generation-limits.js';
import { decodeRgb } from '../images/decode-image.js';
import type { Asker } from '../provider.js';
import type { ImagePart, LoadedImage, Message } from '../types.js';

export class PromptImages {
  /** Asked for many times while one prompt is fitted; by what decides it. */
  readonly #plans = new Map<string, PlannedImage>();

  constructor(
    private readonly engine: Pick<Engine, 'planImage' | 'prepareImage'>,
    private readonly limits: ImageTokenLimits,
  ) {}

  /** Throws ApiError 422 where images take more tokens than they may, with the place of the first that does. */
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
            `${part.path}: the image takes ${tokens} tokens of the prompt; ${perImage} are allowed.`,
            part.path,
          );
        all += tokens;
        if (all > perRequest)
          throw apiError(
            'image_too_large',
            `${part.path}: the images of the request take more than ${perRequest} tokens of the prompt together.`,
            part.path,
          );
      }
    }
  }

  /** Of the prompt. Throws ApiError 422. */
  tokensOf(part: ImagePart): number {
    return this.#planOf(part).tokens;
  }

  /** In the order of the parts, each picture once. Throws ApiError 422, 503; the asker's signal's reason. */
  async prepare(parts: readonly ImagePart[], asker: Asker): Promise<NativeImage[]> {
    const known = new Map<string, Map<LoadedImage, Promise<NativeImage>>>();
    const settled = await Promise.allSettled(
      parts.map((part) => {
        const detail = isLow(part) ? 'low' : 'high';
        const image = loaded(part);
        let ofDetail = known.get(detail);
        if (ofDetail === undefined) known.set(detail, (ofDetail = new Map()));
        let preparing = ofDetail.get(image);
        if (preparing === undefined) ofDetail.set(image, (preparing = this.#prepare(part, image, asker)));
        return preparing;
      }),
    );
    return settled.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    });
  }

  async #prepare(part: ImagePart, image: LoadedImage, asker: Asker): Promise<NativeImage> {
    const { width, height } = image;
    return decodeRgb(image, { path: part.path, claimant: asker }, (pixels) =>
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
    if (this.#plans.size >= MOST_PLANS) this.#plans.clear();
    this.#plans.set(key, plan);
    return plan;
  }
}

/** Sizes of pictures whose plans are kept. */
const MOST_PLANS = 1_000;

/** As few tokens as the model allows. */
const isLow = ({ detail }: ImagePart): boolean => detail === 'low';

function loaded({ source, path }: ImagePart): LoadedImage {
  if (source.kind !== 'loaded') throw new Error(`${path} has not been loaded`);
  return source.image;
}
