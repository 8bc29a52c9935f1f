// A dashboard API client that acts like a browser: it keeps the session cookie and sends the Origin header and the CSRF
// token.

export interface DashboardClient {
  readonly url: string;
  /**
   * Session cookie; null if there is none. Assign it to a second client to use the same session from another browser.
   */
  cookie: string | null;
  /** Headers of the latest response. */
  headers: Headers;
  /**
   * `path` is relative to /dashboard/api. The given headers override the client's own; an empty string omits a header.
   */
  fetch(
    path: string,
    init?: { method?: string; body?: unknown; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>;
  /** These methods throw a DashboardError unless the status is 200. */
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body?: unknown): Promise<T>;
  patch<T>(path: string, body: unknown): Promise<T>;
  delete<T>(path: string): Promise<T>;
  /** Signs up a new user with a new organization or, with `invite`, as a member of an existing one. */
  signUp(fields?: {
    email?: string;
    password?: string;
    name?: string;
    organization_name?: string;
    invite?: string;
    code?: string;
  }): Promise<SignedUp>;
  login(email: string, password?: string): Promise<void>;
  logout(): Promise<void>;
}

export interface SignedUp {
  user: { id: string; email: string; operator: boolean };
  organization: { id: string; name: string };
}

export const PASSWORD = 'a long enough password';

export class DashboardError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly param: string | null,
    message: string,
    /** All invalid fields, if there are several. */
    readonly fields: readonly { param: string | null; message: string }[] | null = null,
  ) {
    super(`${status} ${code}: ${message}`);
  }
}

let users = 0;

export function dashboardClient(url: string): DashboardClient {
  let token: string | null = null;

  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await client.fetch(path, { method, body });
    const text = await response.text();
    if (response.status === 200) return JSON.parse(text) as T;
    const { error } = JSON.parse(text) as {
      error: Pick<DashboardError, 'code' | 'param' | 'message'> & Partial<Pick<DashboardError, 'fields'>>;
    };
    throw new DashboardError(response.status, error.code, error.param, error.message, error.fields ?? null);
  };

  const client: DashboardClient = {
    url,
    cookie: null,
    headers: new Headers(),

    async fetch(path, { method = 'GET', body, headers = {}, signal } = {}) {
      const changing = method !== 'GET' && method !== 'HEAD';
      if (changing && client.cookie !== null && token === null && headers['x-csrf-token'] === undefined) {
        const me = await client.fetch('/me');
        if (me.status === 200) token = ((await me.json()) as { csrf_token: string }).csrf_token;
      }
      const all: Record<string, string> = {
        ...(client.cookie === null ? {} : { cookie: `theme=dark; sid=${client.cookie}` }),
        ...(changing ? { origin: url } : {}),
        ...(changing && token !== null ? { 'x-csrf-token': token } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      };
      const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
      const response = await fetch(`${url}/dashboard/api${path}`, {
        method,
        headers: sent,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      });
      client.headers = response.headers;
      for (const line of response.headers.getSetCookie()) {
        const value = /^sid=([^;]*)/.exec(line)?.[1];
        if (value === undefined) continue;
        client.cookie = value === '' ? null : value;
        token = null;
      }
      return response;
    },

    get: (path) => call('GET', path),
    post: (path, body) => call('POST', path, body),
    patch: (path, body) => call('PATCH', path, body),
    delete: (path) => call('DELETE', path),

    signUp: (fields = {}) =>
      call('POST', '/signup', {
        email: `user${++users}@example.com`,
        password: PASSWORD,
        name: `User ${users}`,
        ...fields,
      }),
    login: async (email, password = PASSWORD) => {
      await call('POST', '/login', { email, password });
    },
    logout: async () => {
      await call('POST', '/logout');
    },
  };
  return client;
}

/** Returns the DashboardError that a call rejects with. */
export async function refusal(call: Promise<unknown>): Promise<DashboardError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof DashboardError) return error;
    throw error;
  }
  throw new Error('the call did not fail');
}
