// The only module that calls the dashboard API. It sends and receives JSON, adds the CSRF token to requests that change
// something, and converts failures to an ApiFailure with the server's message.
import type { ErrorCode } from '../../../shared/error-codes.js';

/** One invalid field in an error response. */
export interface FieldFault {
  param: string | null;
  message: string;
}

/** An error response from the server, or 'offline' if the server did not respond. */
export class ApiFailure extends Error {
  /** Path of the invalid field. */
  readonly param: string | null;
  readonly retryAfterMs: number | null;
  readonly requestId: string | null;
  /** All invalid fields. Includes the field in `param`, if that is set. */
  readonly fields: readonly FieldFault[];

  constructor(
    readonly status: number,
    readonly code: ErrorCode | 'offline' | 'unreadable',
    message: string,
    more: Partial<Pick<ApiFailure, 'param' | 'retryAfterMs' | 'requestId' | 'fields'>> = {},
  ) {
    super(message);
    const { param, retryAfterMs, requestId } = more;
    this.name = 'ApiFailure';
    this.param = param ?? null;
    this.fields = more.fields ?? (this.param === null ? [] : [{ param: this.param, message }]);
    this.retryAfterMs = retryAfterMs ?? null;
    this.requestId = requestId ?? null;
  }
}

export const API = '/dashboard/api';

let csrfToken = '';
let onSignedOut: () => void = () => undefined;
let renewToken: () => Promise<void> = async () => undefined;

/** Sets the CSRF token from GET /me, which is sent with every request that changes something. */
export function setCsrfToken(token: string): void {
  csrfToken = token;
}

/** `signedOut` runs when the session has ended. `renew` fetches a new CSRF token. */
export function onSession(signedOut: () => void, renew: () => Promise<void>): void {
  onSignedOut = signedOut;
  renewToken = renew;
}

type Query = Record<string, string | number | boolean | null | undefined>;

/** Appends a query string to a path. Parameters that are null, undefined or '' are omitted. */
export function withQuery(path: string, query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

async function failureOf(response: Response): Promise<ApiFailure> {
  const requestId = response.headers.get('x-request-id');
  const wait = Number(response.headers.get('retry-after-ms'));
  const retryAfterMs = Number.isFinite(wait) && wait > 0 ? wait : null;
  try {
    const { error } = (await response.json()) as {
      error: { message: string; code: ErrorCode; param: string | null; fields?: FieldFault[] };
    };
    return new ApiFailure(response.status, error.code, error.message, {
      param: error.param,
      retryAfterMs,
      requestId,
      ...(error.fields === undefined ? {} : { fields: error.fields }),
    });
  } catch {
    return new ApiFailure(response.status, 'unreadable', `The server responded with status ${response.status}.`, {
      retryAfterMs,
      requestId,
    });
  }
}

/**
 * Fetches a path on this server with the session cookie, and with the CSRF token if the request changes something.
 * Throws ApiFailure.
 */
export async function send(
  method: string,
  path: string,
  options: { body?: unknown; signal?: AbortSignal; headers?: Record<string, string> } = {},
): Promise<Response> {
  const once = async (): Promise<Response> => {
    const headers: Record<string, string> = { Accept: 'application/json', ...options.headers };
    if (method !== 'GET') headers['X-CSRF-Token'] = csrfToken;
    if (options.body !== undefined) headers['Content-Type'] = 'application/json';
    const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
    if (options.body !== undefined) init.body = JSON.stringify(options.body);
    if (options.signal !== undefined) init.signal = options.signal;
    try {
      return await fetch(path, init);
    } catch (error) {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      throw new ApiFailure(0, 'offline', 'Cannot reach the server. Check the connection and try again.');
    }
  };
  let response = await once();
  if (response.ok) return response;
  let failure = await failureOf(response);
  if (failure.code === 'invalid_csrf_token' && method !== 'GET') {
    await renewToken();
    response = await once();
    if (response.ok) return response;
    failure = await failureOf(response);
  }
  if (failure.code === 'not_signed_in') onSignedOut();
  throw failure;
}

async function json<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const options: { body?: unknown; signal?: AbortSignal } = {};
  if (body !== undefined) options.body = body;
  if (signal !== undefined) options.signal = signal;
  const response = await send(method, `${API}${path}`, options);
  return (await response.json()) as T;
}

/** Paths are relative to /dashboard/api: api.get<Me>('/me'). */
export const api = {
  get: <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> =>
    json<T>('GET', withQuery(path, query), undefined, signal),
  post: <T>(path: string, body: unknown = {}): Promise<T> => json<T>('POST', path, body),
  patch: <T>(path: string, body: unknown): Promise<T> => json<T>('PATCH', path, body),
  put: <T>(path: string, body: unknown): Promise<T> => json<T>('PUT', path, body),
  delete: <T>(path: string): Promise<T> => json<T>('DELETE', path),
};

/** The error message of a failure that is not shown next to a form field. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * The error message for this field, if there is one. Nested paths match their parent field (`limits.hal-1.0.rpm`
 * matches `limits`). API messages start with the parameter's name ("new_password must …"). This function removes the
 * name so that the field can prepend its label. The remaining message starts in lower case.
 */
export function fieldError(error: unknown, field: string): string | null {
  const fault = faultsOf(error).find((one) => isAbout(one, field));
  if (fault === undefined) return null;
  const { message, param } = fault;
  const text = param !== null && message.startsWith(`${param} `) ? message.slice(param.length + 1) : message;
  return text === 'must have at least 1 character.' ? 'is required.' : text;
}

/** The error messages that do not belong to a displayed field. */
export function otherErrors(error: unknown, fields: readonly string[]): string[] {
  const faults = faultsOf(error);
  return faults.length === 0
    ? [messageOf(error)]
    : faults.filter((fault) => !fields.some((field) => isAbout(fault, field))).map(({ message }) => message);
}

const faultsOf = (error: unknown): readonly FieldFault[] => (error instanceof ApiFailure ? error.fields : []);
const isAbout = ({ param }: FieldFault, field: string): boolean =>
  param !== null && (param === field || param.startsWith(`${field}.`) || param.startsWith(`${field}[`));
