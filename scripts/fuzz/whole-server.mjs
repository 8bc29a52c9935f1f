// Sends requests to a whole server until the time is up or a request fails. The following count as failures: status 500
// or 502, a response that reports a storage failure, no response within a minute, invalid JSON in a JSON response, a
// broken connection, an error in the log, and the server's exit. The fuzzer is not coverage-guided. It tests the
// interaction of components that the other targets test in isolation. Used by server.mjs and dashboard.mjs, which
// define the requests and the callers.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { root } from '../setup.mjs';
import { Mutator } from './mutations.mjs';

const MAX_MS = 60_000,
  MAX_KIN = 100,
  MAX_IDS = 200,
  MAX_PATH = 4_000;
const STRANGE = [
  '',
  '0',
  '-1',
  '1',
  '1000',
  '1e9',
  '99999999999999999999',
  'null',
  'true',
  '..',
  '%',
  '\0',
  '\n',
  '\u202e',
  '\u{10ffff}',
  'a'.repeat(3_000),
  '[]',
  '__proto__',
  'constructor',
  '2026-11-27',
  '1969-12-31T23:59:59Z',
  '9999-12-31T23:59:59Z',
];

export const built = (...path) => import(pathToFileURL(join(root, 'build', 'test', ...path)).href);

/** Short quoted strings in the built modules of these directories of dist/: literals that the code compares with. */
export function wordsOf(...folders) {
  const words = new Set();
  for (const folder of folders) {
    for (const path of readdirSync(join(root, 'dist', folder), { recursive: true })) {
      if (!path.endsWith('.js')) continue;
      for (const [, word] of readFileSync(join(root, 'dist', folder, path), 'utf8').matchAll(
        /'([A-Za-z0-9_.$-]{2,40})'/g,
      ))
        words.add(word);
    }
  }
  return [...words];
}

const isJson = (body) => {
  try {
    return typeof JSON.parse(body.toString('utf8')) === 'object';
  } catch {
    return false;
  }
};

