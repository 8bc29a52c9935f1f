// Errors that are sent to clients, and their two body formats. Pure; used by all modules.
import { ERROR_TYPES, ERRORS, type ErrorCode, type ErrorStatus, type ErrorType } from './error-codes.js';

/**
 * The error body formats: `messages` (Anthropic) for /v1/messages, `ollama` for /api, `chat` (OpenAI) for all other
 * routes.
 */
export type ErrorFormat = 'chat' | 'messages' | 'ollama';

/** Response headers, in sending order. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

export interface ErrorExtra {
  /** Retry delay of a 429 or 503 in milliseconds, not rounded. Clamped to 1 … 60,000 when sent. */
  retryAfterMs?: number | undefined;
  /** Additional response headers, such as the rate limits for a refused request. */
  headers?: ((format: ErrorFormat) => HeaderList) | undefined;
  /** `error_code` in the messages format, if Anthropic's clients expect a different code for this error. */
  messagesCode?: string | undefined;
  /** HTTP status to send instead of the table's, if a format's clients expect a different status for this error. */
  status?: ErrorStatus | undefined;
  /** HTTP status from the upstream server, which is included in `details`. */
  upstreamStatus?: number | undefined;
  /** The holder of a refused API key, for the request log. Not sent. */
  keyHolder?: RefusedKey | undefined;
  /** All invalid fields of a form, including the first, if there are several. Sent only by the dashboard API. */
  fields?: readonly FieldFault[] | undefined;
  cause?: unknown;
}

/** A known API key that is refused, for example because it is revoked. */
export interface RefusedKey {
  readonly organizationId: string;
  readonly keyId: string;
}

/** An invalid field in a request body. */
export interface FieldFault {
  param: string | null;
  code: ErrorCode;
  message: string;
}

// Retry delays in milliseconds, used if the code that throws the error does not set one.
const DEFAULT_RETRY_MS: Partial<Record<ErrorCode, number>> = {
  maintenance: 10_000,
  shutting_down: 10_000,
  model_unavailable: 10_000,
  request_exceeds_tpm_limit: 60_000,
  insufficient_quota: 60_000,
};

// Retrying does not resolve these errors. `x-should-retry: false` tells the vendors' SDKs not to retry.
const WAITING_CANNOT_CURE: ReadonlySet<ErrorCode> = new Set(['request_exceeds_tpm_limit', 'insufficient_quota']);

/** An error that is sent to the client. Any other thrown error becomes `internal_error`. */
export class ApiError extends Error {
  readonly status: ErrorStatus;
  readonly type: ErrorType;
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly retryAfterMs: number | undefined;
  readonly shouldRetry: false | undefined;
  readonly headers: ((format: ErrorFormat) => HeaderList) | undefined;
  readonly messagesCode: string;
  readonly upstreamStatus: number | undefined;
  readonly keyHolder: RefusedKey | undefined;
  readonly fields: readonly FieldFault[] | undefined;

  constructor(code: ErrorCode, message: string, param: string | null = null, extra: ErrorExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = 'ApiError';
    this.code = code;
    this.status = extra.status ?? ERRORS[code].status;
    this.type = ERROR_TYPES[this.status];
    this.param = param;
    this.retryAfterMs =
      this.status === 429 || this.status === 503 ? (extra.retryAfterMs ?? DEFAULT_RETRY_MS[code] ?? 1000) : undefined;
    this.shouldRetry = WAITING_CANNOT_CURE.has(code) ? false : undefined;
    this.headers = extra.headers;
    this.messagesCode = extra.messagesCode ?? code;
    this.upstreamStatus = extra.upstreamStatus;
    this.keyHolder = extra.keyHolder;
    this.fields = extra.fields;
  }
}

/**
 * Creates an ApiError. `message` is one or two sentences that name the field and contain neither prompt text nor
 * secrets. `param` is the field's path.
 */
export function apiError(
  code: ErrorCode,
  message: string,
  param: string | null = null,
  extra: ErrorExtra = {},
): ApiError {
  return new ApiError(code, message, param, extra);
}

/**
 * The server failed to start for a reason that the operator can fix. The message is complete, and no stack trace is
 * shown.
 */
export class StartError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'StartError';
  }
}

/** Converts a thrown value to the error that the client receives. Unexpected errors do not reveal internals. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError('internal_error', 'The server failed unexpectedly. The request can be retried.', null, {
    cause: thrown,
  });
}

export interface ChatErrorBody {
  error: {
    message: string;
    type: ErrorType;
    param: string | null;
    code: ErrorCode;
    details?: UpstreamDetails;
    fields?: readonly FieldFault[];
  };
}

/** Details of an error caused by an upstream server. */
export interface UpstreamDetails {
  upstream_status: number;
}

export interface MessagesErrorBody {
  type: 'error';
  error: {
    type: ErrorType;
    message: string;
    param: string | null;
    code: ErrorCode;
    details: { error_code: string } & Partial<UpstreamDetails>; // the 1.x client reads the machine-readable code here
  };
  request_id: string;
}

export function chatErrorBody(error: ApiError): ChatErrorBody {
  return {
    error: {
      message: error.message,
      type: error.type,
      param: error.param,
      code: error.code,
      ...(error.upstreamStatus === undefined ? {} : { details: { upstream_status: error.upstreamStatus } }),
      ...(error.fields === undefined ? {} : { fields: error.fields }),
    },
  };
}

const upstreamDetails = ({ upstreamStatus }: ApiError): Partial<UpstreamDetails> =>
  upstreamStatus === undefined ? {} : { upstream_status: upstreamStatus };

export function messagesErrorBody(error: ApiError, requestId: string): MessagesErrorBody {
  return {
    type: 'error',
    error: {
      type: error.type,
      message: error.message,
      param: error.param,
      code: error.code,
      details: { error_code: error.messagesCode, ...upstreamDetails(error) },
    },
    request_id: requestId,
  };
}

/** Ollama's clients read only the message. */
export interface OllamaErrorBody {
  error: string;
}

export function errorBody(
  error: ApiError,
  format: ErrorFormat,
  requestId: string,
): ChatErrorBody | MessagesErrorBody | OllamaErrorBody {
  if (format === 'ollama') return { error: error.message };
  return format === 'chat' ? chatErrorBody(error) : messagesErrorBody(error, requestId);
}

/**
 * Retry headers of a 429 or 503, plus the error's own headers. `Retry-After` is in whole seconds, rounded up, from 1 to
 * 60, because one SDK ignores delays above 60 s and the other ignores 0.
 */
export function errorHeaders(error: ApiError, format: ErrorFormat): [string, string][] {
  const headers: [string, string][] = [];
  if (error.retryAfterMs !== undefined) {
    const ms = Math.min(60_000, Math.max(1, Math.ceil(error.retryAfterMs)));
    headers.push(['Retry-After', String(Math.ceil(ms / 1000))], ['retry-after-ms', String(ms)]);
  }
  if (error.shouldRetry === false) headers.push(['x-should-retry', 'false']);
  if (error.status === 401) headers.push(['WWW-Authenticate', 'Bearer']);
  for (const [name, value] of error.headers?.(format) ?? []) headers.push([name, value]);
  return headers;
}
