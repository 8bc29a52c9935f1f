// Every error a client can receive: one closed table of codes and the two shapes they are sent in.
// Pure; used by all rooms. A code that is not in the table does not compile.

/** HTTP status → `error.type`. No other error status leaves a public endpoint. */
export const ERROR_TYPES = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  422: 'unprocessable_entity',
  429: 'rate_limit_error',
  500: 'internal_error',
  503: 'service_unavailable',
} as const;

export type ErrorStatus = keyof typeof ERROR_TYPES;
export type ErrorType = (typeof ERROR_TYPES)[ErrorStatus];

/** `error.code` → HTTP status. Adding a code is a minor release; renaming one is not allowed. */
export const ERROR_CODES = {
  invalid_json: 400,
  invalid_body: 400,
  unsupported_media_type: 400,
  missing_required_parameter: 400,
  invalid_type: 400,
  unknown_variant: 400,
  invalid_header: 400,
  invalid_query_parameter: 400,
  invalid_thinking_signature: 400,
  invalid_encrypted_content: 400,
  request_timeout: 400,
  headers_too_large: 400,
  // Coding agents take a prompt that is too long for what it is only with this status: with 422 they ask again and again.
  context_length_exceeded: 400,
  malformed_http: 400,
  invalid_token: 400,
  websocket_connection_limit_reached: 400,

  missing_api_key: 401,
  invalid_api_key: 401,
  api_key_expired: 401,
  api_key_revoked: 401,
  not_signed_in: 401,
  invalid_credentials: 401,
  invalid_code: 401,

  model_not_allowed: 403,
  endpoint_not_allowed: 403,
  organization_suspended: 403,
  role_not_allowed: 403,
  invalid_csrf_token: 403,
  signup_closed: 403,
  user_locked: 403,
  second_factor_required: 403,
  recent_sign_in_required: 403,

  unknown_endpoint: 404,
  method_not_allowed: 404,
  model_not_found: 404,
  response_not_found: 404,
  previous_response_not_found: 404,
  item_not_found: 404,
  resource_not_found: 404,

  request_too_large: 413,

  value_out_of_range: 422,
  invalid_value: 422,
  string_too_long: 422,
  array_too_long: 422,
  too_many_entries: 422,
  conflicting_parameters: 422,
  unsupported_parameter: 422,
  unsupported_value: 422,
  unsupported_feature: 422,
  unsupported_content: 422,
  model_not_vision: 422,
  unsupported_tool_type: 422,
  duplicate_tool_name: 422,
  invalid_tool_name: 422,
  tool_not_found: 422,
  tool_call_not_found: 422,
  missing_tool_output: 422,
  invalid_json_schema: 422,
  unsupported_json_schema: 422,
  invalid_image: 422,
  unsupported_image_format: 422,
  image_too_large: 422,
  too_many_images: 422,
  image_fetch_failed: 422,
  response_not_usable: 422,
  response_not_cancellable: 422,
  steering_not_supported: 422,
  email_taken: 422,
  last_owner: 422,

  rpm_limit_exceeded: 429,
  tpm_limit_exceeded: 429,
  concurrency_limit_exceeded: 429,
  request_exceeds_tpm_limit: 429,
  insufficient_quota: 429,
  too_many_attempts: 429,

  internal_error: 500,
  model_error: 500,

  capacity_exhausted: 503,
  model_loading: 503,
  model_unavailable: 503,
  maintenance: 503,
  shutting_down: 503,
} as const satisfies Record<string, ErrorStatus>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** The two vendors' error bodies: `chat` serves chat, responses and the rest, `messages` its own path. */
export type WireShape = 'chat' | 'messages';

/** Response headers in sending order. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

export interface ErrorExtra {
  /** Unrounded wait of a 429 or 503 in milliseconds; clamped to 1 … 60,000 when sent. */
  retryAfterMs?: number | undefined;
  /** Further headers of the answer, e.g. the rate limits of a refused request. */
  headers?: ((shape: WireShape) => HeaderList) | undefined;
  /** The code that the messages client acts on, where its vendor has another for the same thing. */
  messagesCode?: string | undefined;
  /** Instead of the table's, where a format's clients act on another for the same thing. */
  status?: ErrorStatus | undefined;
  /** What the server elsewhere said that the model runs on: its HTTP status. Told in the details. */
  upstreamStatus?: number | undefined;
  cause?: unknown;
}