/** Percent-encodes arbitrary bytes for a URL. */
const escaped = (bytes) =>
  [...bytes]
    .map((byte) =>
      /[A-Za-z0-9_.~-]/.test(String.fromCharCode(byte))
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).padStart(2, '0')}`,
    )
    .join('');

/**
 * `seeds`: [METHOD, path, body or undefined]; `:name` as a path segment, a query value or a string in a body is a
 * placeholder for an id that the callers know. `callersOf(server, below)` resolves to `{ caller(method, path) }`, which
 * returns `{ headers, ids: { name: [...] }, told(status, text) }`. `tame(body)` is applied to each body.
 */
export async function fuzzServer({ name, env, seeds, words, callersOf, tame = (body) => body }) {
  const {
    values: { seconds, seed, clients, run: file, postgres },
  } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '60' },
      'core-seconds': { type: 'string' },
      seed: { type: 'string' },
      clients: { type: 'string', default: '6' },
      run: { type: 'string' },
      postgres: { type: 'boolean', default: false },
    },
  });
  let random = Number(seed ?? Date.now()) >>> 0;
  const below = (n) => {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((random / 2 ** 32) * n);
  };
  const one = (list) => list[below(list.length)];
  const mutator = new Mutator(below, words);
  const { startMonolith } = await built('e2e', 'monolith.js');
  const state = postgres ? await (await built('support', 'postgres.js')).startPostgres() : null;
  const counters = postgres ? await (await built('support', 'redis.js')).startRedis() : null;
  const server = await startMonolith({
    env: { ...env, ...(postgres ? { MONOLITH_DATABASE_URL: state.url, MONOLITH_REDIS_URL: counters.url } : {}) },
  });
  const callers = await callersOf(server, below);
  const statuses = {};

  /** Usually returns valid JSON, because the parser would reject anything else. */
  function mutatedBody(from, other) {
    for (let tries = 0; ; tries++) {
      const body = tame(mutator.mutate(from, other));
      if (tries === 8 || below(20) === 0 || isJson(body)) return body;
    }
  }

  function strange(value) {
    switch (below(4)) {
      case 0:
        return escaped(Buffer.from(one(words)));
      case 1:
        return escaped(mutator.mutate(Buffer.from(value), Buffer.from(one(words))));
      default:
        return escaped(Buffer.from(one(STRANGE)));
    }
  }

  /** Mutates one part of the URL: a query value, a missing or repeated parameter, or an id. */
  function mutatedPath(path) {
    const [place, search = ''] = path.split('?');
    const pairs = search
      .split('&')
      .filter((pair) => pair !== '')
      .map((pair) => pair.split('='));
    const parts = place.split('/');
    const holes = parts.map((part, index) => (part.startsWith(':') ? index : -1)).filter((index) => index !== -1);
    if (holes.length > 0 && (pairs.length === 0 || below(4) === 0)) parts[one(holes)] = strange('resp_0123');
    else if (pairs.length === 0) pairs.push([one(words), strange('')]);
    else {
      const at = below(pairs.length);
      switch (below(5)) {
        case 0:
          pairs.splice(at, 1);
          break;
        case 1:
          pairs.push([pairs[at][0], strange(pairs[at][1] ?? '')]);
          break;
        case 2:
          pairs.push([escaped(Buffer.from(one(words))), strange('')]);
          break;
        default:
          pairs[at] = [pairs[at][0], strange(pairs[at][1] ?? '')];
      }
    }
    return `${parts.join('/')}${pairs.length === 0 ? '' : `?${pairs.map((pair) => pair.join('=')).join('&')}`}`.slice(
      0,
      MAX_PATH,
    );
  }

  /** Returns why this request fails the test, or null if it passes. `went` receives the status. */
  async function problem([method, path, body], went) {
    const { headers, ids, told } = await callers.caller(method, path);
    const known = (id) => one(ids[id]?.length > 0 ? ids[id] : ['none']);
    const address = `${server.url}${path.replace(/(?<=[/=]):([a-z]+)/g, (_, id) => known(id))}`;
    const sent =
      body === undefined
        ? undefined
        : Buffer.from(
            body.toString('latin1').replace(/(?<="):([a-z]+)(?=")/g, (_, id) => known(id)),
            'latin1',
          );
    let response, text;
    try {
      response = await fetch(address, {
        method,
        ...(sent === undefined ? {} : { body: sent }),
        signal: AbortSignal.timeout(MAX_MS),
        redirect: 'manual',
        headers: { ...headers, ...(sent === undefined ? {} : { 'content-type': 'application/json' }) },
      });
      text = await response.text();
    } catch (error) {
      return `no response: ${error.name} ${error.cause?.code ?? error.message}${(server.process.exitCode ?? server.process.signalCode ?? '') ? `, the process ended (${server.process.exitCode ?? server.process.signalCode})` : ''}`;
    }
    went(response.status);
    told(response.status, text);
    statuses[response.status] = (statuses[response.status] ?? 0) + 1;
    // If a requested format is not enforced, the model's output may violate it. The server reports that as
    // `model_error`, which is not a failure.
    if ((response.status === 500 || response.status === 502) && !text.includes('model_error'))
      return `${response.status}: ${text.slice(0, 300)}`;
    if (/"(code|type)": ?"(internal_error|maintenance)"/.test(text))
      return `internal failure reported: ${text.slice(-300)}`;
    if ((response.headers.get('content-type') ?? '').startsWith('application/json') && response.status !== 304) {
      try {
        JSON.parse(text);
      } catch {
        return `${response.status} with invalid JSON: ${text.slice(0, 200)}`;
      }
    }
    return null;
  }

  /** Sends a request and returns its status. A failure ends this process. */
  async function judged(request) {
    let status = 0;
    const why = await problem(request, (told) => {
      status = told;
    });
    if (why === null) return status;
    const [method, path, body = Buffer.alloc(0)] = request;
    const finds = join(root, 'build', 'fuzz', 'finds');
    mkdirSync(finds, { recursive: true });
    const found = join(
      finds,
      `${name}-${createHash('sha256').update(`${method} ${path}`).update(body).digest('hex').slice(0, 12)}`,
    );
    writeFileSync(found, Buffer.concat([Buffer.from(`${method} ${path}\n`), body]));
    for (const line of errors().slice(-5)) console.log(line.slice(0, 1_500));
    console.log(
      `FOUND by ${name}: ${method} ${path.slice(0, 200)}: ${why}\nagain: npm run fuzz -- ${name} --run ${found}`,
    );
    process.exit(1);
  }

  const errors = () =>
    server
      .log()
      .split('\n')
      .filter((line) => /"level":"?(error|50|fatal|60)/.test(line));

  if (file !== undefined) {
    const whole = readFileSync(file),
      line = whole.indexOf('\n');
    const [method, path] = whole.toString('latin1', 0, line).split(' ');
    const body = whole.subarray(line + 1);
    const status = await judged([method, path, body.length === 0 ? undefined : body]);
    console.log(`${name}: no problem with ${file} (${status})`);
    process.exit(0);
  }

  // Each seed has its own list of accepted mutations, so that the many read requests do not crowd out the few write
  // requests.
  const families = seeds.map(([method, path, body]) => [
    [
      method,
      path,
      body === undefined ? undefined : tame(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))),
    ],
  ]);
  // Send the seeds unchanged first and report the seeds that the server refuses, because mutating a refused seed is
  // pointless.
  const refused = [];
  for (const [request] of families) {
    const status = await judged(request);
    if (status >= 400) refused.push(`${request[0]} ${request[1]} ${status}`);
  }
  const ends = Date.now() + Number(seconds) * 1_000;
  let runs = families.length;
  await Promise.all(
    Array.from({ length: Number(clients) }, async () => {
      while (Date.now() < ends) {
        const family = one(families);
        const [method, path, from] = one(family);
        const request =
          from === undefined || below(6) === 0
            ? [method, mutatedPath(path), from]
            : [method, path, mutatedBody(from, one(one(families))[2] ?? Buffer.alloc(1))];
        const status = await judged(request);
        runs++;
        // Mutate accepted requests further, but keep the seed itself.
        if (status !== 200) continue;
        if (family.length < MAX_KIN) family.push(request);
        else family[1 + below(MAX_KIN - 1)] = request;
      }
    }),
  );
  const { user, system } = process.cpuUsage();
  if ((await fetch(`${server.url}/livez`)).status !== 200) {
    console.log(`FOUND by ${name}: /livez fails afterwards`);
    process.exit(1);
  }
  const told = errors();
  for (const line of told.slice(0, 20)) console.log(line.slice(0, 500));
  if (refused.length > 0) console.log(`refused seeds: ${refused.join(', ')}`);
  console.log(
    `${name}: ${runs} runs, ${((user + system) / 1e6).toFixed(0)} s of client CPU time, responses ${JSON.stringify(statuses)}; ${told.length === 0 ? 'nothing found' : `FOUND: ${told.length} errors in the log`}`,
  );
  await server.stop();
  await counters?.stop();
  await state?.close();
  process.exit(told.length === 0 ? 0 : 1);
}

/** Keeps the newest ids found in responses, under the names that they have in paths. */
export class SeenIds {
  #lists = new Map();

  /** `kinds`: name → the id's prefix (`resp_`), or a pattern whose first group is the id. */
  constructor(kinds) {
    this.kinds = Object.entries(kinds).map(([name, kind]) => [
      name,
      typeof kind === 'string' ? new RegExp(`\\b(${kind}[A-Za-z0-9]{8,64})\\b`, 'g') : kind,
    ]);
  }

  hear(text) {
    for (const [name, pattern] of this.kinds) {
      const list = this.#lists.get(name) ?? [];
      this.#lists.set(name, list);
      for (const [, id] of text.matchAll(pattern)) {
        if (list.includes(id)) continue;
        list.push(id);
        if (list.length > MAX_IDS) list.shift();
      }
    }
  }

  /** Name → ids. */
  get ids() {
    return Object.fromEntries(this.#lists);
  }
}
