// Errors from upstream servers, and how they are reported to clients: with this server's codes and formats, and with
// the upstream's status in the details. The upstream's own message is included only if it concerns the client's
// request; it is shortened and secrets are masked. No side effects.
import type { ErrorCode } from '../../shared/error-codes.js';
import { apiError, type ApiError, type ErrorExtra } from '../../shared/errors.js';
import { masked } from './secrets.js';

/** A failed attempt. */
export class UpstreamFault extends Error {
  /**
   * `kind`: for metrics and the log. `retry`: another attempt may succeed. `blames`: the server caused the failure, not
   * the request. `alive`: the server responded, so the request may have caused the failure after all.
   */
  constructor(
    readonly kind: FaultKind,
    readonly reported: ApiError,
    readonly retry: boolean,
    readonly blames: boolean,
    readonly alive = false,
  ) {
    super(reported.message);
    this.name = 'UpstreamFault';
  }
}

export type FaultKind = 'connect' | 'status' | 'refused' | 'timeout' | 'broken' | 'protocol';

/** Maximum number of bytes read from an error's body. */
export const MAX_ERROR_BYTES = 65_536;
const MAX_WORDS = 400;
/** Maximum number of characters examined in a string of a streamed error. */
const MAX_ERROR_WORDS = 16_384;
const MAX_RETRY_AFTER_MS = 60_000;

/** A connection could not be established. */
export const cannotConnect = (): UpstreamFault =>
  new UpstreamFault('connect', unavailable('The upstream server for this model is unreachable.'), true, true);

/** The connection was closed before the response was complete. */
export const brokeOff = (): UpstreamFault =>
  new UpstreamFault(
    'broken',
    apiError('model_error', 'The connection to the upstream server for this model was lost.', null),
    true,
    true,
  );

/** The response is invalid. `what`: a description that quotes no part of it. */
export const notUnderstood = (what: string): UpstreamFault =>
  new UpstreamFault(
    'protocol',
    apiError('model_error', `The upstream server for this model responded ${what}.`, null),
    true,
    true,
    true,
  );

/** The response is larger than this request allows. Not retried, because a retry would cost just as much. */
export const tooMuch = (message: string): UpstreamFault =>
  new UpstreamFault('protocol', apiError('model_error', message, null), false, true, true);

export const tookTooLong = (what: 'first' | 'next'): UpstreamFault =>
  new UpstreamFault(
    'timeout',
    unavailable(
      what === 'first'
        ? 'The upstream server for this model did not respond in time.'
        : 'The upstream server for this model stopped sending data.',
    ),
    false,
    true,
  );

/** Currently, no server can be used. */
export const noneAvailable = (retryAfterMs: number): UpstreamFault =>
  new UpstreamFault(
    'connect',
    unavailable('All upstream servers for this model are unavailable at the moment.', { retryAfterMs }),
    false,
    false,
  );

function unavailable(message: string, extra: ErrorExtra = {}): ApiError {
  return apiError('model_unavailable', message, null, extra);
}

export interface ErrorAnswer {
  readonly status: number;
  readonly body: string;
  readonly retryAfter: string | null;
}

/**
 * Converts an HTTP error response. `secrets` are masked in its message. `promptParam`: the field to name if the prompt
 * is too long.
 */
export function faultOfStatus(
  { status, body, retryAfter }: ErrorAnswer,
  secrets: readonly string[],
  promptParam: string,
): UpstreamFault {
  const message = wordsOf(body, secrets);
  const extra: ErrorExtra = { upstreamStatus: status };
  const refused = (code: ErrorCode, message: string): UpstreamFault =>
    new UpstreamFault('refused', apiError(code, message, paramOf(body), extra), false, false);
  if (status >= 300 && status < 400)
    return new UpstreamFault(
      'protocol',
      unavailable('The upstream server for this model responded with a redirect, which is not followed.', extra),
      false,
      true,
    );
  if ((status === 400 || status === 413 || status === 422 || status === 500) && speaksOfLength(body)) {
    return new UpstreamFault(
      'refused',
      apiError(
        'context_length_exceeded',
        `The prompt is too long for this model: ${message ?? 'it exceeds the context window.'}`,
        promptParam,
        extra,
      ),
      false,
      false,
    );
  }
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return refused(
        'invalid_value',
        `The upstream server for this model rejected the request${message === null ? '.' : `: ${message}`}`,
      );
    case 401:
    case 403:
    case 404:
    case 405:
      return new UpstreamFault(
        'status',
        unavailable('The upstream server for this model rejected the credentials of this server.', extra),
        true,
        true,
        true,
      );
    case 408:
    case 425:
    case 429:
    case 503:
    case 529:
      return new UpstreamFault(
        'status',
        apiError('capacity_exhausted', 'The upstream server for this model is busy.', null, {
          ...extra,
          retryAfterMs: waitOf(retryAfter),
        }),
        true,
        status !== 429,
      );
    default:
      return new UpstreamFault(
        'status',
        apiError('model_error', 'The upstream server for this model failed to handle this request.', null, extra),
        true,
        status >= 500,
        status !== 502 && status !== 504,
      );
  }
}

/** Converts an error within a stream, or an error that is the whole response. */
export function faultOfEvent(error: unknown, secrets: readonly string[], promptParam: string): UpstreamFault {
  const body =
    JSON.stringify({ error }, (_, value: unknown) =>
      typeof value === 'string' && value.length > MAX_ERROR_WORDS ? value.slice(0, MAX_ERROR_WORDS) : value,
    ) ?? '';
  const code = typeof error === 'object' && error !== null && 'code' in error ? Number(error.code) : NaN;
  return faultOfStatus(
    { status: code >= 400 && code < 600 ? code : 500, body, retryAfter: null },
    secrets,
    promptParam,
  );
}

const speaksOfLength = (body: string): boolean =>
  /context.{0,20}(length|window|size)|maximum (context|model) length|(prompt|input) is too long|exceed_context_size/i.test(
    body,
  );

/** Parses Retry-After: seconds or a date. */
function waitOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+(\.\d+)?$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms)) : undefined;
}

/** Returns the message from an error's body in a form that is safe to display, or null if there is none. */
export function wordsOf(body: string, secrets: readonly string[]): string | null {
  let message: unknown;
  try {
    message = messageIn(JSON.parse(body));
  } catch {
    return null; // for example, an HTML page
  }
  if (typeof message !== 'string') return null;
  const text = masked(message, secrets)
    .replace(/[\u0000-\u001f\u007f]+/g, ' ')
    .trim();
  return text === '' ? null : text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text;
}

/** Fields that have the same name in all formats. Other fields have a different name or path in the client's format. */
const SAME_FIELDS: ReadonlySet<unknown> = new Set([
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'seed',
  'logit_bias',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
]);

/** Returns the request field that the error names as the cause, if it is one of SAME_FIELDS. */
function paramOf(body: string): string | null {
  try {
    const { error } = JSON.parse(body) as { error?: { param?: unknown } | null };
    return SAME_FIELDS.has(error?.param) ? (error!.param as string) : null;
  } catch {
    return null;
  }
}

function messageIn(value: unknown): unknown {
  if (typeof value === 'string') return value;
  if (typeof value !== 'object' || value === null) return null;
  const { error, message, detail } = value as { error?: unknown; message?: unknown; detail?: unknown };
  if (error !== undefined && error !== null) return messageIn(error);
  return message ?? (typeof detail === 'string' ? detail : null);
}
