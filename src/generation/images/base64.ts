// Images embedded in the request: base64, either bare or in a data: URL. Validation is strict, and the size is checked
// before decoding. No side effects.
import { apiError } from '../../shared/errors.js';

const MAX_DATA_URL_HEAD = 256;

/** Returns the base64 text in a data: URL. Its media type is ignored. Throws ApiError invalid_image. */
export function dataOfUrl(url: string, path: string): string {
  const comma = url.slice(0, MAX_DATA_URL_HEAD).indexOf(',');
  if (comma === -1 || !/;base64$/i.test(url.slice(0, comma).trimEnd())) {
    throw apiError(
      'invalid_image',
      `${path}: a data: URL of an image must have the form data:image/png;base64,…`,
      path,
    );
  }
  return url.slice(comma + 1);
}

/** Throws ApiError image_too_large or invalid_image. */
export function decodeBase64(data: string, maxBytes: number, path: string): Buffer {
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0;
  const expected = (data.length / 4) * 3 - padding;
  if (expected > maxBytes)
    throw apiError('image_too_large', `${path}: the image is larger than ${maxBytes} bytes.`, path);
  // Buffer.from() skips invalid characters and also accepts the URL-safe alphabet. The decoded length reveals skipped
  // characters; the URL-safe alphabet is detected by its - and _.
  const bytes = Buffer.from(data, 'base64');
  if (bytes.length === 0 || bytes.length !== expected || data.includes('-') || data.includes('_')) {
    throw apiError('invalid_image', `${path}: the image is not valid base64.`, path);
  }
  return bytes;
}