// Waits where the thrower knows nothing better (milliseconds).
const DEFAULT_RETRY_MS: Partial<Record<ErrorCode, number>> = {
  maintenance: 10_000,
  shutting_down: 10_000,
  model_unavailable: 10_000,
  request_exceeds_tpm_limit: 60_000,
  insufficient_quota: 60_000,
};

// Waiting cures neither of these, so both SDKs are told not to retry.
const WAITING_CANNOT_CURE: ReadonlySet<ErrorCode> = new Set(['request_exceeds_tpm_limit', 'insufficient_quota']);

/** An error that is the client's to see. Anything else that is thrown becomes `internal_error`. */
export class ApiError extends Error {
  readonly status: ErrorStatus;
  readonly type: ErrorType;
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly retryAfterMs: number | undefined;
  readonly shouldRetry: false | undefined;
  readonly headers: ((shape: WireShape) => HeaderList) | undefined;
  readonly messagesCode: string;
  readonly upstreamStatus: number | undefined;

  constructor(code: ErrorCode, message: string, param: string | null = null, extra: ErrorExtra = {}) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause });
    this.name = 'ApiError';
    this.code = code;
    this.status = extra.status ?? ERROR_CODES[code];
    this.type = ERROR_TYPES[this.status];
    this.param = param;
    this.retryAfterMs =
      this.status === 429 || this.status === 503 ? (extra.retryAfterMs ?? DEFAULT_RETRY_MS[code] ?? 1000) : undefined;
    this.shouldRetry = WAITING_CANNOT_CURE.has(code) ? false : undefined;
    this.headers = extra.headers;
    this.messagesCode = extra.messagesCode ?? code;
    this.upstreamStatus = extra.upstreamStatus;
  }
}

/** One or two sentences that name the field; never prompt text or secrets. `param` is the path of the field. */
export function apiError(
  code: ErrorCode,
  message: string,
  param: string | null = null,
  extra: ErrorExtra = {},
): ApiError {
  return new ApiError(code, message, param, extra);
}

/** A start that failed for a reason the operator can remove; the message says all there is to say. */
export class StartError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'StartError';
  }
}

/** Whatever was thrown, as the client sees it: unexpected failures say nothing about the inside. */
export function toApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  return new ApiError('internal_error', 'The server failed unexpectedly. The request can be retried.', null, {
    cause: thrown,
  });
}

export interface ChatErrorBody {
  error: { message: string; type: ErrorType; param: string | null; code: ErrorCode; details?: UpstreamDetails };
}

/** Of an error that a server elsewhere has made. */
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
    details: { error_code: string } & Partial<UpstreamDetails>; // where the 1.x client looks for the machine-readable code
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

export function errorBody(error: ApiError, shape: WireShape, requestId: string): ChatErrorBody | MessagesErrorBody {
  return shape === 'chat' ? chatErrorBody(error) : messagesErrorBody(error, requestId);
}

/**
 * Retry headers of a 429 or 503, and whatever else the error brings along. `Retry-After` is whole seconds
 * rounded up, 1 … 60: one SDK discards waits above 60 s, the other discards 0.
 */
export function errorHeaders(error: ApiError, shape: WireShape): [string, string][] {
  const headers: [string, string][] = [];
  if (error.retryAfterMs !== undefined) {
    const ms = Math.min(60_000, Math.max(1, Math.ceil(error.retryAfterMs)));
    headers.push(['Retry-After', String(Math.ceil(ms / 1000))], ['retry-after-ms', String(ms)]);
  }
  if (error.shouldRetry === false) headers.push(['x-should-retry', 'false']);
  if (error.status === 401) headers.push(['WWW-Authenticate', 'Bearer']);
  for (const [name, value] of error.headers?.(shape) ?? []) headers.push([name, value]);
  return headers;
}
