// The routing table. Routes are matched here rather than by uWebSockets.js, because the table must also report which
// methods a path supports and whether an unknown path is under /v1.

import type { Route } from './exchange.js';

interface Pattern {
  path: string; // as declared: '/v1/models/:id'
  segments: string[];
  routes: Map<string, Route>; // keyed by method
  slashes: boolean; // see Route
  socket: boolean; // the path accepts WebSocket upgrades
  sameOrigin: boolean;
}

export type Match =
  | { kind: 'route'; route: Route; params: Record<string, string> }
  | { kind: 'method'; path: string; allow: string; socket: boolean }
  | { kind: 'none' };

export class Router {
  private readonly exact = new Map<string, Pattern>();
  private readonly patterns: Pattern[] = [];

  constructor(routes: readonly Route[], socketPaths: readonly string[] = []) {
    for (const route of routes) this.add(route);
    for (const path of socketPaths) this.pattern(path).socket = true;
  }

  private add(route: Route): void {
    const { routes } = this.pattern(route.path);
    if (routes.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`);
    routes.set(route.method, route);
    if (route.sameOrigin === true) this.pattern(route.path).sameOrigin = true;
    if (route.slashes === true) this.pattern(route.path).slashes = true;
  }

  /** Returns the entry of a path, creating it if needed. */
  private pattern(path: string): Pattern {
    const known = this.exact.get(path) ?? this.patterns.find((one) => one.path === path);
    if (known !== undefined) return known;
    const pattern: Pattern = {
      path,
      segments: path.split('/'),
      routes: new Map(),
      slashes: false,
      socket: false,
      sameOrigin: false,
    };
    if (path.includes(':')) this.patterns.push(pattern);
    else this.exact.set(path, pattern);
    return pattern;
  }

  /** `method` must be upper case. The GET route also serves HEAD. One trailing slash is ignored. */
  match(method: string, path: string): Match {
    const found = this.find(trimSlash(path));
    if (found === null) return { kind: 'none' };
    const route = found.pattern.routes.get(method === 'HEAD' ? 'GET' : method);
    if (route === undefined)
      return { kind: 'method', path: found.pattern.path, allow: allowed(found.pattern), socket: found.pattern.socket };
    return { kind: 'route', route, params: found.params };
  }

  /** Returns the methods that a path supports, for the Allow header. OPTIONS is supported on every path. */
  allow(path: string): string {
    const found = this.find(trimSlash(path));
    return found === null ? 'OPTIONS' : allowed(found.pattern);
  }

  /** Whether only this server's own pages may read responses from the path. */
  isSameOrigin(path: string): boolean {
    return this.find(trimSlash(path))?.pattern.sameOrigin ?? false;
  }

  has(path: string): boolean {
    return this.find(trimSlash(path)) !== null;
  }

  private find(path: string): { pattern: Pattern; params: Record<string, string> } | null {
    const exact = this.exact.get(path);
    if (exact !== undefined) return { pattern: exact, params: {} };
    const segments = path.split('/');
    for (const pattern of this.patterns) {
      const params = matchSegments(pattern, segments);
      if (params !== null) return { pattern, params };
    }
    return null;
  }
}

function matchSegments(
  { segments: pattern, slashes }: Pattern,
  path: readonly string[],
): Record<string, string> | null {
  if (slashes ? path.length < pattern.length : path.length !== pattern.length) return null;
  const params: Record<string, string> = {};
  for (let i = 0; i < pattern.length; i++) {
    const wanted = pattern[i] as string;
    if (!wanted.startsWith(':')) {
      if (wanted !== path[i]) return null;
      continue;
    }
    const given = slashes && i === pattern.length - 1 ? path.slice(i) : [path[i] as string];
    if (given.includes('')) return null;
    try {
      params[wanted.slice(1)] = given.map(decodeURIComponent).join('/');
    } catch {
      return null; // an invalid percent escape matches no route
    }
  }
  return params;
}

function trimSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

function allowed(pattern: Pattern): string {
  const methods = [...pattern.routes.keys()];
  if (methods.includes('GET')) methods.push('HEAD');
  return [...methods, 'OPTIONS'].join(', ');
}
