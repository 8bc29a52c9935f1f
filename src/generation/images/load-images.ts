// The server's image loader: loads and checks all images of a request within the configured limits. Event-loop thread
// only.
import type { Config } from '../../config/settings.js';
import { apiError } from '../../shared/errors.js';
import { shareOf } from '../../shared/thread-count.js';
import { FairSlots, type Requester } from '../fair-slots.js';
import type { Content, ContentPart, ImagePart, ImageSource, LoadedImage, Message } from '../types.js';
import { dataOfUrl, decodeBase64 } from './base64.js';
import { decodeImage } from './decode-image.js';
import { ImageFetcher, type FetchDeps } from './fetch-image.js';
import { ImageBudget, type HeldImages } from './held-images.js';

/** Loads a request's images: decodes base64 or downloads the file, then checks each image against the limits. */
export interface ImageLoader {
  /**
   * Opens the memory account for one request's images. The caller must release the account when the images are no
   * longer used. `elsewhere`: the images are sent to an upstream.
   */
  hold(organization: number, elsewhere: boolean): HeldImages;
  /**
   * Returns the messages with every image loaded, or the same array if there is nothing to load. Throws ApiError 422
   * (too_many_images, image_too_large, invalid_image, unsupported_image_format, image_fetch_failed) or 503
   * (capacity_exhausted). If the requester's signal is aborted, stops and throws the signal's reason. `decodedLater`:
   * only headers are read, because the provider decodes each image and rejects corrupt ones. `held` accounts for the
   * images even if this throws.
   */
  load(messages: Message[], requester: Requester, held: HeldImages, decodedLater?: boolean): Promise<Message[]>;
}

/**
 * Maximum number of concurrent downloads, per request and in total. They are limited because each download may fill its
 * buffer.
 */
const FETCHES_OF_REQUEST = 4,
  FETCHES = 32;
/**
 * Maximum fraction of the downloads that one organization may use. Limited because clients choose the URLs and can thus
 * influence how long downloads take.
 */
const FETCHES_OF_ONE = 0.75;
/** Maximum number of waiting URLs per organization. */
const MAX_WAITING_FETCHES = shareOf(1_000);
/** Limits for all images of a request together, as multiples of the limits for one image. */
const TOTAL_BYTES_FACTOR = 5,
  TOTAL_PIXELS_FACTOR = 8;
/**
 * Maximum width and height; the same as the maximum of JPEG and GIF. Only PNG allows longer rows, whose pixels take 20
 * bytes of decoder memory each.
 */
const MAX_SIDE = 65_535;

/** `deps` is for tests. */
export function createImageLoader(settings: Config['images'], deps: Partial<FetchDeps> = {}): ImageLoader {
  const fetcher = new ImageFetcher(
    { maxBytes: settings.max_bytes, timeoutMs: settings.fetch_timeout_ms, allowedHosts: settings.allowed_hosts },
    deps,
  );
  const places = shareOf(FETCHES);
  const fetches = new FairSlots(places, 'image downloads', MAX_WAITING_FETCHES, {
    mostOfOne: Math.max(1, Math.floor(places * FETCHES_OF_ONE)),
  });
  const budget = new ImageBudget(shareOf(settings.max_held_bytes), settings.max_bytes * TOTAL_BYTES_FACTOR);
  return {
    hold: (organization, elsewhere) => budget.open(organization, elsewhere),
    async load(messages, requester, held, decodedLater = false) {
      const parts = messages.flatMap((message) => imagesOf(message.content));
      if (parts.length > settings.max_per_request) {
        const { path } = parts[settings.max_per_request]!;
        throw apiError(
          'too_many_images',
          `The request has ${parts.length} images; the maximum is ${settings.max_per_request}.`,
          path,
        );
      }
      const open = parts.filter((part) => part.source.kind !== 'loaded');
      if (open.length === 0) return messages;
      const loaded = await new Loading({ settings, fetcher, fetches }, requester, held, decodedLater).all(open);
      return messages.map((message) => withImages(message, loaded));
    },
  };
}

/** Loads the images of one request. */
class Loading {
  readonly #own = new Slots(FETCHES_OF_REQUEST);
  readonly #abort = new AbortController();
  readonly #requester: Requester;
  #bytes = 0;
  #pixels = 0;

  constructor(
    private readonly deps: { settings: Config['images']; fetcher: ImageFetcher; fetches: FairSlots },
    private readonly from: Requester,
    private readonly held: HeldImages,
    private readonly decodedLater: boolean,
  ) {
    this.#requester = { organization: from.organization, signal: this.#abort.signal };
  }

  /**
   * If an image cannot be loaded, stops loading the other images. Throws the error of the failed image that comes first
   * in the request.
   */
  async all(parts: readonly ImagePart[]): Promise<Map<ImagePart, LoadedImage>> {
    const { signal } = this.from;
    const left = (): void => this.#abort.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener('abort', left, { once: true });
    try {
      return await this.#all(parts);
    } finally {
      signal?.removeEventListener('abort', left);
    }
  }

