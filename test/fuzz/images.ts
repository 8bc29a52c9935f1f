// Fuzzes image files given as bytes: each file must either be rejected with a declared error before its pixels are
// allocated, or be decoded to the size given in its header.
import { decodeImage, decodeRgb } from '../../src/generation/images/decode-image.js';
import { apiError, ApiError } from '../../src/shared/errors.js';
import { checkMessage, insist, type Target } from './target.js';

const MAX_PIXELS = 1 << 18;
const claimant = { organization: 1 };

async function declaredLater<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    checkMessage(error.message);
    return null;
  }
}

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==';
const gif = 'R0lGODlhAQABAIAAAP///wAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==';
const webp = 'UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA';

export const image: Target = {
  seeds: [png, gif, webp].map((text) => Buffer.from(text, 'base64')),
  async run(input) {
    let spent = 0;
    const spend = (width: number, height: number): void => {
      spent = width * height;
      if (spent > MAX_PIXELS) throw apiError('image_too_large', 'input[0]: too many pixels.', 'input[0]');
    };
    const loaded = await declaredLater(
      decodeImage(input, { path: 'input[0]', requester: claimant, known: 'nothing', spend }),
    );
    if (loaded === null) return;
    insist(spent === loaded.width * loaded.height && spent > 0, 'pixels are charged before they are allocated');
    await declaredLater(
      decodeRgb(loaded, { path: 'input[0]', requester: claimant }, (pixels) => {
        insist(pixels.length === 3 * spent, 'the decoded size matches the header');
        return Promise.resolve();
      }),
    );
  },
};
