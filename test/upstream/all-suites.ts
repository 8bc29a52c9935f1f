// `npm run test:upstream`: runs the official clients' suites again, with every model in a second Monolith process,
// which the first process uses as an upstream. Tests whose results may differ are listed in this file with the reason.
// Any other difference is a fault, and so is a listed test that no longer differs.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { root } from '../e2e/monolith.js';

const CACHE =
  'the prefix cache belongs to the upstream: a request that only prepares the cache counts tokens and computes nothing';
const TRUNCATION = 'automatic truncation needs the vocabulary, which an upstream model does not have here';
const QUEUE = 'requests wait for a sequence slot in the second process, whose limits are set there';
const THINKING = 'a thinking budget in tokens is sent as an effort';
const COUNT = 'token counts of prompts that are too long are estimated';
const SCHEMA =
  'the upstream decides which schemas are valid: a refusal has its wording, its field paths and its general error code';
const IGNORED_KEYWORDS =
  'chat completions do not report the ignored keywords of a non-strict schema (Monolith reports them in its own header)';

const GAUGES = 'the test reads the engine metrics of its own process';

/** Suites whose tests are nested in one top-level test. */
const NESTED: ReadonlySet<string> = new Set(['responses-compact', 'responses-socket', 'agents']);

/** For each suite, the tests whose results may differ, and why. */
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
    'in every API format, the error for an unsupported or invalid schema names path and keyword': SCHEMA,
    'without strict, unsupported keywords are listed in a header and the others are enforced': IGNORED_KEYWORDS,
  },
  'ai-sdk': {},
  'open-responses': {},
  'responses-create': {
    'a request can fill the prefix cache without generating output': CACHE,
    'automatic truncation keeps the system message, the last message and as much history as fits': TRUNCATION,
  },
  'responses-stored': {},
  'responses-stored-chain': {},
  'responses-background': {},
  'responses-background-threads': {},
  'responses-compact': {
    'input longer than the context window is summarized in chunks': TRUNCATION,
    'a client disconnect stops a running compaction': GAUGES,
    'input_tokens returns the prompt length that a response would report': COUNT,
  },
  'messages-context': {
    'the default trigger is a number of input tokens, and the context window is a trigger too': COUNT,
    'clear_at_least keeps the cleared part unchanged until a further group can be cleared': COUNT,
    'compaction keeps the system prompt, and applies if the prompt does not fit': COUNT,
    'while the summary is written, the stream is kept alive, and a disconnect stops it': GAUGES,
  },
  'responses-context': {
    'the threshold is a number of input tokens, and the context window is a threshold too': COUNT,
  },
  'responses-socket': {
    'a message with generate: false only fills the prefix cache': CACHE,
    'rate limits are applied when a queued message starts': GAUGES,
  },
  agents: {},
  'responses-create-failures': {
    'a stream that waits too long after a keep-alive ends with response.failed': QUEUE,
    'a background response that waits too long fails with rate_limit_exceeded': QUEUE,
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
      .map((name) => `no longer differs: ${name}`),
    ...(signal === null && lines.length > 0 && /^1\.\.\d+$/m.test(stdout) ? [] : ['did not complete']),
  ];
  faults += wrong.length;
  process.stdout.write(
    `${wrong.length === 0 ? 'as expected' : 'WRONG      '}  ${suite}: ${lines.length - failed.length} of ${lines.length} as with the local engine (${Math.round((performance.now() - begun) / 1_000)} s)\n`,
  );
  for (const name of failed.filter((one) => differs[one] !== undefined))
    process.stdout.write(`    differs: ${name}: ${differs[name]}\n`);
  for (const what of wrong) process.stdout.write(`    ${what}\n`);
}
process.exitCode = faults === 0 ? 0 : 1;
