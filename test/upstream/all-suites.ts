// The suites that official clients run in, once more with every model in a second process of ours, which the first one asks:
// `npm run test:upstream`. What may differ is named here with its reason; anything else that differs is a fault, and so is
// a name here that differs no more.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from '../e2e/monolith.js';

const CACHE = 'the cache of a server elsewhere is its own: a prompt alone is counted there, and not computed ahead';
const TRUNCATION = 'of truncation auto nothing is left out where the vocabulary is not here';
const QUEUE = 'who waits for a place of the engine waits in the second process, whose limits are set there';
const THINKING = 'a budget of thinking in tokens is told as an effort';
const COUNT = 'what is too long to be counted there is estimated';
const SCHEMA =
  'what a schema may say is decided there: a refusal comes in its words and with the places of its form, under the code of all refusals there';
const LEFT_OUT =
  'the chat completions form does not say what of a schema that is not strict was left out (it is a header of ours)';

const GAUGES = 'it watches the engine by the numbers of its own process';

/** Suites whose tests lie within one. */
const NESTED: ReadonlySet<string> = new Set(['responses-compact', 'responses-socket', 'agents']);

/** By suite: tests that may differ, and why. */
const SUITES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'openai-client': {},
  'chat-tools': {},
  'anthropic-client': {
    'when max_tokens is reached inside thinking, the response ends with an empty text block': THINKING,
    'a request with max_tokens 0 fills the prefix cache for the next request': CACHE,
    'errors reach the client as the error types that it expects': COUNT,
  },
  messages: {},
  structured: {
    'what is not served is refused by place and keyword, in every format': SCHEMA,
    'not strict: what is left out is named in a header, and the rest is held to': LEFT_OUT,
  },
  'ai-sdk': {},
  'open-responses': {},
  'responses-create': {
    'only preparing the prefix cache': CACHE,
    'too long for the context: automatic truncation keeps what matters': TRUNCATION,
  },
  'responses-stored': {},
  'responses-stored-chain': {},
  'responses-background': {},
  'responses-background-threads': {},
  'responses-compact': {
    'a window longer than the context is summarised in pieces': TRUNCATION,
    'a client that leaves': GAUGES,
    'input_tokens counts what a response would': COUNT,
  },
  'responses-socket': { 'a turn that only prepares': CACHE, 'limits count when a turn starts': GAUGES },
  agents: {},
  'responses-create-failures': {
    'waiting too long after a keep-alive: a response that failed, as events': QUEUE,
    'waiting too long in the background: the response says that it was shed': QUEUE,
  },
  images: {},
  'key-permissions': {},
  suspension: {},
  usage: {},
};

const only = process.argv.slice(2);
let faults = 0;
for (const [suite, differs] of Object.entries(SUITES)) {
  if (only.length > 0 && !only.includes(suite)) continue;
  const begun = performance.now();
  const { stdout, signal } = spawnSync(process.execPath, [join(root, 'build', 'test', 'e2e', `${suite}.test.js`)], {
    cwd: root,
    encoding: 'utf8',
    timeout: 600_000,
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TEST_UPSTREAM: process.env['TEST_UPSTREAM'] ?? 'chat-completions', TAP_TIMEOUT: '300' },
  });
  const lines = stdout.split('\n').flatMap((line) => {
    const [, not, name] =
      (NESTED.has(suite) ? /^ {4}(not )?ok \d+ - (.*?) # time=.*$/ : /^(not )?ok \d+ - (.*?)(?: # time=.*)?$/).exec(
        line,
      ) ?? [];
    return name === undefined ? [] : [{ failed: not !== undefined, name }];
  });
  const failed = lines.filter(({ failed: isFailed }) => isFailed).map(({ name }) => name);
  const wrong = [
    ...failed.filter((name) => differs[name] === undefined).map((name) => `failed: ${name}`),
    ...Object.keys(differs)
      .filter((name) => !failed.includes(name))
      .map((name) => `differs no more: ${name}`),
    ...(signal === null && lines.length > 0 && /^1\.\.\d+$/m.test(stdout) ? [] : ['did not run to its end']),
  ];
  faults += wrong.length;
  process.stdout.write(
    `${wrong.length === 0 ? 'as expected' : 'WRONG      '}  ${suite}: ${lines.length - failed.length} of ${lines.length} as with its own engine (${Math.round((performance.now() - begun) / 1_000)} s)\n`,
  );
  for (const name of failed.filter((one) => differs[one] !== undefined))
    process.stdout.write(`    differs: ${name}: ${differs[name]}\n`);
  for (const what of wrong) process.stdout.write(`    ${what}\n`);
}
process.exitCode = faults === 0 ? 0 : 1;