  async #all(parts: readonly ImagePart[]): Promise<Map<ImagePart, LoadedImage>> {
    const stopped = new Error('another image of the request failed');
    // Agents send the same image repeatedly within a request, so it is loaded only once.
    const known = new Map<unknown, Promise<LoadedImage>>();
    const results = await Promise.allSettled(
      parts.map((part) => {
        const key = keyOf(part.source);
        let loading = known.get(key);
        if (loading === undefined) known.set(key, (loading = this.#own.run(() => this.#unlessStopped(part, stopped))));
        return loading;
      }),
    );
    this.from.signal?.throwIfAborted();
    const failure = results.find((result) => result.status === 'rejected' && result.reason !== stopped);
    if (failure?.status === 'rejected') throw failure.reason;
    return new Map(
      results.flatMap((result, index) => (result.status === 'fulfilled' ? [[parts[index]!, result.value]] : [])),
    );
  }

  async #unlessStopped(part: ImagePart, stopped: Error): Promise<LoadedImage> {
    this.#abort.signal.throwIfAborted();
    try {
      return await this.#one(part);
    } catch (error) {
      this.#abort.abort(stopped);
      throw error;
    }
  }

  async #one(part: ImagePart): Promise<LoadedImage> {
    const { path } = part;
    const bytes = await this.#bytesOf(part);
    this.#bytes += bytes.length;
    const most = this.deps.settings.max_bytes * TOTAL_BYTES_FACTOR;
    if (this.#bytes > most)
      throw apiError('image_too_large', `${path}: the request's images have more than ${most} bytes in total.`, path);
    this.held.add(bytes.length);
    return decodeImage(bytes, {
      path,
      requester: this.#requester,
      known: part.source.kind === 'bytes' ? 'sound' : this.decodedLater ? 'decoded later' : 'nothing',
      spend: (width, height) => this.#spend(width, height, path),
    });
  }

  #spend(width: number, height: number, path: string): void {
    const { max_pixels: maxPixels } = this.deps.settings;
    const pixels = width * height;
    if (pixels > maxPixels)
      throw apiError(
        'image_too_large',
        `${path}: the image has ${width} x ${height} pixels; the maximum is ${maxPixels} pixels.`,
        path,
      );
    if (Math.max(width, height) > MAX_SIDE)
      throw apiError(
        'image_too_large',
        `${path}: the image has ${width} x ${height} pixels; the maximum per side is ${MAX_SIDE}.`,
        path,
      );
    this.#pixels += pixels;
    const most = maxPixels * TOTAL_PIXELS_FACTOR;
    if (this.#pixels > most)
      throw apiError('image_too_large', `${path}: the request's images have more than ${most} pixels in total.`, path);
  }

  async #bytesOf({ source, path }: ImagePart): Promise<Buffer> {
    if (source.kind === 'base64') return decodeBase64(source.data, this.deps.settings.max_bytes, path);
    if (source.kind === 'bytes')
      return Buffer.from(source.bytes.buffer as ArrayBuffer, source.bytes.byteOffset, source.bytes.byteLength);
    if (source.kind === 'loaded') return Buffer.from(source.image.bytes);
    if (/^data:/i.test(source.url))
      return decodeBase64(dataOfUrl(source.url, path), this.deps.settings.max_bytes, path);
    return this.deps.fetches.run(this.#requester, 1, () =>
      this.deps.fetcher.fetch(source.url, path, this.#abort.signal),
    );
  }
}

/** Returns the same key for identical images. */
function keyOf(source: ImageSource): unknown {
  switch (source.kind) {
    case 'base64':
      return source.data;
    case 'url':
      return source.url;
    case 'bytes':
      return source.bytes;
    case 'loaded':
      return source.image;
  }
}

const isImage = (part: ContentPart): part is ImagePart => part.type === 'image';

function imagesOf(content: Content | null): ImagePart[] {
  return typeof content === 'object' && content !== null ? content.filter(isImage) : [];
}

function withImages(message: Message, loaded: ReadonlyMap<ImagePart, LoadedImage>): Message {
  if (
    (message.role !== 'user' && message.role !== 'tool') ||
    typeof message.content === 'string' ||
    !message.content.some(isImage)
  )
    return message;
  const content = message.content.map((part): ContentPart => {
    const image = isImage(part) ? loaded.get(part) : undefined;
    return image === undefined ? part : { ...(part as ImagePart), source: { kind: 'loaded', image } };
  });
  return { ...message, content };
}

/** Runs a limited number of tasks at a time, in order of arrival. */
class Slots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs the task as soon as a slot is free. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resume) => this.#waiting.push(resume));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
