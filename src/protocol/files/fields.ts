// Checks the purpose, filename, media type and expiry that clients send with a file. Pure.

import { apiError } from '../../shared/errors.js';
import { mediaTypeOfName } from '../../shared/media-types.js';

/** Purposes that a client may set when it creates a file. */
export const PURPOSES = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals'] as const;
/** All purposes, including purposes of files that the server creates. */
export const ALL_PURPOSES = [...PURPOSES, 'assistants_output', 'batch_output', 'fine-tune-results'] as const;
/** Bounds of `expires_after.seconds`, as in OpenAI's API. */
export const MIN_LIFETIME_S = 3_600;
export const MAX_LIFETIME_S = 2_592_000;
/** Maximum of `expires_in_seconds`, as in Anthropic's API. */
export const MAX_MESSAGES_LIFETIME_S = 7_776_000;

const MAX_FILENAME = 512;
const DAY_S = 86_400;

export function checkPurpose(purpose: string | undefined): string {
  if (purpose === undefined) throw apiError('missing_required_parameter', 'purpose is required.', 'purpose');
  if (!(PURPOSES as readonly string[]).includes(purpose))
    throw apiError(
      'invalid_value',
      `purpose must be one of ${PURPOSES.map((one) => `"${one}"`).join(', ')}.`,
      'purpose',
    );
  return purpose;
}

/** Returns the last component of a path without control characters. Throws ApiError 422 if it is too long. */
export function checkFilename(given: string, param = 'file'): string {
  // eslint-disable-next-line no-control-regex
  const name = (given.split(/[/\\]/).at(-1) as string).replace(/[\u0000-\u001f\u007f]/g, '');
  if (name.length > MAX_FILENAME)
    throw apiError('string_too_long', `The filename may have at most ${MAX_FILENAME} characters.`, param);
  return name === '' ? 'unnamed' : name;
}

/** Returns the media type that the client sent. If it is missing, generic or malformed, the filename decides. */
export const mediaTypeOf = (stated: string | null, filename: string): string =>
  stated === null || stated === 'application/octet-stream' || !/^[\w!#$&^.+-]{1,64}\/[\w!#$&^.+-]{1,64}$/.test(stated)
    ? (mediaTypeOfName(filename) ?? 'application/octet-stream')
    : stated;

/** Reads a number of seconds from a form field. `most` is the maximum. Throws ApiError 400 or 422. */
export function checkSeconds(text: string, param: string, most: number): number {
  if (!/^\d{1,10}$/.test(text)) throw apiError('invalid_type', `${param} must be an integer.`, param);
  return checkLifetime(Number(text), param, most);
}

export function checkLifetime(seconds: number, param: string, most = MAX_LIFETIME_S): number {
  if (seconds < MIN_LIFETIME_S || seconds > most)
    throw apiError('value_out_of_range', `${param} must be between ${MIN_LIFETIME_S} and ${most}.`, param);
  return seconds;
}

/** Reads `expires_after[anchor]` and `expires_after[seconds]`. Returns null if both are absent. */
export function checkExpiresAfter(fields: ReadonlyMap<string, string>): number | null {
  const anchor = fields.get('expires_after[anchor]');
  const seconds = fields.get('expires_after[seconds]');
  if (anchor === undefined && seconds === undefined) return null;
  if (seconds === undefined)
    throw apiError('missing_required_parameter', 'expires_after.seconds is required.', 'expires_after.seconds');
  checkAnchor(anchor);
  return checkSeconds(seconds, 'expires_after.seconds', MAX_LIFETIME_S);
}

export function checkAnchor(anchor: string | undefined): void {
  if (anchor === undefined)
    throw apiError('missing_required_parameter', 'expires_after.anchor is required.', 'expires_after.anchor');
  if (anchor !== 'created_at')
    throw apiError('invalid_value', 'expires_after.anchor must be "created_at".', 'expires_after.anchor');
}

/**
 * Returns the expiry time of a file created at `now`. Both times are seconds since 1970. `lifetimeS` is the lifetime in
 * seconds that the client requested; null = `retentionDays`, which is also the maximum.
 */
export const expiryOf = (now: number, lifetimeS: number | null, retentionDays: number): number =>
  Math.floor(now) + Math.min(lifetimeS ?? Infinity, retentionDays * DAY_S);
