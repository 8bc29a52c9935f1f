// What can go wrong with a server elsewhere, and how clients are told: in our codes and shapes, with its status in the
// details. What it says reaches them only where it is about their request, bounded and without its secrets. Pure.
import { apiError, type ApiError, type ErrorCode, type ErrorExtra } from '../../shared/errors.js';
import { masked } from './secrets.js';

/** One attempt has failed. */
export class UpstreamFault extends Error {
  /**
   * `kind`: of metrics and the log. `retry`: another attempt may go well. `blames`: it is the server's doing, and not the request's;
   * `alive`: the server has answered, so it may be the request's after all.
   */
  constructor(
    readonly kind: FaultKind,
    readonly told: ApiError,
    readonly retry: boolean,
    readonly blames: boolean,
    readonly alive = false,
  ) {
    super(told.message);
    this.name = 'UpstreamFault';
  }
}

export type FaultKind = 'connect' | 'status' | 'refused' | 'timeout' | 'broken' | 'protocol';

/** Bytes of an error's body that are read at all. */
export const MAX_ERROR_BYTES = 65_536;
const MAX_WORDS = 400;
/** Characters of a text in an error within a stream that are looked at. */
const MAX_ERROR_WORDS = 16_384;
const MAX_RETRY_AFTER_MS = 60_000;

/** It cannot be reached. */
export const cannotConnect = (): UpstreamFault =>
  new UpstreamFault('connect', unavailable('The server this model runs on cannot be reached.'), true, true);

/** The connection ended before the answer did. */
export const brokeOff = (): UpstreamFault =>
  new UpstreamFault(
    'broken',
    apiError('model_error', 'The connection to the server this model runs on broke off.', null),
    true,
    true,
  );

/** What came is no answer. `what`: in words of our own. */
export const notUnderstood = (what: string): UpstreamFault =>
  new UpstreamFault(
    'protocol',
    apiError('model_error', `The server this model runs on answered ${what}.`, null),
    true,
    true,
    true,
  );

/** More came than an answer to the request may have. Another attempt would cost as much again. */
export const tooMuch = (message: string): UpstreamFault =>
  new UpstreamFault('protocol', apiError('model_error', message, null), false, true, true);

export const tookTooLong = (what: 'first' | 'next'): UpstreamFault =>
  new UpstreamFault(
    'timeout',
    unavailable(
      what === 'first'
        ? 'The server this model runs on did not begin to answer in time.'
        : 'The server this model runs on fell silent.',
    ),
    false,
    true,
  );

/** None is to be asked at the moment. */
export const noneAvailable = (retryAfterMs: number): UpstreamFault =>
  new UpstreamFault(
    'connect',
    unavailable('The servers this model runs on do not answer at the moment.', { retryAfterMs }),
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

/** An answer that is an error. `secrets` are cut out of its words; `promptParam`: what a prompt that is too long is blamed on. */
export function faultOfStatus(
  { status, body, retryAfter }: ErrorAnswer,
  secrets: readonly string[],
  promptParam: string,
): UpstreamFault {
  const said = wordsOf(body, secrets);
  const extra: ErrorExtra = { upstreamStatus: status };
  const refused = (code: ErrorCode, message: string): UpstreamFault =>
    new UpstreamFault('refused', apiError(code, message, paramOf(body), extra), false, false);
  if (status >= 300 && status < 400)
    return new UpstreamFault(
      'protocol',
      unavailable('The server this model runs on sends us elsewhere, which is not followed.', extra),
      false,
      true,
    );
  if ((status === 400 || status === 413 || status === 422 || status === 500) && speaksOfLength(body)) {
    return new UpstreamFault(
      'refused',
      apiError(
        'context_length_exceeded',
        `The prompt is too long for this model: ${said ?? 'its context is shorter'}`,
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
        `The server this model runs on refuses the request${said === null ? '.' : `: ${said}`}`,
      );
    case 401:
    case 403:
    case 404:
    case 405:
      return new UpstreamFault(
        'status',
        unavailable('The server this model runs on does not let us ask it.', extra),
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
        apiError('capacity_exhausted', 'The server this model runs on is busy.', null, {
          ...extra,
          retryAfterMs: waitOf(retryAfter),
        }),
        true,
        status !== 429,
      );
    default:
      return new UpstreamFault(
        'status',
        apiError('model_error', 'The server this model runs on failed on this request.', null, extra),
        true,
        status >= 500,
        status !== 502 && status !== 504,
      );
  }
}

/** An error that came within a stream, or as a whole response. */
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

/** Retry-After: seconds, or a date. */
function waitOf(header: string | null): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+(\.\d+)?$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms)) : undefined;
}

/** The message of an error's body, fit to be shown; null if there is none. */
export function wordsOf(body: string, secrets: readonly string[]): string | null {
  let message: unknown;
  try {
    message = messageIn(JSON.parse(body));
  } catch {
    return null; // a page of HTML, say
  }
  if (typeof message !== 'string') return null;
  const text = masked(message, secrets)
    .replace(/[\u0000-\u001f\u007f]+/g, ' ')
    .trim();
  return text === '' ? null : text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text;
}

/** Fields that are called the same in all formats: others have another name, or another place, in the client's. */
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

/** The field that an error's body blames, if it is one of these. */
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
